// SPDX-License-Identifier: Apache-2.0
/*
 * Stubs for x86-64, one per redirected word or call.
 *
 * At a word of the dispatch table every register is live, flags are not (the compiler cannot carry a
 * comparison across an indirect jump to any of 200 places), and there may be a red zone: the stub steps
 * over it and saves what it uses. At a redirected call it is the beginning of a function: the registers
 * that a call may change are free. No vector register is touched; a stub makes no call but that of the
 * slow path, which returns.
 *
 * An event of the fast path: is there room (one comparison, which also catches a forked child and a full
 * ring), is it the thread that wrote last, is the code object known, has the frame a caller; then time stamp
 * and record, and last the head, which makes it visible (stores stay in order).
 */
#include "inline/stub.h"

#include "cpython/layouts.h"
#include "cpython/plan.h"
#include "inline/emit_x86_64.h"
#include "inline/region_count.h"
#include "inline/slow.h"

#define NEAR_MAX 0x7ff00000 /* what an instruction of the image reaches, less than its own size */

/* rax = tsc << 16; changes rdx */
static void time_stamp(struct out *o)
{
	B(o, "\x0f\x31" /* rdtsc */
	     "\x48\xc1\xe2\x20" /* shl rdx, 32 */
	     "\x48\x09\xd0" /* or rax, rdx */
	     "\x48\xc1\xe0\x10" /* shl rax, 16 */);
}

/* The record {rax, what} at @at in the ring, which is published. Changes rdx. */
static void publish(struct out *o, uint8_t at, uint8_t what)
{
	GET(o, PREG_RDX, PRIVATE(ring));
	STORE_AT(o, PREG_RDX, at, 0, PREG_RAX);
	STORE_AT(o, PREG_RDX, at, 8, what);
	B(o, "\x48\x83\x05"); /* add qword [rip + x], 16 */
	imm32(o, (uint32_t)(SHARED(head) - (o->at + 5)));
	byte(o, 16);
}

/* Have all interpreters one lock, as far as is known? Changes the register. */
static uint32_t check_turns(struct out *o, uint8_t reg)
{
	int64_t next =
		(int64_t)(o->how.interpreters + offsetof(struct il_interpreters, next) - o->base);

	if (o->how.interpreters && next > -NEAR_MAX && next < NEAR_MAX) {
		GET(o, reg, (uint64_t)next);
	} else {
		GET(o, reg, PRIVATE(interpreters));
		LOAD(o, reg, reg, offsetof(struct il_interpreters, next));
	}
	COMPARE(o, reg, PRIVATE(with_main));
	return jump(o, JNE);
}

#define ROOM_SLOW_MAX 3

/*
 * Room, and the thread that wrote last? In a forked child there is none. at = where in the ring, whatever the head says, which the
 * program can write to; changes rax. Returned: how many jumps.
 */
static uint32_t check_room(struct out *o, uint8_t at, uint32_t slow[ROOM_SLOW_MAX])
{
	GET(o, at, SHARED(head));
	region(o, "\x2b", 1, at, PRIVATE(base)); /* sub */
	COMPARE(o, at, PRIVATE(limit));
	slow[0] = jump(o, JAE);
	B(o, "\x64\x48\x8b\x04\x25\x00\x00\x00\x00"); /* mov rax, fs:0: pthread_self() */
	COMPARE(o, PREG_RAX, PRIVATE(thread));
	slow[1] = jump(o, JNE);
	if (!o->how.turns)
		return 2;
	slow[2] = check_turns(o, PREG_RAX);
	return 3;
}

/* What a stub of the dispatch table works with. */
struct frame {
	const struct inline_plan *plan;
	const struct pye_pylayout *l;
	uint8_t saved[8];
	unsigned int saved_cnt;
	uint8_t frame, instr, head, other;
};

