// SPDX-License-Identifier: Apache-2.0
/*
 * Each stub of each plan is executed, in every way in which the engine makes stubs.
 *
 *	test_inline_plans [FILE...]
 *
 * FILE: interpreters; the plan is what the engine makes of it. Without one, plans that are made up. A stub runs on a
 * stack of its own, with a code object that is new, then known, without room, in a forked child. It has to leave all
 * that is live as it is, go on where the word or the call led before, and tell what happened. Of a detour the
 * instructions that gave way are run by themselves, too: both have to come to the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code_walk.h"
#include "cpython/inline_plan.h"
#include "inline/stub_clock.h"
#include "inline_run.h"
#include "proc/maps.h"

#define ALL_FLAGS  0x8d5ull /* OF SF ZF AF PF CF */
#define PAGE_BYTES 4096ull
#define PAD_BYTES  16u
#define TAKEN_PAD  IL_ORIGINAL_MAX
#define PADS_BYTES 0x4000u
#define NATIVE_AT  0x3000u /* in the pads' memory: the instructions that gave way */
#define LANDED_AT  0x3ff0u
#define SCRATCH	   4096u

/* inline/remote_call.c */
extern const uint8_t pye_chain_start[], pye_chain_back[];

enum {
	ROOTS = 1,
	LOCKED = 2,
	CLOCK = 4,
	LANES = 8,
	QUIET = 16,
	TURNS = 32, /* an interpreter with a GIL of its own could come; APART: it has */
	APART = 64,
};

static uint8_t every[256], odd[256];

static const struct mode {
	const char *name;
	struct stub_how how;
	unsigned int with;
} modes[] = {
	{ "events", { 0 }, 0 },
	{ "events, stacks exchanged", { .switches = true }, ROOTS },
	{ "events, some left out", { .switches = true, .quiet = true }, ROOTS | QUIET },
	{ "events, under a lock", { .locked = true }, LOCKED },
	{ "events, lanes", { .locked = true }, LOCKED | LANES },
	{ "events, the kernel's clock", { .locked = true }, LOCKED | CLOCK },
	{ "events, before another GIL", { .turns = true }, TURNS },
	{ "events, behind another GIL", { .turns = true }, TURNS | APART },
	{ "events, some left out, behind another GIL",
	  { .switches = true, .quiet = true, .turns = true },
	  ROOTS | QUIET | TURNS | APART },
	{ "count", { .count = true }, 0 },
	{ "count, before another GIL", { .count = true, .turns = true, .versions = true }, TURNS },
	{ "count, behind another GIL",
	  { .count = true, .turns = true, .versions = true },
	  TURNS | APART },
	{ "count, under a lock", { .count = true, .locked = true }, LOCKED },
	{ "count and time", { .count = true, .time = true }, 0 },
	{ "count and time, under a lock", { .count = true, .time = true, .locked = true }, LOCKED },
	{ "all opcodes", { .opcodes = every }, 0 },
	{ "some opcodes", { .opcodes = odd }, 0 },
	{ "some opcodes, before another GIL", { .opcodes = odd, .turns = true }, TURNS },
};

static struct {
	const struct mode *mode; /* for messages, too */
	char plan[4096];
	uint32_t patch;
	uint8_t *mem, *pads; /* the interpreter's code, what the stubs go on at, the region */
	size_t bytes;
	uint64_t bias, clock;
	uint64_t goals[IL_ORIGINAL_MAX + 1]; /* by pad: the address in the interpreter */
	uint64_t tstate, newest[3]; /* variables of the interpreter */
	uint8_t interpreter[512], gil[64];
	uint8_t state[512], cframe[256], lines[64] __attribute__((aligned(16)));
	uint64_t scratch[16][SCRATCH / 8]; /* what registers point to */
	uint64_t runs;
	uint32_t indirect; /* jumps and calls */
} w;

/* A stub, and what it stands for. */
struct place {
	uint64_t stub, goal; /* goal: where it goes on */
	const struct inline_detour *detour;
	unsigned int opcode; /* 256 and more: none */
	uint8_t kind;
	bool call; /* it is where a function begins */
};

