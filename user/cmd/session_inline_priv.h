/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by session_inline.c (the run), inline_member.c (a process of it), inline_stacks.c (its stacks), inline_family.c (-s)
 * and inline_left.c (who wakes up behind it). */
#ifndef PYEBPF_CMD_SESSION_INLINE_PRIV_H
#define PYEBPF_CMD_SESSION_INLINE_PRIV_H

#include "assemble/assemble.h"
#include "capture/cap_inline.h"
#include "capture/inline_count_sum.h"
#include "cmd/inline_others.h"
#include "cmd/inline_target.h"
#include "cmd/session_inline.h"
#include "cpython/gil_outside.h"
#include "cpython/outside_pages.h"
#include "cpython/walk_outside.h"
#include "inline/asleep.h"
#include "inline/follow.h"
#include "proc/info.h"
#include "proc/mem.h"

struct inline_run;

/* A process that is recorded. */
struct inline_member {
	struct inline_run *run;
	pid_t pid; /* as /proc shows it */
	uint32_t pix;
	struct interp *in; /* that of the run, or own_in */
	struct inline_engine *engine; /* the same */
	struct interp own_in;
	struct inline_engine own_engine;
	struct cap_inline *cap; /* NULL with --count */
	struct inline_count *count; /* NULL without */
	bool counted; /* it has called something */
	struct proc_mem mem;
	bool mem_open, attached;
	bool forked; /* it has the stubs of the one that it was forked from */
	bool jit_checked;
	uint64_t evaluator_ns; /* when it is looked at next who runs the frames */
	uint64_t usual_evaluator; /* as interp__other_evaluator() has it */
	bool read; /* to its end, in this round */
	unsigned int torn;
	uint64_t barred_until; /* another tracer was there at a loss: when that is tried again */
	struct gil_turns turns; /* before a stop, before the stacks were read; gil 0: not known */
	struct asleep asleep; /* threads that slept then */
	struct outside_known ahead; /* the stacks */
	uint64_t *kept; /* pthread_self() of those that are kept from running; in order */
	size_t kept_cnt;
	struct outside_pages pages; /* where the stacks of all lie */
	unsigned int
		ahead_left; /* stops before which they are read yet, where the turns are not known */
	struct outside_stacks stacks; /* as they were at stood_ns; not told yet */
	size_t last_thread; /* which of those that stand still was found last */
	uint64_t stood_ns;
	uint64_t naming_ns; /* when threads are looked at next for their names */
	uint64_t shim; /* code object of the interpreter's own frames; 0: none met */
	struct inline_member *next;
};

/* -s: a process that is followed, recorded or not. */
struct inline_kin;

struct inline_run {
	struct inline_target t;
	int fd; /* of the capture */
	struct capw *capw;
	struct assembler *as;
	struct capture_taker records; /* it */
	struct cap_inline_ids ids;
	struct inline_member *members; /* the first one is the one that was asked for */
	uint32_t last_pix, round;
	struct limits_run kept;
	uint64_t flushed_ns, adjust_ns;
	uint64_t round_ns,
		fed_ns; /* when this round began; what was published before that is fed */
	bool executed; /* the target, another program, without -s: it has no members any more */
	uint64_t start_ns, attached_ns;
	uint64_t interrupted_ns; /* the first time; 0: not yet */
	int64_t start_unix_ns;
	uint64_t lost; /* of members that are gone: events of threads that could not be told apart */
	uint64_t unmatched; /* of the same: ends of frames that were on no stack */
	uint64_t left_out; /* of the same: calls of code that is not recorded */
	const struct session_opcodes *opcodes; /* NULL: none */
	struct inline_opcodes *instructions;
	uint8_t chosen[OPCODE_CNT];
	unsigned int minor; /* of the version whose opcodes these are */
	const struct session_counts *counts; /* NULL: events */
	struct inline_count_sum *ended; /* with --count: of processes that are gone */
	struct proc_info info; /* of the first process */
	char python[16];
	struct follow *follow; /* of the target; NULL: without -s */
	struct inline_heart *heart;
	struct inline_others others;
	struct inline_kin *kin;
	pid_t before[PROC_DESCENDANTS_MAX]; /* with -s: descendants of the target before it was attached to */
	size_t before_cnt;
	bool refused; /* with -s: the command, which has been ended */
	unsigned int missed; /* children that could not be traced */
	unsigned int unwritten; /* snapshots of sums */
};