static uint8_t take(struct frame *f)
{
	static const uint8_t free_regs[] = { PREG_RCX, PREG_RSI, PREG_RDI,
					     PREG_R8,  PREG_R9,	 PREG_R10 };

	for (size_t i = 0; i < sizeof(free_regs); i++) {
		bool used = free_regs[i] == f->plan->frame_reg ||
			    free_regs[i] == f->plan->instr_reg;

		for (unsigned int k = 0; k < f->saved_cnt; k++)
			used |= f->saved[k] == free_regs[i];
		if (!used)
			return f->saved[f->saved_cnt++] = free_regs[i];
	}
	return PREG_NONE; /* cannot be: six, of which at most five are in use */
}

static bool is_scratch(uint8_t reg)
{
	return reg == PREG_RAX || reg == PREG_RDX;
}

/* A word at register + disp, as it was before registers were saved. */
static void load_slot(struct out *o, const struct frame *f, uint8_t dst, uint8_t reg, int32_t disp)
{
	LOAD(o, dst, reg, disp + (reg == PREG_RSP ? 128 + 8 * (int32_t)f->saved_cnt : 0));
}

static void enter(struct out *o, struct frame *f, bool instr)
{
	const struct inline_plan *p = f->plan;

	f->saved[0] = PREG_RAX;
	f->saved[1] = PREG_RDX;
	f->saved_cnt = 2;
	f->head = take(f);
	f->other = take(f);
	f->frame = p->frame_in_slot || is_scratch(p->frame_reg) || p->frame_disp ? take(f)
										 : p->frame_reg;
	f->instr = instr && (p->instr_in_slot || is_scratch(p->instr_reg)) ? take(f) : p->instr_reg;
	LEA(o, PREG_RSP, PREG_RSP, -128);
	for (unsigned int i = 0; i < f->saved_cnt; i++)
		push(o, f->saved[i]);
	if (p->frame_in_slot)
		load_slot(o, f, f->frame, p->frame_reg, p->frame_disp);
	else if (f->frame != p->frame_reg)
		LEA(o, f->frame, p->frame_reg, p->frame_disp);
	if (instr && p->instr_in_slot)
		load_slot(o, f, f->instr, p->instr_reg, p->instr_slot);
	else if (instr && f->instr != p->instr_reg)
		MOVE(o, f->instr, p->instr_reg);
}

static void leave(struct out *o, const struct frame *f, uint32_t n)
{
	for (unsigned int i = f->saved_cnt; i-- > 0;)
		pop(o, f->saved[i]);
	LEA(o, PREG_RSP, PREG_RSP, 128);
	jump_original(o, n);
}

/* The registers that a call may change and that are not saved anyway. */
static const uint8_t volatile_regs[] = { PREG_RCX, PREG_RSI, PREG_RDI, PREG_R8,
					 PREG_R9,  PREG_R10, PREG_R11 };

static void slow_in_table(struct out *o, const struct frame *f, unsigned int kind)
{
	for (size_t i = 0; i < sizeof(volatile_regs); i++)
		push(o, volatile_regs[i]);
	MOVE(o, PREG_RAX, f->frame);
	if (kind == INLINE_ENTRY)
		BYTE(o, PREG_RDX, f->instr, f->plan->instr_disp + 1);
	if ((kind & 0xff) == INLINE_OPCODE)
		LEA(o, PREG_RDX, f->instr, f->plan->instr_disp);
	MOVE(o, PREG_RSI, PREG_RAX);
	region(o, "\x8d", 1, PREG_RDI, IL_PRIVATE); /* lea */
	byte(o, 0xb9); /* mov ecx, kind */
	imm32(o, kind);
	call_slow(o);
	for (size_t i = sizeof(volatile_regs); i-- > 0;)
		pop(o, volatile_regs[i]);
}

/* rax |= il_frame_hash() of rdx, which changes */
static void add_hash(struct out *o)
{
	B(o,
	  "\x48\xc1\xea\x03" /* shr rdx, 3 */
	  "\x69\xd2\x01\x00\x01\x00" /* imul edx, edx, 0x10001: the sum of both halves in the upper one */
	  "\xc1\xea\x10" /* shr edx, 16 */
	  "\x83\xfa\x01" /* cmp edx, 1 */
	  "\x83\xd2\x00" /* adc edx, 0: 0 is that of none */
	  "\x48\x09\xd0" /* or rax, rdx */);
}

