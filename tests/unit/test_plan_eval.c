// SPDX-License-Identifier: Apache-2.0
/* What the inline engine changes up to 3.10: plans of a made-up interpreter loop that keeps its frame in rbx. */
#include "cpython/eval_switch.h"
#include "cpython/inline_plan.h"
#include "plan_make.h"

static struct inline_plan inlined;

#define AT_EXIT (AT_EVAL + 0x40)
#define AT_SLOT 0xc00 /* in the data: an entry of the GOT */

/* rdi thread state, rsi frame, edx throwflag */
static void make_loop(void)
{
	make_common(10);
	PUT(AT_EVAL, "\x55\x53" /* push rbp; push rbx */
		     "\x48\x89\xfd" /* mov rbp, rdi */
		     "\x48\x89\xf3" /* mov rbx, rsi */
		     "\x48\x89\x5d\x18" /* mov [rbp+24], rbx */
		     "\x31\xc9" /* xor ecx, ecx */
		     "\x85\xc0" /* test eax, eax */
		     "\x74\x2e" /* je the exit */
		     "\xff\xe0"); /* jmp rax */
	PUT(AT_EXIT, "\x48\x8b\x43\x18" /* mov rax, [rbx+24] */
		     "\x48\x8d\x0d\x00\x01\x00\x00" /* lea rcx, [rip+256] */
		     "\x83\x6d\x20\x01" /* sub dword [rbp+32], 1 */
		     "\x48\x89\x45\x18" /* mov [rbp+24], rax */
		     "\x5b\x5d\xc3"); /* pop rbx; pop rbp; ret */
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = 0x60;
}

static int make_inline(void)
{
	struct elf_file *elf = NULL;
	int ret;

	memset(&inlined, 0, sizeof(inlined));
	memset(&err, 0, sizeof(err));
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	ret = plan_make_inline(elf, &inlined, &err);
	elf_file__free(elf);
	return ret;
}

static void refused_inline(const char *why)
{
	assert_int_equal(make_inline(), -PYE_EPLAN);
	if (!strstr(err.what, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.what);
}

static void expect_detour(uint32_t n, enum inline_kind kind, size_t at, size_t quiet)
{
	const struct inline_detour *d = &inlined.detours[n];

	assert_int_equal(d->kind, kind);
	assert_int_equal(d->at, TEXT + at);
	assert_int_equal(d->quiet, TEXT + quiet);
	assert_int_equal(d->frame_reg, PREG_RBX);
}

/* What names an address cannot give way: the instruction behind it does, as long as the frame is at hand. */
static void test_eval__where_a_frame_ends(void **state)
{
	(void)state;
	make_loop();
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 2);
	expect_detour(0, INLINE_EVAL_ENTRY, AT_EVAL + 8, AT_EVAL + 14);
	expect_detour(1, INLINE_EVAL_EXIT, AT_EXIT + 11, AT_EXIT + 19);
	/* nothing in the way */
	make_loop();
	PUT(AT_EXIT + 4, "\x0f\x1f\x80\x00\x00\x00\x00");
	assert_int_equal(make_inline(), 0);
	expect_detour(1, INLINE_EVAL_EXIT, AT_EXIT, AT_EXIT + 16);
	/* mov ebx, ecx and so on in its place: no frame is there any more */
	make_loop();
	PUT(AT_EXIT + 4,
	    "\x89\xcb\x48\x8d\x0d\x00\x01\x00\x00\x83\x6d\x20\x01\x48\x89\x45\x18\x5b\x5d\xc3");
	assert_int_equal(make_inline(), 0);
	expect_detour(1, INLINE_EVAL_EXIT, AT_EXIT, AT_EXIT + 18);
	make_loop();
	PUT(AT_EXIT + 4, "\x48\x8d\x1d\x00\x01\x00\x00"); /* lea rbx, [rip+256] */
	refused_inline("cannot be replaced by a jump");
}

/*
 * Profile-guided builds keep both in words of the stack. The frame is stored on two ways from the beginning, on one by the registers of the
 * arguments, and its caller by whatever has it there.
 */
