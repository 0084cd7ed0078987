/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While somebody stands still for us nobody else is to come first: we run before others, where that is permitted, lend that to whom we wait
 * for, and are not stopped by the terminal. Those who do this stand one in another: what the outer one has is not taken from it.
 */
#ifndef PYEBPF_INLINE_HURRY_H
#define PYEBPF_INLINE_HURRY_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct lender;

/* Of one thread of ours; zeroed: it is in none. */
struct hurry {
	bool first; /* we run before others, */
	struct lender *of_stops, *of_calls; /* and lend that; NULL: not yet */
	bool terminal_held; /* the terminal does not stop us; then: */
	sigset_t signals; /* that we blocked before */
};

/* hurry__begin - from here on; hurry__end - no more. @terminal: nor is that held any more. Both can come again. */
void hurry__begin(struct hurry *h);
void hurry__end(struct hurry *h, bool terminal);

/* hurry__hold_terminal - that alone: Ctrl-Z stops us when the target goes on, not before; all other threads of ours block it */
void hurry__hold_terminal(struct hurry *h, bool on);

/* hurry__lend_stop - a thread that we have asked to stop is to get a CPU; hurry__lend_call - one that makes calls for us. As lender__lend();
 * nothing where we do not run before others */
void hurry__lend_stop(struct hurry *h, pid_t tid);
void hurry__lend_call(struct hurry *h, pid_t tid);

/* hurry__lend_none - before those go on that it was lent to: to lose it just as they are about to begin their calls anew makes them wait for a CPU
 * there, where a signal's handler runs in front of the call and does not end it */
void hurry__lend_none(struct hurry *h);

void hurry__done(struct hurry *h); /* what it has made to lend; it has ended before */

#endif
