/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stubs append to a ring: records of 16 bytes, or of more where their kind says so, always a multiple of 16. Whoever reads
 * them checks each: the target can scribble there.
 */
#ifndef PYEBPF_INLINE_RECORD_H
#define PYEBPF_INLINE_RECORD_H

#include <stdint.h>

/* kind, in the low 3 bits of the second word of a record */
enum il_kind {
	IL_CALL = 0,
	IL_RESUME = 1,
	IL_RETURN = 2,
	IL_YIELD = 3,
	IL_CAUGHT = 4, /* an exception handler of this frame begins */
	IL_OPCODE =
		5, /* --opcodes: an instruction begins; time: bits of its frame; what: IL_OPCODE_* */
	IL_OPCODE_END = 6, /* the one before has ended: one that is not asked for begins */
	IL_MORE = 7, /* bits 48 and up say what it is, two more words follow */
};

enum il_more {
	IL_SWITCH = 1, /* another thread goes on: w2 pthread_self(), w3 gettid() */
	IL_DEF = 2, /* struct il_def */
	IL_UNWIND =
		3, /* w2: slot of the code | IL_GENERATOR; w3: its instruction, bytes from the code object; 0: not told */
	IL_CLOSE =
		4, /* w2: slot of the code; w3: the stack pointer if an IL_CLOSED follows, else 0 */
	IL_RETIRE = 5, /* w2: address of a code object that is freed */
	IL_THROW = 6, /* w2: slot of the code; a frame begins with an exception */
	IL_LINES = 7, /* struct il_lines, behind a definition, with --opcodes */
	IL_CLOSED = 8, /* w2: the stack pointer; more of them come than are announced */
	IL_FRAME = 9, /* w2: slot of the code | IL_FRAME_*; of the running stack, innermost first */
};

#define IL_GENERATOR   (1ull << 32) /* the frame is a generator's */
#define IL_FRAME_FIRST (1ull << 33)
#define IL_FRAME_LAST  (1ull << 34)
/* its stack is known, or runs already, and goes on, or 0: one begins; no code, and no frames follow */
#define IL_FRAME_KNOWN (1ull << 35)
/* with that: it is about to begin as a call; what waited at its address is gone */
#define IL_FRAME_BEGINS (1ull << 36)
/* or: a generator that waits, and does not run: something is thrown into what it delegates to, or its trace function is told of its
 * yield */
#define IL_FRAME_WAITS (1ull << 37)

/* Second word of an IL_OPCODE: slot of the code << 48 | opcode << 40 | bytes from the code object to the instruction << 3 | kind */
#define IL_OPCODE_SHIFT	       40
#define IL_OPCODE_OFFSET(what) ((what) >> 3 & 0x1fffffffffull)

/* Of a frame's address; 0: there is none. The upper half keeps stacks apart that lie at the same place of their chunks, as those
 * of greenlets do: chunks of 16 KB, and 64 K words make 32 of them. Frames near each other differ as their addresses in words do,
 * but for one where these pass a multiple of 64 K, or where that makes 0. */
__attribute__((always_inline)) static inline uint32_t il_frame_hash(uint64_t frame)
{
	uint32_t hash = (uint32_t)((frame >> 3) + (frame >> 19)) & 0xffff;

	return hash || !frame ? hash : 1;
}

/* time: tsc, or ns of CLOCK_MONOTONIC, << 16 | il_frame_hash() of the caller's frame; what: slot of the code << 48 |
 * address of the frame | kind */
struct il_rec {
	uint64_t time, what;
};

/* Of il_def.flags: functions that yield, and coroutines; an iterable coroutine (0x100) is one of them, too. */
#define IL_CO_GENERATORS (0x20u | 0x80u | 0x200u)

struct il_more_rec {
	struct il_rec head;
	uint64_t w2, w3;
};

struct il_str {
	uint64_t addr, length;
	uint32_t state, bytes, status, pad; /* status: enum pye_str_status */
};

struct il_def {
	struct il_rec head;
	uint64_t code;
	uint32_t slot, total; /* bytes of the record, data included, a multiple of 16 */
	uint32_t line, flags;
	struct il_str str[3]; /* enum pye_str_which */
	uint8_t data[]; /* of the three, one after the other */
};

/* --opcodes: co_linetable of the code object that was defined before. */
struct il_lines {
	struct il_rec head;
	uint32_t slot, total; /* bytes of the record, data included, a multiple of 16 */
	uint32_t bytes, pad; /* of the table; 0: there was no room for it */
	uint64_t pad1;
	uint8_t data[];
};

#endif
