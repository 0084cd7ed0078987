/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a stub of the inline engine is executed with known registers, on a stack of its own, in a region and
 * on Python objects that are made up. Included by one file of a program, as cpu_run.h is.
 */
#ifndef PYEBPF_TESTS_INLINE_RUN_H
#define PYEBPF_TESTS_INLINE_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu_run.h"
#include "cpython/layouts.h"
#include "inline/engine.h"
#include "inline/region_count.h"
#include "inline/stub.h"

#define RING_BYTES   ((size_t)IL_RING_MIN)
#define REGION_BYTES (IL_FUNCS + IL_COUNT_BYTES)
#define STACK_SIZE   65536u
#define STACK_AT     (STACK_SIZE / 2) /* the stack pointer */
#define RED_ZONE     128u

/* --- a region, and Python objects as the stubs see them --- */

static struct {
	uint8_t *base;
	struct il_private *private;
	struct il_shared *shared;
	struct inline_plan plan;
	struct pye_pylayout layout;
	uint8_t stack[STACK_SIZE] __attribute__((aligned(64))), before[STACK_SIZE];
	uint64_t slot, instr_slot; /* variables of the interpreter: its frame, its instruction */
	uint8_t frame[256] __attribute__((aligned(16))), caller[256] __attribute__((aligned(16)));
	uint8_t entry[256] __attribute__((aligned(16))), code[512] __attribute__((aligned(32)));
	uint8_t texts[3][256] __attribute__((aligned(16)));
	uint8_t instr[4];
} t;

static inline uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static inline void set64(uint8_t *object, unsigned int at, uint64_t v)
{
	memcpy(object + at, &v, 8);
}

static inline void make_text(uint8_t *object, const char *text)
{
	const struct pye_pylayout *l = &t.layout;
	uint32_t state = l->str_compact_mask | l->str_ascii_mask |
			 (1u << __builtin_ctz(l->str_kind_mask));

	set64(object, l->str_length, strlen(text));
	memcpy(object + l->str_state, &state, 4);
	memcpy(object + l->str_ascii_data, text, strlen(text) + 1);
}

static inline void make_objects(void)
{
	const struct pye_pylayout *l = &t.layout;

	set64(t.frame, l->f_code, address(t.code));
	set64(t.frame, l->f_previous, address(t.entry));
	set64(t.frame, l->f_instr, address(t.instr));
	if (l->f_stackpointer) /* it holds nothing */
		set64(t.frame, l->f_stackpointer, address(t.frame) + l->f_locals);
	t.frame[l->f_owner] = 0;
	set64(t.entry, l->f_previous, address(t.caller)); /* a call that came through C */
	t.entry[l->f_owner] = 3;
	t.caller[l->f_owner] = 0;
	make_text(t.texts[0], "/a/file.py");
	make_text(t.texts[1], "name");
	make_text(t.texts[2], "Class.name");
	set64(t.code, l->co_filename, address(t.texts[0]));
	set64(t.code, l->co_name, address(t.texts[1]));
	set64(t.code, l->co_qualname, address(t.texts[2]));
	t.code[l->co_firstlineno] = 7;
}

/* The same to 3.10, of a version. */
static inline void make_eval_objects(unsigned int minor)
{
	const struct pye_pylayout *l = &t.layout;

	t.layout = layout_find(minor, false)->py;
	memset(t.frame, 0, sizeof(t.frame));
	set64(t.frame, l->f_code, address(t.code));
	set64(t.frame, l->f_previous, address(t.caller));
	make_text(t.texts[0], "/a/file.py");
	make_text(t.texts[1], "name");
	set64(t.code, l->co_filename, address(t.texts[0]));
	set64(t.code, l->co_name, address(t.texts[1]));
}

/* As to 3.10 a frame says it. */
static inline void set_suspended(bool suspended)
{
	const struct pye_pylayout *l = &t.layout;

	if (l->flags & PYE_LAYOUT_FRAME_STATE)
		t.frame[l->f_state] = suspended ? 0xff : 1;
	else
		set64(t.frame, l->f_state, suspended ? address(t.stack) : 0);
}

/* @base: REGION_BYTES that may be written to */
static inline void region_at(uint8_t *base)
{
	__builtin_cpu_init();
	cpu_avx = __builtin_cpu_supports("avx") != 0;
	t.base = base;
	t.private = (void *)(base + IL_PRIVATE);
	t.shared = (void *)(base + IL_SHARED);
}

/* of a group of tests */
static inline int region_set_up(void **state)
{
	uint8_t *base = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(base != MAP_FAILED);
	region_at(base);
	return 0;
}

static inline int region_tear_down(void **state)
{
	(void)state;
	return munmap(t.base, REGION_BYTES);
}

static inline void fresh(void)
{
	inline_describe(&t.layout, address(t.base), RING_BYTES, false, t.private);
	memset(t.base + IL_CACHE, 0, 8UL * IL_CACHE_CNT);
	memset(t.base + IL_SHARED, 0, IL_RING - IL_SHARED);
	memset(t.base + IL_RING, 0, 4096);
	t.shared->deadline = 1;
}

