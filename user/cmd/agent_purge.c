// SPDX-License-Identifier: Apache-2.0
/* The end of an agent on a machine: its store is removed. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent_opts.h"
#include "cmd/agent_run.h"
#include "cmd/run.h"

/* A DaemonSet's container that ends is started again, and none of its pods counts as ready. */
static void stay(void)
{
	auto_close int signals = run_signals(false);
	struct pollfd p = { .fd = signals, .events = POLLIN };

	while (signals >= 0 && poll(&p, 1, -1) <= 0)
		;
}

int agent_purge(const struct agent_opts *o, bool wait, struct err *e)
{
	const char *dir = o->store ? o->store : AGENT_STORE;
	struct store_purged purged;
	char shown[512];
	int err = store_purge(dir, &purged, e);

	if (err)
		return err;
	text_escape(shown, sizeof(shown), dir, strlen(dir));
	if (!strcmp(dir, AGENT_STORE) && !purged.strangers)
		rmdir(AGENT_STORE_ABOVE); /* others may have put something there */
	printf("%s: %" PRIu64 " profiles, %" PRIu64 " bytes removed\n", shown, purged.windows,
	       purged.bytes);
	fflush(stdout);
	if (purged.strangers)
		log_warn("%s stays: %" PRIu64 " files in it are not the agent's", shown,
			 purged.strangers);
	if (wait)
		stay();
	return 0;
}