/* inline_run__opcodes - with --opcodes: a process gives its instructions; the first one says what names they have.
 * 0; -PYE_EVERSION: it is of another version; or an error with its sentence. */
int inline_run__opcodes(struct inline_run *r, struct inline_member *m);

/* inline_run__read - a part of what the rings hold: for those who attach to many, or let many go, one by one. */
void inline_run__read(struct inline_run *r);

/* inline_member__new - the next process of the capture, known to nobody yet. @first: it uses what the run's target
 * has. NULL: no memory. */
struct inline_member *inline_member__new(struct inline_run *r, pid_t pid, bool first);

/* inline_member__open - its interpreter is in m->in: tell the assembler of it, get ready to read. 0 or a
 * negative errno. */
int inline_member__open(struct inline_member *m);

/* inline_member__attached - its stubs are in place, its stacks are told */
void inline_member__attached(struct inline_member *m);

/* inline_member__opts - how its engine is attached */
void inline_member__opts(struct inline_member *m, struct inline_opts *out);

#define INLINE_STACKS_AHEAD 10 /* of the tries to keep all threads from Python code */
/* inline_stacks__ahead - before a stop: what those that will not run are at. For struct remote. */
void inline_stacks__ahead(void *ctx);

/* inline_stacks__take - nobody runs Python code: the stacks of all threads, as they are. What is told of them waits until they go on. 0; -EAGAIN: not
 * here, a stack is between two frames; another errno. For struct inline_opts. */
int inline_stacks__take(void *ctx, struct inline_engine *e);

/* inline_stacks__tell - what the stacks were when they stood still, now that they go on, and before anything that came since
 * is drained. 0 or -ENOMEM. */
int inline_stacks__tell(struct inline_member *m);

/* inline_stacks__forget - what was read before a stop, as inline_stacks__tell() does by itself */
void inline_stacks__forget(struct inline_member *m);

/* inline_member__drain - at most so many batches; 1: there was something, 0: it is read to its end; or an error */
int inline_member__drain(struct inline_member *m, unsigned int batches);

/* inline_member__tend - what has to be done now and then: losses, names, the JIT of a command. 0 or an error that ends
 * the run. */
int inline_member__tend(struct inline_member *m, bool idle);

/* inline_member__end - it has ended, or what it ran: all is read, nothing is taken out. */
void inline_member__end(struct inline_member *m, uint64_t now);

/* inline_member__detach - the end of the run: it goes on by itself. inline_member__finals - the same, when all are
 * detached: what is left in its ring, but after an error (@err). */
void inline_member__detach(struct inline_member *m);
void inline_member__finals(struct inline_member *m, int err);

/* inline_member__sum - with --count: what was counted so far, or, when the target has scribbled there, a warning. 0 or
 * -ENOMEM. */
int inline_member__sum(struct inline_member *m, struct inline_count_sum *sum);

/* inline_member__forget - released; what is in its process is taken out. */
void inline_member__forget(struct inline_member *m);

/* inline_family__attaching - the process that was asked for runs, and is attached to from now on. For struct inline_opts. */
void inline_family__attaching(void *ctx);

/* inline_family__begin - with -s: the process that was asked for, and what it has started so far; @m: NULL while it is no Python. 0 or an
 * error that ends the run. */
int inline_family__begin(struct inline_run *r, struct inline_member *m);

/* inline_family__look - at what has been born, executed, or has ended. 0 or an error that ends the run. */
int inline_family__look(struct inline_run *r);

/* inline_family__lost - a child is not recorded any more. */
void inline_family__lost(struct inline_run *r, const struct inline_member *m);

/* inline_run__let_late_go - after that: threads that did not stop then, and have by now. False: some have not yet */
bool inline_run__let_late_go(struct inline_run *r);

/* inline_family__release - all go on untraced. */
void inline_family__release(struct inline_run *r);
void inline_family__free(struct inline_run *r);

#endif
