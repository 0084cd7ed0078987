/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of x86-64, written one after the other; for the stubs alone. */
#ifndef PYEBPF_INLINE_EMIT_X86_64_H
#define PYEBPF_INLINE_EMIT_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpython/plan.h"
#include "inline/region.h"
#include "inline/stub.h"

struct out {
	uint8_t *image;
	uint64_t base; /* where it will lie */
	uint32_t at; /* offset in the image, as the next ones */
	uint32_t slow, eval; /* what is called; eval: for INLINE_EVAL_* */
	uint32_t original_cnt;
	bool full;
	struct stub_how how;
};

/* How instructions number the registers. */
static const uint8_t numbers[] = {
	[PREG_RAX] = 0,	 [PREG_RCX] = 1,  [PREG_RDX] = 2,  [PREG_RBX] = 3,
	[PREG_RSP] = 4,	 [PREG_RBP] = 5,  [PREG_RSI] = 6,  [PREG_RDI] = 7,
	[PREG_R8] = 8,	 [PREG_R9] = 9,	  [PREG_R10] = 10, [PREG_R11] = 11,
	[PREG_R12] = 12, [PREG_R13] = 13, [PREG_R14] = 14, [PREG_R15] = 15
};

static inline void byte(struct out *o, unsigned int b)
{
	if (o->at >= IL_CODE_BYTES) {
		o->full = true;
		return;
	}
	o->image[o->at++] = (uint8_t)b;
}

static inline void bytes(struct out *o, const char *code, size_t n)
{
	for (size_t i = 0; i < n; i++)
		byte(o, (uint8_t)code[i]);
}

#define B(o, code) bytes(o, code, sizeof(code) - 1)

static inline void imm32(struct out *o, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		byte(o, v >> 8 * i & 0xff);
}

/* op reg, [base + disp]; @wide: 64 bits */
static inline void mem(struct out *o, bool wide, const char *op, size_t n, uint8_t reg,
		       uint8_t base, int32_t disp)
{
	uint8_t r = numbers[reg], b = numbers[base];
	unsigned int rex = (wide ? 0x48u : 0x40u) | (r >> 3) << 2 | b >> 3;
	bool near = disp >= INT8_MIN && disp <= INT8_MAX;

	if (rex != 0x40)
		byte(o, rex);
	bytes(o, op, n);
	byte(o, (near ? 0x40u : 0x80u) | (r & 7u) << 3 | (b & 7u));
	if ((b & 7) == 4)
		byte(o, 0x24);
	if (near)
		byte(o, (uint32_t)disp & 0xff);
	else
		imm32(o, (uint32_t)disp);
}

/* op reg, [rip + x]: a word of the region */
static inline void region(struct out *o, const char *op, size_t n, uint8_t reg, uint64_t offset)
{
	uint8_t r = numbers[reg];

	byte(o, 0x48u | (r >> 3) << 2);
	bytes(o, op, n);
	byte(o, 0x05u | (r & 7u) << 3);
	imm32(o, (uint32_t)(offset - (o->at + 4)));
}

/* op reg, [rax + rdx * 8 + disp] */
static inline void with_element(struct out *o, uint8_t op, uint8_t reg, uint8_t disp)
{
	uint8_t n = numbers[reg];

	byte(o, 0x48u | (n >> 3) << 2);
	byte(o, op);
	byte(o, 0x44u | (n & 7u) << 3);
	byte(o, 0xd0);
	byte(o, disp);
}

/* op reg, [base + index + disp] */
static inline void indexed(struct out *o, uint8_t op, uint8_t reg, uint8_t base, uint8_t index,
			   uint8_t disp)
{
	uint8_t r = numbers[reg], b = numbers[base], i = numbers[index];

	byte(o, 0x48u | (r >> 3) << 2 | (i >> 3) << 1 | b >> 3);
	byte(o, op);
	byte(o, 0x44u | (r & 7u) << 3);
	byte(o, (i & 7u) << 3 | (b & 7u));
	byte(o, disp);
}

/* op dst, src between registers */
static inline void both(struct out *o, const char *op, size_t n, uint8_t reg, uint8_t rm)
{
	uint8_t r = numbers[reg], b = numbers[rm];

	byte(o, 0x48u | (r >> 3) << 2 | b >> 3);
	bytes(o, op, n);
	byte(o, 0xc0u | (r & 7u) << 3 | (b & 7u));
}

static inline void one(struct out *o, uint8_t op, unsigned int ext, uint8_t rm, uint8_t imm)
{
	uint8_t b = numbers[rm];

	byte(o, 0x48u | b >> 3);
	byte(o, op);
	byte(o, 0xc0u | ext << 3 | (b & 7u));
	byte(o, imm);
}

