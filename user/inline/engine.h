/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline engine: redirects words of a running interpreter to stubs that append to a ring which the
 * target and pyebpf share. It writes into the target and stops it for moments; what it does not know to
 * be safe it refuses before anything is written.
 *
 * Attaching takes three stops: one thread makes a reservation and two memfds, one thread maps what was
 * filled in meanwhile, then nobody runs Python code while the words are replaced. pyebpf can be killed
 * anywhere: a half-attached target runs on, its stubs pass through when nobody reads.
 */
#ifndef PYEBPF_INLINE_ENGINE_H
#define PYEBPF_INLINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "cpython/interp.h"
#include "inline/hold.h"
#include "inline/region.h"
#include "inline/remote.h"
#include "inline/stub_clock.h"

struct inline_engine {
	struct remote remote;
	const struct interp *in; /* borrowed */
	uint64_t base; /* of the region in the target; 0: not attached */
	uint64_t region_bytes;
	struct il_header *header; /* what was written; owned, IL_CODE_BYTES */
	struct il_shared *shared; /* our mapping; stays readable when the target has ended */
	const struct il_thread *threads;
	const uint8_t *ring; /* ring_bytes, twice in a row */
	size_t ring_bytes;
	size_t table_bytes; /* behind the ring: of --count, or the lanes */
	size_t lane_ring; /* bytes of the ring of each lane; 0: there are none */
	bool counted; /* no events: calls are counted */
	bool timed;
	bool switches; /* stacks are exchanged under the interpreter */
	bool quiet; /* code can be left out: IL_VERDICTS */
	uint32_t slack; /* bytes of the ring that are kept for one long record */
	double opcode_cost; /* ticks between two instructions that are the probe's */
	struct {
		uint64_t fd, ino; /* in the target; closed when it is attached */
	} memfds[2];
	bool reserved; /* the region is ours, in part or all of it */
	bool mapped; /* all of it: words may be replaced */
	uint64_t clock; /* address of the vdso's clock_gettime() in the target; 0: the stubs read the time stamp counter */
	uint64_t hz, tsc_hz; /* ticks per second: of the stubs' clock; of the time stamp counter */
	bool locked; /* every event takes the slow path, and its lock: several threads can write at once, or there is `clock` */
	bool turns; /* every event does from the moment on when an interpreter with a GIL of its own begins */
	bool versions; /* counted calls: a RESUME that is dispatched anew is told by its code's version */
	int32_t tstate_tls; /* of the plan */
	uint32_t eval_frame; /* of the plan */
	uint64_t memfd_flags; /* that this kernel knows */
	bool lazy; /* the ring's memory comes when it is used: children can be many */
	bool left_mapped; /* after a detach: a thread may still be inside */
	bool left_in; /* the same: words still lead to the stubs, which do nothing without us */
};

struct inline_opts {
	size_t ring_bytes; /* rounded up to a power of two; where there are lanes, the sum of two */
	bool wait; /* a full ring makes the target wait */
	bool count, time; /* no events: calls are counted, with durations */
	bool quiet; /* code will be left out */
	const uint8_t *opcodes; /* 256 enum stub_opcode: with events; NULL: none */
	struct interp_cache *
		cache; /* has the plan, if its file was analysed before; borrowed; NULL: it is made now, while a child that is held takes CPU time */
	const struct held *held; /* our child, at its entry point; it is let go; NULL: none */
	struct follow *
		follow; /* its threads are traced from then on, until that is released; borrowed; NULL: none */
	bool parked; /* its one thread is followed and stands still: nothing of it runs before the attach has come to its end; then it goes on, also after an error */
	bool stays; /* parked, and after an error it does not: whoever has started it ends it at once */
	void (*begins)(void *ctx); /* called before the first thread is stopped; NULL: nothing is */
	void (*before)(void *ctx); /* called before each time that all are asked to */
	/* nobody runs Python code (e->remote.threads stand still) before anything is redirected; 0 or an error; -EAGAIN: let
	 * them go and stop them again, which the callback has to bound */
	int (*stopped)(void *ctx, struct inline_engine *e);
	void *ctx;
};