/* rdx = the caller's frame, as caller_frame() of slow.c has it. Returned: a jump for a frame that has none. */
static uint32_t caller_frame(struct out *o, const struct pye_pylayout *l, uint8_t frame)
{
	uint32_t none, python, again;

	LOAD(o, PREG_RDX, frame, l->f_previous);
	again = o->at;
	B(o, "\x48\x85\xd2"); /* test rdx, rdx */
	none = jump(o, JE);
	mem(o, false, "\x80", 1, PREG_RDI /* /7: cmp */, PREG_RDX, l->f_owner);
	byte(o, 3);
	python = jump(o, JB);
	LOAD(o, PREG_RDX, PREG_RDX, l->f_previous);
	back(o, again);
	land(o, python);
	return none;
}

/* A frame ends: is it where the last event was? Then that is where its caller is. Changes rdx. */
static void go_down(struct out *o, const struct pye_pylayout *l, uint8_t frame, uint32_t slow[2])
{
	COMPARE(o, frame, PRIVATE(top));
	slow[0] = jump(o, JNE);
	slow[1] = caller_frame(o, l, frame);
	PUT(o, PRIVATE(top), PREG_RDX);
	if (o->how.quiet)
		PUT(o, PRIVATE(run), PREG_RDX);
}

/* edx = IL_CODE_HASH() of this register << IL_CODE_SHIFT, whose lower bits are anything */
static void hash_code(struct out *o, uint8_t code)
{
	MOVE(o, PREG_RDX, code);
	one(o, 0xc1, 5, PREG_RDX, 21); /* shr */
	B(o, "\x69\xd2"); /* imul edx, edx */
	imm32(o, IL_CODE_STEP << IL_CODE_SHIFT);
	both(o, "\x03", 1, PREG_RDX, code); /* add */
}

/* other = code, rdx = its slot; changes rax */
static uint32_t find_code(struct out *o, const struct frame *f)
{
	LOAD(o, f->other, f->frame, f->l->f_code);
	one(o, 0x83, 4, f->other, 0xf8); /* and other, -8: tags */
	hash_code(o, f->other);
	B(o, "\xc1\xea"); /* shr edx */
	byte(o, IL_CODE_SHIFT);
	B(o, "\x0f\xb7\xd2"); /* movzx edx, dx */
	region(o, "\x8d", 1, PREG_RAX, IL_CACHE);
	with_element(o, 0x3b, f->other, 0); /* cmp */
	return jump(o, JNE);
}

/*
 * Behind find_code(), where that jumps: one that is left out? Then its frame goes to IL_QUIET, if its caller is what ran last. An
 * exception handler of one that is there is no event either. Changes rax, rdx, other.
 */
static void begin_quiet(struct out *o, const struct frame *f, unsigned int kind, uint32_t done,
			uint32_t slow[4])
{
	one(o, 0x83, 0, f->other, IL_CODE_QUIET); /* add */
	with_element(o, 0x3b, f->other, 0);
	slow[0] = jump(o, JNE);
	if (kind == INLINE_CAUGHT) {
		COMPARE(o, f->frame, PRIVATE(run));
		slow[1] = slow[2] = slow[3] = jump(o, JNE);
		back(o, done);
		return;
	}
	MOVE(o, f->other, PREG_RDX);
	one(o, 0xc1, 4, f->other, 48); /* shl */
	both(o, "\x03", 1, f->other, f->frame); /* add */
	slow[1] = caller_frame(o, f->l, f->frame);
	COMPARE(o, PREG_RDX, PRIVATE(run));
	slow[2] = jump(o, JNE);
	GET(o, PREG_RDX, PRIVATE(quiet_at));
	B(o, "\x83\xfa"); /* cmp edx, last */
	byte(o, IL_QUIET_WORDS - 2);
	slow[3] = jump(o, JA);
	region(o, "\x8d", 1, PREG_RAX, IL_QUIET); /* lea */
	with_element(o, 0x89, f->other, 0); /* mov: the record's second word */
	GET(o, f->other, PRIVATE(run));
	with_element(o, 0x89, f->other, 8);
	one(o, 0x83, 0, PREG_RDX, 2); /* add */
	PUT(o, PRIVATE(quiet_at), PREG_RDX);
	PUT(o, PRIVATE(run), f->frame);
	region(o, "\xff", 1, PREG_RAX /* /0: inc */, SHARED(quiet));
	back(o, done);
}

