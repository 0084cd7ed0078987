// SPDX-License-Identifier: Apache-2.0
/* Plans of made-up interpreters whose compiler knew the program as a whole: copies of handlers, and of the function that clears
 * frames; and the detours of such plans. */
#include "plan_make.h"

#include "cpython/inline_plan.h"

static struct inline_plan inlined;

static int make_inline(void)
{
	struct elf_file *elf = NULL;
	int ret;

	memset(&err, 0, sizeof(err));
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	ret = plan_make_inline(elf, &inlined, &err);
	elf_file__free(elf);
	return ret;
}

static bool has_site(enum probe_kind kind, size_t at)
{
	for (uint32_t i = 0; i < plan.site_cnt; i++)
		if (plan.sites[i].kind == kind && plan.sites[i].vaddr == TEXT + at)
			return true;
	return false;
}

/* mov rax, [rbx+8]; mov [r12+72], rax; cmp byte [rbx+70], 0; jne +0; jmp rax: what the function that clears frames begins with */
#define COPY	"\x48\x8b\x43\x08\x49\x89\x44\x24\x48\x80\x7b\x46\x00\x75\x00\xff\xe0"
#define IN_COPY 13 /* of the jne */

/* The compiler has put copies of it into the return handlers, and where frames are unwound. */
static void make_copies(void)
{
	make_312();
	for (size_t i = RETURN_VALUE; i <= INSTR_CONST; i++)
		PUT(handler_at(i) + 4, COPY);
	PUT(AT_CLEAR, "\xcc\xcc\xcc\xcc\xcc\xcc\xcc");
	PUT(AT_UNWIND, COPY);
}

static void test_copies__of_the_end(void **state)
{
	size_t ends = 0;

	(void)state;
	make_copies();
	assert_int_equal(make_plan("uprobe"), 0);
	for (uint32_t i = 0; i < plan.site_cnt; i++) {
		const struct probe_site *s = &plan.sites[i];

		assert_int_not_equal(s->kind, PROBE_CLEAR);
		assert_int_not_equal(s->kind, PROBE_UNWINDING);
		if (s->kind == PROBE_RETURN) {
			assert_int_equal(s->vaddr,
					 TEXT + handler_at(RETURN_VALUE + ends) + 4 + IN_COPY);
			assert_int_equal(s->reg, PREG_RBX);
			ends++;
		}
	}
	assert_int_equal(ends, INSTR_CONST - RETURN_VALUE + 1);
	expect("exit_unwind", PROBE_UNWIND, AT_UNWIND + IN_COPY, PREG_RBX, 0);
}

/* The function is there, too, for the unwinding, and each return handler leads to that call when something fails. */
static void test_copies__and_a_call(void **state)
{
	size_t returns = 0, calls = 0;

	(void)state;
	make_copies();
	PUT(AT_CLEAR, "\x55\x80\x7e\x46\x00\x5d\xc3");
	make_symbol(&made, "_PyEvalFrameClearAndPop", TEXT + AT_CLEAR, STT_FUNC);
	memset(made.bytes + MAKE_TEXT + AT_UNWIND, 0xcc, 32);
	put_branch(AT_UNWIND, 0xe8, AT_CLEAR);
	for (size_t i = RETURN_VALUE; i <= INSTR_CONST; i++)
		put_branch(handler_at(i) + 4 + IN_COPY + 2, 0xe9, AT_UNWIND);
	/* as what raises does */
	put_branch(AT_OTHERS + 16, 0xe9, AT_UNWIND);
	assert_int_equal(make_plan("uprobe"), 0);
	for (uint32_t i = 0; i < plan.site_cnt; i++) {
		returns += plan.sites[i].kind == PROBE_RETURN;
		calls += plan.sites[i].kind == PROBE_UNWINDING;
		assert_int_not_equal(plan.sites[i].kind, PROBE_UNWIND);
	}
	assert_int_equal(returns, INSTR_CONST - RETURN_VALUE + 1);
	assert_int_equal(calls, 1);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND);
}