#define LOAD(o, dst, base, disp)	    mem(o, true, "\x8b", 1, dst, base, disp)
#define STORE(o, base, disp, src)	    mem(o, true, "\x89", 1, src, base, disp)
#define BYTE(o, dst, base, disp)	    mem(o, false, "\x0f\xb6", 2, dst, base, disp)
#define STORE_AT(o, base, index, disp, src) indexed(o, 0x89, src, base, index, disp)
#define SUM(o, dst, base, index)	    indexed(o, 0x8d, dst, base, index, 0) /* lea */
#define LEA(o, dst, base, disp)		    mem(o, true, "\x8d", 1, dst, base, disp)
#define GET(o, dst, offset)		    region(o, "\x8b", 1, dst, offset)
#define PUT(o, offset, src)		    region(o, "\x89", 1, src, offset)
#define COMPARE(o, reg, offset)		    region(o, "\x3b", 1, reg, offset)
#define MOVE(o, dst, src)		    both(o, "\x8b", 1, dst, src)
#define PRIVATE(member)			    (IL_PRIVATE + __builtin_offsetof(struct il_private, member))
#define SHARED(member)			    (IL_SHARED + __builtin_offsetof(struct il_shared, member))

static inline void push(struct out *o, uint8_t reg)
{
	if (numbers[reg] >= 8)
		byte(o, 0x41);
	byte(o, 0x50u | (numbers[reg] & 7u));
}

static inline void pop(struct out *o, uint8_t reg)
{
	if (numbers[reg] >= 8)
		byte(o, 0x41);
	byte(o, 0x58u | (numbers[reg] & 7u));
}

/* A forward jump that is not known yet: jcc rel32. */
static inline uint32_t jump(struct out *o, unsigned int cond)
{
	byte(o, 0x0f);
	byte(o, 0x80u | cond);
	imm32(o, 0);
	return o->at;
}

#define JAE 3
#define JA  7
#define JE  4
#define JNE 5
#define JB  2

static inline void land(struct out *o, uint32_t from)
{
	uint32_t distance = o->at - from;

	if (!o->full)
		memcpy(o->image + from - 4, &distance, 4);
}

/* All that lead here. */
static inline void land_all(struct out *o, const uint32_t *from, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		land(o, from[i]);
}

/* A jump without a condition. */
static inline uint32_t jump_on(struct out *o)
{
	byte(o, 0xe9);
	imm32(o, 0);
	return o->at;
}

static inline void back(struct out *o, uint32_t to)
{
	byte(o, 0xe9);
	imm32(o, to - (o->at + 4));
}

static inline void call(struct out *o, uint32_t to)
{
	byte(o, 0xe8);
	imm32(o, to - (o->at + 4));
}

static inline void call_slow(struct out *o)
{
	call(o, o->slow);
}

/* Where it goes on need not be a place that indirect jumps may go to: notrack, for a processor that looks (IBT). */
static inline void jump_original(struct out *o, uint32_t n)
{
	uint64_t at = __builtin_offsetof(struct il_header, originals) + 8ull * n;

	B(o, "\x3e\xff\x25");
	imm32(o, (uint32_t)(at - (o->at + 4)));
}

struct inline_detour;
struct inline_plan;
struct pye_pylayout;

/* stub_emit - the stub of a word or call
 * @kind: enum inline_kind
 * @handler: it is reached through the dispatch table, where all registers are live; else a function begins
 * @n: its number among the originals, which says where it goes on. Its offset in the image. */
uint32_t stub_emit(struct out *o, const struct inline_plan *plan, const struct pye_pylayout *l,
		   unsigned int kind, bool handler, uint32_t n);

/* stub_emit_opcode - the same of an opcode. @opcode_how: enum stub_opcode, but not that it is left alone */
uint32_t stub_emit_opcode(struct out *o, const struct inline_plan *plan,
			  const struct pye_pylayout *l, uint8_t opcode_how, unsigned int opcode,
			  uint32_t n);

/* emit_leave - the record of a frame that returns or yields, without the slow path
 * @frame, @head, @other: registers; the latter two, rax and rdx are changed
 * @slow: jumps to where it is taken; only flags, rax, rdx and @head are changed there. How many. */
#define EMIT_SLOW_MAX 6
uint32_t emit_leave(struct out *o, const struct pye_pylayout *l, uint8_t frame, unsigned int kind,
		    uint8_t head, uint8_t other, uint32_t slow[EMIT_SLOW_MAX]);

/* detour_stub - the stub of a detour: event, then the instructions that gave way, then back
 * @n: its number among the originals, which says where it goes on. Its offset in the image. */
uint32_t detour_stub(struct out *o, const struct pye_pylayout *l, const struct inline_detour *d,
		     uint64_t bias, uint64_t base, uint32_t n);

#endif
