/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer that hands a trace on with other names, so that it can be shown to others: paths without what is
 * private at their beginning, or names and paths replaced.
 *
 * Replaced names: the same word always becomes the same one, by a hash with a key, and a path or a dotted name is
 * replaced piece by piece, so that the shape of the program stays: which functions lie in one file, which files in
 * one folder, which methods in one class. What every Python has keeps its name: the standard library, <module>,
 * __init__ and the like, the interpreter's own executable and libraries, the kernel, and what pyebpf says in
 * brackets. The machine's name and the command line of pyebpf are left out.
 */
#ifndef PYEBPF_PROFILE_RENAMER_H
#define PYEBPF_PROFILE_RENAMER_H

#include <stdbool.h>

#include "base/siphash.h"
#include "profile/trace.h"

#define RENAMER_STRIP_MAX 32

/**
 * struct renamer_opts - what to do with names
 * @strip:     folders; a path below one is shown from there on. Borrowed
 * @anonymize: replace names, after that
 * @key:       of the names; the same for all traces of which something is made together
 */
struct renamer_opts {
	const char *strip[RENAMER_STRIP_MAX];
	uint32_t strip_cnt;
	bool anonymize;
	struct siphash_key key;
};

struct renamer;

/**
 * renamer__new - a consumer in front of another one
 * @opts:     borrowed
 * @to, @self: likewise; gets everything
 *
 * Memory grows with the distinct names.
 *
 * Return: 0 or -ENOMEM.
 */
int renamer__new(struct renamer **out, const struct renamer_opts *opts,
		 const struct trace_consumer *to, void *self);

/* renamer__free - NULL is fine. */
void renamer__free(struct renamer *r);

/* Its self is a struct renamer. */
extern const struct trace_consumer renamer_consumer;

#endif