/* Each handler is a function, as with tail calls; there are copies of the end, too. */
static void make_tail_calls(void)
{
	uint64_t addrs[256 + 16], after[] = { AT_CLEAR, AT_UNWIND, AT_DEALLOC, AT_EVAL, AT_STUB };
	uint32_t cnt = 0;

	make_copies();
	for (size_t i = 0; i < 256; i++)
		addrs[cnt++] = TEXT + AT_OTHERS + 16 * i;
	for (size_t i = 0; i <= INSTR_YIELD; i++)
		addrs[cnt++] = TEXT + handler_at(i);
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		addrs[cnt++] = TEXT + after[i];
	make_functions(&made, addrs, cnt);
}

/* cmp qword [table + rcx * 8], the handler's address; jne +0x40 */
static void put_guard(size_t at, size_t handler)
{
	uint32_t words[2] = { DATA, (uint32_t)(TEXT + handler) };

	PUT(at, "\x48\x81\x3c\xcd");
	put(at + 4, (const char *)words, 8);
	PUT(at + 12, "\x75\x40");
}
#define GUARD_SIZE 14

static void test_copies__of_handlers(void **state)
{
	(void)state;
	make_tail_calls();
	assert_int_equal(make_plan("uprobe"), 0);
	assert_true(plan.tail_call);
	assert_int_equal(plan.site_cnt, 10);
	put_guard(AT_STUB, handler_at(RESUME));
	PUT(AT_STUB + GUARD_SIZE, ENTRY);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(plan.site_cnt, 11);
	assert_true(has_site(PROBE_RESUME, AT_STUB + GUARD_SIZE + 6));
	/* one that does not show where it has its frame */
	make_tail_calls();
	put_guard(AT_STUB, handler_at(RESUME));
	PUT(AT_STUB + GUARD_SIZE, "\x90\x90\x90\x90\x85\xc0\x74\x00\xff\xe0");
	refused(-PYE_EPLAN, "the copy of the handler of RESUME at 0x402b0e");
	/* asked for in another way */
	make_tail_calls();
	PUT(AT_STUB, "\xb8"); /* mov eax, the handler; cmp rcx, rax; jne +0x40 */
	put(AT_STUB + 1, (const char *)&(uint32_t){ (uint32_t)(TEXT + handler_at(RESUME)) }, 4);
	PUT(AT_STUB + 5, "\x48\x39\xc1\x75\x40" ENTRY);
	refused(-PYE_EPLAN, "at 0x402b00 the address of a handler is taken");
	/* in what cannot be read */
	make_tail_calls();
	PUT(AT_STUB, "\x06");
	put_guard(AT_STUB + 1, handler_at(RESUME));
	refused(-PYE_EPLAN, "cannot be read");
	/* of a return handler: what it ends by is no exception */
	make_tail_calls();
	put_guard(AT_STUB, handler_at(RETURN_VALUE));
	PUT(AT_STUB + GUARD_SIZE, "\x48\x89\x4b\x38" COPY);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(plan.site_cnt, 11);
	assert_true(has_site(PROBE_RETURN, AT_STUB + GUARD_SIZE + 4 + IN_COPY));
	/* one that calls the function */
	make_tail_calls();
	PUT(AT_CLEAR, "\x55\x80\x7e\x46\x00\x5d\xc3");
	make_symbol(&made, "_PyEvalFrameClearAndPop", TEXT + AT_CLEAR, STT_FUNC);
	put_guard(AT_STUB, handler_at(RETURN_CONST));
	PUT(AT_STUB + GUARD_SIZE, "\x48\x89\x4b\x38");
	put_branch(AT_STUB + GUARD_SIZE + 4, 0xe8, AT_CLEAR);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_false(has_site(PROBE_UNWINDING, AT_STUB + GUARD_SIZE + 4));
	/* one that does neither */
	PUT(AT_STUB + GUARD_SIZE + 4, "\xff\xe0");
	refused(-PYE_EPLAN, "a copy of a return handler");
}

