// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The probes of the trace engines `uprobe` and `usdt`: a frame is entered, a frame is left, a code
 * object dies. One program per kind of site, so that a hit decides as little as possible; the cookie
 * says where the frame is.
 *
 * An event costs the target a trap and what is done here, so the common path is: the thread's state
 * (task storage), one read of the frame (entries only), the code's id (an array look-up), one record.
 */
#include "lib/core.bpf.h"
#include "lib/regs.bpf.h"
#include "py/event.bpf.h"
#include "py/names.bpf.h"

#define COND_X86      0x10
#define SOURCE_REG    0
#define SOURCE_SLOT   1
#define SOURCE_TOP    2
#define SOURCE_TSTATE 3
#define REG_NONE      31
#define LOCALS_SEEN   16
#define STACKREF_TAGS 3 /* low bits of a reference in a frame */
#define CLOSED_NEAR \
	128 /* bytes that the function may have given back of its stack since the call */

/* Current frame of the thread that holds the GIL: us. 0 when it cannot be read. */
static __always_inline u64 tstate_frame(struct thread *t, struct pye_pylayout *l, u64 *tstate)
{
	u64 frame = 0;

	*tstate = 0;
	if (!t->tstate_current || read_user(tstate, 8, t->tstate_current) || !*tstate)
		return 0;
	if (read_user(&frame, 8, *tstate + l->ts_frame))
		return 0;
	return frame;
}

static __always_inline u64 where(struct pt_regs *ctx, u64 cookie)
{
	u64 value = reg_read(ctx, PYE_COOKIE_REG(cookie)) + (s64)PYE_COOKIE_DISP(cookie);

	if (PYE_COOKIE_SOURCE(cookie) == SOURCE_SLOT && read_user(&value, 8, value))
		return 0;
	return value & ADDR_MASK;
}

#define PROBE_BEGIN                                                         \
	u64 ts = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);   \
	struct pye_pylayout *l;                                             \
	struct thread *t;                                                   \
                                                                            \
	if (cfg_filter & PYE_FILTER_THREAD && names_other(cookie, ctx->ip)) \
		return 0;                                                   \
	t = thread_get(cookie, ctx->ip);                                    \
	if (!t || !(l = layout_of(t)))                                      \
	return 0

/* Before that, where a frame is entered: the first one of a thread can say what it is called. */
#define NAMES_LOOK(ctx)                                             \
	do {                                                        \
		u64 at = bpf_get_attach_cookie(ctx);                \
                                                                    \
		if (cfg_filter & PYE_FILTER_THREAD)                 \
			names_entry(at, (ctx)->ip, where(ctx, at)); \
	} while (0)

/* RESUME handlers, 3.11 on. */
SEC("uprobe")
int probe_resume(struct pt_regs *ctx)
{
	NAMES_LOOK(ctx);
	PROBE_BEGIN;
	on_entry(t, l, ts, where(ctx, cookie), false);
	return 0;
}

/* _PyEval_FrameClearAndPop(tstate, frame), 3.12 on. */
SEC("uprobe")
int probe_clear(struct pt_regs *ctx)
{
	u32 sub = PYE_EXIT_RETURN;

	PROBE_BEGIN;
	(void)l;
	if (PYE_COOKIE_VALUE(cookie) != REG_NONE)
		t->tstate = reg_read(ctx, PYE_COOKIE_VALUE(cookie));
	if (t->flags & T_UNWINDING) {
		t->flags &= ~T_UNWINDING;
		sub = PYE_EXIT_UNWIND;
	}
	on_exit(t, ts, where(ctx, cookie), sub);
	return 0;
}

/* Its call for a frame that ends by an exception. Rare: cheaper than to look at each return for a
 * pending exception in the target's memory (35 ns). */
SEC("uprobe")
int probe_unwinding(struct pt_regs *ctx)
{
	struct thread *t = thread_quiet();

	if (t)
		t->flags |= T_UNWINDING;
	return 0;
}

/* Return, unwind and yield sites whose kind is known: 3.11's returns, all yields from 3.11 on, copies of what ends frames. */
SEC("uprobe")
int probe_leave(struct pt_regs *ctx)
{
	PROBE_BEGIN;
	if (PYE_COOKIE_VALUE(cookie) != REG_NONE)
		t->tstate = reg_read(ctx, PYE_COOKIE_VALUE(cookie));
	if (PYE_COOKIE_SOURCE(cookie) == SOURCE_TOP)
		on_exit(t, ts, SLOT_FRAME(stack_top(t)), PYE_COOKIE_SUB(cookie));
	else
		on_exit(t, ts, where(ctx, cookie), PYE_COOKIE_SUB(cookie));
	return 0;
}

/* _PyEval_EvalFrameDefault(..., frame, throwflag), to 3.10. */
SEC("uprobe")
int probe_eval_entry(struct pt_regs *ctx)
{
	u64 sp;

	NAMES_LOOK(ctx);
	PROBE_BEGIN;
	sp = ctx->sp;
	on_entry(t, l, ts, where(ctx, cookie), (u32)reg_read(ctx, PYE_COOKIE_VALUE(cookie)) != 0);
	t->sp[SLOT(t->pos - 1)] = sp;
	return 0;
}

