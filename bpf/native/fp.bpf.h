/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The native stack of the current thread by frame pointers: each frame holds the frame pointer of its
 * caller and the address that it returns to. Code that was compiled without them has anything in that
 * register, so a chain counts as long as it goes up the thread's stack; user space looks whether there
 * is a call before each address. Tables for code without frame pointers will have their place here, too.
 */
#ifndef PYEBPF_NATIVE_FP_BPF_H
#define PYEBPF_NATIVE_FP_BPF_H

#include "abi/sample.h"
#include "lib/core.bpf.h"
#include "lib/loop.bpf.h"

#define FP_STACK_MAX (64ULL << 20) /* from the stack pointer to the outermost frame */
#define FP_PAGE	     4096
#define FP_ROUND     4 /* frames looked at in a round of the loop */

/* Elements stand for rounds of a loop. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_NATIVE_FRAMES / FP_ROUND);
	__type(key, u32);
	__type(value, u8);
} native_rounds SEC(".maps");

struct fp_walk {
	struct pye_native_rec *rec;
	u8 *page; /* FP_PAGE bytes: the user's memory from `from` to `to` */
	u64 from, to;
	u64 fp, low, high; /* the next frame lies from low on, below high */
	u32 end;
};

struct fp_frame {
	u64 fp, ret;
};

static __always_inline void fp_add(struct pye_native_rec *rec, u64 addr)
{
	rec->addrs[(rec->kernel_cnt + rec->user_cnt) & (PYE_NATIVE_ADDRS - 1)] = addr;
	rec->user_cnt++;
}

/* The frame at w->fp. Callers lie above: what is left of the page has most of those that come next. */
static __always_inline const struct fp_frame *fp_load(struct fp_walk *w)
{
	u64 at = w->fp - w->from;
	u32 size;

	if (w->fp < w->from || w->fp + sizeof(struct fp_frame) > w->to) {
		size = FP_PAGE - (w->fp & (FP_PAGE - 1));
		if (size < sizeof(struct fp_frame))
			size = sizeof(struct fp_frame);
		w->from = w->to = 0;
		if (bpf_probe_read_user(w->page, size, (void *)w->fp))
			return NULL;
		w->from = w->fp;
		w->to = w->fp + size;
		at = 0;
	}
	if (at > FP_PAGE - sizeof(struct fp_frame)) /* verifier */
		return NULL;
	return (const struct fp_frame *)(w->page + at);
}

static __always_inline long fp_end(struct fp_walk *w, u32 end)
{
	w->end = end;
	return 1;
}

static __always_inline long fp_step(struct fp_walk *w)
{
	const struct fp_frame *frame;

	if (!w->fp) /* as the loader and clone() leave it */
		return fp_end(w, PYE_NATIVE_ROOT);
	if (w->fp & 7 || w->fp < w->low || w->fp >= w->high)
		return fp_end(w, PYE_NATIVE_BROKEN);
	frame = fp_load(w);
	if (!frame)
		return fp_end(w, PYE_NATIVE_FAULT);
	if (!frame->ret)
		return fp_end(w, PYE_NATIVE_ROOT);
	fp_add(w->rec, frame->ret);
	w->low = w->fp + sizeof(*frame);
	w->fp = frame->fp;
	return 0;
}

static __always_inline long fp_round(void *ctx)
{
	for (int i = 0; i < FP_ROUND; i++)
		if (fp_step(ctx))
			return 1;
	return 0;
}

LOOP_ROUND(fp_round)

/*
 * fp_walk - the frames of the user's stack, behind what @rec holds of the kernel's
 * @page: working memory, FP_PAGE bytes
 * @ip, @sp, @fp: the user's registers
 *
 * Fills user_cnt. Return: enum pye_native_end.
 */
static __noinline u32 fp_walk(struct pye_native_rec *rec, u8 *page, u64 ip, u64 sp, u64 fp)
{
	struct fp_walk w = { .rec = rec,
			     .page = page,
			     .fp = fp,
			     .low = sp,
			     .high = sp + FP_STACK_MAX,
			     .end = PYE_NATIVE_DEEP };

	rec->user_cnt = 0;
	fp_add(rec, ip);
	LOOP(fp_round, PYE_NATIVE_FRAMES / FP_ROUND, &native_rounds, &w);
	return w.end;
}

#endif