/* What may be one, in code that cannot be read. */
static void test_copies__unreadable(void **state)
{
	(void)state;
	make_copies();
	PUT(AT_STUB, "\x06");
	PUT(AT_STUB + 16, COPY);
	refused(-PYE_EPLAN, "a frame may end");
	/* in an instruction: none */
	make_copies();
	PUT(AT_STUB, "\x48\xb8\x80\x7b\x46\x00\x90\x90\x90\x90"); /* mov rax, ... */
	assert_int_equal(make_plan("uprobe"), 0);
}

static void put_runtime(uint32_t version)
{
	memcpy(made.bytes + MAKE_DATA + AT_RUNTIME, "xdebugpy", 8);
	put_word(AT_RUNTIME + 8, version);
}

/* Of versions after 3.12: each return handler and the unwinding have a copy of the end. */
static void make_copies_of(uint8_t minor, const char *copy, size_t size)
{
	const struct opcode_handler *op;

	make_common(minor);
	put_runtime(0x3000000u | (uint32_t)minor << 16);
	op = version_of(minor)->handlers;
	for (size_t i = 0; op[i].name; i++) {
		PUT(handler_at(i), ENTRY);
		if (op[i].kind == PROBE_RETURN)
			put(handler_at(i) + 4, copy, size);
	}
	put(AT_UNWIND, copy, size);
}

/* The thread state has one field for the current frame: what stores the caller elsewhere may be keeping it for later. */
static void test_copies__the_current_frame(void **state)
{
	(void)state;
	make_copies_of(13, COPY, sizeof(COPY) - 1);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + IN_COPY);
	PUT(AT_UNWIND + 4, "\x49\x89\x44\x24\x50"); /* [r12+80] */
	refused(-PYE_EPLAN, "by an exception");
	make_copies_of(13, COPY, sizeof(COPY) - 1);
	PUT(AT_UNWIND + 4, "\x48\x89\x44\x24\x48"); /* [rsp+72] */
	refused(-PYE_EPLAN, "by an exception");
}

/* mov rax, [rbx+8]; mov [r12+72], rax; cmp byte [rbx+74], 0; mov r14, r12; mov r12, rcx; jne +0; jmp rax */
#define COPY_314                                                                               \
	"\x48\x8b\x43\x08\x49\x89\x44\x24\x48\x80\x7b\x4a\x00\x4d\x89\xe6\x49\x89\xcc\x75\x00" \
	"\xff\xe0"

/* gen_close() and the function that clears frames call another one. */
static void put_gen_close(void)
{
	const uint64_t functions[] = { TEXT + AT_CLEAR, TEXT + AT_UNWIND,   TEXT + AT_DEALLOC,
				       TEXT + AT_EVAL,	TEXT + AT_CHECK,    TEXT + AT_STUB,
				       TEXT + AT_MANY,	TEXT + AT_MANY + 64 };

	PUT(AT_CLEAR, "\x55\x80\x7e\x4a\x00");
	put_branch(AT_CLEAR + 5, 0xe8, AT_STUB);
	PUT(AT_CLEAR + 10, "\x5d\xc3");
	put_branch(AT_EVAL, 0xe8, AT_STUB);
	PUT(AT_EVAL + 5, "\x90\xc3");
	PUT(AT_STUB, "\x90\xc3");
	make_symbol(&made, "_PyEval_FrameClearAndPop", TEXT + AT_CLEAR, STT_FUNC);
	make_symbol(&made, "PyGen_Type", DATA + 0xb00, STT_OBJECT);
	put_word(0xb00 + 232, DATA + 0xc80);
	put_word(0xc80, DATA + 0xd00);
	put_word(0xc88, TEXT + AT_EVAL);
	memcpy(made.bytes + MAKE_DATA + 0xd00, "close", 6);
	make_functions(&made, functions, sizeof(functions) / sizeof(functions[0]));
}

