/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of one thread in one file: a sample per change of the stack. Each is turned into text
 * at once, and the text into compressed pieces (firefox_gzip.h), so a sample costs the memory of
 * its compressed form, 4 to 5 bytes. Only the newest sample is held back: its time decides the
 * weight of the one before, and a stack that is found frame by frame at one moment is one change.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_SAMPLES_H
#define PYEBPF_EXPORT_FIREFOX_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/outbuf.h"
#include "export/firefox_gzip.h"

/* Numbers, each followed by a comma. */
struct ff_column {
	char *text;
	uint32_t len, cap;
	struct ff_piece *pieces; /* before the text */
	uint32_t piece_cnt, piece_cap;
};

/* A zeroed one is empty. */
struct ff_samples {
	uint64_t cnt;
	uint64_t first_ns, last_ns;
	uint64_t delta_ns; /* of the newest sample, cnt > 1 */
	uint64_t busy_ns; /* time with a stack, up to the newest sample */
	uint32_t stack; /* of the newest sample, FF_NONE: null */
	bool sampled; /* it is known who was on a CPU */
	bool on_cpu; /* from the newest sample on; said after it was added */
	uint64_t cpu_ns; /* on a CPU between the newest sample and the one before */
	bool finding; /* the newest sample is a stack being found */
	struct ff_column deltas; /* of the samples between the first and the newest */
	struct ff_column cpu; /* likewise, with `sampled` */
	struct ff_column stacks; /* of the samples before the newest */
};

/**
 * ff_samples__add - the stack changes
 * @ts_ns: since the start of the profile; raised to 1 ns after the sample before, because two
 *         calls with nothing between them would be drawn as one
 * @stack: index or FF_NONE
 *
 * Return: 0 or -ENOMEM.
 */
int ff_samples__add(struct ff_samples *s, struct ff_gzip *gzip, uint64_t ts_ns, uint32_t stack);

/* ff_samples__find - a frame more was found on the stack (not entered); same as add otherwise. */
int ff_samples__find(struct ff_samples *s, struct ff_gzip *gzip, uint64_t ts_ns, uint32_t stack);

/**
 * ff_samples__write - the members of "samples" as JSON
 * @b: in front of @gzip
 *
 * The newest sample must have no stack.
 *
 * Return: 0 or the error of the sink.
 */
int ff_samples__write(const struct ff_samples *s, struct outbuf *b, struct ff_gzip *gzip);

/* ff_samples__clear - empty again, memory given back. */
void ff_samples__clear(struct ff_samples *s);

#endif
