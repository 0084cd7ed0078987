// SPDX-License-Identifier: Apache-2.0
/* A process of an inline run: what it has in its ring, its losses, its end. */
#define LOG_DOMAIN "inline"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/naming.h"
#include "cmd/session_inline_priv.h"
#include "cpython/code_read.h"
#include "inline/heart.h"
#include "inline/remote_stop.h"

#define RING_BYTES    ((size_t)16 << 20)
#define CHILD_BYTES   ((size_t)4 << 20) /* there can be many */
#define PASS_BATCHES  64
#define PASSES_MAX    1024 /* many times what there can be at one moment */
#define EVALUATOR_NS  20000000ull
#define BARRED_NS     100000000ull /* the others would be stopped in vain each time */
#define SETTLE_ROUNDS 3 /* capture.h */

struct inline_member *inline_member__new(struct inline_run *r, pid_t pid, bool first)
{
	struct inline_member *m = calloc(1, sizeof(*m)), **at = &r->members;

	if (!m)
		return NULL;
	m->run = r;
	m->pid = pid;
	m->pix = ++r->last_pix;
	m->in = first ? &r->t.in : &m->own_in;
	m->engine = first ? &r->t.engine : &m->own_engine;
	m->own_in.fd = m->own_engine.remote.mem = -1;
	while (*at)
		at = &(*at)->next;
	*at = m;
	return m;
}

void inline_member__attached(struct inline_member *m)
{
	m->attached = true;
	inline_heart__add(m->run->heart, m->engine);
}

static void reads(const struct inline_member *m)
{
	inline__alive(m->engine);
	inline_heart__reads(m->run->heart);
}

static int tell_process(struct inline_member *m)
{
	struct inline_run *r = m->run;
	struct proc_info info;
	char python[16];
	struct assembler_process p;

	inline_target__describe(&r->t, m->pid, m->in, &info, python, sizeof(python));
	if (!r->python[0]) {
		r->info = info;
		memcpy(r->python, python, sizeof(r->python));
	}
	p = (struct assembler_process){
		.trace = { .id = m->pix,
			   .pid = (uint32_t)(m->pid == r->t.pid.pid ? r->t.pid.given : m->pid),
			   .start_ns = m->pix == 1 ? r->start_ns : now_ns(),
			   .comm = info.comm,
			   .exe = info.exe,
			   .python = python,
			   .prefix = "" },
		.layout = &m->in->layout,
		.proc_pid = m->pid,
		.entries_stay = true
	};
	return assembler__process(r->as, &p);
}

/* The clocks are those of the whole machine: a child, which stands still, need not wait for its own. */
static const struct cap_inline *clock_of(const struct inline_member *m)
{
	const struct inline_member *other = m->run->members;

	return other == m ? NULL : other->cap;
}

int inline_member__open(struct inline_member *m)
{
	int err = proc_mem__open(m->pid, &m->mem);

	m->mem_open = !err;
	if (!err)
		err = tell_process(m);
	if (!err && m->run->counts)
		return inline_count__new(&m->count, m->engine);
	if (!err)
		err = cap_inline__new(&m->cap, m->pix, m->pid, &m->run->ids, clock_of(m));
	if (err)
		return err;
	cap_inline__use(m->cap, m->engine);
	if (m->run->opcodes)
		return inline_run__opcodes(m->run, m);
	cap_inline__hand_to(m->cap, &m->run->records);
	return 0;
}

void inline_member__opts(struct inline_member *m, struct inline_opts *out)
{
	struct inline_run *r = m->run;
	const struct session_opts *o = r->t.opts;
	bool first = m->engine == &r->t.engine, held = first && r->t.held.pid;
	size_t ring = o->ring_bytes ? o->ring_bytes : RING_BYTES;

	m->ahead_left = INLINE_STACKS_AHEAD;
	*out = (struct inline_opts){ .ring_bytes = first || ring < CHILD_BYTES ? ring : CHILD_BYTES,
				     .wait = o->wait_when_full,
				     .cache = r->t.cache,
				     .held = held ? &r->t.held : NULL,
				     .opcodes = r->opcodes ? r->chosen : NULL,
				     .count = r->counts != NULL,
				     .time = r->counts && r->counts->time,
				     .quiet = filters_by_code(&o->filter),
				     .before = r->counts ? NULL : inline_stacks__ahead,
				     .stopped = r->counts ? NULL : inline_stacks__take,
				     .ctx = m,
				     .follow = r->follow };
}

