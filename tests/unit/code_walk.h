/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: each instruction of some code that was made, as the disassembler has it. */
#ifndef PYEBPF_TESTS_CODE_WALK_H
#define PYEBPF_TESTS_CODE_WALK_H

#include "cpython/disasm.h"
#include "elf_make.h"

/* The first bytes of it, as many as a file takes. How many of these were looked at. */
static inline size_t walk_part(const uint8_t *code, size_t size,
			       void (*look)(const struct insn *insn))
{
	size_t most = MAKE_DATA - MAKE_TEXT, at = 0;
	static struct elf_make made;
	struct elf_file *elf;
	struct disasm *d;
	struct insn insn;

	make_init(&made, ET_DYN);
	memset(made.bytes + MAKE_TEXT, 0xcc, most);
	memcpy(made.bytes + MAKE_TEXT, code, size < most ? size : most);
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	assert_int_equal(disasm__new(elf, &d, NULL), 0);
	while (at < size &&
	       at + MACHINE_INSN_MAX <= most) { /* what is cut off comes with the next part */
		assert_int_equal(disasm__at(d, make_vaddr(MAKE_TEXT) + at, &insn), 0);
		look(&insn);
		at += insn.size;
	}
	disasm__free(d);
	elf_file__free(elf);
	return at;
}

static inline void walk_code(const uint8_t *code, size_t size,
			     void (*look)(const struct insn *insn))
{
	for (size_t at = 0; at < size;)
		at += walk_part(code + at, size - at, look);
}

#endif