/* Of one in IL_QUIET: the one before it runs. Changes rax, rdx. */
static void end_quiet(struct out *o)
{
	GET(o, PREG_RDX, PRIVATE(quiet_at));
	one(o, 0x83, 5, PREG_RDX, 2); /* sub */
	PUT(o, PRIVATE(quiet_at), PREG_RDX);
	region(o, "\x8d", 1, PREG_RAX, IL_QUIET); /* lea */
	with_element(o, 0x8b, PREG_RDX, 8); /* mov */
	one(o, 0xc1, 4, PREG_RDX, 16); /* shl */
	one(o, 0xc1, 5, PREG_RDX, 16); /* shr */
	PUT(o, PRIVATE(run), PREG_RDX);
}

/* other = slot of the code << 48 | frame; changes rax, rdx */
static uint32_t known_code(struct out *o, const struct frame *f)
{
	uint32_t unknown = find_code(o, f);

	one(o, 0xc1, 4, PREG_RDX, 48); /* shl */
	SUM(o, f->other, PREG_RDX, f->frame);
	return unknown;
}

/*
 * eax = what RESUME begins, 0 for a call. Returned: a jump for where nothing does (3.15: a generator that is made), 0 where that cannot
 * be.
 */
static uint32_t how_it_begins(struct out *o, const struct frame *f)
{
	BYTE(o, PREG_RAX, f->instr, f->plan->instr_disp + 1);
	B(o, "\x83\xe0"); /* and eax, mask */
	byte(o, f->l->resume_mask);
	if (f->l->resume_skip == 0xff)
		return 0;
	B(o, "\x83\xf8"); /* cmp eax, skip */
	byte(o, f->l->resume_skip);
	return jump(o, JE);
}

static void with_code(struct out *o, struct frame *f, unsigned int kind, uint32_t n)
{
	const struct pye_pylayout *l = f->l;
	uint32_t slow[ROOM_SLOW_MAX], quiet[4], slow_cnt, unknown, first, pending = 0, other = 0,
									  done;
	uint32_t skipped = 0, skip = 0,
		 late = 0; /* before all, on the usual way, before the slow path */
	bool entry = kind == INLINE_ENTRY, can_skip = l->resume_skip != 0xff;

	enter(o, f, entry);
	if (entry && can_skip && o->how.quiet)
		skipped = how_it_begins(o, f);
	slow_cnt = check_room(o, f->head, slow);
	unknown = known_code(o, f);
	if (entry) {
		skip = how_it_begins(o, f);
		B(o, "\xf7\xd8"); /* neg eax: a carry, if it is a resume */
		one(o, 0x83, 2, f->other, 0); /* adc */
	} else {
		one(o, 0x83, 0, f->other, IL_CAUGHT); /* add */
	}
	time_stamp(o);
	first = caller_frame(o, l, f->frame);
	if (o->how.quiet) {
		COMPARE(o, entry ? PREG_RDX : f->frame, PRIVATE(run));
		pending = jump(o, JNE);
	}
	if (o->how.switches) {
		COMPARE(o, entry ? PREG_RDX : f->frame, PRIVATE(top));
		other = jump(o, JNE);
		PUT(o, PRIVATE(top), f->frame);
	}
	if (o->how.quiet)
		PUT(o, PRIVATE(run), f->frame);
	add_hash(o);
	publish(o, f->head, f->other);
	done = o->at;
	if (skipped)
		land(o, skipped);
	if (skip)
		land(o, skip);
	leave(o, f, n);
	land(o, unknown);
	if (o->how.quiet) {
		begin_quiet(o, f, kind, done, quiet);
		land_all(o, quiet, 4);
		land(o, pending);
	}
	land_all(o, slow, slow_cnt);
	land(o, first);
	if (other)
		land(o, other);
	if (entry && can_skip)
		late = how_it_begins(o, f);
	slow_in_table(o, f, kind);
	if (late)
		land(o, late);
	back(o, done);
}