static void make_stack_loop(void)
{
	make_common(10);
	PUT(AT_EVAL, "\x48\x83\xec\x18" /* sub rsp, 24 */
		     "\x48\x89\x7c\x24\x08" /* mov [rsp+8], rdi */
		     "\x48\x89\x74\x24\x10" /* mov [rsp+16], rsi */
		     "\x85\xd2\x75\x12" /* test edx, edx; jne to the second store */
		     "\x48\x89\x77\x18" /* mov [rdi+24], rsi */
		     "\x31\xc9\x85\xc0" /* xor ecx, ecx; test eax, eax */
		     "\x74\x24" /* je the exit */
		     "\xff\xe0"); /* jmp rax */
	memset(made.bytes + MAKE_TEXT + AT_EVAL + 0x1e, 0x90, 0x22);
	PUT(AT_EVAL + 0x24, "\x48\x89\x77\x18\x31\xc9\x85\xc0\x74\x12\xff\xe0");
	PUT(AT_EXIT, "\x48\x8b\x4c\x24\x08" /* mov rcx, [rsp+8] */
		     "\x48\x8b\x44\x24\x10" /* mov rax, [rsp+16] */
		     "\x83\x69\x20\x01" /* sub dword [rcx+32], 1 */
		     "\x48\x8b\x40\x18" /* mov rax, [rax+24] */
		     "\x48\x89\x41\x18" /* mov [rcx+24], rax */
		     "\x48\x83\xc4\x18\xc3"); /* add rsp, 24; ret */
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = 0x60;
}

static void test_eval__kept_on_the_stack(void **state)
{
	const struct inline_detour *d = inlined.detours;

	(void)state;
	make_stack_loop();
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 3);
	assert_int_equal(d[0].at, TEXT + AT_EVAL + 0x12);
	assert_int_equal(d[1].at, TEXT + AT_EVAL + 0x24);
	assert_int_equal(d[2].at, TEXT + AT_EXIT + 14);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(d[i].kind, i < 2 ? INLINE_EVAL_ENTRY : INLINE_EVAL_EXIT);
		assert_int_equal(d[i].frame_reg, i < 2 ? PREG_RSI : PREG_RAX);
	}
	/* the caller of another frame; what is jumped to between its load and where that frame came from */
	make_stack_loop();
	PUT(AT_EXIT + 5, "\x48\x8b\x44\x24\x18");
	refused_inline("does not give the thread state the caller back");
	make_stack_loop();
	PUT(AT_EVAL + 0x2c, "\x74\x1c"); /* je exit + 10 */
	refused_inline("does not give the thread state the caller back");
	/* to another thread state; into neither is it kept */
	make_stack_loop();
	PUT(AT_EXIT, "\x48\x8b\x4c\x24\x10");
	refused_inline("does not give the thread state the caller back");
	make_stack_loop();
	PUT(AT_EVAL + 9, "\x90\x90\x90\x90\x90");
	refused_inline("does not give the thread state the caller back");
	make_stack_loop();
	PUT(AT_EVAL + 4, "\x90\x90\x90\x90\x90");
	refused_inline("does not give the thread state the caller back");
}

/* A register has the thread state for a while, and is not what keeps it. */
static void test_eval__kept_for_a_while(void **state)
{
	(void)state;
	make_stack_loop();
	PUT(AT_EVAL + 14, "\x48\x89\xfb\x90"); /* mov rbx, rdi; nop */
	memset(made.bytes + MAKE_TEXT + AT_EVAL + 0x1e, 0x90, 0x22); /* no other way */
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 2);
	assert_int_equal(inlined.detours[0].at, TEXT + AT_EVAL + 0x12);
	assert_int_equal(inlined.detours[1].at, TEXT + AT_EXIT + 14);
	assert_int_equal(inlined.detours[1].frame_reg, PREG_RAX);
}