/**
 * inline__attach - redirect a process to a ring
 * @pid: as /proc shows it
 * @in:  its interpreter, as interp__find() gave it
 *
 * What a pyebpf that was killed has left behind has to be taken out first: inline__recover().
 *
 * Return: 0; -PYE_EPLAN, -PYE_EPRIV, -PYE_ETARGET with the reason. Then nothing is redirected.
 */
int inline__attach(struct inline_engine *e, pid_t pid, const struct interp *in,
		   const struct inline_opts *opts, struct err *err);

/**
 * inline__adopt - a forked child of a process that @from is attached to gets a ring of its own
 * @opts: followed and parked, it has just been born
 *
 * It has all else of its parent already. Return: as inline__attach().
 */
int inline__adopt(struct inline_engine *e, pid_t pid, const struct inline_engine *from,
		  const struct inline_opts *opts, struct err *err);

/* inline__is_copy - is a process that was just born forked from one that @from, or its parent, is attached to? */
bool inline__is_copy(pid_t pid, const struct inline_engine *from);

/* inline__is_early_copy - has a process that was just born forked while @from was attached to, before any word was replaced? It has nothing that
 * leads to stubs, but perhaps a part of what was made for them, in @out. It has just been born and stands still. */
#define INLINE_PIECES_MAX 4
struct inline_early {
	struct inline_piece {
		uint64_t start, bytes;
	} pieces[INLINE_PIECES_MAX]; /* mapped */
	unsigned int cnt;
};
bool inline__is_early_copy(pid_t pid, const struct inline_engine *from, struct inline_early *out);

/* inline__clear_early - take that out of one that was attached to by itself meanwhile. 0 or as remote__call() */
int inline__clear_early(struct inline_engine *e, const struct inline_engine *from,
			const struct inline_early *early);

/* inline__has_executed - the process runs another program by now. One that is followed says so by itself. */
bool inline__has_executed(const struct inline_engine *e);

/* inline__gone - its program is no more: nothing is left to be taken out. What the ring holds stays readable. */
void inline__gone(struct inline_engine *e);

/* inline__detach - restore every word that is still ours, unmap when no thread is inside; what the ring
 * holds stays readable. 0; -ESRCH: it has ended, or executed something, which is as good. */
int inline__detach(struct inline_engine *e);

/* inline__stop_outside - keep all threads from Python code, none of them in a stub. As remote__stop(); -ESRCH: it has executed something, too. */
int inline__stop_outside(struct inline_engine *e);

/* inline__lane - our view of what a thread has for itself: its ring does not come twice, but goes on for IL_SLACK; @i: below
 * IL_LANE_CNT, if there are lanes. */
struct inline_lane {
	struct il_private *state;
	struct il_shared *shared;
	struct il_thread *thread;
	const uint8_t *ring;
};
static inline struct inline_lane inline__lane(const struct inline_engine *e, uint32_t i)
{
	uint8_t *at =
		(uint8_t *)(uintptr_t)e->ring + 2 * e->ring_bytes + i * IL_LANE_BYTES(e->lane_ring);

	return (struct inline_lane){ .state = (void *)at,
				     .shared = (void *)(at + IL_LANE_SHARED),
				     .thread = (void *)(at + IL_LANE_THREAD),
				     .ring = at + IL_LANE_RING };
}

/* inline__touch_lane - it is written to from now on: give all of its ring memory, once, as at the attach that of the others. */
void inline__touch_lane(const struct inline_engine *e, uint32_t i);

/* inline__restart - after losses, with nobody in a stub and the ring read to its head: write again. */
int inline__restart(struct inline_engine *e);