uint32_t emit_leave(struct out *o, const struct pye_pylayout *l, uint8_t frame, unsigned int kind,
		    uint8_t head, uint8_t other, uint32_t slow[EMIT_SLOW_MAX])
{
	uint32_t slow_cnt = check_room(o, head, slow), recorded, done = 0;

	if (o->how.quiet) {
		COMPARE(o, frame, PRIVATE(run));
		slow[slow_cnt++] = jump(o, JNE);
		COMPARE(o, frame, PRIVATE(top));
		recorded = jump(o, JE);
		end_quiet(o);
		done = jump_on(o);
		land(o, recorded);
	}
	if (o->how.switches) {
		go_down(o, l, frame, slow + slow_cnt);
		slow_cnt += 2;
	}
	LEA(o, other, frame, kind == INLINE_YIELD ? IL_YIELD : IL_RETURN);
	time_stamp(o);
	publish(o, head, other);
	if (done)
		land(o, done);
	return slow_cnt;
}

/* A handler that leaves the frame. */
static void leave_stub(struct out *o, struct frame *f, unsigned int kind, uint32_t n)
{
	uint32_t slow[EMIT_SLOW_MAX], slow_cnt, done;

	enter(o, f, false);
	slow_cnt = emit_leave(o, f->l, f->frame, kind, f->head, f->other, slow);
	done = o->at;
	leave(o, f, n);
	land_all(o, slow, slow_cnt);
	slow_in_table(o, f, kind);
	back(o, done);
}

/* rax |= hash of the frame; changes rdx */
static void frame_bits(struct out *o, const struct frame *f)
{
	MOVE(o, PREG_RDX, f->frame);
	add_hash(o);
}

/* Of the running thread. Changes rdx. */
static void set_timed(struct out *o, uint32_t timed)
{
	GET(o, PREG_RDX, PRIVATE(slot));
	B(o, "\x48\xc7\x82"); /* mov qword [rdx + x], timed */
	imm32(o, (uint32_t)offsetof(struct il_thread, timed));
	imm32(o, timed);
}

/* --opcodes: an instruction that is asked for. */
static void opcode_stub(struct out *o, struct frame *f, bool first, unsigned int opcode, uint32_t n)
{
	uint64_t fixed = (uint64_t)opcode << IL_OPCODE_SHIFT | IL_OPCODE;
	uint32_t slow[ROOM_SLOW_MAX + 1], slow_cnt, unknown, done;

	enter(o, f, true);
	slow_cnt = check_room(o, f->head, slow);
	if (first) /* as with a call: what has no caller may be another thread's */
		slow[slow_cnt++] = caller_frame(o, f->l, f->frame);
	unknown = find_code(o, f);
	one(o, 0xc1, 4, PREG_RDX, 48); /* shl */
	LEA(o, PREG_RAX, f->instr, f->plan->instr_disp);
	both(o, "\x2b", 1, PREG_RAX, f->other); /* sub */
	one(o, 0xc1, 4, PREG_RAX, 3); /* shl */
	both(o, "\x0b", 1, PREG_RDX, PREG_RAX); /* or */
	B(o, "\x48\xb8"); /* mov rax, fixed */
	imm32(o, (uint32_t)fixed);
	imm32(o, (uint32_t)(fixed >> 32));
	both(o, "\x0b", 1, PREG_RDX, PREG_RAX);
	MOVE(o, f->other, PREG_RDX);
	time_stamp(o);
	frame_bits(o, f);
	publish(o, f->head, f->other);
	set_timed(o, 1);
	done = o->at;
	leave(o, f, n);
	land_all(o, slow, slow_cnt);
	land(o, unknown);
	slow_in_table(o, f, INLINE_OPCODE | opcode << 8 | (first ? INLINE_FIRST : 0));
	back(o, done);
}

