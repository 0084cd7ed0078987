/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lock a thread waits for, from outside. Two things tell. The object: one whose word is the futex, so
 * that it is proven, among what the innermost frame refers to (to 3.13 a lock holds a pointer to a semaphore, and
 * that has no way back), or where the interpreter itself keeps its address while the thread is parked (from 3.14
 * on). And the innermost functions: a Condition, an Event or a Queue waits through a plain lock that it makes for
 * the purpose, in the standard library's own code.
 */
#ifndef PYEBPF_CPYTHON_LOCK_OUTSIDE_H
#define PYEBPF_CPYTHON_LOCK_OUTSIDE_H

#include <stddef.h>
#include <stdint.h>

#include "abi/pylayout.h"
#include "abi/sample.h"

struct proc_mem;

/* What a function of the standard library has to do with a lock; 0: nothing. */
typedef uint8_t lock_role;

/* A lock is told by so many of the innermost functions. */
#define LOCK_ROLES 4

/* lock_role_of - of a code object, by its file and its name (no qualified name: old versions have none). */
lock_role lock_role_of(const char *file, const char *name);

/* lock_type_by_roles - of the innermost functions, the innermost first; LOCK_ROLES of them at most. */
enum pye_lock_type lock_type_by_roles(const lock_role *roles, size_t cnt);

/* What is kept of a process between two questions; a zeroed one is empty. */
#define LOCK_MEMO 64
struct lock_memo {
	struct {
		uint64_t futex, object;
		uint64_t asked_ns;
	} known[LOCK_MEMO];
	struct {
		uint64_t address;
		enum pye_lock_type type;
	} types[LOCK_MEMO];
};

/* An object and its type; both 0: not found. */
struct lock_found {
	uint64_t object;
	enum pye_lock_type type;
};

/* lock_where - what a sample says of a lock, read now; @frame: the innermost one. */
struct pye_sample_lock lock_where(const struct proc_mem *mem, uint64_t frame, uint64_t futex);

/**
 * lock_find - the object of a lock
 * @futex:  the word that the thread waits for
 * @where:  what the sample says of it
 * @now_ns: what was not found is looked for again after a while
 *
 * The target may run on: what is not proven any more is not found.
 */
struct lock_found lock_find(const struct proc_mem *mem, const struct pye_pylayout *l,
			    struct lock_memo *memo, uint64_t futex,
			    const struct pye_sample_lock *where, uint64_t now_ns);

#endif