static void expect_closed(size_t at, bool wanted)
{
	bool found = false;

	for (uint32_t i = 0; i < plan.site_cnt; i++)
		found |= plan.sites[i].kind == PROBE_GEN_CLOSE && plan.sites[i].vaddr == TEXT + at;
	if (found != wanted)
		fail_msg("the call at 0x%zx is %sin the plan", at, found ? "" : "not ");
}

static void make_gen_close(void)
{
	make_copies_of(14, COPY_314, sizeof(COPY_314) - 1);
	put_gen_close();
}

/* nop; the call; nop; ret */
static void put_clear(size_t at)
{
	PUT(at, "\x90");
	put_branch(at + 1, 0xe8, AT_STUB);
	PUT(at + 6, "\x90\xc3");
}

/* A stub is left, which jumps to the rest; what is called, of any size, may hold some of it, too. */
static void test_gen_close__in_parts(void **state)
{
	(void)state;
	make_gen_close();
	PUT(AT_EVAL + 5, "\x74\x05"); /* je, over the jump */
	put_branch(AT_EVAL + 7, 0xe9, AT_CHECK);
	PUT(AT_EVAL + 12, "\xc3");
	put_clear(AT_CHECK);
	put_clear(AT_MANY);
	assert_int_equal(make_plan("uprobe"), 0);
	expect_closed(AT_EVAL, true);
	expect_closed(AT_CHECK + 1, true);
	expect_closed(AT_MANY + 1, false);
	/* by way of another jump */
	put_branch(AT_CHECK, 0xe9, AT_MANY);
	assert_int_equal(make_plan("uprobe"), 0);
	expect_closed(AT_EVAL, true);
	expect_closed(AT_MANY + 1, true);
	put_clear(AT_CHECK);
	/* only there, and behind a conditional jump */
	PUT(AT_EVAL, "\x90\x90\x90\x90\x90\x90\x0f\x84");
	put_branch(AT_EVAL + 7, 0x84, AT_CHECK);
	assert_int_equal(make_plan("uprobe"), 0);
	expect_closed(AT_CHECK + 1, true);
	/* called */
	make_gen_close();
	put_branch(AT_EVAL + 5, 0xe8, AT_CHECK);
	PUT(AT_EVAL + 10, "\xc3");
	for (size_t i = 0; i < 6; i++)
		put_branch(AT_CHECK + 5 * i, 0xe8, AT_DEALLOC);
	put_clear(AT_CHECK + 30);
	assert_int_equal(make_plan("uprobe"), 0);
	expect_closed(AT_EVAL, true);
	expect_closed(AT_CHECK + 31, true);
}

/* What asks, as gen_close() does, whether tools watch, has a copy of it; others that clear frames have not. */
static void test_gen_close__copies(void **state)
{
	(void)state;
	make_gen_close();
	make_symbol(&made, "_PyEval_NoToolsForUnwind", TEXT + AT_DEALLOC, STT_FUNC);
	put_clear(AT_CHECK);
	put_branch(AT_MANY, 0xe8, AT_DEALLOC);
	put_clear(AT_MANY + 5);
	assert_int_equal(make_plan("uprobe"), 0);
	expect_closed(AT_EVAL, true);
	expect_closed(AT_CHECK + 1, false);
	expect_closed(AT_MANY + 6, true);
}

static void test_gen_close__that_cannot_be_followed(void **state)
{
	(void)state;
	make_gen_close();
	PUT(AT_EVAL + 5, "\xff\xe0"); /* jmp rax */
	refused(-PYE_EPLAN, "cannot be followed");
	make_gen_close();
	PUT(AT_EVAL + 5, "\x74\x05");
	put_branch(AT_EVAL + 7, 0xe9, AT_STUB);
	PUT(AT_EVAL + 12, "\xc3");
	refused(-PYE_EPLAN, "by a jump (0x402907)");
}