/* One that is not: does it end one that is? */
static void opcode_end_stub(struct out *o, struct frame *f, uint32_t n)
{
	uint32_t slow[ROOM_SLOW_MAX], slow_cnt, other, timed, done;

	LEA(o, PREG_RSP, PREG_RSP, -128);
	push(o, PREG_RAX);
	B(o, "\x64\x48\x8b\x04\x25\x00\x00\x00\x00"); /* mov rax, fs:0: pthread_self() */
	COMPARE(o, PREG_RAX, PRIVATE(turn));
	other = jump(o, JNE);
	GET(o, PREG_RAX, PRIVATE(slot));
	B(o, "\x48\x83\xb8"); /* cmp qword [rax + x], 0 */
	imm32(o, (uint32_t)offsetof(struct il_thread, timed));
	byte(o, 0);
	timed = jump(o, JNE);
	pop(o, PREG_RAX);
	LEA(o, PREG_RSP, PREG_RSP, 128);
	jump_original(o, n);
	land(o, other);
	land(o, timed);
	pop(o, PREG_RAX);
	LEA(o, PREG_RSP, PREG_RSP, 128);
	enter(o, f, false);
	slow_cnt = check_room(o, f->head, slow);
	both(o, "\x33", 1, f->other, f->other); /* xor */
	one(o, 0x83, 0, f->other, IL_OPCODE_END); /* add */
	time_stamp(o);
	publish(o, f->head, f->other);
	set_timed(o, 0);
	done = o->at;
	leave(o, f, n);
	land_all(o, slow, slow_cnt);
	slow_in_table(o, f, INLINE_OPCODE_END);
	back(o, done);
}

/* other = code, which RESUME is going to change? Changes head. */
static uint32_t compare_version(struct out *o, const struct frame *f, uint16_t co_version)
{
	GET(o, f->head, PRIVATE(version_at));
	LOAD(o, f->head, f->head, 0);
	mem(o, true, "\x3b", 1, f->head, f->other, co_version); /* cmp */
	return jump(o, JNE);
}

/* --count: the code object's place, and one more there. Changes rax, rdx. */
static void count_call(struct out *o, struct frame *f, bool locked, uint32_t n)
{
	uint16_t co_version = o->how.versions ? layout_monitoring(f->l)->co_version : 0;
	uint32_t skip, child, apart = 0, other, changes = 0, done;

	enter(o, f, true);
	skip = how_it_begins(o, f);
	B(o, "\x83\xf8\x01" /* cmp eax, 1 */
	     "\x19\xc0" /* sbb eax, eax */
	     "\xff\xc0" /* inc eax: 0 for a call, 1 for a resume */);
	GET(o, f->head, PRIVATE(funcs));
	both(o, "\x85", 1, f->head, f->head); /* test */
	child = jump(o, JE);
	if (o->how.turns)
		apart = check_turns(o, f->other);
	LOAD(o, f->other, f->frame, f->l->f_code);
	one(o, 0x83, 4, f->other, 0xf8); /* and other, -8: tags */
	hash_code(o, f->other);
	B(o, "\x81\xe2"); /* and edx: of a struct il_func, 1 << IL_CODE_SHIFT bytes */
	imm32(o, 32 * (IL_FUNC_CNT - 1));
	both(o, "\x03", 1, PREG_RDX, f->head); /* add */
	mem(o, true, "\x39", 1, f->other, PREG_RDX, 0); /* cmp [rdx], other */
	other = jump(o, JNE);
	if (co_version)
		changes = compare_version(o, f, co_version);
	if (locked)
		byte(o, 0xf0);
	B(o, "\x48\xff\x44\xc2\x08"); /* inc qword [rdx + rax * 8 + 8] */
	done = o->at;
	land(o, child);
	if (skip)
		land(o, skip);
	leave(o, f, n);
	land(o, other);
	if (apart)
		land(o, apart);
	if (changes)
		land(o, changes);
	slow_in_table(o, f, INLINE_ENTRY);
	back(o, done);
}

