// SPDX-License-Identifier: Apache-2.0
/* Plans of made-up interpreters (plan_make.h), and of 3.10 reduced likewise. */
#include "plan_make.h"

/* je with 32 bits */
static void put_cond(size_t at, size_t to)
{
	PUT(at, "\x0f");
	put_branch(at + 1, 0x84, to);
}

/* The loop of 3.10: rdi thread state, rsi frame, edx throwflag. */
static void make_310(void)
{
	make_common(10);
	PUT(AT_EVAL, "\x55" /* push rbp */
		     "\x48\x89\xf3" /* mov rbx, rsi */
		     "\x83\x7f\x20\x05" /* cmp dword [rdi+32], 5 */
		     "\x7f\x16" /* jg +0x20 */
		     "\x48\x89\x5f\x18" /* mov [rdi+24], rbx */
		     "\xff\xe0"); /* jmp rax */
	PUT(AT_EVAL + 0x10, "\x48\x8b\x54\x24\x08"); /* mov rdx, [rsp+8] */
	put_branch(AT_EVAL + 0x15, 0xe8, AT_CHECK);
	PUT(AT_EVAL + 0x1a, "\x5d\xc3\x90\x90\x90\x90" /* pop rbp; ret */
			    "\x31\xc0\xeb\xf6"); /* +0x20: xor eax, eax; jmp +0x1a */
	PUT(AT_CHECK, "\x48\x89\xd0\xc3");
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = 0x24;
	make_symbol(&made, "_Py_CheckFunctionResult", TEXT + AT_CHECK, STT_FUNC);
}

static void test_plan__handlers(void **state)
{
	(void)state;
	make_312();
	assert_int_equal(make_plan("auto"), 0);
	assert_string_equal(plan.engine, "uprobe");
	assert_int_equal(plan.minor, 12);
	assert_int_equal(plan.table, DATA);
	assert_int_equal(plan.runtime, DATA + AT_RUNTIME);
	assert_int_equal(plan.site_cnt, 7);
	assert_int_equal(site("exit_unwind")->kind, PROBE_UNWINDING);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME) + 6, PREG_RBX, 0);
	expect("INSTRUMENTED_RESUME", PROBE_RESUME, handler_at(INSTR_RESUME) + 6, PREG_RBX, 0);
	expect("YIELD_VALUE", PROBE_YIELD, handler_at(YIELD) + 12, PREG_RDX, 72);
	expect("_PyEvalFrameClearAndPop", PROBE_CLEAR, AT_CLEAR, PREG_RSI, 0);
	expect("code_dealloc", PROBE_CODE_DEALLOC, AT_DEALLOC, PREG_RDI, 0);
	for (uint32_t i = 0; i < plan.site_cnt; i++)
		assert_false(plan.sites[i].single_step);
	assert_string_equal(site("RESUME")->insn, "je 0x402208");
}

static void test_plan__no_emulated_instruction(void **state)
{
	(void)state;
	make_312();
	PUT(handler_at(RESUME), "\x48\x89\x4b\x38\xff\xe0");
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME), PREG_RBX, 0);
	assert_true(site("RESUME")->single_step);
}

static void test_plan__yield_whose_frame_only_a_copy_has(void **state)
{
	(void)state;
	make_312();
	/* mov [rbx+56], rcx; mov rbx, [rbx+8]; mov qword [rbp+8], 0; jmp +0 */
	PUT(handler_at(YIELD),
	    "\x48\x89\x4b\x38\x48\x8b\x5b\x08\x48\xc7\x45\x08\x00\x00\x00\x00\xeb\x00\xff\xe0");
	assert_int_equal(make_plan("uprobe"), 0);
	expect("YIELD_VALUE", PROBE_YIELD, handler_at(YIELD) + 16, PREG_RBP, 0);
	/* without that store nothing shows what rbp is */
	make_312();
	PUT(handler_at(YIELD),
	    "\x48\x89\x4b\x38\x48\x8b\x5b\x08\x48\xc7\x45\x10\x00\x00\x00\x00\xeb\x00\xff\xe0");
	assert_int_equal(make_plan("uprobe"), 0);
	expect("YIELD_VALUE", PROBE_YIELD, handler_at(YIELD), PREG_RBX, 0);
	assert_true(site("YIELD_VALUE")->single_step);
}

