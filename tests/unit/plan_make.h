/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: made-up interpreters, 3.12 reduced to a dispatch table, the handlers and functions that the planner
 * looks at, and one byte of code for everything else; and the plans of them. */
#ifndef PYEBPF_TESTS_PLAN_MAKE_H
#define PYEBPF_TESTS_PLAN_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "cpython/opcodes.h"
#include "cpython/plan.h"
#include "elf_make.h"

#define TEXT make_vaddr(MAKE_TEXT)
#define DATA make_vaddr(MAKE_DATA)

/* Distances from the start of the code. */
enum {
	AT_UNKNOWN = 0x20,
	AT_OTHERS = 0x100, /* 16 bytes each */
	AT_HANDLERS = 0x1200, /* 64 bytes each, in the order of the version's row */
	AT_CLEAR = 0x1800,
	AT_UNWIND = 0x1840,
	AT_DEALLOC = 0x1880,
	AT_EVAL = 0x1900,
	AT_CHECK = 0x1a00,
	AT_STUB = 0x1b00,
	AT_MANY = 0x2000,
	AT_TYPE = 0x900, /* in the data: PyCode_Type, _PyRuntime */
	AT_RUNTIME = 0xa00,
};

enum {
	RESUME,
	INSTR_RESUME,
	RETURN_VALUE,
	RETURN_CONST,
	INSTR_RETURN,
	INSTR_CONST,
	YIELD,
	INSTR_YIELD
};

static struct elf_make made;
static struct probe_plan plan;
static struct err err;

static inline void put(size_t at, const char *bytes, size_t size)
{
	memcpy(made.bytes + MAKE_TEXT + at, bytes, size);
}

#define PUT(at, bytes) put(at, bytes, sizeof(bytes) - 1)

/* A jump or call with 32 bits at @at. */
static inline void put_branch(size_t at, uint8_t opcode, size_t to)
{
	int32_t distance = (int32_t)(to - (at + 5));

	made.bytes[MAKE_TEXT + at] = opcode;
	memcpy(made.bytes + MAKE_TEXT + at + 1, &distance, 4);
}

static inline size_t handler_at(size_t index)
{
	return AT_HANDLERS + 64 * index;
}

static inline void put_word(size_t at, uint64_t word)
{
	memcpy(made.bytes + MAKE_DATA + at, &word, 8);
}

static inline void put_table(const struct python_version *version)
{
	bool unused[256] = { false };
	char *end;

	for (const char *at = version->unused; *at; at = *end == ',' ? end + 1 : end) {
		unsigned long lo = strtoul(at, &end, 10), hi = lo;

		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		for (; lo <= hi; lo++)
			unused[lo] = true;
	}
	for (size_t i = 0; i < 256; i++) {
		PUT(AT_OTHERS + 16 * i, "\x0f\x0b"); /* ud2 */
		put_word(8 * i, TEXT + (unused[i] ? AT_UNKNOWN : AT_OTHERS + 16 * i));
	}
	for (size_t i = 0; version->handlers[i].name; i++)
		put_word(8 * version->handlers[i].number, TEXT + handler_at(i));
}

static inline const struct python_version *version_of(uint8_t minor)
{
	for (size_t i = 0; i < python_version_cnt; i++)
		if (python_versions[i].minor == minor)
			return &python_versions[i];
	return NULL;
}

static inline void make_common(uint8_t minor)
{
	make_init(&made, ET_EXEC);
	memset(made.bytes + MAKE_TEXT, 0xcc, MAKE_DATA - MAKE_TEXT);
	PUT(AT_UNKNOWN, "\x0f\x0b");
	PUT(AT_DEALLOC, "\x53\x5b\xc3"); /* push rbx; pop rbx; ret */
	put_table(version_of(minor));
	put_word(AT_TYPE + 48, TEXT + AT_DEALLOC);
	make_symbol(&made, "PyCode_Type", DATA + AT_TYPE, STT_OBJECT);
	make_symbol(&made, "_PyRuntime", DATA + AT_RUNTIME, STT_OBJECT);
}

/* mov [rbx+56], rcx; test eax, eax; je +0; jmp rax: the probe is at +6 */
#define ENTRY "\x48\x89\x4b\x38\x85\xc0\x74\x00\xff\xe0"

static inline void make_312(void)
{
	make_common(12);
	PUT(handler_at(RESUME), ENTRY);
	PUT(handler_at(INSTR_RESUME), ENTRY);
	for (size_t i = RETURN_VALUE; i <= INSTR_CONST; i++) {
		PUT(handler_at(i), "\x48\x89\x4b\x38");
		put_branch(handler_at(i) + 4, 0xe8, AT_CLEAR);
		PUT(handler_at(i) + 9, "\xff\xe0");
	}
	/* mov [rbx+56], rcx; lea rdx, [rbx-72]; mov rbx, [rbx+8]; je +0; jmp rax */
	PUT(handler_at(YIELD), "\x48\x89\x4b\x38\x48\x8d\x53\xb8\x48\x8b\x5b\x08\x74\x00\xff\xe0");
	PUT(handler_at(INSTR_YIELD), ENTRY);
	PUT(AT_CLEAR,
	    "\x55\x80\x7e\x46\x00\x5d\xc3"); /* push rbp; cmp byte [rsi+70], 0; pop rbp; ret */
	put_branch(AT_UNWIND, 0xe8, AT_CLEAR);
	PUT(AT_UNWIND + 5, "\xc3");
}

static inline int make_plan(const char *engine)
{
	struct elf_file *elf = NULL;
	int ret;

	memset(&plan, 0, sizeof(plan));
	memset(&err, 0, sizeof(err));
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	ret = plan_make(elf, engine, &plan, &err);
	assert_int_equal(plan_is_interpreter(elf), ret != -PYE_ENOTPYTHON);
	elf_file__free(elf);
	return ret;
}

static inline const struct probe_site *site(const char *name)
{
	for (uint32_t i = 0; i < plan.site_cnt; i++)
		if (!strcmp(plan.sites[i].name, name))
			return &plan.sites[i];
	fail_msg("no site %s", name);
	return &plan.sites[0];
}

static inline void expect(const char *name, enum probe_kind kind, size_t at, uint8_t reg,
			  int32_t disp)
{
	const struct probe_site *s = site(name);

	assert_int_equal(s->kind, kind);
	assert_int_equal(s->vaddr, TEXT + at);
	assert_int_equal(s->offset, MAKE_TEXT + at);
	assert_int_equal(s->source, PROBE_IN_REG);
	assert_int_equal(s->reg, reg);
	assert_int_equal(s->disp, disp);
}

static inline void refused(int code, const char *why)
{
	assert_int_equal(make_plan("uprobe"), code);
	if (!strstr(err.what, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.what);
	assert_int_equal(plan.site_cnt, 0);
}

#endif
