// SPDX-License-Identifier: Apache-2.0
#include "base/child.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/caps.h"

static void close_others(int keep)
{
	if (keep > 3)
		close_range(3, (unsigned int)keep - 1, 0);
	close_range((unsigned int)keep + 1, ~0u, 0);
}

int child_confine(const char *name, pid_t parent, int keep)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2 };
	const struct rlimit none = { 0 };
	sigset_t all;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, name);
	setrlimit(RLIMIT_CORE, &none); /* it would hold tokens */
	/* it ends when the parent says so, which these are sent to as well */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	close_others(keep);
	return caps_keep(0, false);
}
