// SPDX-License-Identifier: Apache-2.0
/*
 * What the probes of --opcodes cost, by running two of them here, on a frame that is made up, one straight
 * after the other: the way from a time stamp to the next is what a measured instruction has too much.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "inline/emit_x86_64.h"
#include "inline/engine.h"
#include "proc/maps.h"

#define ROUNDS	     4096u
#define RING_BYTES   ((uint64_t)IL_RING_MIN)
#define REGION_BYTES (IL_RING + RING_BYTES)
#define LOOP	     (IL_CODE_BYTES - 1024) /* code that runs the stubs */
#define STACK_BYTES  4096 /* of the interpreter's loop, where the frame may be kept */
#define FIRST	     1u /* opcodes */
#define SECOND	     2u

_Static_assert(2ull * 16 * ROUNDS + IL_SLACK < IL_RING_MIN, "all records have room");

struct lab {
	uint8_t *base;
	uint64_t frame[64], code[64], instr, saved_sp, left;
	uint64_t slot, instr_slot; /* where the loop keeps its frame, and its instruction */
	struct il_interpreters interpreters; /* none begins */
};

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static void set(struct out *o, uint8_t reg, uint64_t value)
{
	byte(o, 0x48u | numbers[reg] >> 3);
	byte(o, 0xb8u | (numbers[reg] & 7u));
	imm32(o, (uint32_t)value);
	imm32(o, (uint32_t)(value >> 32));
}

static const uint8_t kept[] = { PREG_RBX, PREG_RBP, PREG_R12, PREG_R13, PREG_R14, PREG_R15 };

/* A word at register + disp: on the stack, which there is room on, or @elsewhere. */
static void in_slot(struct out *o, uint8_t reg, int32_t disp, uint64_t value, uint64_t elsewhere)
{
	if (reg != PREG_RSP) {
		set(o, reg, elsewhere - (uint64_t)(int64_t)disp);
		return;
	}
	set(o, PREG_RCX, value);
	STORE(o, PREG_RSP, disp, PREG_RCX);
}

/* void loop(void); returns where the second stub goes on. */
static uint64_t make_loop(struct out *o, struct lab *lab, const struct inline_plan *p,
			  uint64_t first)
{
	uint64_t frame = address(lab->frame), instr = lab->instr - (uint64_t)(int64_t)p->instr_disp,
		 again;
	uint32_t back_at;

	o->at = (uint32_t)LOOP;
	for (size_t i = 0; i < sizeof(kept); i++)
		push(o, kept[i]);
	set(o, PREG_RAX, address(&lab->saved_sp));
	STORE(o, PREG_RAX, 0, PREG_RSP);
	LEA(o, PREG_RSP, PREG_RSP, -STACK_BYTES);
	lab->slot = frame;
	lab->instr_slot = instr;
	if (p->frame_in_slot)
		in_slot(o, p->frame_reg, p->frame_disp, frame, address(&lab->slot));
	if (p->instr_in_slot)
		in_slot(o, p->instr_reg, p->instr_slot, instr, address(&lab->instr_slot));
	if (!p->frame_in_slot)
		set(o, p->frame_reg, frame - (uint64_t)(int64_t)p->frame_disp);
	if (!p->instr_in_slot)
		set(o, p->instr_reg, instr);
	again = o->at;
	byte(o, 0xe9);
	imm32(o, (uint32_t)(first - (address(lab->base) + o->at + 4)));
	back_at = o->at;
	region(o, "\xff", 1, PREG_RCX /* /1: dec */, IL_RESULTS);
	byte(o, 0x0f);
	byte(o, 0x80u | JNE);
	imm32(o, (uint32_t)(again - (o->at + 4)));
	set(o, PREG_RAX, address(&lab->saved_sp));
	LOAD(o, PREG_RSP, PREG_RAX, 0);
	for (size_t i = sizeof(kept); i-- > 0;)
		pop(o, kept[i]);
	byte(o, 0xc3);
	return address(lab->base) + back_at;
}