/* --- the world --- */

/* mov dword [landed], number; jmp [cpu_land] */
static void make_pad(uint32_t number)
{
	uint8_t *pad = w.pads + number * PAD_BYTES;
	int32_t to_landed = (int32_t)(LANDED_AT - (number * PAD_BYTES + 10));
	int32_t to_land = (int32_t)(LANDED_AT + 8 - (number * PAD_BYTES + 16));

	memcpy(pad, "\xc7\x05", 2);
	memcpy(pad + 2, &to_landed, 4);
	memcpy(pad + 6, &number, 4);
	memcpy(pad + 10, "\xff\x25", 2);
	memcpy(pad + 12, &to_land, 4);
}

static uint32_t landed(void)
{
	uint32_t number;

	memcpy(&number, w.pads + LANDED_AT, 4);
	return number;
}

static void reach(uint64_t at, uint64_t *low, uint64_t *high)
{
	*low = at < *low ? at : *low;
	*high = at > *high ? at : *high;
}

/* What of the interpreter's code a plan names. */
static void reach_all(const struct inline_plan *plan, uint64_t *low, uint64_t *high)
{
	for (uint32_t i = 0; i < plan->word_cnt; i++)
		reach(plan->words[i].target, low, high);
	for (unsigned int i = 0; i < 256; i++)
		if (plan->handlers[i])
			reach(plan->handlers[i], low, high);
	for (uint32_t i = 0; i < plan->call_cnt; i++) {
		reach(plan->calls[i].at, low, high);
		reach(plan->calls[i].target, low, high);
	}
	for (uint32_t i = 0; i < plan->detour_cnt; i++) {
		reach(plan->detours[i].at, low, high);
		if (plan->detours[i].jump)
			reach(plan->detours[i].target, low, high);
	}
}