/* Names alone come: the counts stay where they are. */
static int drain_names(struct inline_member *m)
{
	int got = inline_count__read(m->count);

	reads(m);
	m->counted |= got > 0;
	m->read |= !got;
	return got;
}

int inline_member__drain(struct inline_member *m, unsigned int batches)
{
	struct inline_run *r = m->run;
	struct capture_batch batch;
	int any = 0, got = 0;

	if (m->count)
		return drain_names(m);
	while (batches-- && (got = cap_inline_ops.next(m->cap, &batch)) > 0) {
		batch.round = r->round;
		/* what it cannot keep, for want of memory or disk, it counts */
		if (!r->opcodes)
			assembler__feed(r->as, &batch);
		any = 1;
		reads(m);
		limits_part(&r->kept);
		if (!r->kept.full && limits_full(&r->kept)) {
			r->kept.full = true;
			break;
		}
		if (cap_inline__is_at_end(m->cap))
			break; /* a few events at a time are dear, for both */
	}
	m->read |= !got || cap_inline__is_at_end(m->cap);
	return got < 0 ? got : any;
}

/* What is there. A target, or a child of it that has the same ring, can write on and on: not for ever. */
static int drain_all(struct inline_member *m)
{
	int got = 1;

	for (int i = 0; got > 0 && i < PASSES_MAX; i++)
		got = inline_member__drain(m, PASS_BATCHES);
	return got < 0 ? got : 0;
}

static bool has_ended(const struct inline_member *m)
{
	const struct follow *f = m->engine->remote.follow;

	return remote__is_dead(m->pid, m->pid) || inline__has_executed(m->engine) ||
	       (f && !follow__runs(f, m->pid));
}

/* Events were lost: read what is left, then the stacks anew, while nobody runs Python code. */
static int recover_from_loss(struct inline_member *m)
{
	struct remote *r = &m->engine->remote;
	int err;

	do {
		m->ahead_left = INLINE_STACKS_AHEAD;
		r->how.before = inline_stacks__ahead;
		r->how.ctx = m;
		err = inline__stop_outside(m->engine);
		r->how.before = NULL;
		if (err == -EPERM) /* another tracer has some of its threads */
			m->barred_until = now_ns() + BARRED_NS;
		if (err) /* it has ended; or it is so busy, or taken, that we try again */
			return err == -ESRCH || err == -ETIMEDOUT || err == -EPERM ? 0 : err;
		err = drain_all(m);
		if (!err) {
			cap_inline__recount(m->cap);
			err = inline_stacks__take(m, m->engine);
		}
		if (!err)
			err = inline__restart(m->engine);
		remote__resume(r);
		if (err == -EAGAIN)
			remote__give_time(m->torn);
	} while (err == -EAGAIN);
	if ((err == -ESRCH || err == -EFAULT) && has_ended(m)) /* the others of the run go on */
		return 0;
	return err ? err : inline_stacks__tell(m);
}

/* A command is found before its start-up, so it is looked at again, once, when it runs: a JIT's traces pass by the
 * stubs. */
static int check_jit(struct inline_member *m)
{
	int err;

	struct inline_run *r = m->run;
	struct err e = { 0 };

	if (m->jit_checked || m->forked || !(r->t.opts->command || r->follow) ||
	    !(m->count ? m->counted : capw__written(r->capw) != 0))
		return 0;
	m->jit_checked = true;
	err = interp__check_jit(m->pid, m->in, &e);
	if (err != -PYE_EPLAN)
		return 0;
	if (m->engine != &r->t.engine) {
		log_warn("what process %d did is not whole: %s", m->pid, e.what);
		return 0;
	}
	*r->t.e = e;
	return err;
}

/* Once said it is not looked for any more. One that comes and goes between two looks goes unseen. */
static void check_evaluator(struct inline_member *m, uint64_t now)
{
	char path[256], shown[512];

	if (now < m->evaluator_ns)
		return;
	m->evaluator_ns = now + EVALUATOR_NS;
	if (!interp__other_evaluator(m->pid, &m->mem, m->in, m->engine->eval_frame,
				     &m->usual_evaluator, path, sizeof(path)))
		return;
	m->evaluator_ns = UINT64_MAX;
	log_warn(
		"frames of process %d are run by another evaluator (PEP 523), in %s: what that does not hand "
		"on to the interpreter's own is not seen",
		m->pid, text_escape(shown, sizeof(shown), path, strlen(path)));
}

