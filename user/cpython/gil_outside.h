/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's lock (GIL) of a live process, read from outside. Free-threaded builds have one, too, that is not in use. */
#ifndef PYEBPF_CPYTHON_GIL_OUTSIDE_H
#define PYEBPF_CPYTHON_GIL_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

struct interp;
struct proc_mem;

/* gil__of - the address of the lock of an interpreter; 0: not known, or it has none yet, or no more. @is: its address, which
 * only matters from 3.12 on */
uint64_t gil__of(const struct proc_mem *mem, const struct interp *in, uint64_t is);

/* gil__holder - who holds a lock: the address of a thread state, which was true when it was read; 0: nobody is seen to */
uint64_t gil__holder(const struct proc_mem *mem, const struct interp *in, uint64_t gil);

/* gil__is_word - does a thread that waits for this word (of futex(2)) wait for the lock? As waits_for_gil() of the BPF programs. */
bool gil__is_word(const struct proc_mem *mem, const struct interp *in, uint64_t gil,
		  uint64_t futex);

/**
 * gil__shared - do all interpreters have the same lock?
 * @gil:  its address; 0: none has one now
 * @none: how many have none. From 3.12 on one that begins, or ends: it may be about to make one of its own. They do not count
 *
 * Return: how many interpreters there are; 0: several have one each (3.12 on); -EFAULT: it cannot be read, or is not known.
 */
int gil__shared(const struct proc_mem *mem, const struct interp *in, uint64_t *gil,
		unsigned int *none);

/*
 * gil__is_held_by - does this thread state hold it, and will as long as its thread stands still?
 *
 * To 3.11 the state that runs is taken out before the lock is released, and put in behind it. From 3.12 on the lock says who had it
 * last for a moment, two instructions, after another thread has got it; that the state is in use is taken back before it is
 * released, but in PyThreadState_Swap() of 3.12. So it is asked twice, some time apart.
 */
bool gil__is_held_by(const struct proc_mem *mem, const struct interp *in, uint64_t gil,
		     uint64_t tstate);

/* How often a lock has come to another thread than the last one so far, and which thread state has it, or had it last: a thread that is
 * not of this state has run no Python code as long as both are the same. */
struct gil_turns {
	uint64_t gil, holder, switches;
};

/* gil__turns - of the lock of all interpreters. gil 0: there is none, or more than one, it is not known (3.6), or a thread has it by a state
 * that it has come to by PyThreadState_Swap() */
void gil__turns(const struct proc_mem *mem, const struct interp *in, struct gil_turns *out);

#endif