/* Words of the stack that are named by the frame pointer. */
static void test_eval__with_a_frame_pointer(void **state)
{
	(void)state;
	make_stack_loop();
	PUT(AT_EVAL, "\x55\x48\x89\xe5" /* push rbp; mov rbp, rsp */
		     "\x48\x83\xec\x18" /* sub rsp, 24 */
		     "\x48\x89\x7d\xf8" /* mov [rbp-8], rdi */
		     "\x48\x89\x75\xf0" /* mov [rbp-16], rsi */
		     "\x48\x89\x77\x18" /* mov [rdi+24], rsi */
		     "\x31\xc9\x85\xc0" /* xor ecx, ecx; test eax, eax */
		     "\x74\x26" /* je the exit */
		     "\xff\xe0");
	memset(made.bytes + MAKE_TEXT + AT_EVAL + 0x1c, 0x90, 0x24);
	PUT(AT_EXIT, "\x48\x8b\x4d\xf8" /* mov rcx, [rbp-8] */
		     "\x48\x8b\x45\xf0" /* mov rax, [rbp-16] */
		     "\x83\x69\x20\x01\x48\x8b\x40\x18\x48\x89\x41\x18\xc9\xc3"
		     "\xcc\xcc\xcc\xcc\xcc");
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 2);
	assert_int_equal(inlined.detours[0].at, TEXT + AT_EVAL + 16);
	assert_int_equal(inlined.detours[1].at, TEXT + AT_EXIT + 12);
	/* mov rcx, rsp; push rcx; lea rsp, [rbp-24]: not into them */
	PUT(AT_EVAL + 0x1c, "\x48\x89\xe1\x90\x51\x48\x8d\x65\xe8\xeb\x19");
	assert_int_equal(make_inline(), 0);
	/* and rsp, -16: somewhere */
	PUT(AT_EVAL + 0x1c, "\x48\x83\xe4\xf0");
	refused_inline("does not give the thread state the caller back");
}

/* What nothing else leads to is a handler, or a case: here with the frame and the thread state in rbx and rbp. */
#define AT_CASE (AT_EVAL + 0x14)

static void test_eval__kept_on_all_ways(void **state)
{
	(void)state;
	make_loop();
	PUT(AT_CASE, "\x31\xc9\xeb\x28"); /* xor ecx, ecx; jmp the exit */
	assert_int_equal(make_inline(), 0);
	/* the frame, the thread state */
	make_loop();
	PUT(AT_CASE, "\x31\xdb\xeb\x28");
	refused_inline("does not give the thread state the caller back");
	make_loop();
	PUT(AT_CASE, "\x31\xed\xeb\x28");
	refused_inline("does not give the thread state the caller back");
	/* lea rbx, [rbx+8] */
	make_loop();
	PUT(AT_CASE, "\x48\x8d\x5b\x08\xeb\x26");
	refused_inline("does not give the thread state the caller back");
	/* and back: mov rdx, rbx; xor ebx, ebx; mov rbx, rdx */
	make_loop();
	PUT(AT_CASE, "\x48\x89\xda\x31\xdb\x48\x89\xd3\xeb\x22");
	assert_int_equal(make_inline(), 0);
	/* with a call in between */
	make_loop();
	PUT(AT_CASE, "\x48\x89\xda\x31\xdb\xe8\x00\x00\x00\x00\x48\x89\xd3\xeb\x1d");
	put_branch(AT_CASE + 5, 0xe8, AT_CHECK);
	refused_inline("does not give the thread state the caller back");
	/* pushed and popped; popped by another */
	make_loop();
	PUT(AT_CASE, "\x53\x31\xdb\x5b\xeb\x26");
	assert_int_equal(make_inline(), 0);
	make_loop();
	PUT(AT_CASE, "\x53\x51\x31\xdb\x5b\x59\xeb\x24");
	refused_inline("does not give the thread state the caller back");
}

static void test_eval__words_of_the_stack(void **state)
{
	(void)state;
	/* mov [rsp], ecx; mov [rsp+24], ecx: beside them */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x89\x0c\x24\x89\x4c\x24\x18\xeb\x05");
	assert_int_equal(make_inline(), 0);
	/* mov [rsp+20], ecx; mov [rsp+12], ecx: half of them */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x89\x4c\x24\x14\xeb\x08");
	refused_inline("does not give the thread state the caller back");
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x89\x4c\x24\x0c\xeb\x08");
	refused_inline("does not give the thread state the caller back");
	/* push rcx; pop rcx: below them; call, likewise */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x51\x59\xeb\x0a");
	assert_int_equal(make_inline(), 0);
	make_stack_loop();
	put_branch(AT_EVAL + 0x32, 0xe8, AT_CHECK);
	PUT(AT_EVAL + 0x37, "\xeb\x07");
	assert_int_equal(make_inline(), 0);
	/* add rsp, 24; call; sub rsp, 24: they are below it */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x48\x83\xc4\x18\xeb\x28");
	PUT(AT_EVAL + 0x60, "\xe8\0\0\0\0\x48\x83\xec\x18\xeb\xd5");
	put_branch(AT_EVAL + 0x60, 0xe8, AT_CHECK);
	made.symbols[made.symbol_cnt - 1].st_size = 0x70;
	refused_inline("does not give the thread state the caller back");
	/* and rsp, -16: whatever is written there, or called */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x48\x83\xe4\xf0\x51\xeb\x07");
	refused_inline("does not give the thread state the caller back");
	/* sub rsp, 32, and not back */
	make_stack_loop();
	PUT(AT_EVAL + 0x32, "\x48\x83\xec\x20\xeb\x08");
	refused_inline("does not give the thread state the caller back");
}

