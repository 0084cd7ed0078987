/* SPDX-License-Identifier: Apache-2.0 */
/* Where the injected calls run: bytes that no program uses, behind the end of some code in its last page. */
#ifndef PYEBPF_INLINE_SCRATCH_H
#define PYEBPF_INLINE_SCRATCH_H

#include <stdint.h>
#include <sys/types.h>

struct maps;
struct remote;

/* inline_auxiliary - what the kernel told a program of itself when it was executed (AT_*); 0: nothing. */
uint64_t inline_auxiliary(pid_t pid, uint64_t type);

/* inline_room - REMOTE_SCRATCH_BYTES of them in a file; 0: it has no room. @start: where its beginning is mapped */
uint64_t inline_room(const struct remote *r, const struct maps *maps, uint64_t start);

/**
 * inline_find_scratch - set remote.scratch
 * @interpreter: where the beginning of that file is mapped
 *
 * In the interpreter, else in the executable or its loader: none of them is unmapped while the program runs.
 *
 * Return: 0; -ENOENT; as maps__read().
 */
int inline_find_scratch(struct remote *r, uint64_t interpreter);

#endif