/* A variable at register + disp: on the stack, or where it is. */
static inline void put_in_slot(uint8_t reg, int32_t disp, const uint64_t *variable)
{
	if (reg == PREG_RSP)
		memcpy(t.stack + STACK_AT + disp, variable, 8);
	else
		cpu_in.regs[reg] = address(variable) - (uint64_t)(int64_t)disp;
}

/* @call: the stub is where a function begins, else in the middle of one */
static inline void put_registers(uint8_t kind, bool call)
{
	const struct inline_plan *p = &t.plan;
	uint64_t *regs = cpu_in.regs, sp = address(t.stack) + STACK_AT;

	for (unsigned int i = 0; i < 16; i++)
		regs[i] = 0x1111111111111111ull * (i + 1) ^ 0x5a5a;
	for (size_t i = 0; i < STACK_SIZE; i++)
		t.stack[i] = (uint8_t)(i * 37 + i / 256);
	for (unsigned int i = 0; i < XMM_BYTES; i++) {
		cpu_in.state[XMM_AT + i] = (uint8_t)(i ^ 0xa5);
		cpu_in.state[YMM_AT + i] = (uint8_t)(i ^ 0x3c);
	}
	memcpy(cpu_in.state, &(uint16_t){ 0x37f }, 2); /* no exceptions, as everywhere */
	memcpy(cpu_in.state + 24, &(uint32_t){ 0x1f80 }, 4);
	memcpy(cpu_in.state + PARTS_AT, &(uint64_t){ PARTS }, 8);
	cpu_in.flags = 2;
	regs[PREG_RSP] = call ? sp - 8 : sp;
	if (call) {
		regs[PREG_RDI] = kind == INLINE_DEALLOC ? address(t.code) : address(t.frame);
		regs[PREG_RSI] = address(t.frame);
	} else {
		t.slot = address(t.frame);
		t.instr_slot = address(t.instr) - (uint64_t)(int64_t)p->instr_disp;
		if (p->instr_in_slot)
			put_in_slot(p->instr_reg, p->instr_slot, &t.instr_slot);
		else
			regs[p->instr_reg] = t.instr_slot;
		if (p->frame_in_slot)
			put_in_slot(p->frame_reg, p->frame_disp, &t.slot);
		else
			regs[p->frame_reg] = t.slot - (uint64_t)(int64_t)p->frame_disp;
	}
	memcpy(t.before, t.stack, STACK_SIZE);
}

static inline void expect_vectors(void)
{
	assert_memory_equal(cpu_out.state + XMM_AT, cpu_in.state + XMM_AT, XMM_BYTES);
	if (cpu_avx)
		assert_memory_equal(cpu_out.state + YMM_AT, cpu_in.state + YMM_AT, YMM_BYTES);
}

/* One event; what is live has to be as before: in the middle of a function everything but the flags. */
static inline void run_stub(uint64_t stub, uint8_t kind, bool call)
{
	static const uint8_t kept_by_calls[] = { PREG_RDI, PREG_RSI, PREG_RBX, PREG_RBP, PREG_RSP,
						 PREG_R12, PREG_R13, PREG_R14, PREG_R15 };
	size_t live = STACK_AT - (call ? 8 : RED_ZONE);

	put_registers(kind, call);
	cpu_stub = stub;
	cpu_run();
	for (uint8_t i = 0; i < 16; i++)
		if (!call || memchr(kept_by_calls, i, sizeof(kept_by_calls)))
			assert_int_equal(cpu_out.regs[i], cpu_in.regs[i]);
	assert_memory_equal(t.stack + live, t.before + live, STACK_SIZE - live);
	expect_vectors();
	assert_false(cpu_out.flags & 0x400); /* direction; no other flag is live anywhere */
}

static inline uint64_t slot_of_code(void)
{
	return IL_CODE_SLOT(address(t.code));
}

/* Where a thread's own ring and its state are, as the engine has them. */
static inline struct inline_lane lane_no(uint32_t i)
{
	const struct inline_engine e = { .ring = t.base + IL_RING,
					 .ring_bytes = RING_BYTES,
					 .lane_ring = RING_BYTES };

	return inline__lane(&e, i);
}

static inline void fresh_lanes(void)
{
	assert_true(IL_RING + 2 * RING_BYTES + IL_LANE_CNT * IL_LANE_BYTES(RING_BYTES) <=
		    REGION_BYTES);
	fresh();
	for (uint32_t i = 0; i < IL_LANE_CNT; i++) {
		memset(t.base + IL_RING + 2 * RING_BYTES + i * IL_LANE_BYTES(RING_BYTES), 0,
		       IL_LANE_BYTES(RING_BYTES));
		lane_no(i).shared->deadline = 1;
	}
	inline_describe_lanes(address(t.base), RING_BYTES, RING_BYTES, t.private);
	t.private->locked = 1;
	t.private->limit = 0;
}

#endif