/* --count, all else: the slow path does it. */
static void count_in_table(struct out *o, struct frame *f, unsigned int kind, uint32_t n)
{
	uint32_t skip = 0;

	enter(o, f, kind == INLINE_ENTRY);
	if (kind == INLINE_ENTRY)
		skip = how_it_begins(o, f);
	slow_in_table(o, f, kind);
	if (skip)
		land(o, skip);
	leave(o, f, n);
}

/* At the beginning of a function: its second argument is the frame, or its first one. */
static void slow_in_call(struct out *o, unsigned int kind)
{
	push(o, PREG_RDI);
	push(o, PREG_RSI);
	if (kind == INLINE_CLOSE || kind == INLINE_DEALLOC)
		MOVE(o, PREG_RSI, PREG_RDI);
	region(o, "\x8d", 1, PREG_RDI, IL_PRIVATE);
	if (kind == INLINE_CLOSE)
		LEA(o, PREG_RDX, PREG_RSP, 24); /* as it was at the call */
	else
		B(o, "\x31\xd2"); /* xor edx, edx */
	byte(o, 0xb9);
	imm32(o, kind);
	call_slow(o);
	pop(o, PREG_RSI);
	pop(o, PREG_RDI);
}

static void return_stub(struct out *o, const struct pye_pylayout *l, uint32_t n)
{
	uint32_t slow[EMIT_SLOW_MAX], slow_cnt;

	slow_cnt = emit_leave(o, l, PREG_RSI, INLINE_RETURN, PREG_RCX, PREG_R8, slow);
	jump_original(o, n);
	land_all(o, slow, slow_cnt);
	slow_in_call(o, INLINE_RETURN);
	jump_original(o, n);
}

/* Of those that --count needs. */
static void count_stub(struct out *o, struct frame *f, unsigned int kind, bool handler, uint32_t n)
{
	if (handler && kind == INLINE_ENTRY && !o->how.time) {
		count_call(o, f, o->how.locked, n);
	} else if (handler && kind != INLINE_DEALLOC) {
		count_in_table(o, f, kind, n);
	} else {
		slow_in_call(o, kind);
		jump_original(o, n);
	}
}

static uint32_t stub_begin(struct out *o)
{
	uint32_t start;

	while (o->at % 16)
		byte(o, 0xcc);
	start = o->at;
	B(o, "\xf3\x0f\x1e\xfa"); /* endbr64 */
	return start;
}

uint32_t stub_emit(struct out *o, const struct inline_plan *plan, const struct pye_pylayout *l,
		   unsigned int kind, bool handler, uint32_t n)
{
	struct frame f = { .plan = plan, .l = l };
	uint32_t start = stub_begin(o);

	if (o->how.count) {
		count_stub(o, &f, kind, handler, n);
		return start;
	}
	switch (kind) {
	case INLINE_ENTRY:
	case INLINE_CAUGHT:
		with_code(o, &f, kind, n);
		break;
	case INLINE_YIELD:
		leave_stub(o, &f, kind, n);
		break;
	case INLINE_RETURN:
		if (handler)
			leave_stub(o, &f, kind, n);
		else
			return_stub(o, l, n);
		break;
	default:
		slow_in_call(o, kind);
		jump_original(o, n);
	}
	return start;
}

uint32_t stub_emit_opcode(struct out *o, const struct inline_plan *plan,
			  const struct pye_pylayout *l, uint8_t opcode_how, unsigned int opcode,
			  uint32_t n)
{
	struct frame f = { .plan = plan, .l = l };
	uint32_t start = stub_begin(o);

	if (opcode_how == STUB_OPCODE_END)
		opcode_end_stub(o, &f, n);
	else
		opcode_stub(o, &f, opcode_how == STUB_OPCODE_FIRST, opcode, n);
	return start;
}
