// SPDX-License-Identifier: Apache-2.0
#include "cmd/show.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"

/* clang-format off */
const struct opt_row show_rows[] = {
	{ 0, "open", NULL, OPT_FLAG, offsetof(struct show_opts, open), NULL,
	  "at the end show the capture in a browser, as pyebpf view does", false, NULL },
	{ 0 },
};
/* clang-format on */

int show_check(const struct show_opts *opts, struct err *e)
{
	uid_t uid;
	gid_t gid;

	if (!opts->open || geteuid() != 0 || (outfile_invoker(&uid, &gid) && uid != 0))
		return 0;
	err_set(e, -PYE_EPRIV, "--open: a server for a browser does not run as root");
	err_hint(e,
		 "run it through sudo as a user, or leave --open away and use pyebpf view later");
	return -PYE_EPRIV;
}

/* Stdin is the capture, and what it says goes to stderr: stdout may be that of a command, or data. */
static void __attribute__((noreturn)) become_viewer(int fd)
{
	if (dup2(fd, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
		execl("/proc/self/exe", "pyebpf", "view", "-", NULL);
	_exit(1);
}

void show_capture(int fd)
{
	auto_close int capture = fd;
	pid_t pid;

	if (capture < 0)
		return;
	pid = lseek(capture, 0, SEEK_SET) < 0 ? -1 : fork();
	if (pid == 0)
		become_viewer(capture);
	if (pid < 0)
		log_warn("--open: the viewer cannot be started: %s", err_str(-errno));
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
