/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ship_run() in a process of its own, so that no slow server and no defect of a library disturbs the sampling: it has no
 * capabilities and none of the agent's files. It cannot outlive the agent. When it ends otherwise it is started again.
 */
#ifndef PYEBPF_SINK_SENDER_H
#define PYEBPF_SINK_SENDER_H

#include <sys/types.h>

#include "sink/stats.h"

struct sender;

/**
 * sender__start - start sending the windows of a store
 * @store: it may be made later; borrowed, as @sinks
 *
 * To be called before the agent opens what a child should not have, and by the thread that stays.
 *
 * Return: 0; -PYE_EOUTPUT with a sentence.
 */
int sender__start(struct sender **out, const char *store, const struct sink_list *sinks,
		  struct err *e);

/* sender__check - see that it runs, now and then. NULL is fine. */
void sender__check(struct sender *s);

/* sender__shared - what it has done so far. */
const struct sink_shared *sender__shared(const struct sender *s);

/* sender__pid - of the process; 0: none runs. NULL is fine. */
pid_t sender__pid(const struct sender *s);

/* sender__cpu_ns - CPU time that sending took so far; it only grows. NULL is fine. */
uint64_t sender__cpu_ns(const struct sender *s);

/* sender__oldest_owed_ns - the end of the oldest window that is owed, Unix; INT64_MAX: none; 0: it is not known so far. */
int64_t sender__oldest_owed_ns(const struct sender *s);

/* sender__stop - send what can be sent at once, and end it. NULL is fine. */
void sender__stop(struct sender *s);

#endif