static void test_plan__jumps_into_handlers(void **state)
{
	(void)state;
	/* from another entry handler: allowed, its frame is dropped as a double */
	make_312();
	put_branch(handler_at(INSTR_RESUME) + 16, 0xe9, handler_at(RESUME) + 4);
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME) + 6, PREG_RBX, 0);
	/* the same by way of a few instructions that lie apart */
	make_312();
	put_branch(handler_at(INSTR_RESUME) + 16, 0xe9, AT_STUB + 6);
	PUT(AT_STUB, "\x74\x00\xff\xe0\xcc\xcc\x4d\x89\xfc");
	put_branch(AT_STUB + 9, 0xe9, handler_at(RESUME) + 4);
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME) + 6, PREG_RBX, 0);
	/* handlers that are functions: from the one to the start of the other */
	make_312();
	PUT(handler_at(RESUME), "\x55\x48\x89\x4b\x38\x5d\xff\xe0");
	put_branch(handler_at(INSTR_RESUME) + 16, 0xe9, handler_at(RESUME));
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME), PREG_RBX, 0);
	assert_false(site("RESUME")->single_step);
	/* from elsewhere: not, so the probe moves to the start */
	make_312();
	put_branch(AT_STUB, 0xe9, handler_at(RESUME) + 4);
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME), PREG_RBX, 0);
	assert_true(site("RESUME")->single_step);
	/* and if the start is jumped to as well there is none */
	make_312();
	put_branch(AT_STUB, 0xe9, handler_at(RESUME));
	refused(-PYE_EPLAN, "the handler of RESUME (0x402200) is entered from 0x402b00");
}

static void test_plan__fallen_into(void **state)
{
	(void)state;
	make_312();
	memset(made.bytes + MAKE_TEXT + handler_at(RESUME) + 6, 0x90, 58); /* into the next one */
	assert_int_equal(make_plan("uprobe"), 0);
	make_312();
	memset(made.bytes + MAKE_TEXT + handler_at(INSTR_CONST) + 9, 0x90, 55);
	PUT(handler_at(INSTR_CONST) + 9, "\x31\xc0");
	refused(-PYE_EPLAN, "YIELD_VALUE");
}

static void test_plan__frame_in_two_places(void **state)
{
	(void)state;
	make_312();
	PUT(handler_at(RESUME), "\x48\x89\x4d\x38"); /* rbp, not rbx */
	refused(-PYE_EPLAN, "do not hold the frame in the same place");
}

static void test_plan__frame_in_a_slot(void **state)
{
	const struct probe_site *s;

	(void)state;
	make_312();
	/* mov rbx, [rsp+8] first */
	for (size_t i = 0; i <= INSTR_YIELD; i++) {
		char code[32];

		memcpy(code, made.bytes + MAKE_TEXT + handler_at(i), 25);
		PUT(handler_at(i), "\x48\x8b\x5c\x24\x08");
		put(handler_at(i) + 5, code, 25);
		if (i >= RETURN_VALUE && i <= INSTR_CONST)
			put_branch(handler_at(i) + 9, 0xe8, AT_CLEAR);
	}
	assert_int_equal(make_plan("uprobe"), 0);
	expect("RESUME", PROBE_RESUME, handler_at(RESUME) + 11, PREG_RBX, 0);
	/* at the first byte it still is in the slot */
	make_312();
	for (size_t i = 0; i <= INSTR_YIELD; i++) {
		PUT(handler_at(i), "\x48\x8b\x5c\x24\x08\x48\x89\x4b\x38\xff\xe0"
				   "\xcc\xcc\xcc\xcc\xcc");
		if (i < RETURN_VALUE || i > INSTR_CONST)
			continue;
		put_branch(handler_at(i) + 9, 0xe8, AT_CLEAR);
		PUT(handler_at(i) + 14, "\xff\xe0");
	}
	assert_int_equal(make_plan("uprobe"), 0);
	s = site("RESUME");
	assert_true(s->single_step);
	assert_int_equal(s->source, PROBE_IN_SLOT);
	assert_int_equal(s->reg, PREG_RSP);
	assert_int_equal(s->disp, 8);
}

