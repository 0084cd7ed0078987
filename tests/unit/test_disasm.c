// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "cpython/disasm.h"
#include "cpython/flow.h"
#include "elf_make.h"

#define TEXT make_vaddr(MAKE_TEXT)

static struct elf_make made;
static struct elf_file *elf;
static struct disasm *disasm;

static void load_as(uint16_t type, const char *bytes, size_t size)
{
	make_init(&made, type);
	memset(made.bytes + MAKE_TEXT, 0xcc, MAKE_DATA - MAKE_TEXT);
	memcpy(made.bytes + MAKE_TEXT, bytes, size);
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	assert_int_equal(disasm__new(elf, &disasm, NULL), 0);
}

static void load(const char *bytes, size_t size)
{
	load_as(ET_DYN, bytes, size);
}

static void unload(void)
{
	disasm__free(disasm);
	elf_file__free(elf);
}

static struct insn decode(const char *bytes, size_t size)
{
	struct insn insn;

	load(bytes, size);
	assert_int_equal(disasm__at(disasm, TEXT, &insn), 0);
	assert_int_equal(insn.size, size);
	unload();
	return insn;
}

#define DECODE(bytes) decode(bytes, sizeof(bytes) - 1)

static void test_disasm__what_the_kernel_emulates(void **state)
{
	(void)state;
	assert_true(DECODE("\xe8\x00\x00\x00\x00").emulated); /* call */
	assert_true(DECODE("\xe9\x00\x00\x00\x00").emulated); /* jmp */
	assert_true(DECODE("\xeb\x00").emulated);
	assert_true(DECODE("\x74\x00").emulated); /* je */
	assert_true(DECODE("\x0f\x8f\x00\x00\x00\x00").emulated); /* jg */
	assert_true(DECODE("\x55").emulated); /* push rbp */
	assert_true(DECODE("\x41\x57").emulated); /* push r15 */
	assert_true(DECODE("\x90").emulated);
	assert_false(DECODE("\x66\x90").emulated); /* nop, two bytes */
	assert_false(DECODE("\x0f\x1f\x44\x00\x00").emulated); /* nop, five bytes */
	assert_false(DECODE("\xf3\x0f\x1e\xfa").emulated); /* endbr64 */
	assert_false(DECODE("\xff\xe0").emulated); /* jmp rax */
	assert_false(DECODE("\xff\xd0").emulated); /* call rax */
	assert_false(DECODE("\xff\x35\x00\x00\x00\x00").emulated); /* push [rip] */
	assert_false(DECODE("\xc3").emulated);
	assert_false(DECODE("\x5d").emulated); /* pop rbp */
	assert_false(DECODE("\x48\x89\xe5").emulated);
}

static void test_disasm__what_the_kernel_refuses(void **state)
{
	(void)state;
	assert_true(DECODE("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00").refused); /* cs nopw */
	assert_true(DECODE("\x64\x48\x8b\x04\x25\x00\x00\x00\x00").refused); /* mov fs: */
	assert_true(DECODE("\xf0\x48\x0f\xc1\x03").refused); /* lock xadd */
	assert_false(DECODE("\xf3\x0f\x1e\xfa").refused);
	assert_false(DECODE("\x48\x8b\x04\x24").refused);
}

static void test_disasm__flow(void **state)
{
	struct insn insn;

	(void)state;
	insn = DECODE("\x0f\x85\x10\x00\x00\x00");
	assert_int_equal(insn.flow, FLOW_COND);
	assert_int_equal(insn.target, TEXT + 0x16);
	assert_int_equal(insn.cond, COND_X86 | 5);
	insn = DECODE("\x7f\xfe");
	assert_int_equal(insn.cond, COND_X86 | 15);
	assert_int_equal(insn.target, TEXT);
	assert_int_equal(DECODE("\xeb\x02").target, TEXT + 4);
	assert_int_equal(DECODE("\xe8\x01\x00\x00\x00").flow, FLOW_CALL);
	insn = DECODE("\xff\x25\x0a\x00\x00\x00");
	assert_int_equal(insn.flow, FLOW_JUMP);
	assert_int_equal(insn.target, 0);
	assert_int_equal(insn.pointer, TEXT + 16);
	assert_int_equal(DECODE("\x3e\xff\xe0").flow, FLOW_JUMP); /* notrack */
	assert_int_equal(DECODE("\xc3").flow, FLOW_RETURN);
	assert_int_equal(DECODE("\x0f\x0b").flow, FLOW_STOP);
	assert_int_equal(DECODE("\x48\x83\xc0\x01").flow, FLOW_NEXT);
}