/* Memory where that would be, and the region behind it. */
static void make_world(const struct inline_plan *plan)
{
	uint64_t low = ~0ull, high = 0, land = address(cpu_land);

	t.plan = *plan;
	reach_all(plan, &low, &high);
	low &= ~(PAGE_BYTES - 1);
	high = (high + 2 * PAGE_BYTES) & ~(PAGE_BYTES - 1);
	assert_true(low < high && high - low < 1u << 30);
	w.bytes = high - low + PADS_BYTES + REGION_BYTES;
	w.mem = mmap(NULL, w.bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(w.mem != MAP_FAILED);
	w.bias = address(w.mem) - low;
	w.pads = w.mem + (high - low);
	memcpy(w.pads + LANDED_AT + 8, &land, 8);
	for (uint32_t i = 0; i <= TAKEN_PAD; i++)
		make_pad(i);
	region_at(w.pads + PADS_BYTES);
}

static void make_lines(void)
{
	set64(w.lines, t.layout.bytes_size, 5);
	memcpy(w.lines + t.layout.bytes_data, "lines", 5);
	set64(t.code, t.layout.co_linetable, address(w.lines));
}

static void make_world_objects(unsigned int minor, bool free_threaded)
{
	const struct pye_pylayout *l = &t.layout;

	t.layout = layout_find(minor, free_threaded)->py;
	memset(t.frame, 0, sizeof(t.frame));
	memset(t.caller, 0, sizeof(t.caller));
	memset(t.entry, 0, sizeof(t.entry));
	memset(t.code, 0, sizeof(t.code));
	memset(w.state, 0, sizeof(w.state));
	w.tstate = address(w.state);
	if (minor <= 10) {
		make_eval_objects(minor);
		memset(t.frame + l->f_instr, 0xff, 4);
	} else {
		make_objects();
		make_lines();
		set64(t.caller, l->f_instr, address(t.instr));
		set64(w.state, l->ts_frame,
		      address(l->cframe_frame == PYE_NO_FIELD ? t.caller : w.cframe));
		if (l->cframe_frame != PYE_NO_FIELD)
			set64(w.cframe, l->cframe_frame, address(t.caller));
	}
	set64(t.caller, l->f_code, address(t.code));
}

static void make_stubs(void)
{
	const struct il_header *h = (const void *)t.base;
	struct err e = { 0 };
	int err = stub_image(&t.plan, &t.layout, w.bias, address(t.base), &w.mode->how, t.base, &e);

	if (err)
		fail_msg("%s", e.what);
	for (uint32_t i = 0; i < IL_ORIGINAL_MAX; i++) {
		w.goals[i] = h->originals[i];
		if (h->originals[i] - address(t.base) >= IL_CODE_BYTES) /* else another stub */
			((struct il_header *)(void *)t.base)->originals[i] =
				address(w.pads + i * PAD_BYTES);
	}
}

static void take_turns(void)
{
	uint64_t gil = address(w.gil);

	w.newest[0] = w.newest[1] = address(w.interpreter);
	w.newest[2] = 1;
	inline_describe_turns(&t.layout, address(w.newest), t.private);
	if (t.layout.is_gil != PYE_NO_FIELD)
		memcpy(w.interpreter + t.layout.is_gil, &gil, sizeof(gil));
	t.private->with_main = w.mode->with & APART ? IL_APART : 1;
}

static void begin(void)
{
	const struct stub_how *how = &w.mode->how;

	if (w.mode->with & LANES)
		fresh_lanes();
	else
		fresh();
	memset(t.base + IL_RING, 0, 2 * PAGE_BYTES);
	if (w.mode->with & ROOTS) {
		memset(t.base + IL_ROOTS, 0, 8UL * IL_ROOT_CNT);
		inline_describe_roots(&t.layout, address(t.base), t.private);
	}
	if (w.mode->with & QUIET)
		inline_describe_quiet(address(t.base), t.private);
	if (w.mode->with & TURNS)
		take_turns();
	if (how->count) {
		inline_describe_tables(address(t.base), how->time, t.private);
		if (how->versions)
			inline_describe_monitoring(&t.layout, address(w.newest), 0, address(t.base),
						   t.private);
		memset(t.base + IL_FUNCS, 0, 32UL * IL_FUNC_CNT);
		if (how->time)
			memset(t.base + IL_NODES, 0, IL_COUNT_BYTES - (IL_NODES - IL_FUNCS));
	}
	if (how->opcodes) {
		inline_describe_opcodes(&t.layout, t.private);
		t.private->slack = IL_SLACK; /* the ring here is short */
		t.private->limit = t.private->room = RING_BYTES - IL_SLACK;
	}
	if (w.mode->with & LOCKED) {
		t.private->locked = 1;
		t.private->limit = how->count ? t.private->limit : 0;
	}
	t.private->clock = w.mode->with & CLOCK ? w.clock : 0;
	t.private->tstate_current = address(&w.tstate);
}

/* Where the events go: the thread's lane, once it has one, or what all share. */
static struct inline_lane ring(void)
{
	for (uint32_t i = 0; w.mode->with & LANES && i < IL_LANE_CNT; i++)
		if (lane_no(i).shared->head)
			return lane_no(i);
	return (struct inline_lane){ .state = t.private,
				     .shared = t.shared,
				     .ring = t.base + IL_RING };
}

/* --- what is expected --- */

static uint32_t size_of(const struct il_more_rec *r)
{
	uint64_t more = r->head.what >> 48;

	if ((r->head.what & 7) != IL_MORE)
		return sizeof(r->head);
	if (more == IL_LINES)
		return ((const struct il_lines *)(const void *)r)->total;
	return more == IL_DEF ? ((const struct il_def *)(const void *)r)->total : sizeof(*r);
}

static unsigned int kind_of(const struct il_more_rec *r)
{
	unsigned int kind = r->head.what & 7;

	return kind == IL_MORE ? 0x10u | (unsigned int)(r->head.what >> 48) : kind;
}

/* How often it is there since then. */
static unsigned int count_records(uint64_t from, unsigned int kind, uint64_t object)
{
	struct inline_lane lane = ring();
	unsigned int cnt = 0;

	while (from < lane.shared->head) {
		const struct il_more_rec *r = (const void *)(lane.ring + from);

		cnt += kind_of(r) == kind &&
		       (!object ||
			(kind != IL_OPCODE && (r->head.what & 0xfffffffffff8ull) == object) ||
			(kind == IL_OPCODE && (r->head.what >> IL_OPCODE_SHIFT & 0xff) == object));
		assert_in_range(size_of(r), 16, IL_SLACK);
		from += size_of(r);
	}
	assert_int_equal(from, lane.shared->head);
	return cnt;
}

static const uint8_t records[] = {
	[INLINE_ENTRY] = IL_CALL,
	[INLINE_YIELD] = IL_YIELD,
	[INLINE_RETURN] = IL_RETURN,
	[INLINE_UNWIND] = 0x10 | IL_UNWIND,
	[INLINE_CAUGHT] = IL_CAUGHT,
	[INLINE_CLOSE] = 0x10 | IL_CLOSE,
	[INLINE_DEALLOC] = 0x10 | IL_RETIRE,
	[INLINE_EVAL_ENTRY] = IL_CALL,
	[INLINE_EVAL_EXIT] = IL_RETURN,
	[INLINE_THROW] = 0x10 | IL_THROW,
	[INLINE_CLOSED] = 0x10 | IL_CLOSED,
};

static void expect_told(const struct place *p, uint64_t from, bool event)
{
	uint64_t object = p->kind == INLINE_DEALLOC || p->kind == INLINE_CLOSED ? 0
										: address(t.frame);

	if (p->kind < INLINE_OPCODE)
		assert_int_equal(count_records(from, records[p->kind], object), event);
	if (p->opcode < 256 && w.mode->how.opcodes)
		assert_int_equal(count_records(from, IL_OPCODE, p->opcode),
				 w.mode->how.opcodes[p->opcode] == STUB_OPCODE);
}

/* Without --time: calls of the one function that there is. */
static void expect_counted(const struct place *p, uint64_t cnt)
{
	const struct il_func *f =
		(const struct il_func *)(const void *)(t.base + IL_FUNCS) + slot_of_code();

	if (w.mode->how.time)
		return;
	assert_int_equal(f->calls, p->kind == INLINE_DEALLOC ? 0 : cnt);
}

static struct place place_of(const struct il_patch *patch)
{
	const struct inline_plan *plan = &t.plan;
	uint64_t at = patch->at - w.bias, entry = at - plan->table;
	struct place p = { .kind = INLINE_OPCODE, .opcode = 256 };

	if (patch->size == 8) {
		p.stub = patch->new;
		p.goal = patch->old;
		p.opcode = plan->table && entry < 8UL * 256 ? (unsigned int)entry / 8 : 256;
		for (uint32_t i = 0; i < plan->word_cnt; i++)
			if (plan->words[i].at == at)
				p.kind = plan->words[i].kind;
		p.call = p.kind == INLINE_DEALLOC;
		return p;
	}
	if (patch->size == 4) {
		p.stub = patch->at + 4 + (uint64_t)(int64_t)(int32_t)patch->new;
		p.goal = patch->at + 4 + (uint64_t)(int64_t)(int32_t)patch->old;
		p.call = true;
		for (uint32_t i = 0; i < plan->call_cnt; i++)
			if (plan->calls[i].at + 1 == at)
				p.kind = plan->calls[i].kind;
		assert_int_not_equal(p.kind, INLINE_OPCODE);
		return p;
	}
	assert_int_equal(patch->size, 5);
	assert_int_equal(patch->new & 0xff, 0xe9);
	p.stub = patch->at + 5 + (uint64_t)(int64_t)(int32_t)(uint32_t)(patch->new >> 8);
	for (uint32_t i = 0; i < plan->detour_cnt; i++) {
		const struct inline_detour *d = &plan->detours[i];

		if (d->at != at)
			continue;
		p.detour = d;
		p.kind = d->kind;
		p.goal = patch->at + d->size;
	}
	assert_non_null(p.detour);
	return p;
}

/*
 * A processor that looks where indirect jumps lead (IBT): to a stub one leads, or a call that might be one; from a
 * stub they lead to the middle of functions, which only notrack may.
 */
static void expect_notrack(const struct insn *insn)
{
	bool leaves = insn->flow == FLOW_JUMP || insn->flow == FLOW_CALL;

	if (leaves && !insn->target)
		assert_int_equal(insn->bytes[0], 0x3e);
	w.indirect += leaves && !insn->target;
}

static void expect_landing_places(const struct il_header *h)
{
	size_t start = (sizeof(*h) + 63) & ~63ul, end = IL_CODE_BYTES;

	while (t.base[end - 1] == 0xcc)
		end--;
	for (uint32_t i = 0; i < h->patch_cnt; i++) {
		const struct place p = place_of(&h->patches[i]);

		assert_in_range(p.stub - address(t.base), start, end);
		if (!p.detour) /* that is jumped to directly */
			assert_memory_equal((const void *)(uintptr_t)p.stub, "\xf3\x0f\x1e\xfa", 4);
	}
	w.indirect = 0;
	walk_code(t.base + start, end - start, expect_notrack);
	assert_true(w.indirect >= h->patch_cnt);
}

/* --- stubs run --- */

static void run_plain(const struct place *p)
{
	run_stub(p->stub, p->kind, p->call);
	assert_int_equal(w.goals[landed()], p->goal);
}

/* All registers lead to memory that may be read, and which leads there again. */
static void put_detour_registers(const struct inline_detour *d, uint64_t flags, bool thrown)
{
	uint64_t *regs = cpu_in.regs;

	put_registers(INLINE_YIELD, false);
	for (unsigned int i = 0; i < 16; i++)
		for (unsigned int k = 0; k < SCRATCH / 8; k++)
			w.scratch[i][k] = address(&w.scratch[(i + k) % 16][SCRATCH / 16]);
	for (unsigned int i = 0; i < 16; i++)
		if (i != PREG_RSP)
			regs[i] = address(&w.scratch[i][SCRATCH / 16]);
	if (d->frame_reg != PREG_RSP)
		regs[d->frame_reg] = address(t.frame) - (uint64_t)(int64_t)d->frame_disp;
	if (d->kind == INLINE_THROW) {
		regs[PREG_RDI] = address(w.state);
		regs[PREG_RDX] = thrown;
	}
	cpu_in.flags = 2 | flags;
}

/* What a run has left. */
struct after {
	struct cpu cpu;
	uint32_t landed;
	uint8_t stack[STACK_SIZE - STACK_AT + RED_ZONE], frame[sizeof(t.frame)];
	uint64_t scratch[16][SCRATCH / 8];
};

static void go(uint64_t at, struct after *out)
{
	uint8_t frame[sizeof(t.frame)];

	memcpy(frame, t.frame, sizeof(frame));
	cpu_stub = at;
	cpu_run();
	out->cpu = cpu_out;
	out->landed = landed();
	memcpy(out->stack, t.stack + STACK_AT - RED_ZONE, sizeof(out->stack));
	memcpy(out->frame, t.frame, sizeof(out->frame));
	memcpy(out->scratch, w.scratch, sizeof(out->scratch));
	memcpy(t.frame, frame, sizeof(frame));
}

/* The instructions that gave way, by themselves: to the pad of where they go on. */
static void make_native(const struct inline_detour *d, uint32_t pad)
{
	uint8_t *at = w.pads + NATIVE_AT, *target = (uint8_t *)(uintptr_t)(d->target + w.bias);
	uint64_t taken = address(w.pads + TAKEN_PAD * PAD_BYTES);
	int32_t distance;

	memcpy(at, d->code, (size_t)(d->size - d->jump));
	at += d->size - d->jump;
	if (d->jump) {
		at[0] = 0x0f;
		at[1] = (uint8_t)(0x80u | (d->cond & 15u));
		distance = (int32_t)(taken - (address(at) + 6));
		memcpy(at + 2, &distance, 4);
		at += 6;
		memcpy(target, "\xff\x25\0\0\0\0", 6);
		memcpy(target + 6, &taken, 8);
	}
	at[0] = 0xe9;
	distance = (int32_t)(address(w.pads + pad * PAD_BYTES) - (address(at) + 5));
	memcpy(at + 1, &distance, 4);
}

static uint32_t pad_of(uint64_t goal)
{
	uint32_t i = 0;

	while (i < IL_ORIGINAL_MAX && w.goals[i] != goal)
		i++;
	assert_true(i < IL_ORIGINAL_MAX);
	return i;
}

static void run_detour(const struct place *p, uint64_t flags, bool thrown)
{
	static struct after alone, stub;
	uint64_t live = p->kind == INLINE_THROW ? 0 : ALL_FLAGS; /* a function begins: none is */

	make_native(p->detour, pad_of(p->goal));
	put_detour_registers(p->detour, flags, thrown);
	go(address(w.pads + NATIVE_AT), &alone);
	put_detour_registers(p->detour, flags, thrown);
	go(p->stub, &stub);
	assert_memory_equal(stub.cpu.regs, alone.cpu.regs, sizeof(alone.cpu.regs));
	assert_int_equal(stub.cpu.flags & live, alone.cpu.flags & live);
	assert_int_equal(stub.landed, alone.landed);
	assert_memory_equal(stub.stack, alone.stack, sizeof(alone.stack));
	assert_memory_equal(stub.frame, alone.frame, sizeof(alone.frame));
	assert_memory_equal(stub.scratch, alone.scratch, sizeof(alone.scratch));
	assert_memory_equal(stub.cpu.state + XMM_AT, alone.cpu.state + XMM_AT, XMM_BYTES);
	if (cpu_avx)
		assert_memory_equal(stub.cpu.state + YMM_AT, alone.cpu.state + YMM_AT, YMM_BYTES);
}

static void run(const struct place *p, uint64_t flags, bool thrown)
{
	if (p->detour)
		run_detour(p, flags, thrown);
	else
		run_plain(p);
	w.runs++;
}

/* New, known, without room, in a forked child. @event: it is one. */
static void run_all(const struct place *p, uint64_t flags, bool event)
{
	bool counts = p->kind == INLINE_ENTRY || p->kind == INLINE_EVAL_ENTRY;
	struct inline_lane lane;
	uint64_t head;

	t.instr[1] = p->kind == INLINE_CLOSE ? (uint8_t)t.layout.resume_depth1 : 0;
	begin();
	for (unsigned int i = 1; i <= 2; i++) {
		head = i == 1 ? 0 : ring().shared->head;
		t.private->top = i == 1 ? 0 : t.private->top;
		run(p, flags, event);
		if (!w.mode->how.count)
			expect_told(p, head, event);
		else if (counts)
			expect_counted(p, i);
	}
	lane = ring();
	head = lane.shared->head;
	lane.state->head = lane.shared->head = RING_BYTES;
	lane.state->limit = lane.state->room = RING_BYTES;
	run(p, flags, event);
	assert_int_equal(lane.shared->head, RING_BYTES);
	lane.shared->head = head;
	memset(t.private, 0, sizeof(*t.private));
	run(p, flags, event);
	assert_int_equal(lane.shared->head, head);
}

static void run_patch(const struct il_patch *patch)
{
	static const uint64_t flags[] = { 0, ALL_FLAGS, 0x801, 0x0d4, 0x040, 0x880 };
	const struct place p = place_of(patch);

	if (!p.detour) {
		run_all(&p, 0, true);
		return;
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		run_all(&p, flags[i], true);
	if (p.kind == INLINE_THROW)
		run_all(&p, 0, false);
}

/* What the plan has has to be in the image, but for what --count leaves alone. */
static void expect_all_there(const struct il_header *h)
{
	uint32_t cnt = t.plan.word_cnt + t.plan.call_cnt + t.plan.detour_cnt;

	if (!w.mode->how.count && !w.mode->how.opcodes)
		assert_int_equal(h->patch_cnt, cnt);
	else if (w.mode->how.opcodes)
		assert_true(h->patch_cnt > cnt);
	else
		assert_in_range(h->patch_cnt, 2, cnt);
}

static void run_plan(const struct inline_plan *plan)
{
	const struct il_header *h;

	make_world(plan);
	make_world_objects(plan->minor, plan->free_threaded);
	w.runs = 0;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		w.mode = &modes[i];
		if (w.mode->how.opcodes && !plan->table)
			continue;
		make_stubs();
		h = (const void *)t.base;
		expect_all_there(h);
		expect_landing_places(h);
		for (w.patch = 0; w.patch < h->patch_cnt; w.patch++)
			run_patch(&h->patches[w.patch]);
	}
	w.mode = NULL;
	assert_return_code(munmap(w.mem, w.bytes), 0);
	print_message("%s: 3.%u%s, %u words, %u calls, %u detours: %llu runs\n", w.plan,
		      plan->minor, plan->free_threaded ? "t" : "", plan->word_cnt, plan->call_cnt,
		      plan->detour_cnt, (unsigned long long)w.runs);
}

/* --- plans that are made up --- */

#define TEXT  0x401000ull
#define TABLE 0x500000ull

static void add_word(struct inline_plan *p, unsigned int opcode, enum inline_kind kind)
{
	p->words[p->word_cnt++] = (struct inline_word){ .at = TABLE + 8ull * opcode,
							.target = p->handlers[opcode],
							.kind = (uint8_t)kind };
}

static void add_call(struct inline_plan *p, enum inline_kind kind)
{
	p->calls[p->call_cnt] = (struct inline_call){ .at = TEXT + 16ull * p->call_cnt,
						      .target = TEXT + 0x800,
						      .kind = (uint8_t)kind };
	p->call_cnt++;
}

/* @jump: bytes of the conditional jump at its end, which has this condition */
static void add_detour(struct inline_plan *p, enum inline_kind kind, uint8_t reg, const char *code,
		       size_t size, uint8_t jump, uint8_t cond)
{
	struct inline_detour *d = &p->detours[p->detour_cnt++];

	*d = (struct inline_detour){ .at = TEXT + 0x1000 + 64ull * p->detour_cnt,
				     .size = (uint8_t)size,
				     .jump = jump,
				     .cond = COND_X86 | cond,
				     .kind = (uint8_t)kind,
				     .sets_flags = (code[1] & 0xfe) == 0x3a, /* cmp */
				     .frame_reg = reg,
				     .target = TEXT + 0x2000 + 64ull * p->detour_cnt };
	memcpy(d->code, code, size);
}

#define DETOUR(p, kind, reg, code, jump, cond) \
	add_detour(p, kind, reg, code, sizeof(code) - 1, jump, cond)

static void make_up_handlers(struct inline_plan *p)
{
	p->table = TABLE;
	p->frame_in_slot = p->minor % 2;
	p->frame_reg = p->minor == 13 ? PREG_RSP : p->minor % 2 ? PREG_RBP : PREG_R12;
	p->frame_disp = p->minor == 13 ? 0x48 : p->minor % 2 ? -0x1b8 : 0;
	p->instr_reg = p->minor == 12 ? PREG_RCX : PREG_R13;
	p->instr_disp = p->minor == 11 ? -2 : 0;
	for (unsigned int i = 1; i < 200; i++)
		p->handlers[i] = TEXT + 0x3000 + 32ull * i;
	add_word(p, 1, INLINE_ENTRY);
	add_word(p, 2, INLINE_YIELD);
	add_word(p, 3, INLINE_CAUGHT);
	if (p->minor == 11)
		add_word(p, 4, INLINE_RETURN);
}

static void make_up(struct inline_plan *p, uint8_t minor, bool free_threaded)
{
	*p = (struct inline_plan){ .minor = minor, .free_threaded = free_threaded };
	if (minor <= 10) {
		DETOUR(p, INLINE_EVAL_ENTRY, PREG_RBX, "\x48\x89\x5f\x18\x85\xc0", 0, 0);
		DETOUR(p, INLINE_EVAL_EXIT, PREG_R15, "\x49\x8b\x47\x18\x74\x10", 2, 4);
	} else {
		make_up_handlers(p);
		/* push rbp; mov rbp, rsp; push r15 */
		DETOUR(p, INLINE_THROW, PREG_RSI, "\x55\x48\x89\xe5\x41\x57", 0, 0);
	}
	if (minor == 11) /* cmp rax, [rbx + 16]; jne */
		DETOUR(p, INLINE_UNWIND, PREG_R12, "\x48\x3b\x43\x10\x75\x08", 2, 5);
	if (minor >= 12) {
		add_call(p, INLINE_RETURN);
		add_call(p, INLINE_UNWIND);
		/* mov [rdi + 8], rsi; mov eax, [rsp - 8] */
		DETOUR(p, INLINE_RETURN, PREG_RSI, "\x48\x89\x77\x08\x8b\x44\x24\xf8", 0, 0);
		DETOUR(p, INLINE_UNWIND, PREG_RAX, "\x48\x8b\x40\x08\x77\x10", 2, 7);
		/* cmp rbx, [rdx + 8]; ja */
		DETOUR(p, INLINE_RETURN, PREG_RDX, "\x48\x3b\x5a\x08\x77\x20", 2, 7);
	}
	if (minor >= 14) {
		add_call(p, INLINE_CLOSE);
		/* test rax, rax; pop rbx; ret's neighbour: je */
		DETOUR(p, INLINE_CLOSED, PREG_RSP, "\x48\x85\xc0\x5b\x74\x05", 2, 4);
	}
	p->words[p->word_cnt++] = (struct inline_word){ .at = TABLE + 0x10000,
							.target = TEXT + 0x900,
							.kind = INLINE_DEALLOC };
}

static int file_cnt;
static char **files;

static void test_plans__made_up(void **state)
{
	struct inline_plan plan;

	(void)state;
	for (uint8_t minor = 6; minor <= 15; minor++) {
		make_up(&plan, minor, false);
		snprintf(w.plan, sizeof(w.plan), "made up");
		run_plan(&plan);
	}
	make_up(&plan, 13, true);
	run_plan(&plan);
}

static void test_plans__of_files(void **state)
{
	struct inline_plan plan;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < file_cnt; i++) {
		snprintf(w.plan, sizeof(w.plan), "%s", files[i]);
		if (inline_plan_load(files[i], &plan, &e))
			fail_msg("%s: %s", files[i], e.what);
		run_plan(&plan);
	}
}