/*
 * The thread state is no argument of 3.8's. Straight on from the beginning lies the way of a recursion that is too deep; rbp gets the
 * thread state behind the store.
 */
static void make_loop_38(void)
{
	make_common(8);
	PUT(AT_EVAL, "\x53\x48\x89\xfb" /* push rbx; mov rbx, rdi */
		     "\x48\x8b\x05\x00\x02\x00\x00" /* mov rax, [rip+512] */
		     "\xff\x40\x20" /* inc dword [rax+32] */
		     "\x75\x05" /* jne to the store */
		     "\x31\xc0\x5b\xc3\x90" /* xor eax, eax; pop rbx; ret; nop */
		     "\x48\x89\x58\x18" /* mov [rax+24], rbx */
		     "\x48\x89\xc5" /* mov rbp, rax */
		     "\x85\xc9\x74\x20" /* test ecx, ecx; je the exit */
		     "\xff\xe0");
	PUT(AT_EXIT, "\x48\x8b\x43\x18" /* mov rax, [rbx+24] */
		     "\x48\x89\x45\x18" /* mov [rbp+24], rax */
		     "\x5b\xc3");
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = 0x60;
}

static void test_eval__where_the_thread_state_is_from(void **state)
{
	(void)state;
	make_loop_38();
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 2);
	expect_detour(0, INLINE_EVAL_ENTRY, AT_EVAL + 0x15, AT_EVAL + 0x1c);
	expect_detour(1, INLINE_EVAL_EXIT, AT_EXIT, AT_EXIT + 8);
	/* by a call */
	make_loop_38();
	PUT(AT_EVAL + 4, "\x90\x90");
	put_branch(AT_EVAL + 6, 0xe8, AT_CHECK);
	assert_int_equal(make_inline(), 0);
	/* lea rax, [rdi+8] */
	make_loop_38();
	PUT(AT_EVAL + 4, "\x48\x8d\x47\x08\x90\x90\x90");
	refused_inline("has the thread state from nowhere");
}

static void test_eval__begins_twice(void **state)
{
	(void)state;
	make_loop_38();
	PUT(AT_EVAL + 0x24, "\xeb\xde"); /* jmp back to the load of the thread state */
	refused_inline("begins twice");
	make_loop();
	PUT(AT_CASE, "\x48\x89\x5d\x18\xeb\x26"); /* mov [rbp+24], rbx; jmp the exit */
	refused_inline("begins twice");
}

#define AT_TABLE 0xd00 /* in the data: of a switch */

static void put_case(size_t n, size_t at)
{
	int32_t distance = (int32_t)(TEXT + at - (DATA + AT_TABLE));

	memcpy(made.bytes + MAKE_DATA + AT_TABLE + 4 * n, &distance, 4);
}

/* From behind the four bytes at @at. */
static void put_distance(size_t at, size_t to)
{
	int32_t distance = (int32_t)(DATA + to - (TEXT + at + 4));

	memcpy(made.bytes + MAKE_TEXT + at, &distance, 4);
}

