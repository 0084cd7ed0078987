// SPDX-License-Identifier: Apache-2.0
#include "inline/hurry.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

#include "inline/lender.h"

#define STOP_TURN_NS 100000u /* of one that has not stopped; then the next one gets it */
#define CALL_TURN_NS 3000000u

void hurry__hold_terminal(struct hurry *h, bool on)
{
	sigset_t set;

	if (on == h->terminal_held)
		return;
	h->terminal_held = on;
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGTTIN);
	sigaddset(&set, SIGTTOU);
	pthread_sigmask(on ? SIG_BLOCK : SIG_SETMASK, on ? &set : &h->signals,
			on ? &h->signals : NULL);
}

/* Nobody who wants this CPU makes a stop longer. We sleep while we wait, so that the target gets to where it stops. */
void hurry__begin(struct hurry *h)
{
	const struct sched_param fifo = { .sched_priority = LENDER_PRIORITY };

	hurry__hold_terminal(h, true);
	if (!h->first)
		h->first = !(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) &&
			   !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo);
}

void hurry__end(struct hurry *h, bool terminal)
{
	const struct sched_param usual = { 0 };

	if (terminal)
		hurry__hold_terminal(h, false);
	hurry__lend_none(h);
	/* where a limit permits the one (RLIMIT_RTPRIO) it takes a privilege to be rid of the other */
	if (h->first)
		h->first = sched_setscheduler(0, SCHED_OTHER, &usual) &&
			   sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &usual);
}

void hurry__lend_stop(struct hurry *h, pid_t tid)
{
	if (h->first)
		lender__lend(&h->of_stops, h->of_calls, tid, STOP_TURN_NS);
}

void hurry__lend_call(struct hurry *h, pid_t tid)
{
	if (h->first)
		lender__lend(&h->of_calls, h->of_stops, tid, CALL_TURN_NS);
}

void hurry__lend_none(struct hurry *h)
{
	lender__rest(h->of_stops);
	lender__rest(h->of_calls);
}

void hurry__done(struct hurry *h)
{
	lender__free(h->of_stops);
	lender__free(h->of_calls);
	h->of_stops = h->of_calls = NULL;
}
