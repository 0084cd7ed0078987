/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child, our own or one that is followed, held where its interpreter is mapped and relocated and nothing of it has run: at the entry
 * point of the program. It is traced until then and killed with pyebpf; afterwards it is let go.
 */
#ifndef PYEBPF_INLINE_HOLD_H
#define PYEBPF_INLINE_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct held {
	pid_t pid; /* it spins at `entry`, seized by us */
	uint64_t entry;
	uint8_t code[2]; /* what belongs there */
};

/* A process on its way to a program that is wanted. */
struct hold {
	pid_t pid;
	int mem; /* -1: not open */
	uint64_t entry; /* of the program, where the breakpoint is; 0: not known */
	uint64_t stack; /* where it begins */
	uint8_t code[2]; /* what belongs at the entry point */
	bool watch; /* its system calls are looked at: the program is not mapped yet, or not started */
	bool gently; /* it is not ours: nothing is written into it */
	bool is_static; /* gently: it has no loader, all its system calls are its own */
	bool runs; /* a program that was not wanted when it began, but can load what is */
	uint64_t began_ns, look_ns; /* of that: since when, and when it is to be looked at again */
	struct {
		dev_t dev;
		ino_t ino; /* 0: not known */
	} file; /* of that */
	unsigned int looks; /* for what a loader maps and starts, so far */
	uint64_t loader,
		loader_end; /* gently: whose calls do not count; 0: that is not told by the address */
};

#define HOLD_GO_ON 1
#define HOLD_RUNS  2
#define HOLD_OVER  3

/**
 * hold__on_stop - look at a stop of its thread; gently, it is not at the program's entry point but where it
 * makes its first system call by itself
 * @status: of waitpid()
 * @wanted: as below
 * @sig:    what is to be delivered when it goes on, with h->watch up to the next system call
 *
 * Return: HOLD_GO_ON; 0: it stands still where the program begins; else what @wanted said; -EMFILE, -ENFILE, -ENOMEM: it cannot be held.
 */
int hold__on_stop(struct hold *h, int status, int (*wanted)(void *ctx), void *ctx, int *sig);
void hold__done(struct hold *h);

/* hold__runs - a program that is not wanted runs from here on; hold__is_due - is it to be asked for again? The longer it runs the
 * more seldom. */
void hold__runs(struct hold *h);
bool hold__is_due(struct hold *h);

/* hold__has_executed - is it another program by now? Its stop is on the way: it is mapped, and has not begun */
bool hold__has_executed(const struct hold *h);

/* hold__seize - a child that has not executed its program yet. 0 or a negative errno. */
int hold__seize(pid_t pid);

/**
 * hold__find - let it run up to the first program that is wanted
 * @wanted: called at each program's entry point; -PYE_ENOTPYTHON: go on to the next one it executes
 * @over:   called all the time; true: it is not waited for any more
 * @status: of waitpid(), when it has ended
 *
 * One that was not wanted is asked for again while it runs, as it can load what is wanted, until @wanted says something else: even
 * if that is an error it runs on.
 *
 * Return: 0, it spins; HOLD_RUNS: it is wanted by now, and let go; HOLD_OVER: let go; -ECHILD, it has ended; what @wanted said (it stands still then);
 * another errno.
 */
int hold__find(pid_t pid, int (*wanted)(void *ctx), bool (*over)(void *ctx), void *ctx,
	       struct held *out, int *status);

#endif
