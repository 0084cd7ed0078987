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

#define FP_STACK_MAX (64ULL << 20) /* from the stack pointer to the outermost frame */

/* Elements stand for rounds of a loop. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYE_NATIVE_FRAMES);
	__type(key, u32);
	__type(value, u8);
} native_rounds SEC(".maps");

struct fp_walk {
	struct pye_native_rec *rec;
	u64 fp, low, high; /* the next frame lies from low on, below high */
	u32 end;
};

static __always_inline void fp_add(struct pye_native_rec *rec, u64 addr)
{
	rec->addrs[(rec->kernel_cnt + rec->user_cnt) & (PYE_NATIVE_ADDRS - 1)] = addr;
	rec->user_cnt++;
}

static long fp_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct fp_walk *w = ctx;
	struct {
		u64 fp, ret;
	} frame;

	if (!w->fp) { /* as the loader and clone() leave it */
		w->end = PYE_NATIVE_ROOT;
		return 1;
	}
	if (w->fp & 7 || w->fp < w->low || w->fp >= w->high) {
		w->end = PYE_NATIVE_BROKEN;
		return 1;
	}
	if (bpf_probe_read_user(&frame, sizeof(frame), (void *)w->fp)) {
		w->end = PYE_NATIVE_FAULT;
		return 1;
	}
	if (!frame.ret) {
		w->end = PYE_NATIVE_ROOT;
		return 1;
	}
	fp_add(w->rec, frame.ret);
	w->low = w->fp + sizeof(frame);
	w->fp = frame.fp;
	return 0;
}

/*
 * fp_walk - the frames of the user's stack, behind what @rec holds of the kernel's
 * @ip, @sp, @fp: the user's registers
 *
 * Fills user_cnt. Return: enum pye_native_end.
 */
static __noinline u32 fp_walk(struct pye_native_rec *rec, u64 ip, u64 sp, u64 fp)
{
	struct fp_walk w = {
		.rec = rec, .fp = fp, .low = sp, .high = sp + FP_STACK_MAX, .end = PYE_NATIVE_DEEP
	};

	rec->user_cnt = 0;
	fp_add(rec, ip);
	bpf_for_each_map_elem(&native_rounds, fp_round, &w, 0);
	return w.end;
}

#endif