/* The code of the calls in the target goes on anywhere, too. */
static void test_calls__landing_places(void **state)
{
	(void)state;
	w.indirect = 0;
	walk_code(pye_chain_start, (size_t)(pye_chain_back - pye_chain_start), expect_notrack);
	assert_int_equal(w.indirect, 1);
}

static int set_up(void **state)
{
	struct maps maps;
	int err = maps__read(getpid(), &maps);

	(void)state;
	if (err)
		return err;
	err = stub_clock_find(getpid(), &maps, &w.clock);
	maps__done(&maps);
	memset(every, STUB_OPCODE, sizeof(every));
	for (size_t i = 0; i < sizeof(odd); i++)
		odd[i] = i % 2 ? STUB_OPCODE : STUB_OPCODE_END;
	return err;
}

/* Where it was when something failed. */
static int tear_down(void **state)
{
	(void)state;
	if (w.mode) {
		const struct il_header *h = (const void *)t.base;
		const struct place p = place_of(&h->patches[w.patch]);

		print_message("%s: %s: the stub of kind %u at 0x%llx\n", w.plan, w.mode->name,
			      p.kind, (unsigned long long)(h->patches[w.patch].at - w.bias));
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest made_up[] = { cmocka_unit_test(test_plans__made_up),
					      cmocka_unit_test(test_calls__landing_places) };
	const struct CMUnitTest of_files[] = { cmocka_unit_test(test_plans__of_files) };

	file_cnt = argc - 1;
	files = argv + 1;
	return file_cnt ? cmocka_run_group_tests(of_files, set_up, tear_down)
			: cmocka_run_group_tests(made_up, set_up, tear_down);
}
