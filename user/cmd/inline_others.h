/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that were no Python when they began: shells and their tools, which come again and again with -s. As long as no file
 * that they were made of has changed they are none the next time either. Not seen is a library that is put where the loader looks
 * before it finds that of the last time.
 */
#ifndef PYEBPF_CMD_INLINE_OTHERS_H
#define PYEBPF_CMD_INLINE_OTHERS_H

#include <stdbool.h>
#include <sys/types.h>

struct inline_other;

/* A zeroed one is empty. */
struct inline_others {
	struct inline_other *list; /* owned */
	unsigned int cnt;
};

/* inline_others__add - a process whose libraries are mapped by now, by the loader that its program names. What cannot be told again
 * is not remembered. */
void inline_others__add(struct inline_others *o, pid_t pid);

/* inline_others__has - a process that has just executed something: is it one of them? Same program and libraries, and nothing in
 * its environment that chooses other ones. */
bool inline_others__has(const struct inline_others *o, pid_t pid);
void inline_others__done(struct inline_others *o);

#endif