/*
 * The exits do not name their frame: it is the tracked top, as long as the thread is on the same C stack.
 * It is not when a greenlet was switched to since; then the stack pointer does not lie as far below that
 * of the top's entry as it always does (the C function's frame has one size).
 */
static __always_inline bool eval_switched(struct thread *t, u64 sp)
{
	u32 entered = t->sp[SLOT(t->pos - 1)], size = entered - (u32)sp;

	if (!entered || !t->valid)
		return false;
	if (!t->eval_size)
		t->eval_size = size;
	return size != t->eval_size;
}

/* The exit of a frame that cannot be named: by now the current frame is its caller, so the stack is
 * shown from there. */
static __noinline int eval_resync(u32 reason)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 tstate, caller;

	if (!t)
		return 0;
	caller = tstate_frame(t, l, &tstate);
	if (caller)
		resync(t, caller, reason);
	return 0;
}

/* A generator's frame that is left to 3.10: suspended or finished? */
static __always_inline u32 eval_suspended(struct pye_pylayout *l, u64 frame)
{
	u64 state = 0;

	if (l->flags & PYE_LAYOUT_FRAME_STATE) {
		s8 f_state = 0;

		read_user(&f_state, 1, frame + l->f_state);
		return f_state == -1 /* FRAME_SUSPENDED */ ? PYE_EXIT_YIELD : PYE_EXIT_RETURN;
	}
	read_user(&state, 8, frame + l->f_state);
	return state ? PYE_EXIT_YIELD : PYE_EXIT_RETURN;
}

/* The edges to its epilogue: the frame is the tracked top, the value returned in a register. */
SEC("uprobe")
int probe_eval_exit(struct pt_regs *ctx)
{
	u64 top, flags, sp;
	u32 sub = PYE_EXIT_RETURN;

	PROBE_BEGIN;
	flags = ctx->flags;
	sp = ctx->sp;
	if (PYE_COOKIE_COND(cookie) & COND_X86 && !cond_holds(flags, PYE_COOKIE_COND(cookie) & 15))
		return 0;
	top = stack_top(t);
	if (PYE_COOKIE_SUB(cookie) == PYE_EXIT_REFUSED)
		sub = PYE_EXIT_REFUSED;
	else if (!reg_read(ctx, PYE_COOKIE_VALUE(cookie)))
		sub = PYE_EXIT_UNWIND;
	else if (top & SLOT_GENERATOR)
		sub = eval_suspended(l, SLOT_FRAME(top));
	if (!top) { /* attached in mid-run; or the stack could not be walked */
		hit_at(t, ts);
		if (t->flags & T_NEED_WALK)
			lost(t, CNT_LOST_RING);
		return eval_resync(PYE_WALK_UNKNOWN);
	}
	if (sub != PYE_EXIT_REFUSED && eval_switched(t, sp)) {
		hit_at(t, ts);
		return eval_resync(PYE_WALK_SWITCH);
	}
	on_exit(t, ts, SLOT_FRAME(top), sub);
	return 0;
}

/* As NAMES_LOOK() does. */
static __always_inline void usdt_look(u64 cookie, u64 ip)
{
	struct thread *t = thread_meet(cookie, ip);
	struct pye_pylayout *l = t ? layout_of(t) : NULL;
	u64 tstate, frame = l ? tstate_frame(t, l, &tstate) : 0;

	if (frame)
		names_entry(cookie, ip, frame);
}

/* python:function__entry and function__return: the thread state has the frame. */
SEC("uprobe")
int probe_usdt_entry(struct pt_regs *ctx)
{
	u64 frame, tstate;

	if (cfg_filter & PYE_FILTER_THREAD)
		usdt_look(bpf_get_attach_cookie(ctx), ctx->ip);
	PROBE_BEGIN;
	(void)cookie;
	frame = tstate_frame(t, l, &tstate);
	if (frame)
		on_entry(t, l, ts, frame, false);
	else
		lost(t, CNT_LOST_READ);
	return 0;
}

SEC("uprobe")
int probe_usdt_return(struct pt_regs *ctx)
{
	u64 frame, tstate, exception = 0;
	u32 sub;

	PROBE_BEGIN;
	(void)cookie;
	frame = tstate_frame(t, l, &tstate);
	if (!frame) {
		lost(t, CNT_LOST_READ);
		return 0;
	}
	read_user(&exception, 8, tstate + l->ts_exception);
	sub = exception ? PYE_EXIT_UNWIND : eval_suspended(l, frame);
	on_exit(t, ts, frame, sub);
	return 0;
}

/* Who closes the generator can have been thrown into and have had no event since: that came first. */
static __noinline int show_closer(u64 top)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 frame;

	if (!t || !t->tstate || read_user(&frame, 8, t->tstate + l->ts_frame))
		return 0;
	frame = frame_real(frame, SURE_CALLS);
	if (frame > FRAME_LAST && frame != top)
		above_top(t, frame);
	return 0;
}