/* The frame's register is used for something else until the case of a switch loads it again. */
static void make_switch(void)
{
	make_common(10);
	PUT(AT_EVAL, "\x55\x53\x48\x83\xec\x10" /* push rbp; push rbx; sub rsp, 16 */
		     "\x48\x89\x34\x24" /* mov [rsp], rsi */
		     "\x48\x89\xf3\x48\x89\xfd" /* mov rbx, rsi; mov rbp, rdi */
		     "\x48\x89\x77\x18" /* mov [rdi+24], rsi */
		     "\x85\xc0\x74\x28" /* test eax, eax; je the exit */
		     "\x31\xdb" /* xor ebx, ebx */
		     "\x48\x8d\x0d\0\0\0\0" /* lea rcx, [rip + the table] */
		     "\x48\x63\x04\x81" /* movsxd rax, dword [rcx+4*rax] */
		     "\x48\x01\xc8\xff\xe0" /* add rax, rcx; jmp rax */
		     "\x48\x8b\x1c\x24\xff\xe2" /* the case: mov rbx, [rsp]; jmp rdx */
		     "\x85\xc0\xeb\x0c"); /* a handler: test eax, eax; jmp the exit */
	put_distance(AT_EVAL + 0x1d, AT_TABLE);
	PUT(AT_EXIT, "\x48\x8b\x43\x18\x48\x89\x45\x18" /* mov rax, [rbx+24]; mov [rbp+24], rax */
		     "\x48\x83\xc4\x10\x5b\x5d\xc3"); /* add rsp, 16; pop rbx; pop rbp; ret */
	make_symbol(&made, "_PyEval_EvalFrameDefault", TEXT + AT_EVAL, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_size = 0x60;
	put_case(0, AT_EVAL + 0x2a);
}

static void test_eval__switches(void **state)
{
	(void)state;
	make_switch();
	assert_int_equal(make_inline(), 0);
	assert_int_equal(inlined.detour_cnt, 2);
	expect_detour(0, INLINE_EVAL_ENTRY, AT_EVAL + 0x10, AT_EVAL + 0x16);
	expect_detour(1, INLINE_EVAL_EXIT, AT_EXIT, AT_EXIT + 8);
	/* add rcx, rax; jmp rcx, and by the other form of it; notrack jmp rax */
	make_switch();
	PUT(AT_EVAL + 0x25, "\x48\x01\xc1\xff\xe1");
	assert_int_equal(make_inline(), 0);
	make_switch();
	PUT(AT_EVAL + 0x25, "\x48\x03\xc8\xff\xe1");
	assert_int_equal(make_inline(), 0);
	make_switch();
	PUT(AT_EVAL + 0x28, "\x3e\xff\xe0\x48\x8b\x1c\x24\xff\xe2\x90");
	PUT(AT_EVAL + 0x32, "\x85\xc0\xeb\x0a");
	put_case(0, AT_EVAL + 0x2b);
	assert_int_equal(make_inline(), 0);
	/* xor ecx, ecx: no table any more */
	make_switch();
	PUT(AT_EVAL + 0x21, "\x31\xc9\x90\x90");
	refused_inline("does not give the thread state the caller back");
	/* one of the cases does without */
	make_switch();
	put_case(1, AT_EVAL + 0x30);
	refused_inline("does not give the thread state the caller back");
	/* so it does if the next word is taken for one of that table, and not of the next one, of another switch */
	make_switch();
	PUT(AT_EVAL + 0x34, "\xeb\x0a"); /* jmp the exit */
	PUT(AT_EVAL + 0x60, "\x48\x8d\x0d\0\0\0\0\x48\x63\x04\x81\x48\x01\xc8\xff\xe0");
	put_distance(AT_EVAL + 0x63, AT_TABLE + 4);
	made.symbols[made.symbol_cnt - 1].st_size = 0x70;
	put_case(1, AT_EVAL + 0x30);
	assert_int_equal(make_inline(), 0);
	/* the jump goes by another register; no table is there: it may go anywhere */
	make_switch();
	PUT(AT_EVAL + 0x28, "\xff\xe1");
	refused_inline("does not give the thread state the caller back");
	make_switch();
	PUT(AT_EVAL + 0x1a, "\x0f\x1f\x80\x00\x00\x00\x00");
	refused_inline("does not give the thread state the caller back");
}

/* More switches than are kept: none of them is taken for one that leads nowhere. */
static void test_eval__too_many_switches(void **state)
{
	(void)state;
	make_switch();
	for (size_t i = 0; i < SWITCHES_MAX; i++) {
		size_t at = AT_EVAL + 0x60 + 16 * i;

		if (i == SWITCHES_MAX - 1)
			assert_int_equal(make_inline(), 0);
		PUT(at, "\x48\x8d\x0d\0\0\0\0\x48\x63\x04\x81\x48\x01\xc8\xff\xe0");
		put_distance(at + 3, AT_TABLE);
		made.symbols[made.symbol_cnt - 1].st_size = at + 16 - AT_EVAL;
	}
	refused_inline("has more switches, or cases, than can be followed");
}

static void test_eval__cases_in_the_way(void **state)
{
	(void)state;
	/* an end that only a case leads to: add rsp, 16; pop rbx; pop rbp; ret */
	make_switch();
	PUT(AT_EXIT + 15, "\x48\x83\xc4\x10\x5b\x5d\xc3");
	put_case(1, AT_EXIT + 15);
	refused_inline("has an end that is not seen");
	/* behind the load of the caller; behind the store of the frame */
	make_switch();
	put_case(1, AT_EXIT + 4);
	refused_inline("does not give the thread state the caller back");
	make_switch();
	put_case(1, AT_EVAL + 0x14);
	PUT(AT_EVAL + 0x18, "\x90\x90");
	refused_inline("has a case in the middle of what gives way");
}

/* The way out of a guarded function is behind the call of what does not return, or so it looks. */
static void put_guard(const char *name, const char *call, size_t size)
{
	uint64_t slot = DATA + AT_SLOT;

	make_loop();
	PUT(AT_EVAL + 8, "\x85\xd2\x75\x26"); /* test edx, edx; jne to the call */
	PUT(AT_EVAL + 12, "\x48\x89\x5d\x18\x31\xc9\x85\xc0\x74\x2a\xff\xe0");
	put(AT_EXIT - 0x0e, call, size);
	memset(made.bytes + MAKE_TEXT + AT_EXIT - 0x0e + size, 0x90, 0x0e - size);
	make_symbol(&made, name, 0, STT_FUNC);
	made.symbols[made.symbol_cnt - 1].st_shndx = SHN_UNDEF;
	made.relocs[made.reloc_cnt++] =
		(Elf64_Rela){ .r_offset = slot,
			      .r_info = ELF64_R_INFO(made.symbol_cnt - 1, R_X86_64_JUMP_SLOT) };
}

/* endbr64; bnd jmp [rip + the slot] */
static void put_plt(void)
{
	int32_t distance = (int32_t)(DATA + AT_SLOT - (TEXT + AT_STUB + 11));

	PUT(AT_STUB, "\xf3\x0f\x1e\xfa\xf2\xff\x25");
	memcpy(made.bytes + MAKE_TEXT + AT_STUB + 7, &distance, 4);
}

static void test_eval__calls_that_do_not_return(void **state)
{
	static const char *const names[] = { "__stack_chk_fail", "abort", "memcpy" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		put_guard(names[i], "\xe8\0\0\0\0", 5);
		put_branch(AT_EXIT - 0x0e, 0xe8, AT_STUB);
		put_plt();
		if (i == 2)
			refused_inline("has a way to its end that passes by the entry");
		else
			assert_int_equal(make_inline(), 0);
	}
	/* without a PLT */
	put_guard("__stack_chk_fail", "\xff\x15\0\0\0\0", 6);
	{
		int32_t distance = (int32_t)(DATA + AT_SLOT - (TEXT + AT_EXIT - 0x0e + 6));

		memcpy(made.bytes + MAKE_TEXT + AT_EXIT - 0x0e + 2, &distance, 4);
	}
	assert_int_equal(make_inline(), 0);
	/* of another word */
	made.relocs[made.reloc_cnt - 1].r_offset += 8;
	refused_inline("has a way to its end that passes by the entry");
	/* of a symbol that there is not */
	made.relocs[made.reloc_cnt - 1] =
		(Elf64_Rela){ .r_offset = DATA + AT_SLOT,
			      .r_info = ELF64_R_INFO(1000, R_X86_64_JUMP_SLOT) };
	refused_inline("has a way to its end that passes by the entry");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eval__where_a_frame_ends),
		cmocka_unit_test(test_eval__kept_on_the_stack),
		cmocka_unit_test(test_eval__kept_for_a_while),
		cmocka_unit_test(test_eval__with_a_frame_pointer),
		cmocka_unit_test(test_eval__kept_on_all_ways),
		cmocka_unit_test(test_eval__words_of_the_stack),
		cmocka_unit_test(test_eval__where_the_thread_state_is_from),
		cmocka_unit_test(test_eval__begins_twice),
		cmocka_unit_test(test_eval__switches),
		cmocka_unit_test(test_eval__too_many_switches),
		cmocka_unit_test(test_eval__cases_in_the_way),
		cmocka_unit_test(test_eval__calls_that_do_not_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