static void test_disasm__writes(void **state)
{
	(void)state;
	assert_int_equal(DECODE("\x89\xd8").writes, 1u << PREG_RAX); /* mov eax, ebx */
	assert_int_equal(DECODE("\x48\x39\xd8").writes, 0); /* cmp rax, rbx */
	assert_int_equal(DECODE("\x48\x89\x43\x38").writes, 0); /* mov [rbx+56], rax */
	assert_int_equal(DECODE("\x48\x87\xd8").writes, 1u << PREG_RAX | 1u << PREG_RBX); /* xchg */
	assert_int_equal(DECODE("\x48\xf7\xe3").writes & (1u << PREG_RAX | 1u << PREG_RDX),
			 1u << PREG_RAX | 1u << PREG_RDX); /* mul rbx */
	assert_true(DECODE("\xe8\x00\x00\x00\x00").writes & 1u << PREG_RDI);
	assert_false(DECODE("\xe8\x00\x00\x00\x00").writes & 1u << PREG_RBX);
}

static void test_disasm__what_is_no_instruction(void **state)
{
	struct insn insn;

	(void)state;
	load("\x06\x00", 2);
	assert_int_equal(disasm__at(disasm, TEXT, &insn), -EILSEQ);
	assert_int_equal(disasm__at(disasm, MAKE_BASE, &insn), -EFAULT);
	assert_int_equal(disasm__at(disasm, make_vaddr(MAKE_DATA) - 1, &insn), 0);
	unload();
}

