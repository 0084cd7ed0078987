/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the windows of a store to sinks, as they come, and again until each was taken or is not worth it. The store is
 * the queue: after a crash or an outage it goes on where it was (store/outbox.h).
 *
 * The oldest window goes first; while there are many, every other push is of the newest, so that who looks sees the present.
 * After a failure a sink waits, twice as long each time, of that a random part; as long as the server says if it does.
 */
#ifndef PYEBPF_SINK_SHIP_H
#define PYEBPF_SINK_SHIP_H

#include "sink/stats.h"

struct ship_opts {
	const char *store;
	const struct sink_list *sinks;
	struct sink_shared *shared;
	int stop_fd; /* readable or closed: send what can be sent at once, and end; -1: none */
	bool until_empty; /* end when nothing is owed */
	uint64_t duration_ns; /* end after so long; 0: never */
};

/* ship_prepare - the names of the sinks into the numbers. */
void ship_prepare(struct sink_shared *shared, const struct sink_list *sinks);

/**
 * ship_run - send
 *
 * Return: 0, also when something is still owed; -PYE_EOUTPUT with a sentence; -ENOMEM.
 */
int ship_run(const struct ship_opts *opts, struct err *e);

#endif