/* The thread state is followed to the probe, as the frame is. */
static void test_copies__the_thread_state(void **state)
{
	(void)state;
	make_copies_of(14, COPY_314, sizeof(COPY_314) - 1);
	put_gen_close();
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + IN_COPY + 6);
	assert_int_equal(site("exit_unwind")->value_reg, PREG_R14);
	/* not to where it is not: the comparison itself has it */
	PUT(AT_UNWIND + IN_COPY, "\x4d\x89\xc6"); /* mov r14, r8 */
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + IN_COPY - 4);
	assert_int_equal(site("exit_unwind")->value_reg, PREG_R12);
}

/* mov rax, [rbx+8]; cmp byte [rbx+70], 0; mov [r12+72], rax; jne +0; jmp rax */
#define COPY_BEHIND "\x48\x8b\x43\x08\x80\x7b\x46\x00\x49\x89\x44\x24\x48\x75\x00\xff\xe0"

/* A compiler may move the store of the caller behind the comparison. */
static void test_copies__that_store_behind(void **state)
{
	(void)state;
	make_copies();
	PUT(AT_UNWIND, COPY_BEHIND);
	assert_int_equal(make_plan("uprobe"), 0);
	expect("exit_unwind", PROBE_UNWIND, AT_UNWIND + IN_COPY, PREG_RBX, 0);
	/* behind the jump, too: that is on one of two ways */
	make_copies();
	PUT(AT_UNWIND + 4, "\x80\x7b\x46\x00\x75\x00\x49\x89\x44\x24\x48\xff\xe0");
	refused(-PYE_EPLAN, "by an exception");
	/* another one's: mov rax, [rcx+8] comes before the store */
	make_copies();
	PUT(AT_UNWIND + 8, "\x48\x8b\x41\x08\x49\x89\x44\x24\x48\x75\x00\xff\xe0");
	refused(-PYE_EPLAN, "by an exception");
	/* no jump follows */
	make_copies();
	PUT(AT_UNWIND + IN_COPY, "\xff\xe0");
	PUT(AT_UNWIND, "\x48\x8b\x43\x08\x80\x7b\x46\x00\x49\x89\x44\x24\x48\xff\xe0");
	refused(-PYE_EPLAN, "by an exception");
}

/* The probe needs the thread state as it is at the comparison. */
static void test_copies__that_store_behind_to_the_thread_state(void **state)
{
	(void)state;
	make_copies_of(14, COPY_314, sizeof(COPY_314) - 1);
	put_gen_close();
	/* mov rax, [rbx+8]; cmp byte [rbx+74], 0; mov r12, rcx; mov [r12+72], rax; jne +0; jmp rax */
	PUT(AT_UNWIND, "\x48\x8b\x43\x08\x80\x7b\x4a\x00\x49\x89\xcc\x49\x89\x44\x24\x48\x75\x00"
		       "\xff\xe0\xcc\xcc\xcc");
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + 16);
	assert_int_equal(site("exit_unwind")->value_reg, PREG_RCX);
	PUT(AT_UNWIND + 8,
	    "\x4c\x8b\x65\x10\x49\x89\x44\x24\x48\x75\x00\xff\xe0"); /* mov r12, [rbp+16] */
	refused(-PYE_EPLAN, "the thread state is not found");
}

/* What comes in between the load of the caller and the probe has not gone through all of an end. */
static void test_copies__that_are_entered(void **state)
{
	(void)state;
	/* behind the comparison: the probe stays there */
	make_copies();
	put_branch(AT_STUB, 0xe9, AT_UNWIND + IN_COPY);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + IN_COPY - 4);
	assert_true(site("exit_unwind")->single_step);
	/* at the comparison */
	make_copies();
	put_branch(AT_STUB, 0xe9, AT_UNWIND + IN_COPY - 4);
	refused(-PYE_EPLAN, "the end of a frame at 0x402849 is entered from 0x402b00");
	/* before the load, and behind the probe */
	make_copies();
	put_branch(AT_STUB, 0xe9, AT_UNWIND);
	put_branch(AT_STUB + 16, 0xe9, AT_UNWIND + IN_COPY + 2);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND + IN_COPY);
}

