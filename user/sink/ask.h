/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the engine that the agents of a fleet send to. It adds up; what comes here is a value for each stack. */
#ifndef PYEBPF_SINK_ASK_H
#define PYEBPF_SINK_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/trace.h"
#include "sink/spec.h"
#include "store/selector.h"

#define ASK_TYPE_LABEL	 "profile_type" /* as the agent sets it */
#define ASK_TYPE_DEFAULT "cpu" /* of what has none */

struct ask {
	const struct sink_spec *server;
	const struct selector *selector; /* NULL: any */
	const char *service; /* NULL: any */
	const char *type; /* of profiles; NULL: any */
	int64_t since_ns, until_ns; /* Unix; windows that overlap */
	bool partial; /* be content with the shards that answer */
};

/**
 * ask_spec - the server of an option: as a sink is written, or only the URL of ClickHouse
 *
 * Return: 0 or -PYE_EUSAGE with a sentence.
 */
int ask_spec(struct sink_spec *out, const char *text, struct err *e);

/**
 * ask_sum - the sum of all windows that are meant, as a trace of one thread, a sample for each stack
 * @profiles: how many windows there were; when there is none, @consumer is not called
 *
 * Return: 0; -PYE_EOUTPUT with a sentence: the server does not answer; -PYE_EFORMAT: not so that it can be understood, or
 * there are samples and calls, which do not add up; -ENOMEM; what the consumer returned.
 */
int ask_sum(const struct ask *a, const struct trace_consumer *consumer, void *self,
	    uint64_t *profiles, struct err *e);

struct ask_service {
	const char *name; /* borrowed */
	uint64_t profiles;
	int64_t first_ns, last_ns; /* Unix */
};

/* ask_services - which services have windows. Return: as above, or what @fn returned. */
int ask_services(const struct ask *a, int (*fn)(void *ctx, const struct ask_service *s), void *ctx,
		 struct err *e);

#endif