/* inline__alive - to be called all the time: says to the stubs that somebody reads. */
void inline__alive(struct inline_engine *e);

void inline__done(struct inline_engine *e); /* detaches first; a zeroed one is no error */

struct inline_found {
	unsigned int taken_out; /* attaches, whole or half */
	unsigned int
		left_mapped; /* of these: restored, but a thread is on its way through the stubs */
	uint32_t stops, longest_us;
};

/**
 * inline__recover - take out what a pyebpf that was killed has left in a process
 *
 * Return: 0, with what was there in @found; -PYE_EPLAN when another pyebpf is at work on it, or it is one of another version; -PYE_EPRIV,
 * -PYE_ETARGET; each with the sentence.
 */
int inline__recover(pid_t pid, struct inline_found *found, struct err *e);

/* inline__is_ending - a process that ends gives its memory back first, and is a zombie only after that. */
bool inline__is_ending(pid_t pid);

/* inline__is_left - are there stubs of ours in a process? Only reads. @has_reader: and somebody reads. False
 * too when it may not be looked at. Takes a second when one was killed just now. */
bool inline__is_left(pid_t pid, bool *has_reader);

/* inline_describe - the private page of a target, for stubs in a region at @base. */
void inline_describe(const struct pye_pylayout *l, uint64_t base, size_t ring_bytes, bool wait,
		     struct il_private *p);

/* inline_describe_opcodes - the same of what --opcodes has in it. */
void inline_describe_opcodes(const struct pye_pylayout *l, struct il_private *p);

/* inline_describe_lanes - the same where several threads run at once, and each may have a ring of its own. */
void inline_describe_lanes(uint64_t base, size_t ring_bytes, size_t lane_ring,
			   struct il_private *p);

/* inline_describe_roots - the same where stacks are exchanged under the interpreter, and those that pyebpf cannot know are told. */
void inline_describe_roots(const struct pye_pylayout *l, uint64_t base, struct il_private *p);

/* inline_describe_quiet - the same where code can be left out. */
void inline_describe_quiet(uint64_t base, struct il_private *p);

/* inline_describe_tables - the same of what --count has in it. */
void inline_describe_tables(uint64_t base, bool timed, struct il_private *p);

/* inline_describe_turns - where an interpreter with a GIL of its own can come. @interpreters: address of a struct il_interpreters */
void inline_describe_turns(const struct pye_pylayout *l, uint64_t interpreters,
			   struct il_private *p);

/* inline_describe_running - the same where the state of the thread that runs is asked for. @interpreters: as above. @tstate_tls: of the
 * plan; 0 only where that was described */
void inline_describe_running(const struct pye_pylayout *l, uint64_t interpreters,
			     int32_t tstate_tls, struct il_private *p);

/* inline_describe_monitoring - what tells a RESUME that is dispatched anew, for calls that are counted without their durations. */
void inline_describe_monitoring(const struct pye_pylayout *l, uint64_t interpreters,
				int32_t tstate_tls, uint64_t base, struct il_private *p);

/* inline_failed - the sentence of a negative errno; what is a cause already stays. Returns the cause. */
int inline_failed(pid_t pid, int err, struct err *e);

/* inline_undo - the words back and the region unmapped; threads may be stopped or not, go on after it.
 * @left: true when it had to stay mapped. 0, also where it is unmapped already; -ESRCH; -ETIMEDOUT; -EFAULT, and then nothing is unmapped. */
int inline_undo(struct remote *r, uint64_t base, const struct il_header *h, bool *left);

/* inline_unreserve - take out a reservation in which nothing, or not all, is mapped yet: no word is
 * replaced. 0, also when there is none; a negative errno. @left: as above */
int inline_unreserve(struct remote *r, uint64_t base, bool *left);

/* inline__now - what the clock of the stubs says. */
static inline uint64_t inline__now(const struct inline_engine *e)
{
	return e->clock ? now_ns() : tsc_now();
}

#endif
