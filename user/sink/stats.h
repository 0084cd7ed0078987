/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sinks have done, for status and metrics. It lies in memory that the sending process shares with the agent:
 * one writes, the other reads, numbers only grow (but for gauges), each is written at once. Since the agent's start; a sender that had
 * to be started again goes on counting. For each sink, whenever nothing is being changed:
 *
 *	seen = sent + all dropped + owed
 */
#ifndef PYEBPF_SINK_STATS_H
#define PYEBPF_SINK_STATS_H

#include <stdint.h>

#include "sink/spec.h"

/* Why a window is not sent any more. */
/* clang-format off */
#define SINK_DROPS(X) \
	X(SINK_DROP_AGE,        0, "too_old",    "older than the server takes, or than max-age")          \
	X(SINK_DROP_EVICTED,    1, "evicted",    "removed from the store, which was full, before it was sent") \
	X(SINK_DROP_UNREADABLE, 2, "unreadable", "damaged")                                               \
	X(SINK_DROP_REFUSED,    3, "refused",    "the server will never take it")                         \
	X(SINK_DROP_TOO_LARGE,  4, "too_large",  "more than the server takes at once")                    \
	X(SINK_DROP_POISON,     5, "poison",     "failed again and again while others were taken")
/* clang-format on */
enum sink_drop {
#define X(id, number, name, text) id = (number),
	SINK_DROPS(X)
#undef X
	SINK_DROP_CNT
};

/* sink_drop_name - the short name, static. */
const char *sink_drop_name(unsigned int drop);

enum sink_state {
	SINK_IDLE, /* nothing is owed */
	SINK_SENDING,
	SINK_WAITING, /* after a failure */
	SINK_HELD, /* the server refuses us, not what we send: login, address, tables */
	SINK_STATE_CNT
};

/* sink_state_name - static. */
const char *sink_state_name(unsigned int state);

struct sink_stats {
	char name[64], type[16];
	uint64_t seen, sent, dropped[SINK_DROP_CNT]; /* windows */
	uint64_t sent_bytes; /* bodies that were taken */
	uint64_t requests, retries;
	uint64_t by_class[6]; /* answers: [2] 2xx ... [5] 5xx; [0]: none came */
	uint64_t request_ns, request_max_ns; /* all together; the longest */
	uint32_t state; /* enum sink_state */
	uint64_t owed, owed_bytes; /* now */
	int64_t oldest_owed_ns; /* end of the oldest that is owed, Unix; 0: none */
	int64_t last_sent_ns; /* Unix; 0: never */
	char last_error[256]; /* "" since the last success */
};

struct sink_shared {
	struct sink_stats sinks[SINK_MAX];
	uint32_t cnt;
	uint32_t ready; /* the store was looked through once: what is owed is known */
	uint32_t restarts; /* of the sender */
};

#endif