static void test_copies__that_are_none(void **state)
{
	(void)state;
	/* nothing is unwound */
	make_copies();
	PUT(AT_UNWIND, "\xc3");
	refused(-PYE_EPLAN, "by an exception");
	/* of another frame than the one whose caller was read; nothing becomes the current frame */
	make_copies();
	PUT(handler_at(RETURN_CONST) + 4 + 9, "\x80\x79\x46\x00"); /* [rcx+70] */
	refused(-PYE_EPLAN, "RETURN_CONST");
	make_copies();
	PUT(handler_at(INSTR_RETURN) + 4 + 4, "\x49\x89\x4c\x24\x48"); /* rcx */
	refused(-PYE_EPLAN, "INSTRUMENTED_RETURN_VALUE");
}

/* push rbp; mov rbx, rsi; nop; ret */
static void put_loop(void)
{
	PUT(AT_EVAL, "\x55\x48\x89\xf3\x90\xc3");
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
}

static void refused_inline(const char *why)
{
	assert_int_equal(make_inline(), -PYE_EPLAN);
	if (!strstr(err.what, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.what);
}

static void test_copies__detours(void **state)
{
	size_t returns = 0;

	(void)state;
	make_copies();
	put_loop();
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.call_cnt, 0);
	assert_int_equal(inlined.detour_cnt, 6);
	for (uint32_t i = 0; i < inlined.detour_cnt; i++) {
		returns += inlined.detours[i].kind == INLINE_RETURN;
		if (inlined.detours[i].kind == INLINE_RETURN)
			assert_int_equal(inlined.detours[i].frame_reg, PREG_RBX);
		assert_int_equal(inlined.detours[i].sets_flags,
				 inlined.detours[i].kind != INLINE_THROW);
		if (inlined.detours[i].kind == INLINE_THROW)
			assert_int_equal(inlined.detours[i].at, TEXT + AT_EVAL);
	}
	assert_int_equal(returns, 4);
	/* something jumps into the middle of one of them, to its start, to what follows it */
	make_copies();
	put_loop();
	put_branch(AT_STUB, 0xe9, handler_at(INSTR_RETURN) + 4 + IN_COPY);
	refused_inline("0x40230d cannot be replaced");
	make_copies();
	put_loop();
	put_branch(AT_STUB, 0xe9, AT_EVAL);
	put_branch(AT_STUB + 16, 0xe9, AT_UNWIND + IN_COPY + 2);
	assert_int_equal(make_inline(), 0);
	/* the dispatch table leads there */
	make_copies();
	put_loop();
	put_word(8, TEXT + AT_EVAL + 1);
	refused_inline("0x402900 cannot be replaced");
}

/* What jumps to a handler, whatever the table says, passes by the words that the inline engine changes. */
static void test_copies__past_the_table(void **state)
{
	(void)state;
	make_tail_calls();
	put_loop();
	put_branch(AT_STUB + 16, 0xe9, handler_at(YIELD));
	assert_int_equal(make_plan("uprobe"), 0);
	refused_inline("jumped to from 0x402b10");
	make_tail_calls();
	put_loop();
	put_branch(AT_STUB + 16, 0xe9, handler_at(RESUME));
	refused_inline("jumped to from 0x402b10");
	/* it is the table's word that is asked */
	make_tail_calls();
	put_loop();
	put_guard(AT_STUB, handler_at(RESUME));
	put_branch(AT_STUB + GUARD_SIZE, 0xe9, handler_at(RESUME));
	assert_int_equal(make_inline(), 0);
	/* another entry handler, of which a part lies apart */
	make_tail_calls();
	put_loop();
	put_branch(handler_at(INSTR_RESUME) + 8, 0xe9, AT_STUB + 16);
	PUT(AT_STUB + 16, "\x85\xc0\x74\x40");
	put_branch(AT_STUB + 20, 0xe9, handler_at(RESUME));
	assert_int_equal(make_inline(), 0);
	/* where BOLT has taken a handler away */
	make_tail_calls();
	put_loop();
	make_section(&made, ".bolt.org.text", SHT_PROGBITS, SHF_ALLOC, MAKE_TEXT + AT_STUB, 64);
	put_branch(AT_STUB, 0xe9, handler_at(YIELD));
	assert_int_equal(make_inline(), 0);
	put_branch(AT_STUB + 16, 0xe9, handler_at(YIELD));
	refused_inline("jumped to from 0x402b10");
}

