// SPDX-License-Identifier: Apache-2.0
#include "cpython/stack_check.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "cpython/walk_outside.h"

/* Frames that are compared, innermost first; a stack that moves meanwhile is tried again. */
#define FRAMES 16u
#define TRIES  3

static bool is_code(const struct proc_mem *mem, const struct interp *in, uint64_t code)
{
	struct code_names names;

	return !code_read(mem, &in->layout, code, &names);
}

static uint32_t count_code(const struct proc_mem *mem, const struct interp *in,
			   const struct outside_thread *t)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < t->frame_cnt && i < FRAMES; i++)
		seen += is_code(mem, in, t->frames[i].code);
	return seen;
}

/* 1: it fits, or there is nothing to compare; 0: it does not, @frame; -EAGAIN: it moved. */
static int look(const struct proc_mem *mem, const struct interp *in, struct outside_frame *frame)
{
	auto_fn(outside_stacks__done) struct outside_stacks before = { 0 }, after = { 0 };
	int err = walk_outside_one(mem, in, &before);

	if (err || !before.cnt)
		return err ? err : 1;
	if (count_code(mem, in, &before.threads[0]))
		return 1;
	err = walk_outside_one(mem, in, &after);
	if (err || !after.cnt || !outside_thread__same(&before.threads[0], &after.threads[0]))
		return err ? err : -EAGAIN;
	*frame = before.threads[0].frames[0];
	return 0;
}

int stack_check(const struct proc_mem *mem, const struct interp *in, struct err *e)
{
	struct outside_frame frame = { 0 };
	int fits = -EAGAIN;

	for (int i = 0; i < TRIES && fits == -EAGAIN; i++)
		fits = look(mem, in, &frame);
	if (fits == -EFAULT || fits == -EAGAIN) /* it has just begun, or is never still */
		return 0;
	if (fits)
		return fits < 0 ? fits : 0;
	err_set(e, -PYE_ETARGET,
		"its stacks do not look as those of CPython %s: what stands at 0x%" PRIx64
		", in the frame at 0x%" PRIx64 ", is no code object",
		in->version, frame.code, frame.frame);
	err_hint(e,
		 "it may be built from changed sources: pyebpf knows those of CPython's releases");
	return -PYE_ETARGET;
}