int inline_member__tend(struct inline_member *m, bool idle)
{
	const struct naming_of of = { m->pix, m->pid, m->in };
	bool late = !remote__let_late_go(&m->engine->remote);
	int err = check_jit(m);

	check_evaluator(m, now_ns());
	if (m->count)
		return err;
	/* other lanes may never be idle */
	idle |= m->engine->lane_ring && cap_inline__is_at_end(m->cap);
	if (!err && idle && !late && cap_inline__is_lossy(m->cap) && now_ns() >= m->barred_until)
		err = recover_from_loss(m);
	if (!err)
		naming_look(m->run->as, &of, &m->naming_ns, false);
	return err;
}

struct ending {
	struct assembler *as;
	uint64_t ns; /* when nothing was recorded any more */
};

static void take_final(void *ctx, uint32_t tix, uint32_t seq)
{
	const struct ending *e = ctx;

	assembler__final(e->as, tix, seq, e->ns);
}

/* No other ring has anything of it: what it left is shown now, before what it may have executed comes. */
static void settle(struct inline_run *r)
{
	for (int i = 0; i < SETTLE_ROUNDS; i++)
		assembler__feed(r->as, &(struct capture_batch){ .round = ++r->round });
}

static void end_events(struct inline_member *m, uint64_t now)
{
	struct inline_run *r = m->run;

	cap_inline__recount(m->cap);
	cap_inline__end(m->cap);
	inline_member__drain(m, 1);
	cap_inline__finals(m->cap, take_final, &(struct ending){ r->as, now });
	r->lost += cap_inline__lost(m->cap);
	r->unmatched += cap_inline__unmatched(m->cap);
	r->left_out += cap_inline__left_out(m->cap);
}

static const char *why_not(int err)
{
	return err == -EILSEQ ? "it has damaged its ring, or its tables" : err_str(err);
}

void inline_member__end(struct inline_member *m, uint64_t now)
{
	struct inline_run *r = m->run;
	int err;

	inline__gone(m->engine);
	err = drain_all(m);
	if (err)
		log_warn("what process %d did is not whole: %s", m->pid, why_not(err));
	if (m->count && !err)
		inline_member__sum(m, r->ended);
	if (m->cap)
		end_events(m, now);
	assembler__process_end(r->as, m->pix, now);
	settle(r);
	inline_member__forget(m);
}

int inline_member__sum(struct inline_member *m, struct inline_count_sum *sum)
{
	struct inline_count_view view;
	int err = inline_count__snapshot(m->count, &view);

	err = err ? err : inline_count_sum__add(sum, &view);
	if (!err)
		return 0;
	log_warn("what process %d did is not in the sums: %s", m->pid, why_not(err));
	return err == -ENOMEM ? err : 0;
}

void inline_member__detach(struct inline_member *m)
{
	const struct naming_of of = { m->pix, m->pid, m->in };

	if (m->cap)
		naming_look(m->run->as, &of, &m->naming_ns, true);
	inline_heart__remove(m->run->heart, m->engine);
	inline__detach(m->engine);
}

void inline_member__finals(struct inline_member *m, int err)
{
	if (!err)
		drain_all(m);
	if (!m->cap)
		return;
	cap_inline__recount(m->cap);
	if (!err)
		inline_member__drain(m, 1);
	/* what has ended by itself, or was not to be stopped any more, did not have its words put back */
	cap_inline__finals(
		m->cap, take_final,
		&(struct ending){ m->run->as, m->engine->remote.put_back_ns ?: now_ns() });
}

/* At the end of a run it was before, and what stays is said with that of the others. */
static void take_out(struct inline_member *m)
{
	if (m->engine->reserved) {
		inline__detach(m->engine);
		inline_target__say_left(m->engine, m->pid);
	}
	inline__done(m->engine);
}

void inline_member__forget(struct inline_member *m)
{
	struct inline_run *r = m->run;
	struct inline_member **at = &r->members;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	inline_heart__remove(r->heart, m->engine);
	cap_inline__free(m->cap);
	inline_count__free(m->count);
	outside_stacks__done(&m->stacks);
	inline_stacks__forget(m);
	if (m->mem_open)
		proc_mem__close(&m->mem);
	if (m->engine == &m->own_engine) {
		inline_target__add_stops(&r->t, m->engine->remote.stops,
					 m->engine->remote.longest_us);
		if (m->engine->remote.pid)
			take_out(m);
		interp__done(m->in);
	}
	free(m);
}