static void test_plan__returns_that_are_not_seen(void **state)
{
	(void)state;
	make_312();
	PUT(handler_at(RETURN_CONST) + 4, "\xff\xe0");
	refused(-PYE_EPLAN, "RETURN_CONST");
	make_312();
	PUT(AT_UNWIND, "\xc3");
	refused(-PYE_EPLAN, "by an exception");
	make_312();
	make_symbol(&made, "_PyEvalFrameClearAndPop", TEXT + AT_UNWIND, STT_FUNC);
	refused(-PYE_EPLAN, "is not seen to call");
	/* it has no symbol, and something else is called before it */
	make_312();
	for (size_t i = RETURN_VALUE; i <= INSTR_CONST; i++) {
		put_branch(handler_at(i) + 4, 0xe8, AT_CHECK);
		put_branch(handler_at(i) + 9, 0xe8, AT_CLEAR);
		PUT(handler_at(i) + 14, "\xff\xe0");
	}
	assert_int_equal(make_plan("uprobe"), 0);
	expect("_PyEvalFrameClearAndPop", PROBE_CLEAR, AT_CLEAR, PREG_RSI, 0);
	/* the compiler has put it into the handlers: what they call is something that it calls */
	make_312();
	PUT(AT_CLEAR, "\x55\x80\x7f\x46\x00\x5d\xc3"); /* ... [rdi+70] ... */
	refused(-PYE_EPLAN, "a copy of it");
}

/* A return handler's way to the call goes on behind jumps to what is shared by all, and long. */
static void test_plan__returns_behind_what_is_long(void **state)
{
	(void)state;
	make_312();
	memset(made.bytes + MAKE_TEXT + AT_MANY, 0x90, 700);
	put_cond(handler_at(INSTR_CONST) + 4, AT_MANY);
	put_cond(handler_at(INSTR_CONST) + 10, AT_STUB);
	PUT(handler_at(INSTR_CONST) + 16, "\xff\xe0");
	put_branch(AT_STUB, 0xe8, AT_CLEAR);
	assert_int_equal(make_plan("uprobe"), 0);
	/* which is jumped into in many places */
	make_312();
	memset(made.bytes + MAKE_TEXT + AT_MANY, 0x90, 700);
	put_branch(handler_at(INSTR_CONST) + 4, 0xe9, AT_STUB);
	for (size_t i = 0; i < 25; i++)
		put_cond(AT_STUB + 6 * i, AT_MANY + i);
	put_cond(AT_STUB + 6 * 25, AT_STUB + 0x100);
	PUT(AT_STUB + 6 * 26, "\xff\xe0");
	put_branch(AT_STUB + 0x100, 0xe8, AT_CLEAR);
	assert_int_equal(make_plan("uprobe"), 0);
}

/* One more on a way apart, as for constants that are not immortal: it is none of the unwinding, as what an instrumented return calls when
 * something fails there is. */
static void test_plan__returns_on_two_ways(void **state)
{
	size_t unwinding = 0;

	(void)state;
	make_312();
	put_cond(handler_at(RETURN_CONST) + 4, AT_STUB);
	put_branch(handler_at(RETURN_CONST) + 10, 0xe8, AT_CLEAR);
	PUT(handler_at(RETURN_CONST) + 15, "\xff\xe0");
	put_branch(AT_STUB, 0xe8, AT_CLEAR);
	PUT(AT_STUB + 5, "\xff\xe0");
	put_branch(handler_at(INSTR_CONST) + 4, 0xe8, AT_CHECK);
	put_cond(handler_at(INSTR_CONST) + 9, AT_UNWIND);
	put_branch(handler_at(INSTR_CONST) + 15, 0xe8, AT_CLEAR);
	PUT(handler_at(INSTR_CONST) + 20, "\xff\xe0");
	assert_int_equal(make_plan("uprobe"), 0);
	for (uint32_t i = 0; i < plan.site_cnt; i++)
		unwinding += plan.sites[i].kind == PROBE_UNWINDING;
	assert_int_equal(unwinding, 1);
	assert_int_equal(site("exit_unwind")->vaddr, TEXT + AT_UNWIND);
}

