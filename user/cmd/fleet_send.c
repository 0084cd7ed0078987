// SPDX-License-Identifier: Apache-2.0
#include "cmd/fleet_send.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sink/ship.h"

static uint64_t dropped(const struct sink_stats *st)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < SINK_DROP_CNT; i++) {
		all += st->dropped[i];
		if (st->dropped[i])
			log_warn("sink %s: %" PRIu64 " windows set aside: %s", st->name,
				 st->dropped[i], sink_drop_name(i));
	}
	return all;
}

int fleet_send(const char *store, const struct sink_list *sinks, uint64_t duration_ns,
	       struct err *e)
{
	auto_free struct sink_shared *shared = calloc(1, sizeof(*shared));
	const struct ship_opts opts = {
		.store = store,
		.sinks = sinks,
		.shared = shared,
		.stop_fd = -1,
		.until_empty = true,
		.duration_ns = duration_ns,
	};
	uint64_t owed = 0, lost = 0;
	int err;

	if (!sinks->cnt)
		return err_set(e, -PYE_EUSAGE, "send wants --sink");
	if (!shared)
		return -ENOMEM;
	ship_prepare(shared, sinks);
	err = ship_run(&opts, e);
	for (uint32_t i = 0; i < shared->cnt && !err; i++) {
		const struct sink_stats *st = &shared->sinks[i];

		log_info("sink %s: %" PRIu64 " windows sent, %" PRIu64 " bytes, %" PRIu64
			 " requests, %" PRIu64 " retries, %" PRIu64 " still owed",
			 st->name, st->sent, st->sent_bytes, st->requests, st->retries, st->owed);
		owed += st->owed;
		lost += dropped(st);
	}
	if (err || (!owed && !lost))
		return err;
	return err_set(e, -PYE_EOUTPUT,
		       "%" PRIu64 " windows were not sent, and %" PRIu64 " never will be", owed,
		       lost);
}
