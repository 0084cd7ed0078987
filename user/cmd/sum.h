/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up: captures and profiles into one aggregate, and that into a file. Each is read and folded into what was
 * read before, so many need no more memory than their distinct stacks. */
#ifndef PYEBPF_CMD_SUM_H
#define PYEBPF_CMD_SUM_H

#include <stdbool.h>

#include "base/err.h"
#include "cmd/emit.h"
#include "cmd/input.h"
#include "profile/aggregate.h"

enum {
	SUM_STACKS_MAX = 2 << 20 /* 80 bytes each; callers of what is more become "[truncated]" */
};

/* What comes after the text of a file. @fn: 0 or an error */
struct sum_tail {
	int (*fn)(void *ctx, int (*write)(void *to, const void *data, size_t len), void *to);
	void *ctx;
};

struct sum {
	struct aggregate *all;
	unsigned int cnt; /* added */
	bool raw, lines;
	struct sum_tail tail; /* may be zero */
};

/* sum__init - @lines: samples are told apart by their lines; @full_files: functions are shown with whole paths. 0 or -ENOMEM. sum__done - a zeroed one is fine. */
int sum__init(struct sum *s, bool raw, bool lines, bool full_files);
void sum__done(struct sum *s);

/**
 * sum__add - read a file and add it
 * @fd:   at its beginning; borrowed
 * @name: of it, for messages
 *
 * Return: 0; -PYE_EFORMAT with a sentence, also for samples among calls; -ENOMEM.
 */
int sum__add(struct sum *s, int fd, const char *name, const struct input_opts *opts, struct err *e);

/* sum_fn - push a trace into a consumer; as input_read() returns. */
typedef int (*sum_fn)(void *ctx, const struct trace_consumer *consumer, void *self, struct err *e);

/* sum__take - the same of what @fn pushes. */
int sum__take(struct sum *s, sum_fn fn, void *ctx, const char *name, struct err *e);

/* sum__close - complete the sums, before they are looked at. 0 or -ENOMEM. */
int sum__close(struct sum *s);

/**
 * sum_format - the format that the options mean; pprof, which adds up further, where nothing says it
 *
 * Return: 0 or -PYE_EUSAGE with a sentence.
 */
int sum_format(const struct output_opts *output, const struct exporter **format, struct err *e);

/* sum__stream - the sums, which are complete, as a format; as sum__write() returns, or what @write does. @plain: not
 * compressed, where a format has both. */
int sum__stream(const struct sum *s, const struct exporter *format, bool plain,
		int (*write)(void *ctx, const void *data, size_t len), void *ctx, struct err *e);

/**
 * sum__write - write the sums, which are complete, to a file
 *
 * Return: 0, -PYE_EOUTPUT or -ENOMEM; -PYE_EUSAGE for calls and a format that shows one run in time.
 */
int sum__write(const struct sum *s, const struct output_opts *output, const struct exporter *format,
	       struct emit_result *result, struct err *e);

#endif