/* Whose calls cannot be traced can be sampled: its plan says where the loop is, and why there is no more. */
static void test_plan__sampled_only(void **state)
{
	(void)state;
	make_312();
	assert_int_equal(make_plan("sample"), 0);
	assert_string_equal(plan.engine, "uprobe");
	make_312();
	PUT(AT_UNWIND, "\xc3");
	assert_int_equal(make_plan("sample"), 0);
	assert_string_equal(plan.engine, "sample");
	assert_non_null(strstr(plan.notes, "by an exception"));
	assert_int_equal(plan.minor, 12);
	assert_in_range(plan.site_cnt, 2, PLAN_SITES_MAX);
	for (uint32_t i = 0; i < plan.site_cnt; i++)
		assert_int_equal(plan.sites[i].kind,
				 i + 1 < plan.site_cnt ? PROBE_RESUME : PROBE_CODE_DEALLOC);
	make_312();
	put_word(AT_TYPE + 48, DATA); /* what samples need, too */
	assert_int_equal(make_plan("sample"), -PYE_EPLAN);
}

/* The loop may be several functions: samples have to tell them all from others. */
static void test_plan__sampled_functions(void **state)
{
	const uint64_t functions[] = { TEXT + AT_OTHERS, TEXT + AT_OTHERS + 16 * 200,
				       TEXT + AT_HANDLERS, TEXT + AT_CLEAR };
	size_t in[3] = { 0, 0, 0 };

	(void)state;
	make_312();
	PUT(AT_UNWIND, "\xc3");
	make_functions(&made, functions, 4);
	assert_int_equal(make_plan("sample"), 0);
	assert_string_equal(plan.engine, "sample");
	assert_int_equal(plan.site_cnt, 9);
	for (uint32_t i = 0; i + 1 < plan.site_cnt; i++)
		for (size_t k = 0; k < 3; k++)
			in[k] += plan.sites[i].vaddr >= functions[k] &&
				 plan.sites[i].vaddr < functions[k + 1];
	for (size_t k = 0; k < 3; k++)
		assert_true(in[k]);
}

/* A symbol that points into an instruction must not lead to a probe there. */
static void test_plan__lying_symbol(void **state)
{
	(void)state;
	make_310();
	made.symbols[3].st_value += 2;
	refused(-PYE_EPLAN, "not an instruction start");
	make_312();
	put_word(AT_TYPE + 48, TEXT + handler_at(RESUME) + 1);
	refused(-PYE_EPLAN, "code_dealloc");
	make_312();
	put_word(AT_TYPE + 48, DATA);
	refused(-PYE_EPLAN, "deallocator");
}

/* Of 3.11: the exit by exception, @at behind the last handler. */
static void make_311(size_t at)
{
	make_common(11);
	for (size_t i = 0; i < 5; i++)
		PUT(handler_at(i), ENTRY);
	/* mov [rbx+56], rcx; inc dword [r12+32]; cmp byte [rbx+68], 0; jne +0; jmp rax */
	PUT(handler_at(2), "\x48\x89\x4b\x38\x41\xff\x44\x24\x20\x80\x7b\x44\x00\x75\x00\xff\xe0");
	PUT(handler_at(4) + at, "\x41\xff\x44\x24\x20\x80\x7b\x44\x00\x75\x00\xff\xe0");
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_OTHERS, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = AT_MANY - AT_OTHERS;
}

static void test_plan__exit_of_311(void **state)
{
	static const size_t at[] = { 600, 1200 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make_311(at[i]);
		assert_int_equal(make_plan("uprobe"), 0);
		expect("exit_unwind", PROBE_UNWIND, handler_at(4) + at[i] + 9, PREG_RBX, 0);
	}
	make_311(300); /* may be the handler's own */
	refused(-PYE_EPLAN, "0 places instead of one");
}

/* clang 14 has what cannot be reached, CACHE, share the label of the numbers without a handler; in 3.12 it is a handler like others. */
static void test_plan__unreachable_handler(void **state)
{
	(void)state;
	make_311(600);
	put_word(0, TEXT + AT_UNKNOWN);
	assert_int_equal(make_plan("uprobe"), 0);
	assert_int_equal(plan.minor, 11);
	put_word(8, TEXT + AT_UNKNOWN);
	refused(-PYE_EVERSION, "no dispatch table");
	make_312();
	put_word(0, TEXT + AT_UNKNOWN);
	refused(-PYE_EVERSION, "no dispatch table");
}

