/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of sampled threads in a Firefox profile. While a thread waits its stack has a leaf that says for
 * what, in a category of its own: the activity graph and the flame graph have it in that colour. Each wait
 * is a marker besides, with what is known of it: who held the interpreter's lock, which lock it was. There
 * are at most FF_WAITS_MAX markers of waits in a file; then the shortest ones go, and meta.extra says so.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_WAITS_H
#define PYEBPF_EXPORT_FIREFOX_WAITS_H

#include <stdint.h>

#include "export/firefox_place.h"

struct firefox;
struct ff_thread;
struct outbuf;
struct trace_sample;

#define FF_WAITS_MAX 100000u

struct ff_wait {
	uint64_t start_ns, end_ns; /* of the profile */
	uint64_t lock; /* address, 0: not known */
	uint32_t stack; /* row in this file; FF_NONE: none is known */
	uint32_t at, holder; /* frames of the whole trace, FF_NONE: not known */
	uint8_t reason, lock_type;
};

/* ff_wait_frame - the leaf of a thread that waits, for the whole trace. FF_NONE: out of memory. */
uint32_t ff_wait_frame(struct firefox *ff, unsigned int reason);

/**
 * ff_wait_add - keep the marker of a wait
 * @start_ns: of the profile; it ends with the sample
 * @stack:    without the leaf
 * @at:       the frame that waits; FF_NONE: none is known
 *
 * Return: 0, -ENOMEM, -PYE_EFORMAT for an unknown function.
 */
int ff_wait_add(struct firefox *ff, struct ff_thread *t, const struct trace_sample *sample,
		uint64_t start_ns, uint32_t stack, uint32_t at);

/* ff_wait_category, ff_wait_name - of a reason; the name is that of the marker. */
enum ff_category ff_wait_category(unsigned int reason);
const char *ff_wait_name(unsigned int reason);

/* ff_wait_write - the marker's data, an object. Return: 0 or -ENOMEM. */
int ff_wait_write(struct firefox *ff, const struct ff_wait *wait);

/* ff_wait_write_schemas - as members of an array, each with a comma behind it. */
void ff_wait_write_schemas(struct outbuf *b);

/* ff_waits_next_file - forget those of this file. */
void ff_waits_next_file(struct firefox *ff);

#endif