static void make_objects(struct lab *lab, const struct pye_pylayout *l, bool locked, uint64_t clock)
{
	struct il_private *private = (void *)(lab->base + IL_PRIVATE);
	uint64_t code = address(lab->code) & ~31ull, slot = IL_CODE_SLOT(code);
	uint64_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	memcpy((uint8_t *)lab->frame + l->f_code, &code, 8);
	lab->instr = code + l->co_code_adaptive;
	inline_describe(l, address(lab->base), RING_BYTES, false, private);
	private->clock = clock;
	private->interpreters = address(&lab->interpreters);
	private->locked = locked;
	private->limit = locked ? 0 : private->limit;
	private->thread = private->slot_self = self;
	private->turn = locked ? 0 : self;
	private->slot = private->threads;
	memcpy(lab->base + IL_CACHE + 8 * slot, &code, 8);
	*(uint64_t *)(void *)(lab->base + IL_RESULTS) = ROUNDS;
}

/* The records are in pairs. The counter may have steps as long as the spans: of these the middle half, on average. */
static int average(const struct lab *lab, double *ticks)
{
	const struct il_shared *shared = (const void *)(lab->base + IL_SHARED);
	const struct il_rec *r = (const void *)(lab->base + IL_RING);
	auto_free uint64_t *spans = calloc(ROUNDS, sizeof(*spans));

	if (!spans)
		return -ENOMEM;
	if (shared->head != 2ull * 16 * ROUNDS)
		return -EILSEQ;
	for (size_t i = 0; i < ROUNDS; i++)
		spans[i] = (r[2 * i + 1].time >> 16) - (r[2 * i].time >> 16);
	qsort(spans, ROUNDS, sizeof(*spans), order_u64);
	*ticks = 0;
	for (size_t i = ROUNDS / 4; i < ROUNDS - ROUNDS / 4; i++)
		*ticks += (double)spans[i] / (ROUNDS - 2 * (ROUNDS / 4));
	return 0;
}

static int run(struct lab *lab, const struct inline_plan *plan, const struct pye_pylayout *layout,
	       bool all, bool locked, struct err *e)
{
	uint8_t opcodes[256] = {
		[FIRST] = STUB_OPCODE, [SECOND] = all ? STUB_OPCODE : STUB_OPCODE_END
	};
	/* where more GILs can come, as in a target */
	const struct stub_how how = { .turns = !locked && layout->is_gil != PYE_NO_FIELD,
				      .opcodes = opcodes };
	struct il_header *h = (void *)lab->base;
	struct out o = { .image = lab->base };
	struct inline_plan p = *plan;
	void (*loop)(void);
	uint64_t at;
	int err;

	p.word_cnt = p.call_cnt = p.detour_cnt = 0;
	p.table = 8;
	memset(p.handlers, 0, sizeof(p.handlers));
	p.handlers[FIRST] = p.handlers[SECOND] = 8;
	err = stub_image(&p, layout, 0, address(lab->base), &how, lab->base, e);
	if (err)
		return err;
	h->originals[0] = h->patches[1].new;
	h->originals[1] = make_loop(&o, lab, &p, h->patches[0].new);
	if (mprotect(lab->base, IL_CODE_BYTES, PROT_READ | PROT_EXEC))
		return -errno;
	at = address(lab->base) + LOOP;
	memcpy(&loop, &at, sizeof(loop));
	loop();
	return 0;
}

static int own_clock(uint64_t *at)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	int err = maps__read(getpid(), &maps);

	return err ? err : stub_clock_find(getpid(), &maps, at);
}

/* What a plan says, which an untrusted file has told. */
static bool is_on_stack(uint8_t reg, int32_t disp)
{
	return reg != PREG_RSP || (disp >= 0 && disp <= STACK_BYTES - 8);
}

int stub_opcode_cost(const struct inline_plan *plan, const struct pye_pylayout *layout, bool all,
		     bool locked, bool vdso, double *ticks, struct err *e)
{
	auto_free struct lab *lab = calloc(1, sizeof(*lab));
	uint64_t clock = 0;
	int err = vdso ? own_clock(&clock) : 0;

	if (err || !lab)
		return err ? err : -ENOMEM;
	if ((plan->frame_in_slot && !is_on_stack(plan->frame_reg, plan->frame_disp)) ||
	    (plan->instr_in_slot && !is_on_stack(plan->instr_reg, plan->instr_slot)))
		return err_set(e, -PYE_EPLAN,
			       "the interpreter's frame is further down its stack than any is");
	lab->base = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (lab->base == MAP_FAILED)
		return -errno;
	make_objects(lab, layout, locked, clock);
	err = run(lab, plan, layout, all, locked, e);
	err = err ? err : average(lab, ticks);
	munmap(lab->base, REGION_BYTES);
	return err;
}