static void test_plan__eval(void **state)
{
	const struct probe_site *s;

	(void)state;
	make_310();
	assert_int_equal(make_plan("auto"), 0);
	assert_int_equal(plan.tstate_current, DATA + AT_RUNTIME + 568);
	assert_int_equal(plan.site_cnt, 4);
	expect("_PyEval_EvalFrameDefault", PROBE_EVAL_ENTRY, AT_EVAL, PREG_RSI, 0);
	assert_int_equal(site("_PyEval_EvalFrameDefault")->value_reg, PREG_RDX);
	s = site("eval_exit");
	assert_int_equal(s->vaddr, TEXT + AT_EVAL + 0x15);
	assert_int_equal(s->value_reg, PREG_RDX);
	assert_int_equal(s->source, PROBE_TOP);
	s = site("eval_refused");
	assert_int_equal(s->kind, PROBE_EVAL_REFUSED);
	assert_int_equal(s->vaddr, TEXT + AT_EVAL + 0x22);
	assert_string_equal(plan.notes, "");
}

static void test_plan__eval_conditional_edge(void **state)
{
	const struct probe_site *s;

	(void)state;
	make_310();
	/* what returns: test rdx, rdx; mov rax, rdx; jne away; pop rbp; ret. Away comes back. */
	PUT(AT_EVAL + 0x10, "\x48\x85\xd2\x48\x89\xd0\x75\x0c\x90\x90\x5d\xc3\x90\x90\x90\x90"
			    "\x31\xc0\xeb\xf6\x48\x89\xc8\xeb\xf1");
	made.symbols[3].st_size = 0x29;
	assert_int_equal(make_plan("uprobe"), 0);
	s = site("eval_exit");
	/* not in address order: the edges by jumps come first */
	assert_int_equal(plan.site_cnt, 5);
	for (uint32_t i = 0; i < plan.site_cnt; i++) {
		s = &plan.sites[i];
		if (s->vaddr == TEXT + AT_EVAL + 0x16) {
			assert_int_equal(s->cond, COND_X86 | 4); /* counts when not taken */
			assert_int_equal(s->value_reg, PREG_RAX);
		} else if (s->vaddr == TEXT + AT_EVAL + 0x27) {
			assert_int_equal(s->value_reg, PREG_RAX);
			assert_int_equal(s->kind, PROBE_EVAL_EXIT);
		}
	}
}

/* Where a guarded stack is checked before the end, reaching that means to go on to it. */
static void test_plan__eval_with_a_guard(void **state)
{
	static const char *const names[] = { "__stack_chk_fail", "memcpy" };
	int32_t distance = (int32_t)(DATA + 0xc00 - (TEXT + AT_STUB + 6));

	(void)state;
	for (int i = 0; i < 2; i++) {
		make_310();
		/* cmp ecx, ecx; jne to the call; pop rbp; ret */
		PUT(AT_EVAL + 0x1a, "\x39\xc9\x75\x22\x5d\xc3");
		made.symbols[made.symbol_cnt - 2].st_size = 0x50;
		put_branch(AT_EVAL + 0x40, 0xe8, AT_STUB);
		PUT(AT_EVAL + 0x45, "\xeb\xd3"); /* what is behind it: jmp +0x1a */
		PUT(AT_STUB, "\xff\x25");
		memcpy(made.bytes + MAKE_TEXT + AT_STUB + 2, &distance, 4);
		make_symbol(&made, names[i], 0, STT_FUNC);
		made.symbols[made.symbol_cnt - 1].st_shndx = SHN_UNDEF;
		made.relocs[made.reloc_cnt++] = (Elf64_Rela){
			.r_offset = DATA + 0xc00,
			.r_info = ELF64_R_INFO(made.symbol_cnt - 1, R_X86_64_JUMP_SLOT)
		};
		assert_int_equal(make_plan("auto"), 0);
		if (i == 1)
			assert_true(site("eval_ret")->single_step);
		for (uint32_t k = 0; i == 0 && k < plan.site_cnt; k++)
			assert_false(plan.sites[k].single_step);
	}
}

static void test_plan__eval_falls_back_to_the_ret(void **state)
{
	(void)state;
	make_310();
	made.symbol_cnt--; /* without _Py_CheckFunctionResult its result is just some value */
	assert_int_equal(make_plan("auto"), 0);
	assert_int_equal(site("eval_ret")->vaddr, TEXT + AT_EVAL + 0x1b);
	assert_int_equal(site("eval_ret")->value_reg, PREG_RAX);
	assert_true(site("eval_ret")->single_step);
	assert_non_null(strstr(plan.notes, "single-stepped"));
}

