// SPDX-License-Identifier: Apache-2.0
/*
 * Giving up privileges once the probes are in place: from here on only records are read, which come from
 * the memory of targets. What is open stays open, so rings and maps go on working without any.
 */
#define LOG_DOMAIN "drop"
#include <errno.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "capture/feature.h"
#include "cmd/drop.h"
#include "cmd/session_priv.h"

int drop_for_good(uint64_t keep, struct err *e)
{
	int err = caps_keep(keep, false);

	if (err)
		return err_set(e, err, "privileges cannot be given up: %s", err_str(err));
	log_debug("capabilities kept of those there were: 0x%llx", (unsigned long long)keep);
	return 0;
}

/* Can a process get probes later? */
static bool keeps_probes(const struct session *s)
{
	return !geteuid() || s->opts.command || s->opts.subprocesses || s->selection ||
	       s->opts.limits.overhead_pct || s->opts.native;
}

/* Processes that come later are looked into and get probes; a budget takes them out and puts them in. */
static uint64_t still_needed(const struct session *s)
{
	uint64_t more = CAPS_BPF | CAPS_PROC | cap_bpf__needs(s->cap);

	if (!geteuid())
		return DROP_ROOT | more;
	return keeps_probes(s) ? more : 0;
}

int session_drop(const struct session *s, struct err *e)
{
	auto_close int map_fd = feature_map();
	uint64_t keep = still_needed(s);
	int err;

	/* old kernels ask for it at each call, whatever the descriptor */
	err = caps_keep(keep, true);
	if (!err && map_fd >= 0 && feature_read_map(map_fd) == -EPERM)
		keep |= CAPS(CAP_BPF);
	/* some distributions' kernels ask for it where perf_event_paranoid is above 2; CPUs come back, too */
	if (!err && s->opts.sample_ns && keep && feature_try_perf() == -EACCES)
		keep |= CAPS(CAP_SYS_ADMIN);
	if (err)
		return err_set(e, err, "privileges cannot be given up: %s", err_str(err));
	return drop_for_good(keep, e);
}