/* Those that were decoded are kept by their address: of equal places, too, each is itself, also after what is no instruction. */
static void test_disasm__each_address_is_itself(void **state)
{
	const size_t apart = 0x4000;
	struct insn insn;

	(void)state;
	make_init(&made, ET_DYN);
	memset(made.bytes + MAKE_TEXT, 0xcc, MAKE_DATA - MAKE_TEXT);
	memcpy(made.bytes + MAKE_TEXT, "\xe8\x00\x00\x00\x00", 5);
	made.bytes[MAKE_TEXT + apart] = 0x53; /* push rbx */
	made.bytes[MAKE_TEXT + 2 * apart] = 0x06; /* none */
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	assert_int_equal(disasm__new(elf, &disasm, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(disasm__at(disasm, TEXT, &insn), 0);
		assert_int_equal(insn.flow, FLOW_CALL);
		assert_int_equal(insn.addr, TEXT);
		assert_int_equal(insn.target, TEXT + 5);
		assert_int_equal(disasm__at(disasm, TEXT + apart, &insn), 0);
		assert_int_equal(insn.op, INSN_PUSH);
		assert_int_equal(insn.size, 1);
		assert_int_equal(disasm__at(disasm, TEXT + 2 * apart, &insn), -EILSEQ);
	}
	unload();
}

static void test_disasm__finds_all_branches(void **state)
{
	struct disasm_range range = { TEXT + 0x20, TEXT + 0x22 };
	struct disasm_branch *branches;
	size_t cnt;

	(void)state;
	/* jmp, jne, call, jg rel32 to +0x20; jmp to +0x21; one past it; then an instruction whose bytes
	 * look like jo +0x20 */
	load("\xeb\x1e\x75\x1c\xe8\x17\x00\x00\x00\x0f\x8f\x11\x00\x00\x00\xe9\x0d\x00\x00\x00"
	     "\xeb\x0c\x48\x89\x70\x07",
	     26);
	assert_int_equal(disasm__branches(disasm, &range, 1, &branches, &cnt), 0);
	assert_int_equal(cnt, 6);
	assert_int_equal(branches[0].addr, TEXT);
	assert_false(branches[0].cond);
	assert_int_equal(branches[1].addr, TEXT + 2);
	assert_true(branches[1].cond);
	assert_true(branches[2].call);
	assert_int_equal(branches[3].target, TEXT + 0x20);
	assert_int_equal(branches[4].target, TEXT + 0x21);
	assert_int_equal(branches[5].addr, TEXT + 24);
	free(branches);
	unload();
}

/* By the manual, one byte after the other. */
static bool leads_to(const uint8_t *b, uint64_t addr, uint64_t *target)
{
	int32_t wide;
	bool cond = b[0] == 0x0f && b[1] >= 0x80 && b[1] <= 0x8f;

	if (b[0] == 0xeb || (b[0] >= 0x70 && b[0] <= 0x7f)) {
		*target = addr + 2 + (uint64_t)(int64_t)(int8_t)b[1];
		return true;
	}
	memcpy(&wide, b + 1 + cond, 4);
	*target = addr + 5 + cond + (uint64_t)(int64_t)wide;
	return cond || b[0] == 0xe8 || b[0] == 0xe9;
}

static void compare_branches(const uint8_t *code, size_t size, struct disasm_range range)
{
	struct disasm_branch *branches;
	size_t cnt, at = 0;
	uint64_t target;

	assert_int_equal(disasm__branches(disasm, &range, 1, &branches, &cnt), 0);
	for (size_t i = 0; i < size; i++) {
		if (!leads_to(code + i, TEXT + i, &target) || target < range.start ||
		    target >= range.end)
			continue;
		assert_true(at < cnt);
		assert_int_equal(branches[at].addr, TEXT + i);
		assert_int_equal(branches[at].target, target);
		assert_int_equal(branches[at].call, code[i] == 0xe8);
		assert_int_equal(branches[at++].cond,
				 code[i] != 0xe8 && code[i] != 0xe9 && code[i] != 0xeb);
	}
	assert_int_equal(at, cnt);
	assert_true(cnt > 100);
	free(branches);
}

/* Wide and short ones at every distance from a range, and at each place in what is looked at at once. */
static void test_disasm__finds_branches_anywhere(void **state)
{
	enum {
		SIZE = 0x7003,
		BEHIND = 6
	};
	static uint8_t code[SIZE + BEHIND];
	uint32_t random = 1;

	(void)state;
	memset(code, 0xcc, sizeof(code));
	for (size_t i = 0; i < SIZE; i++) {
		random = random * 1103515245 + 12345;
		code[i] = (uint8_t)(random >> 16);
	}
	for (size_t i = 0; i + 6 <= SIZE; i += 17 + 16 * (i % 3)) {
		int32_t distance = (int32_t)(0x4000 - (i + 6));

		memcpy(code + i, (const uint8_t[]){ i & 1 ? 0x0f : 0x90, i & 1 ? 0x85 : 0xe8 }, 2);
		memcpy(code + i + 2, &distance, 4);
	}
	for (uint8_t i = 0; i < 128; i += 2) {
		memcpy(code + 0x4000 - 2 - i, (const uint8_t[]){ 0xeb, i }, 2);
		memcpy(code + 0x4000 + i, (const uint8_t[]){ 0x75, (uint8_t)(-2 - i) }, 2);
	}
	load((const char *)code, SIZE);
	compare_branches(code, SIZE, (struct disasm_range){ TEXT + 0x4000, TEXT + 0x4001 });
	compare_branches(code, SIZE, (struct disasm_range){ TEXT + 0x3ff0, TEXT + 0x4123 });
	compare_branches(code, SIZE, (struct disasm_range){ TEXT, TEXT + SIZE });
	unload();
}

/* The state behind some instructions. */
static struct flow run(const char *bytes, size_t size)
{
	struct insn insn;
	struct flow f;

	load(bytes, size);
	flow__init(&f);
	for (uint64_t at = TEXT; at < TEXT + size; at += insn.size) {
		assert_int_equal(disasm__at(disasm, at, &insn), 0);
		flow__step(&f, &insn);
	}
	unload();
	return f;
}

static void expect(struct flow f, uint8_t root, enum probe_source source, uint8_t reg, int32_t disp)
{
	struct flow_place place;

	assert_true(flow__find(&f, (struct flow_value){ root, 0 }, PREG_NONE, &place));
	assert_int_equal(place.source, source);
	assert_int_equal(place.reg, reg);
	assert_int_equal(place.disp, disp);
}

#define RUN(bytes) run(bytes, sizeof(bytes) - 1)

static void test_flow__copies_and_distances(void **state)
{
	(void)state;
	/* mov rax, rbx; xor ebx, ebx */
	expect(RUN("\x48\x89\xd8\x31\xdb"), PREG_RBX, PROBE_IN_REG, PREG_RAX, 0);
	/* lea rax, [rbx-72]; mov rbx, [rbx+8] */
	expect(RUN("\x48\x8d\x43\xb8\x48\x8b\x5b\x08"), PREG_RBX, PROBE_IN_REG, PREG_RAX, 72);
	/* sub rbx, 16; add rbx, 4 */
	expect(RUN("\x48\x83\xeb\x10\x48\x83\xc3\x04"), PREG_RBX, PROBE_IN_REG, PREG_RBX, 12);
	/* a call keeps rbx */
	expect(RUN("\xe8\x00\x00\x00\x00"), PREG_RBX, PROBE_IN_REG, PREG_RBX, 0);
}

static void test_flow__slots(void **state)
{
	(void)state;
	/* mov [rsp+8], rdi; call */
	expect(RUN("\x48\x89\x7c\x24\x08\xe8\x00\x00\x00\x00"), PREG_RDI, PROBE_IN_SLOT, PREG_RSP,
	       8);
	/* push rdi; sub rsp, 16; call */
	expect(RUN("\x57\x48\x83\xec\x10\xe8\x00\x00\x00\x00"), PREG_RDI, PROBE_IN_SLOT, PREG_RSP,
	       16);
	/* push rdi; call; pop rbx */
	expect(RUN("\x57\xe8\x00\x00\x00\x00\x5b"), PREG_RDI, PROBE_IN_REG, PREG_RBX, 0);
	/* mov [rbp-16], rdi; call */
	expect(RUN("\x48\x89\x7d\xf0\xe8\x00\x00\x00\x00"), PREG_RDI, PROBE_IN_SLOT, PREG_RBP, -16);
}

static void lost(struct flow f, uint8_t root)
{
	struct flow_place place;

	assert_false(flow__find(&f, (struct flow_value){ root, 0 }, root, &place));
}

static void test_flow__what_is_lost(void **state)
{
	(void)state;
	lost(RUN("\xe8\x00\x00\x00\x00"), PREG_RDI); /* call */
	lost(RUN("\x89\xdb"), PREG_RBX); /* mov ebx, ebx */
	lost(RUN("\x48\x0f\x44\xd8"), PREG_RBX); /* cmove rbx, rax */
	/* mov [rsp+8], rdi; mov dword [rsp+12], 0; call: half of the slot is overwritten */
	lost(RUN("\x48\x89\x7c\x24\x08\xc7\x44\x24\x0c\x00\x00\x00\x00\xe8\x00\x00\x00\x00"),
	     PREG_RDI);
}

/* Bytes that may be such an instruction, wherever they stand. */
static void test_disasm__comparisons(void **state)
{
	static const char code[] = "\x80\x7b\x46\x00" /* cmp byte [rbx+70], 0 */
				   "\x41\x80\x7c\x24\x46\x00" /* [r12+70] */
				   "\x80\x7b\x46\x01" /* , 1 */
				   "\x80\x7b\x47\x00" /* [rbx+71] */
				   "\x41\xc3";
	uint64_t found[4];
	size_t cnt;

	(void)state;
	load(code, sizeof(code) - 1);
	assert_int_equal(disasm__byte_tests(disasm, 70, found, 4, &cnt), 0);
	assert_int_equal(cnt, 2);
	assert_int_equal(found[0], TEXT);
	assert_int_equal(found[1], TEXT + 5);
	assert_int_equal(disasm__byte_tests(disasm, 70, found, 1, &cnt), -E2BIG);
	unload();
}

/* Offsets of the instructions, of what is found in them; whether it is the address. */
struct use {
	size_t insn, found;
	bool has;
};

static void test_disasm__addresses(void **state)
{
	static const char code[] =
		"\x48\x81\x3c\xc5\x00\x10\x00\x00\x34\x12\x00\x00" /* cmp qword [rax*8+0x1000], 0x1234 */
		"\x48\x81\x3c\xcd\x00\x10\x00\x00\x35\x12\x00\x00" /* another address */
		"\x48\x3d\x34\x12\x00\x00" /* cmp rax, 0x1234 */
		"\xbf\x34\x12\x00\x00" /* mov edi, 0x1234 */
		"\x48\x81\x3c\xc7\x34\x12\x00\x00" /* cmp qword [rdi+rax*8], 0x1234 */
		"\xe9\x34\x12\x00\x00" /* jmp +0x1234 */
		"\x48\x8b\x05\x34\x12\x00\x00" /* mov rax, [rip+0x1234] */
		"\x4c\x8d\x05\xf9\x0f\x00\x00"; /* lea r8, [rip+0xff9] */
	static const struct use uses[] = { { 0, 8, true },   { 24, 26, true },	{ 30, 31, true },
					   { 35, 39, true }, { 43, 44, false }, { 48, 51, false },
					   { 55, 56, true } };
	uint64_t found[8], with, wanted[] = { 0x1234, TEXT + sizeof(code) - 1 + 0xff9 };
	struct insn insn;
	size_t cnt;

	(void)state;
	load(code, sizeof(code) - 1);
	assert_int_equal(disasm__address_uses(disasm, wanted, 2, found, 8, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(found[0], TEXT + 56);
	unload();
	load_as(ET_EXEC, code, sizeof(code) - 1);
	assert_int_equal(disasm__address_uses(disasm, wanted, 2, found, 8, &cnt), 0);
	assert_int_equal(cnt, sizeof(uses) / sizeof(uses[0]));
	for (size_t i = 0; i < cnt; i++) {
		assert_int_equal(found[i], TEXT + uses[i].found);
		assert_int_equal(disasm__at(disasm, TEXT + uses[i].insn, &insn), 0);
		assert_int_equal(insn__has_address(&insn, found[i]), uses[i].has);
		assert_int_equal(insn__compares_word(&insn, 0x1000, &with), !i);
		assert_false(insn__compares_word(&insn, 0x2000, &with));
	}
	assert_int_equal(with, 0x1234);
	assert_int_equal(disasm__address_uses(disasm, wanted, 0, found, 8, &cnt), 0);
	assert_int_equal(cnt, 0);
	unload();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disasm__what_the_kernel_emulates),
		cmocka_unit_test(test_disasm__what_the_kernel_refuses),
		cmocka_unit_test(test_disasm__flow),
		cmocka_unit_test(test_disasm__writes),
		cmocka_unit_test(test_disasm__what_is_no_instruction),
		cmocka_unit_test(test_disasm__each_address_is_itself),
		cmocka_unit_test(test_disasm__finds_all_branches),
		cmocka_unit_test(test_disasm__finds_branches_anywhere),
		cmocka_unit_test(test_flow__copies_and_distances),
		cmocka_unit_test(test_flow__slots),
		cmocka_unit_test(test_flow__what_is_lost),
		cmocka_unit_test(test_disasm__comparisons),
		cmocka_unit_test(test_disasm__addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