static void test_plan__eval_without_end(void **state)
{
	(void)state;
	make_310();
	put_branch(AT_EVAL + 0x15, 0xe9, AT_STUB); /* goes on somewhere else */
	PUT(AT_STUB, "\xc3");
	refused(-PYE_EPLAN, "goes on to 0x402b00");
}

static void test_plan__usdt(void **state)
{
	(void)state;
	make_312();
	assert_int_equal(make_plan("usdt"), -PYE_EPLAN);
	assert_non_null(strstr(err.what, "USDT"));
	make_310();
	assert_int_equal(make_plan("usdt"), -PYE_EPLAN);
	assert_non_null(strstr(err.what, "0 probes python:function__entry"));
}

static void test_plan__what_is_no_python(void **state)
{
	(void)state;
	make_312();
	put_word(8 * 200, TEXT + AT_OTHERS); /* an unused number that has a handler */
	refused(-PYE_EVERSION, "no dispatch table of CPython 3.6 to 3.15");
	make_312();
	put_word(8 * 200, TEXT + AT_OTHERS);
	made.symbol_cnt = 1;
	refused(-PYE_ENOTPYTHON, "no CPython interpreter loop");
	make_312();
	make_header(&made)->e_machine = EM_AARCH64;
	refused(-PYE_EVERSION, "x86-64");
	make_312();
	memcpy(made.bytes + MAKE_DATA + 0x1000, made.bytes + MAKE_DATA, 2048);
	refused(-PYE_EPLAN, "2 dispatch tables");
}

/* Whatever is wrong in the file, a plan's sites are instruction starts inside its code. */
static void test_plan__every_bit(void **state)
{
	size_t size;

	(void)state;
	for (int which = 0; which < 2; which++) {
		if (which)
			make_310();
		else
			make_312();
		size = make_finish(&made);
		for (size_t at = 0; at < size; at++) {
			struct elf_file *elf = NULL;

			/* padding and the many handlers that nobody looks at */
			if (made.bytes[at] == 0xcc || (at > 256 && !made.bytes[at]) ||
			    (at >= MAKE_TEXT && at < MAKE_TEXT + AT_HANDLERS) ||
			    (at >= MAKE_DATA && at < MAKE_DATA + 2048 && at % 7))
				continue;
			made.bytes[at] ^= (uint8_t)(1 << (at % 8));
			if (!make_open_bytes(made.bytes, size, &elf, NULL) &&
			    !plan_make(elf, "uprobe", &plan, &err))
				for (uint32_t i = 0; i < plan.site_cnt; i++)
					assert_true(elf_file__is_code(elf, plan.sites[i].vaddr));
			elf_file__free(elf);
			made.bytes[at] ^= (uint8_t)(1 << (at % 8));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan__handlers),
		cmocka_unit_test(test_plan__no_emulated_instruction),
		cmocka_unit_test(test_plan__yield_whose_frame_only_a_copy_has),
		cmocka_unit_test(test_plan__jumps_into_handlers),
		cmocka_unit_test(test_plan__fallen_into),
		cmocka_unit_test(test_plan__frame_in_two_places),
		cmocka_unit_test(test_plan__frame_in_a_slot),
		cmocka_unit_test(test_plan__returns_that_are_not_seen),
		cmocka_unit_test(test_plan__returns_behind_what_is_long),
		cmocka_unit_test(test_plan__returns_on_two_ways),
		cmocka_unit_test(test_plan__sampled_only),
		cmocka_unit_test(test_plan__sampled_functions),
		cmocka_unit_test(test_plan__lying_symbol),
		cmocka_unit_test(test_plan__exit_of_311),
		cmocka_unit_test(test_plan__unreachable_handler),
		cmocka_unit_test(test_plan__eval),
		cmocka_unit_test(test_plan__eval_conditional_edge),
		cmocka_unit_test(test_plan__eval_with_a_guard),
		cmocka_unit_test(test_plan__eval_falls_back_to_the_ret),
		cmocka_unit_test(test_plan__eval_without_end),
		cmocka_unit_test(test_plan__usdt),
		cmocka_unit_test(test_plan__what_is_no_python),
		cmocka_unit_test(test_plan__every_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
