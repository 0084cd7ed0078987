/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CAPTURE_ITERATE_H
#define PYEBPF_CAPTURE_ITERATE_H

#include <stddef.h>

struct bpf_program;

/**
 * bpf_iterate - run an iterator program once; its output is made of records of one size
 * @cb: called for each, borrowed; not 0 ends it with that number
 *
 * Return: 0, what @cb returned, or a negative errno.
 */
int bpf_iterate(struct bpf_program *prog, size_t size, int (*cb)(void *ctx, const void *rec),
		void *ctx);

#endif