static void put_many_copies(size_t cnt)
{
	make_copies();
	for (size_t i = 0; i < cnt; i++)
		PUT(AT_MANY + 32 * i, COPY);
}

static void test_copies__many_copies(void **state)
{
	(void)state;
	put_many_copies(32);
	assert_int_equal(make_plan("uprobe"), 0);
	put_many_copies(64);
	refused(-PYE_EPLAN, "more copies of _PyEvalFrameClearAndPop");
	assert_non_null(strstr(err.what, "the file has no .eh_frame_hdr")); /* may be why */
	assert_int_equal(make_plan("sample"), 0);
	assert_string_equal(plan.engine, "sample");
	assert_non_null(strstr(plan.notes, "more copies"));
}

/* The next instruction is on the stack: gcc 12 has it there in a plain build of 3.13 (./configure && make). */
static void test_inline__the_instruction_is_on_the_stack(void **state)
{
	(void)state;
	make_copies();
	put_loop();
	/* mov rax, [rsp+16]; sub rax, 2; mov [rbx+56], rax; add rax, 4; mov [rsp+16], rax; test eax, eax; je +0; jmp rax */
	PUT(handler_at(RESUME),
	    "\x48\x8b\x44\x24\x10\x48\x83\xe8\x02\x48\x89\x43\x38\x48\x83\xc0\x04"
	    "\x48\x89\x44\x24\x10\x85\xc0\x74\x00\xff\xe0");
	assert_int_equal(make_inline(), 0);
	assert_true(inlined.instr_in_slot);
	assert_int_equal(inlined.instr_reg, PREG_RSP);
	assert_int_equal(inlined.instr_slot, 16);
	assert_int_equal(inlined.instr_disp, -2);

	/* the result of something: a call's */
	put_branch(handler_at(RESUME), 0xe8, AT_DEALLOC);
	PUT(handler_at(RESUME) + 5, "\x48\x89\x43\x38\x85\xc0\x74\x00\xff\xe0");
	refused_inline("has its instruction cannot be told");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies__of_the_end),
		cmocka_unit_test(test_copies__and_a_call),
		cmocka_unit_test(test_copies__of_handlers),
		cmocka_unit_test(test_copies__unreadable),
		cmocka_unit_test(test_copies__the_current_frame),
		cmocka_unit_test(test_gen_close__in_parts),
		cmocka_unit_test(test_gen_close__copies),
		cmocka_unit_test(test_gen_close__that_cannot_be_followed),
		cmocka_unit_test(test_copies__the_thread_state),
		cmocka_unit_test(test_copies__that_store_behind),
		cmocka_unit_test(test_copies__that_store_behind_to_the_thread_state),
		cmocka_unit_test(test_copies__that_are_entered),
		cmocka_unit_test(test_copies__that_are_none),
		cmocka_unit_test(test_copies__detours),
		cmocka_unit_test(test_copies__past_the_table),
		cmocka_unit_test(test_copies__many_copies),
		cmocka_unit_test(test_inline__the_instruction_is_on_the_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