static __always_inline bool is_no_object(u64 ref)
{
	return ref <= STACKREF_TAGS || (ref & STACKREF_TAGS) == STACKREF_TAGS;
}

/*
 * Does the frame in t->frame, which does not run, hold something on its stack that no local does, as a loop over a
 * call's result? That ends before the frame does, where the exception is really thrown; what its locals hold ends
 * behind it.
 */
static __noinline int has_own_stack(u64 frame)
{
	u64 locals[LOCALS_SEEN] = {}, at, top = 0;
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u32 cnt = 0;

	if (!t)
		return false;
	at = frame_word(t, l->f_stackpointer);
	read_user(&cnt, 4, frame_code(t, l) + l->co_firstlineno + 4);
	frame += l->f_locals;
	/* 3.15: a loop has the position in a list, or nothing, above what it iterates over */
	for (int i = 0; i < 2 && is_no_object(top); i++) {
		at -= 8;
		if (at < frame + 8ULL * cnt || read_user(&top, 8, at))
			return false;
	}
	if (read_user(locals, sizeof(locals), frame))
		return false;
	for (u32 i = 0; i < LOCALS_SEEN && i < cnt; i++)
		if ((locals[i] ^ top) <= STACKREF_TAGS)
			return false;
	return true;
}

/* _PyFrame_ClearExceptCode(frame) on behalf of gen_close(): it need not run the frame when no handler
 * would see the exception, but the interpreter's own monitoring sees a throw and an unwind there. */
SEC("uprobe")
int probe_gen_close(struct pt_regs *ctx)
{
	u64 frame;
	bool holds;
	u16 word = 0;
	u32 sp;

	PROBE_BEGIN;
	sp = ctx->sp;
	frame = where(ctx, cookie);
	if (!(t->flags & T_KNOWN))
		return 0;
	hit_at(t, ts);
	show_closer(running_top(t));
	if (frame_load(t, frame))
		return 0;
	read_user(&word, 2, frame_word(t, l->f_instr));
	if (!(word >> 8 & l->resume_depth1))
		return 0; /* never started */
	holds = has_own_stack(frame);
	if (!show_thrown(t, l, frame, SLOT_FRAME(stack_top(t))))
		return 0;
	/* too many at once: nothing is lost, but what this one holds is shown behind it */
	if (!holds || !top_closes(t, sp))
		exit_of_top(t, ts, frame, stack_top(t), PYE_EXIT_UNWIND);
	return 0;
}

/* That call is over, or nearly so: the stack pointer tells it from calls within it for frames that never started. */
SEC("uprobe")
int probe_gen_closed(struct pt_regs *ctx)
{
	u64 slot;

	PROBE_BEGIN;
	(void)cookie;
	(void)l;
	slot = stack_top(t);
	if (t->flags & T_KNOWN && slot & SLOT_CLOSING &&
	    (u32)ctx->sp - t->sp[SLOT(t->pos - 1)] < CLOSED_NEAR)
		on_exit(t, ts, SLOT_FRAME(slot), PYE_EXIT_UNWIND);
	return 0;
}

/* PyCode_Type.tp_dealloc(code) */
SEC("uprobe")
int probe_code_dealloc(struct pt_regs *ctx)
{
	struct thread *t = thread_quiet();

	if (t)
		code_retire(t, where(ctx, bpf_get_attach_cookie(ctx)));
	return 0;
}

/* User space has seen the names of a code object. Where the id is another one by now, or none, there is
 * nothing to do: the next event of that code object defines it again, or says that it is still loud. */
SEC("syscall")
int decide_code(struct pye_verdict *v)
{
	u64 key = v->code | (u64)(v->pix & 0xffff) << 48;
	u32 hash = code_hash(key), slot = hash & (PYE_CODE_SLOTS - 1);
	u32 *known = bpf_map_lookup_elem(&codes, &key);
	struct code_slot *s = bpf_map_lookup_elem(&code_slots, &slot);

	if (known) {
		u32 old = *known;

		if ((old & PYE_CODE_ID) == v->id)
			__sync_val_compare_and_swap(known, old, (old | v->set) & ~v->clear);
	}
	if (s && s->key == key) {
		u64 old = s->value;
		u32 id = old >> 32;

		if ((u32)old == hash && (id & PYE_CODE_ID) == v->id)
			__sync_val_compare_and_swap(&s->value, old,
						    (u64)((id | v->set) & ~v->clear) << 32 | hash);
	}
	return 0;
}

/*
 * The same where samples are taken: they hold addresses, which user space names. Who dies here is named
 * now, for samples that are still on their way; the record's time tells them from those of whatever lies
 * at the address next.
 */
SEC("uprobe")
int sample_code_dealloc(struct pt_regs *ctx)
{
	struct thread *t = thread_quiet();
	struct pye_pylayout *l = t ? layout_of(t) : NULL;

	if (l)
		code_define(t, l, where(ctx, bpf_get_attach_cookie(ctx)));
	return 0;
}
