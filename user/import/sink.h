/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where importers push what they read: gives processes, threads and functions their ids, defines each
 * of them to the consumer before its first use, and keeps to the rules of profile/trace.h whatever
 * the input says. Texts are any bytes.
 */
#ifndef PYEBPF_IMPORT_SINK_H
#define PYEBPF_IMPORT_SINK_H

#include "base/err.h"
#include "base/strpool.h"
#include "profile/trace.h"

#define SINK_NAMES_MAX (1u << 19) /* texts, and functions; what is more has one name */
#define SINK_BYTES_MAX (64ull << 20) /* of all texts */
#define SINK_OTHER     "[other names]"
#define SINK_TEXT_MAX  65535u /* bytes of a text; the rest is left out */
#define SINK_TIME_MAX  (1ull << 60) /* ns */
#define SINK_DEPTH_MAX (1u << 20) /* open frames of a thread */

struct sink {
	const struct trace_consumer *consumer;
	void *self;
	struct err *e;
	struct strpool strings;
	struct strpool processes, threads, funcs; /* what tells them apart; id - 1 is theirs */
	struct trace_frame *cut; /* a sample that was too deep */
	uint64_t text_bytes;
	uint32_t other; /* the text of that name */
	bool is_full; /* and it has been used */
	uint64_t last_ns, written, weight_ns;
	uint64_t count_ns; /* what a count without a unit stands for */
};

int sink__init(struct sink *k, const struct trace_consumer *consumer, void *self, struct err *e);

/* sink__done - a zeroed @k is fine. */
void sink__done(struct sink *k);

/* sink__note_full - say that names were left out, where some were, after what is said already. */
void sink__note_full(struct sink *k);

/* sink__begin - @info: NULL members are "". Must be the first. Return of all: 0 or a negative number. */
int sink__begin(struct sink *k, const struct trace_info *info);

/* sink__text - id of a text, cut at SINK_TEXT_MAX, in k->strings; past the limits that of SINK_OTHER. */
int sink__text(struct sink *k, const char *s, size_t len, uint32_t *id);

/* sink__process, sink__thread, sink__func - the id of what is called so; names are of sink__text(). */
int sink__process(struct sink *k, uint32_t pid, uint32_t comm, uint32_t *id);
int sink__thread(struct sink *k, uint32_t process, uint32_t tid, uint32_t name, uint32_t *id);
int sink__func(struct sink *k, uint32_t process, uint32_t name, uint32_t file, uint32_t line,
	       uint32_t *id);

/* sink__is_other - does a function stand for those that have no names of their own any more? */
bool sink__is_other(const struct sink *k, uint32_t func);

/**
 * sink__sample - push a sample
 * @sample: ts_ns before that of the one before it becomes the same. With more than TRACE_SAMPLE_FRAMES frames the
 *          middle ones become "[truncated]".
 */
int sink__sample(struct sink *k, const struct trace_sample *sample);

/* sink__sum - push a sample of what has no place in time: it comes after the one before. */
int sink__sum(struct sink *k, struct trace_sample *sample);

/* sink__event - the caller sees to it that frames nest and depths are right. */
int sink__event(struct sink *k, const struct trace_event *event);

/* sink__end - @end_ns: 0: with the last one. */
int sink__end(struct sink *k, uint64_t end_ns);

/* sink__times - @a * @b ns, where that is no time: an error. */
int sink__times(struct sink *k, uint64_t a, uint64_t b, uint64_t *ns);

#endif
