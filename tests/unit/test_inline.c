// SPDX-License-Identifier: Apache-2.0
/*
 * Each stub is executed on a stack of its own, for every register and stack slot in which an interpreter can
 * have its frame and its instruction: what it changes, what it writes, on the fast path and on each slow one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/event.h"
#include "cpython/disasm.h"
#include "cpython/layouts.h"
#include "elf_make.h"
#include "inline/engine.h"
#include "inline/region_count.h"
#include "inline/slow.h"
#include "inline/stub.h"
#include "inline/stub_clock.h"
#include "inline_run.h"
#include "proc/maps.h"

static uint8_t patch_kinds[IL_PATCH_MAX]; /* of the patches */

static const uint8_t table_kinds[] = { INLINE_ENTRY, INLINE_YIELD, INLINE_CAUGHT };
static const uint8_t call_kinds[] = { INLINE_RETURN, INLINE_UNWIND, INLINE_CLOSE, INLINE_DEALLOC };

/* The code page, with one stub of each kind that is wanted. */
static const struct il_header *build_how(const struct inline_plan *plan, const struct stub_how *how)
{
	const struct il_header *h = (const void *)t.base;
	struct inline_plan *p = &t.plan;
	struct err e;

	*p = *plan;
	for (size_t i = 0; i < sizeof(table_kinds); i++)
		p->words[p->word_cnt++] = (struct inline_word){ .at = 8 * i,
								.target = address(cpu_land),
								.kind = table_kinds[i] };
	for (size_t i = 0; i < sizeof(call_kinds); i++)
		p->calls[p->call_cnt++] =
			(struct inline_call){ .at = address(t.base) - 4096 + 16 * i,
					      .target = address(cpu_land),
					      .kind = call_kinds[i] };
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(stub_image(p, &t.layout, 0, address(t.base), how, t.base, &e), 0);
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_EXEC), 0);
	for (uint32_t n = 0; n < h->patch_cnt; n++)
		patch_kinds[n] = h->patches[n].size == 8
					 ? table_kinds[h->patches[n].at / 8]
					 : call_kinds[(h->patches[n].at - p->calls[0].at) / 16];
	return h;
}

static const struct il_header *build(const struct inline_plan *plan)
{
	return build_how(plan, NULL);
}

static uint64_t lost_by_all(void)
{
	const struct il_thread *threads = (const void *)(t.base + IL_THREADS);
	uint64_t lost = 0;

	for (uint32_t i = 0; i < IL_THREAD_CNT; i++)
		lost += threads[i].lost;
	return lost;
}

static uint64_t stub_of(const struct il_header *h, uint32_t n)
{
	const struct il_patch *p = &h->patches[n];

	return p->size == 8 ? p->new : p->at + 4 + (uint64_t)(int64_t)(int32_t)p->new;
}

static uint8_t kind_of(uint32_t n)
{
	return patch_kinds[n];
}

static bool is_call(uint8_t kind)
{
	return memchr(call_kinds, kind, sizeof(call_kinds)) != NULL;
}

static void run(const struct il_header *h, uint32_t n)
{
	run_stub(stub_of(h, n), kind_of(n), is_call(kind_of(n)));
}

static const void *at(uint64_t offset)
{
	return t.base + IL_RING + offset;
}

static void expect_event(const struct il_more_rec *r, uint8_t kind, uint8_t oparg)
{
	static const uint8_t kinds[] = {
		[INLINE_YIELD] = IL_YIELD, [INLINE_RETURN] = IL_RETURN, [INLINE_CAUGHT] = IL_CAUGHT,
		[INLINE_UNWIND] = IL_MORE, [INLINE_CLOSE] = IL_MORE,	[INLINE_DEALLOC] = IL_MORE
	};
	bool coded = kind == INLINE_ENTRY || kind == INLINE_CAUGHT;
	bool called = coded || kind == INLINE_UNWIND;

	assert_int_equal(r->head.what & 7,
			 kind == INLINE_ENTRY ? (oparg ? IL_RESUME : IL_CALL) : kinds[kind]);
	assert_int_equal(r->head.what & 0xfffffffffff8ull,
			 kind == INLINE_DEALLOC ? 0 : address(t.frame));
	assert_int_equal(r->head.time & 0xffff, called ? il_frame_hash(address(t.caller)) : 0);
	if (coded)
		assert_int_equal(r->head.what >> 48, slot_of_code());
	if (kind == INLINE_UNWIND || kind == INLINE_CLOSE)
		assert_int_equal(r->w2, slot_of_code());
	if (kind == INLINE_CLOSE)
		assert_int_equal(r->w3, 0);
	if (kind == INLINE_DEALLOC)
		assert_int_equal(r->w2, address(t.code));
}

static void expect_definition(const struct il_def *d)
{
	assert_int_equal(d->head.what >> 48, IL_DEF);
	assert_int_equal(d->code, address(t.code));
	assert_int_equal(d->slot, slot_of_code());
	assert_int_equal(d->line, 7);
	assert_int_equal(d->total, (sizeof(*d) + 24 + 15) & ~15ul);
	assert_memory_equal(d->data, "/a/file.pynameClass.name", 24);
}

static bool needs_code(uint8_t kind)
{
	return kind == INLINE_ENTRY || kind == INLINE_CAUGHT || kind == INLINE_UNWIND ||
	       kind == INLINE_CLOSE;
}

static uint64_t size_of(uint8_t kind)
{
	return kind == INLINE_UNWIND || kind == INLINE_CLOSE || kind == INLINE_DEALLOC ? 32 : 16;
}

/* A thread that is new, with a code object that is new; then again; without room; in a forked child. */
static void run_all(const struct il_header *h, uint32_t n, uint8_t oparg)
{
	uint8_t kind = kind_of(n);
	uint64_t head, own = size_of(kind);
	const struct il_more_rec *r;

	t.instr[1] = kind == INLINE_CLOSE ? t.layout.resume_depth1 : oparg;
	fresh();
	run(h, n);
	r = at(0);
	assert_int_equal(r->head.what >> 48, IL_SWITCH);
	head = 32;
	if (needs_code(kind)) {
		const struct il_def *d = at(head);

		expect_definition(d);
		head += d->total;
	}
	expect_event(at(head), kind, oparg);
	head += own;
	assert_int_equal(t.shared->head, head);

	run(h, n);
	expect_event(at(head), kind, oparg);
	assert_int_equal(t.shared->head, head + own);
	/* the second time nothing but what always takes that way goes through the slow path */
	assert_int_equal(
		t.shared->slow,
		kind == INLINE_UNWIND || kind == INLINE_CLOSE || kind == INLINE_DEALLOC ? 2 : 1);

	t.shared->head = t.private->limit = RING_BYTES;
	t.private->wait = 1;
	t.shared->deadline = 0; /* pyebpf is at its end: no event, nothing lost */
	run(h, n);
	assert_int_equal(t.shared->lost_mode | t.private->lost_mode | lost_by_all(), 0);
	t.shared->deadline = 1;
	run(h, n);
	assert_int_equal(t.shared->lost_mode, 1);
	assert_int_equal(t.shared->head, RING_BYTES);

	memset(t.private, 0, sizeof(*t.private));
	t.shared->head = 5;
	run(h, n);
	assert_int_equal(t.shared->head, 5);
}

static void run_plan(const struct inline_plan *plan)
{
	const struct il_header *h = build(plan);

	for (uint32_t n = 0; n < h->patch_cnt; n++) {
		if (kind_of(n) == INLINE_CLOSE && !t.layout.resume_depth1)
			continue; /* no plan of this version has one */
		run_all(h, n, 0);
		if (kind_of(n) == INLINE_ENTRY)
			run_all(h, n, 1);
	}
}

static void use_version(unsigned int minor)
{
	t.layout = layout_find(minor, false)->py;
	make_objects();
}

#define FIRST_MINOR 12
#define LAST_MINOR  15

static void test_stubs__frame_in_a_register(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		for (uint8_t frame = 0; frame < 16; frame++)
			for (uint8_t instr = 0; instr < 16; instr++)
				if (frame != instr && frame != PREG_RSP && instr != PREG_RSP)
					run_plan(&(struct inline_plan){
						.frame_reg = frame,
						.frame_disp = instr % 2 ? 0 : -24,
						.instr_reg = instr,
						.instr_disp = frame % 2 ? 0 : 2 });
	}
}

static void test_stubs__frame_in_a_slot(void **state)
{
	(void)state;
	use_version(LAST_MINOR);
	for (uint8_t frame = 0; frame < 16; frame++)
		for (uint8_t instr = 0; instr < 16; instr++)
			if (frame != instr && instr != PREG_RSP)
				run_plan(&(struct inline_plan){ .frame_in_slot = true,
								.frame_reg = frame,
								.frame_disp = 8 * instr,
								.instr_reg = instr });
}

static void test_stubs__instruction_in_a_slot(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		for (uint8_t frame = 0; frame < 16; frame++)
			for (uint8_t instr = 0; instr < 16; instr++)
				if (frame != instr && frame != PREG_RSP)
					run_plan(&(struct inline_plan){
						.frame_in_slot = minor % 2,
						.frame_reg = frame,
						.frame_disp = minor % 2 ? 16 : -24,
						.instr_in_slot = true,
						.instr_reg = instr,
						.instr_slot = 8 * frame,
						.instr_disp = frame % 2 ? 0 : 2 });
	}
}

/* Many times around: what is behind the ring's end is written to its second mapping. */
static void test_stubs__the_end_of_the_ring(void **state)
{
	const uint64_t end = 6ull * RING_BYTES;
	const struct il_header *h;
	uint64_t first;

	(void)state;
	use_version(LAST_MINOR);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_RBP });
	for (uint32_t n = 0; n < h->patch_cnt; n++) {
		uint8_t kind = kind_of(n);

		if (kind != INLINE_ENTRY && kind != INLINE_RETURN)
			continue;
		t.instr[1] = 0;
		fresh();
		run(h, n);
		first = t.shared->head;
		fresh();
		t.private->limit = 0;
		t.shared->head = t.shared->tail = end - first;
		run(h, n); /* the slow path finds where the ring begins */
		assert_int_equal(t.shared->head, end);
		for (uint64_t i = 0; i < 3; i++)
			run(h, n);
		assert_int_equal(t.shared->slow, 1);
		assert_int_equal(t.shared->head, end + 48);
		for (uint64_t i = 0; i < 3; i++)
			expect_event(at(RING_BYTES + 16 * i), kind, 0);
		assert_int_equal(t.private->base + t.private->limit,
				 end - first + RING_BYTES - IL_SLACK);

		/* up to the last place there is, which is in the second mapping, too */
		t.shared->head = t.private->base + t.private->limit - 16;
		run(h, n);
		expect_event(at((t.shared->head - 16) % RING_BYTES + RING_BYTES), kind, 0);
		assert_int_equal(t.shared->slow, 1);
		run(h, n);
		assert_int_equal(t.shared->lost_mode, 1);
	}
}

/* The program can write to the head: whatever it says, a record is in the ring, or there is none. */
static void test_stubs__a_head_that_was_written_over(void **state)
{
	static const uint64_t heads[] = { 0,	      16,     4096, 5ull * RING_BYTES - 16,
					  1ull << 63, -16ull, -1ull };
	const struct il_header *h;

	(void)state;
	use_version(LAST_MINOR);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_RBP });
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		fresh();
		t.private->limit = 0;
		t.shared->head = t.shared->tail = 5ull * RING_BYTES;
		for (uint32_t k = 0; k < 2; k++)
			run(h, 0);
		assert_int_equal(t.shared->slow, 1);
		t.shared->head = heads[i];
		run(h, 0);
		assert_int_equal(t.shared->slow, 2);
	}
}

/* Where the time stamp counter is not steady: every event takes the slow path, which calls the kernel's code. */
static void test_stubs__the_clock_of_the_kernel(void **state)
{
	const struct il_header *h;
	uint64_t clock, before;
	struct maps maps;

	(void)state;
	assert_int_equal(maps__read(getpid(), &maps), 0);
	assert_int_equal(stub_clock_find(getpid(), &maps, &clock), 0);
	maps__done(&maps);
	use_version(LAST_MINOR);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 });
	for (uint32_t n = 0; n < h->patch_cnt; n++) {
		fresh();
		t.private->clock = clock;
		t.private->locked = 1;
		t.private->limit = 0;
		t.instr[1] = kind_of(n) == INLINE_CLOSE ? (uint8_t)t.layout.resume_depth1 : 0;
		for (int i = 1; i <= 2; i++) {
			const struct il_rec *r = at(t.shared->head);
			uint64_t head = t.shared->head;

			before = now_ns() << 16 >> 16;
			run(h, n);
			assert_int_equal(t.shared->slow, i);
			assert_true(t.shared->head > head);
			assert_in_range(r->time >> 16, before, now_ns() << 16 >> 16);
		}
	}
}

/* The hash of a frame says that there is one, wherever it lies. */
static void test_stubs__a_caller_that_adds_up_to_nothing(void **state)
{
	const size_t bytes = 1u << 20; /* some address in it does */
	const struct il_header *h;
	uint8_t *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t caller = address(memory);

	(void)state;
	assert_true(memory != MAP_FAILED);
	while (((caller >> 3) + (caller >> 19)) & 0xffff)
		caller += 8;
	assert_true(caller + 256 <= address(memory) + bytes);
	use_version(LAST_MINOR);
	set64(t.entry, t.layout.f_previous, caller);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R12 });
	t.instr[1] = 0;
	fresh();
	for (uint32_t n = 0; n < h->patch_cnt; n++) {
		if (kind_of(n) != INLINE_ENTRY && kind_of(n) != INLINE_CAUGHT)
			continue;
		for (int i = 0; i < 2; i++) { /* through the slow path, and without it */
			const struct il_rec *r;

			run(h, n);
			r = at(t.shared->head - sizeof(*r));
			assert_int_equal(r->time & 0xffff, 1);
		}
	}
	assert_int_equal(t.shared->slow, 1);
	assert_int_equal(il_frame_hash(caller), 1);
	assert_int_equal(il_frame_hash(0), 0);
	make_objects();
	assert_return_code(munmap(memory, bytes), 0);
}

/* 3.15: the prologue of a generator expression is no event. */
static void test_stubs__what_is_no_entry(void **state)
{
	const struct il_header *h;

	(void)state;
	use_version(LAST_MINOR);
	assert_int_not_equal(t.layout.resume_skip, 0xff);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 });
	fresh();
	t.instr[1] = t.layout.resume_skip;
	run(h, 0);
	assert_int_equal(t.shared->head, 0);
}

/* A generator that never ran is no close, the interpreter's own frame no return. */
static void test_stubs__what_is_left_out(void **state)
{
	const struct il_header *h;

	(void)state;
	use_version(LAST_MINOR);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 });
	for (uint32_t n = sizeof(table_kinds); n < h->patch_cnt; n++) {
		fresh();
		t.instr[1] = 0;
		t.frame[t.layout.f_owner] = 3;
		run(h, n);
		t.frame[t.layout.f_owner] = 0;
		assert_int_equal(t.shared->head != 0, kind_of(n) == INLINE_DEALLOC);
	}
}

/* After the deallocator the same address is another code object. */
static void test_stubs__a_code_object_that_is_freed(void **state)
{
	const struct il_header *h;
	uint64_t head;

	(void)state;
	use_version(FIRST_MINOR);
	h = build(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 });
	fresh();
	t.instr[1] = 0;
	run(h, 0);
	run(h, (uint32_t)(sizeof(table_kinds) + sizeof(call_kinds) - 1));
	head = t.shared->head;
	run(h, 0);
	expect_definition(at(head));
}

/* --- stacks that are exchanged under the interpreter --- */

static uint64_t *root_of_caller(void)
{
	return (uint64_t *)(void *)(t.base + IL_ROOTS) + IL_ROOT(address(t.caller));
}

static bool is_exit(uint8_t kind)
{
	return kind == INLINE_YIELD || kind == INLINE_RETURN || kind == INLINE_UNWIND;
}

/* What comes before the event: the thread, the code object, each frame of the stack. Where the event is. */
static uint64_t expect_told(uint8_t kind)
{
	uint64_t head = 32, flags = IL_FRAME_FIRST, frame = address(t.frame);

	assert_int_equal(((const struct il_rec *)at(0))->what >> 48, IL_SWITCH);
	expect_definition(at(head));
	head += ((const struct il_def *)at(head))->total;
	if (kind == INLINE_ENTRY)
		frame = address(t.caller);
	for (;; frame = address(t.caller), flags = 0, head += 32) {
		const struct il_more_rec *r = at(head);

		flags |= frame == address(t.caller) ? IL_FRAME_LAST : 0;
		assert_int_equal(r->head.what, frame | IL_MORE | (uint64_t)IL_FRAME << 48);
		assert_int_equal(r->w2, slot_of_code() | flags);
		if (flags & IL_FRAME_LAST)
			return head + 32;
	}
}

/* One that is not known; then on the one of the last event; then on a known one. */
static void run_told(const struct il_header *h, uint32_t n)
{
	uint8_t kind = kind_of(n);
	const struct il_more_rec *known;
	uint64_t head, slow, top = address(is_exit(kind) ? t.caller : t.frame);
	bool always_slow = kind == INLINE_UNWIND;

	t.instr[1] = 0;
	fresh();
	memset(t.base + IL_ROOTS, 0, 8UL * IL_ROOT_CNT);
	inline_describe_roots(&t.layout, address(t.base), t.private);
	run(h, n);
	head = expect_told(kind);
	expect_event(at(head), kind, 0);
	head += size_of(kind);
	assert_int_equal(t.shared->head, head);
	assert_int_equal(t.private->top, top);
	assert_int_equal(*root_of_caller(), address(t.caller));

	slow = t.shared->slow;
	t.private->top = address(kind == INLINE_ENTRY ? t.caller : t.frame);
	run(h, n);
	expect_event(at(head), kind, 0);
	assert_int_equal(t.private->top, top);
	assert_int_equal(t.shared->slow - slow, always_slow);

	slow = t.shared->slow;
	t.private->top = 0x1000;
	run(h, n);
	head += size_of(kind);
	known = at(head);
	assert_int_equal(known->head.what, address(kind == INLINE_ENTRY ? t.caller : t.frame) |
						   IL_MORE | (uint64_t)IL_FRAME << 48);
	assert_int_equal(known->w2, IL_FRAME_KNOWN);
	head += 32;
	expect_event(at(head), kind, 0);
	assert_int_equal(t.shared->head, head + size_of(kind));
	assert_int_equal(t.private->top, top);
	assert_int_equal(t.shared->slow - slow, 1);
}

/* A stack's first frame makes it known, its end unknown. */
static void run_first(const struct il_header *h, uint32_t n)
{
	uint64_t *root = (uint64_t *)(void *)(t.base + IL_ROOTS) + IL_ROOT(address(t.frame));

	set64(t.frame, t.layout.f_previous, 0);
	*root = kind_of(n) == INLINE_ENTRY ? 0 : address(t.frame);
	t.private->top = address(t.frame);
	run(h, n);
	assert_int_equal(*root, kind_of(n) == INLINE_ENTRY ? address(t.frame) : 0);
	assert_int_equal(t.private->top, kind_of(n) == INLINE_ENTRY ? address(t.frame) : 0);
	set64(t.frame, t.layout.f_previous, address(t.entry));
}

static void test_switches__every_register(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		set64(t.caller, t.layout.f_code, address(t.code));
		for (uint8_t frame = 0; frame < 16; frame++) {
			uint8_t instr = (frame + 1) % 16 == PREG_RSP ? 0 : (frame + 1) % 16;
			const struct il_header *h;

			if (frame == PREG_RSP)
				continue;
			h = build_how(
				&(struct inline_plan){ .frame_reg = frame, .instr_reg = instr },
				&(struct stub_how){ .switches = true });
			for (uint32_t n = 0; n < h->patch_cnt; n++) {
				if (kind_of(n) == INLINE_CLOSE || kind_of(n) == INLINE_DEALLOC)
					continue; /* they say nothing of the stack */
				run_told(h, n);
				if (kind_of(n) != INLINE_CAUGHT)
					run_first(h, n);
			}
		}
		set64(t.caller, t.layout.f_code, 0);
	}
}

/* A frame and its caller, on a stack that is not known. */
static const struct il_header *begin_switches(void)
{
	const struct il_header *h;

	use_version(FIRST_MINOR);
	set64(t.caller, t.layout.f_code, address(t.code));
	h = build_how(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 },
		      &(struct stub_how){ .switches = true });
	t.instr[1] = 0;
	fresh();
	memset(t.base + IL_ROOTS, 0, 8UL * IL_ROOT_CNT);
	inline_describe_roots(&t.layout, address(t.base), t.private);
	return h;
}

#define WAITS	    9 /* an instruction */
#define MANY_LINKED 100
static uint8_t callers_instr[2]; /* where it stands */

/* One event, behind what is told of it: that each of these frames goes on. */
static void run_after(const struct il_header *h, const uint64_t *known, uint32_t cnt)
{
	uint64_t head = t.shared->head, flags;

	run(h, 0);
	for (uint32_t i = 0; i < cnt; i++, head += 32) {
		const struct il_more_rec *r = at(head);

		assert_int_equal(r->head.what, known[i] | IL_MORE | (uint64_t)IL_FRAME << 48);
		flags = known[i] && !callers_instr[1] ? IL_FRAME_BEGINS : 0;
		if (callers_instr[0] == WAITS)
			flags = IL_FRAME_WAITS;
		assert_int_equal(r->w2, IL_FRAME_KNOWN | flags);
	}
	expect_event(at(head), INLINE_ENTRY, 0);
	assert_int_equal(t.shared->head, head + size_of(INLINE_ENTRY));
	assert_int_equal(t.private->top, address(t.frame));
}

/* 3.11: what has shown no event calls. It is told, once; then it begins, or what is below it goes on. It can be the first one of
 * its stack, and nothing but its instruction tells. */
static void test_switches__a_caller_that_is_unseen(void **state)
{
	static uint8_t below[256], linked[MANY_LINKED][256];
	const struct il_header *h = begin_switches();
	const uint64_t known[] = { 0, address(t.caller) };

	(void)state;
	set64(t.caller, t.layout.f_instr, address(callers_instr));
	callers_instr[0] = 1;
	callers_instr[1] = 0;
	t.private->idle_ops[0] = 1;
	t.private->f_stack = sizeof(t.caller) - 4;
	run(h, 0); /* the thread, the code object */
	t.private->top = t.private->unseen = 0;
	run_after(h, known, 2);

	set64(t.caller, t.layout.f_previous, address(below));
	t.private->top = address(below);
	run_after(h, known + 1, 1);
	callers_instr[1] = 1; /* it goes on */
	t.private->top = address(below);
	run_after(h, known + 1, 1);
	t.private->top = address(t.caller);
	run_after(h, NULL, 0);
	t.private->top = address(below);
	run_after(h, known + 1, 1);
	callers_instr[0] = WAITS; /* linked to the last one of many that wait, too */
	t.private->idle_ops[3] = WAITS;
	for (uint32_t i = 0; i < MANY_LINKED; i++)
		set64(linked[i], t.layout.f_previous,
		      address(i + 1 < MANY_LINKED ? linked[i + 1] : below));
	set64(t.caller, t.layout.f_previous, address(linked[0]));
	t.private->top = address(below);
	run_after(h, known + 1, 1);
	callers_instr[0] = 1;
	set64(t.caller, t.layout.f_previous, 0);

	t.private->unseen = t.private->top = address(t.frame);
	t.private->below = address(t.caller);
	run_after(h, NULL, 0);
	t.private->unseen = t.private->top = address(below);
	run_after(h, NULL, 0);
	/* what has ended there, and another one now, called by what has not shown itself either */
	set64(t.caller, t.layout.f_previous, address(below));
	t.private->unseen = t.private->top = address(t.frame);
	t.private->below = address(below);
	run_after(h, known + 1, 1);
	set64(t.caller, t.layout.f_previous, 0);
	set64(t.caller, t.layout.f_instr, 0);
	set64(t.caller, t.layout.f_code, 0);
	callers_instr[0] = 0;
}

/* A ring that is full in the middle of a stack: the event is lost, the stack told anew when there is room. */
static void test_switches__no_room(void **state)
{
	const struct il_header *h = begin_switches();

	(void)state;
	t.shared->head = t.private->limit - 16;
	run(h, 1); /* it has room for the thread and a frame, and that has not */
	assert_int_equal(t.shared->lost_mode, 1);
	assert_int_equal(*root_of_caller(), 0);
	assert_int_equal(((const struct il_thread *)(const void *)(t.base + IL_THREADS +
								   32 * ((uint64_t)getpid() &
									 (IL_THREAD_CNT - 1))))
				 ->lost,
			 1);
	set64(t.caller, t.layout.f_code, 0);
}

/* A stack that would take too much of the ring is not told. */
static void test_switches__too_deep(void **state)
{
	const struct il_header *h = begin_switches();

	(void)state;
	t.private->size = 4 * sizeof(struct il_more_rec) - 1;
	run(h, 1);
	expect_event(at(32), kind_of(1), 0); /* behind the thread */
	assert_int_equal(t.shared->head, 32 + size_of(kind_of(1)));
	assert_int_equal(*root_of_caller(), 0);
	set64(t.caller, t.layout.f_code, 0);
}

/* --- --opcodes --- */

#define TABLE	 4096u
#define CHOSEN	 1u /* opcodes */
#define OTHER	 2u
#define ENTERING 3u /* begins a frame, too */
#define FIRST	 4u /* can come before that */

static void fresh_opcodes(void)
{
	static uint8_t lines[64] __attribute__((aligned(16)));
	const struct pye_pylayout *l = &t.layout;

	fresh();
	memset(t.base + IL_RING, 0, 8192);
	set64(lines, l->bytes_size, 5);
	memcpy(lines + l->bytes_data, "lines", 5);
	set64(t.code, l->co_linetable, address(lines));
	inline_describe_opcodes(l, t.private);
	t.private->slack = IL_SLACK; /* the ring here is short */
	t.private->limit = t.private->room = RING_BYTES - IL_SLACK;
}

static const struct il_header *build_opcodes(const struct inline_plan *plan)
{
	static const uint8_t opcodes[256] = {
		[CHOSEN] = STUB_OPCODE,
		[OTHER] = STUB_OPCODE_END,
		[ENTERING] = STUB_OPCODE,
		[FIRST] = STUB_OPCODE_FIRST,
	};
	const struct stub_how how = { .opcodes = opcodes };
	const struct il_header *h = (const void *)t.base;
	struct err e;

	t.plan = *plan;
	t.plan.table = TABLE;
	for (unsigned int i = CHOSEN; i <= FIRST; i++)
		t.plan.handlers[i] = address(cpu_land);
	t.plan.words[t.plan.word_cnt++] = (struct inline_word){ .at = TABLE + 8 * ENTERING,
								.target = address(cpu_land),
								.kind = INLINE_ENTRY };
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(stub_image(&t.plan, &t.layout, 0, address(t.base), &how, t.base, &e), 0);
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(h->patch_cnt, 4);
	memset(patch_kinds, INLINE_YIELD, sizeof(patch_kinds));
	return h;
}

static void expect_opcode(const struct il_rec *r, unsigned int opcode)
{
	assert_int_equal(r->what & 7, IL_OPCODE);
	assert_int_equal(r->what >> IL_OPCODE_SHIFT & 0xff, opcode);
	assert_int_equal(r->what >> 48, slot_of_code());
	assert_int_equal(IL_OPCODE_OFFSET(r->what), address(t.instr) - address(t.code));
	assert_int_equal(r->time & 0xffff, il_frame_hash(address(t.frame)));
}

/* Numbers of the patches: words first. */
enum {
	ENTERING_AT,
	CHOSEN_AT,
	OTHER_AT,
	FIRST_AT
};

/* In a frame that nobody has called another thread may begin, with the pthread_self() of the one before: it is told whose it is. Nothing
 * that comes later in the frame asks for that. Where the ring ends then. */
static uint64_t run_beginning(const struct il_header *h, uint64_t head)
{
	const struct il_more_rec *r = at(head);

	set64(t.entry, t.layout.f_previous, 0);
	run(h, FIRST_AT);
	assert_int_equal(r->head.what, IL_MORE | (uint64_t)IL_SWITCH << 48);
	assert_int_equal(r->w2, pthread_self());
	expect_opcode(at(head + 32), FIRST);
	run(h, CHOSEN_AT);
	expect_opcode(at(head + 48), CHOSEN);
	set64(t.entry, t.layout.f_previous, address(t.caller));
	run(h, FIRST_AT);
	expect_opcode(at(head + 64), FIRST);
	assert_int_equal(t.shared->head, head + 80);
	assert_int_equal(t.shared->slow, 2);
	return head + 80;
}

static void run_opcodes(const struct inline_plan *plan)
{
	const struct il_header *h = build_opcodes(plan);
	struct il_thread *thread;
	const struct il_lines *lines;
	const struct il_def *d;
	uint64_t head;

	t.instr[1] = 0;
	fresh_opcodes();
	run(h, CHOSEN_AT);
	d = at(32);
	expect_definition(d);
	lines = at(32 + d->total);
	assert_int_equal(lines->head.what >> 48, IL_LINES);
	assert_int_equal(lines->bytes, 5);
	assert_memory_equal(lines->data, "lines", 5);
	head = 32 + d->total + lines->total;
	expect_opcode(at(head), CHOSEN);
	head += 16;
	assert_int_equal(t.shared->head, head);
	thread = (void *)(uintptr_t)t.private->slot;
	assert_int_equal(thread->timed, 1);

	run(h, CHOSEN_AT); /* now without the slow path */
	expect_opcode(at(head), CHOSEN);
	head += 16;
	run(h, OTHER_AT);
	assert_int_equal(((const struct il_rec *)at(head))->what, IL_OPCODE_END);
	assert_int_equal(thread->timed, 0);
	head += 16;
	run(h, OTHER_AT); /* nothing is timed */
	assert_int_equal(t.shared->head, head);
	run(h, ENTERING_AT);
	expect_event(at(head), INLINE_ENTRY, 0);
	expect_opcode(at(head + 16), ENTERING);
	head += 32;
	assert_int_equal(t.shared->head, head);
	assert_int_equal(t.shared->slow, 1);
	head = run_beginning(h, head);

	t.frame[t.layout.f_owner] = 3; /* not a frame of Python: it ends what was before */
	memset(t.base + IL_CACHE, 0, 8UL * IL_CACHE_CNT);
	run(h, CHOSEN_AT);
	t.frame[t.layout.f_owner] = 0;
	assert_int_equal(((const struct il_rec *)at(head))->what, IL_OPCODE_END);
	assert_int_equal(t.shared->head, head + 16);

	t.shared->head = t.private->limit = RING_BYTES;
	run(h, CHOSEN_AT);
	run(h, OTHER_AT);
	assert_int_equal(thread->lost, 1);
	assert_int_equal(t.shared->lost_mode, 1);

	memset(t.private, 0, sizeof(*t.private));
	t.shared->head = 5;
	run(h, CHOSEN_AT);
	run(h, OTHER_AT);
	assert_int_equal(t.shared->head, 5);
}

static void test_opcodes__every_register(void **state)
{
	(void)state;
	use_version(LAST_MINOR);
	for (uint8_t frame = 0; frame < 16; frame++)
		for (uint8_t instr = 0; instr < 16; instr++) {
			if (frame == instr || instr == PREG_RSP)
				continue;
			run_opcodes(&(struct inline_plan){ .frame_in_slot = true,
							   .frame_reg = frame,
							   .frame_disp = 8 * instr,
							   .instr_reg = instr });
			if (frame != PREG_RSP)
				run_opcodes(
					&(struct inline_plan){ .frame_reg = frame,
							       .frame_disp = instr % 2 ? 0 : -24,
							       .instr_reg = instr,
							       .instr_disp = frame % 2 ? 0 : 2 });
		}
}

static void cost_of(const struct inline_plan *plan, bool all, bool locked, bool vdso, double *ticks)
{
	struct err e;

	assert_int_equal(stub_opcode_cost(plan, &t.layout, all, locked, vdso, ticks, &e), 0);
}

static void test_opcodes__their_cost(void **state)
{
	double all = 0, some = 0, locked = 0, vdso = 0;

	(void)state;
	use_version(LAST_MINOR);
	for (uint8_t frame = 0; frame < 16; frame++)
		for (int in_slot = 0; in_slot < 2; in_slot++) {
			const struct inline_plan plan = { .frame_in_slot = in_slot,
							  .frame_reg = frame,
							  .frame_disp = in_slot ? 16 : 0,
							  .instr_reg = frame == PREG_R13
									       ? PREG_RCX
									       : PREG_R13 };

			if (frame == PREG_RSP && !in_slot)
				continue;
			cost_of(&plan, true, false, false, &all);
			cost_of(&plan, false, false, false, &some);
			cost_of(&plan, true, true, false, &locked);
			cost_of(&plan, true, true, true, &vdso);
			assert_true(all > 0 && some > 0 && locked > 0 && vdso > 0);
		}
}

/* --- --count --- */

/* Interpreters with one lock, the oldest one first, and the state of the thread that has it. */
static struct {
	uint64_t mutex, newest, main, next; /* as they follow each other in the runtime */
	uint8_t is[3][8192], gil[64], tstate[256];
} m;

/* @cnt: how many; the thread is in the newest one */
static void make_interpreters(int cnt, uint64_t version, uint32_t tracing)
{
	const struct layout_monitoring *monitoring = layout_monitoring(&t.layout);

	memset(&m, 0, sizeof(m));
	m.newest = address(m.is[cnt - 1]);
	m.main = address(m.is[0]);
	m.next = (uint64_t)cnt;
	for (int i = 0; i < cnt; i++) {
		set64(m.is[i], t.layout.is_gil, address(m.gil));
		set64(m.is[i], t.layout.is_next, i ? address(m.is[i - 1]) : 0);
	}
	set64(m.is[cnt - 1], monitoring->is_version, version);
	set64(m.gil, monitoring->gil_holder, address(m.tstate));
	set64(m.tstate, t.layout.ts_interp, m.newest);
	set64(m.tstate, t.layout.ts_thread_id, pthread_self());
	if (monitoring->ts_tracing)
		memcpy(m.tstate + monitoring->ts_tracing, &tracing, 4);
}

static void set_version(uint64_t version)
{
	set64(t.code, layout_monitoring(&t.layout)->co_version, version);
}

static void fresh_tables(bool time, bool locked)
{
	fresh();
	inline_describe_tables(address(t.base), time, t.private);
	t.private->locked = locked;
	if (!locked && t.layout.is_gil != PYE_NO_FIELD) {
		make_interpreters(1, 0, 0);
		set_version(0);
		inline_describe_turns(&t.layout, address(&m.newest), t.private);
	}
	if (!time && !locked)
		inline_describe_monitoring(&t.layout, address(&m.newest), 0, address(t.base),
					   t.private);
	memset(t.base + IL_FUNCS, 0, 32UL * IL_FUNC_CNT);
	if (time)
		memset(t.base + IL_NODES, 0, IL_COUNT_BYTES - (IL_NODES - IL_FUNCS));
}

static const struct il_func *func_of_code(void)
{
	return (const struct il_func *)(const void *)(t.base + IL_FUNCS) + slot_of_code();
}

static void run_kind(const struct il_header *h, uint8_t kind)
{
	uint32_t n = 0;

	while (n < h->patch_cnt && kind_of(n) != kind)
		n++;
	assert_true(n < h->patch_cnt);
	run(h, n);
}

/* New, known, resumed, freed, in a forked child; no event. */
static void count_plan(const struct inline_plan *plan, bool locked)
{
	const struct il_header *h =
		build_how(plan, &(struct stub_how){ .count = true, .locked = locked });
	const struct il_func *f = func_of_code();
	uint64_t head;

	assert_int_equal(h->patch_cnt, 2);
	fresh_tables(false, locked);
	t.instr[1] = 0;
	run_kind(h, INLINE_ENTRY);
	expect_definition(at(0));
	head = t.shared->head;
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(f->code, address(t.code));
	assert_int_equal(f->calls, 2);
	assert_int_equal(f->resumes, 0);
	t.instr[1] = 1;
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(f->resumes, 1);
	assert_int_equal(t.shared->slow, 1);
	assert_int_equal(t.shared->head, head);

	run_kind(h, INLINE_DEALLOC);
	assert_int_equal(f->code | f->calls | f->resumes, 0);
	assert_int_equal(((const struct il_retired *)at(head))->calls, 2);
	t.private->head = *(locked ? &t.private->room : &t.private->limit) = RING_BYTES;
	run_kind(h, INLINE_ENTRY); /* no room for its name */
	assert_int_equal(f->code, 0);
	assert_int_equal(t.shared->lost_other, 1);

	memset(t.private, 0, sizeof(*t.private));
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(f->calls, 0);
}

static void test_count__every_register(void **state)
{
	(void)state;
	for (unsigned int minor = FIRST_MINOR; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		for (uint8_t frame = 0; frame < 16; frame++)
			for (uint8_t instr = 0; instr < 16; instr++) {
				struct inline_plan plan = { .frame_in_slot = minor % 2,
							    .frame_reg = frame,
							    .frame_disp = instr % 2 ? 0 : 8,
							    .instr_reg = instr,
							    .instr_disp = frame % 2 ? 0 : 2 };

				if (frame != instr && instr != PREG_RSP &&
				    (plan.frame_in_slot || frame != PREG_RSP))
					count_plan(&plan, frame % 2);
			}
	}
}

/* How the slow path finds the running thread's state. */
struct asked {
	bool locked; /* there is no lock that says whose turn it is */
	bool by_thread; /* the thread itself knows, as in an executable */
};

static __thread uint64_t own_tstate;

static void fresh_versions(const struct asked *asked)
{
	int64_t place = (int64_t)(address(&own_tstate) - pthread_self());

	fresh_tables(false, asked->locked);
	own_tstate = address(m.tstate);
	inline_describe_monitoring(&t.layout, address(&m.newest),
				   asked->by_thread ? (int32_t)place : 0, address(t.base),
				   t.private);
}

static void another_version(const struct asked *asked, int interpreters, uint64_t version,
			    uint32_t tracing)
{
	make_interpreters(interpreters, version, tracing);
	if (asked->by_thread) /* this is not looked at */
		set64(m.gil, layout_monitoring(&t.layout)->gil_holder, 8);
}

/* Where RESUME changes the code it comes twice, and is one call. */
static void count_changed(const struct il_header *h, const struct asked *asked, int interpreters)
{
	bool slow = interpreters > 1;

	fresh_versions(asked);
	another_version(asked, interpreters, 512, 0);
	set_version(0);
	run_kind(h, INLINE_ENTRY);
	set_version(512);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, 1);
	assert_int_equal(t.shared->slow, 2);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, 2);
	assert_int_equal(t.shared->slow, 2 + slow);

	another_version(asked, interpreters, 1024, 0);
	run_kind(h, INLINE_ENTRY);
	set_version(1024);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, 3);
	/* it was changed while it ran */
	another_version(asked, interpreters, 2048, 0);
	set_version(2048);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, 4);
}

/* A generator's frame is cleared, linked to nobody: who closes it is asked for, and told if it is not of the last event's stack. */
static void close_one(const struct asked *asked, uint64_t runs, uint64_t top, uint64_t told)
{
	const int64_t place = (int64_t)(address(&own_tstate) - pthread_self());
	uint64_t head, roots = address(t.base + IL_ROOTS);

	fresh();
	memset(t.base + IL_ROOTS, 0, 8UL * IL_ROOT_CNT);
	inline_describe_roots(&t.layout, address(t.base), t.private);
	another_version(asked, 1, 0, 0);
	inline_describe_turns(&t.layout, address(&m.newest), t.private);
	inline_describe_running(&t.layout, address(&m.newest),
				asked->by_thread ? (int32_t)place : 0, t.private);
	own_tstate = address(m.tstate);
	pye_inline_slow(t.private, address(t.frame), 8, INLINE_CLOSE); /* thread, code object */
	head = t.shared->head;
	set64(m.tstate, t.layout.ts_frame, runs);
	((uint64_t *)(uintptr_t)roots)[IL_ROOT(address(t.caller))] = address(t.caller);
	t.private->top = top;
	pye_inline_slow(t.private, address(t.frame), 8, INLINE_CLOSE);
	if (told) {
		const struct il_more_rec *r = at(head);

		assert_int_equal(r->head.what, told | IL_MORE | (uint64_t)IL_FRAME << 48);
		assert_int_equal(r->w2, IL_FRAME_KNOWN);
		head += 32;
	}
	expect_event(at(head), INLINE_CLOSE, 0);
	assert_int_equal(t.shared->head, head + 32);
	assert_int_equal(t.private->top, told ? told : top);
}

static void test_switches__what_closes_a_generator(void **state)
{
	const struct asked each[] = { { false, false }, { false, true } };

	(void)state;
	for (unsigned int minor = 14; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		t.instr[1] = (uint8_t)t.layout.resume_depth1;
		set64(t.caller, t.layout.f_previous, 0);
		set64(t.caller, t.layout.f_code, address(t.code));
		for (size_t i = 0; i < 2; i++) {
			close_one(&each[i], address(t.caller), 0x1000, address(t.caller));
			close_one(&each[i], address(t.entry), 0x1000, address(t.caller));
			close_one(&each[i], address(t.caller), address(t.caller), 0);
			close_one(&each[i], 0, 0x1000, 0);
		}
		set64(t.caller, t.layout.f_code, 0);
	}
}

/* In a callback of what monitors code stays as it is. */
static void count_in_callback(const struct il_header *h, const struct asked *asked)
{
	fresh_versions(asked);
	set_version(0);
	another_version(asked, 1, 512, 1);
	run_kind(h, INLINE_ENTRY);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, 2);
}

static void test_count__code_that_changes(void **state)
{
	const struct inline_plan plan = { .frame_reg = PREG_RBX, .instr_reg = PREG_R13 };
	const struct asked each[] = { { false, false }, { false, true }, { true, true } };

	(void)state;
	t.instr[1] = 0;
	for (unsigned int minor = 12; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		for (size_t i = 0; i < 3; i++) {
			const struct il_header *h =
				build_how(&plan, &(struct stub_how){ .count = true,
								     .locked = each[i].locked,
								     .turns = !each[i].locked,
								     .versions = true });

			count_changed(h, &each[i], 1);
			count_changed(h, &each[i], 2);
			if (minor > 12)
				count_in_callback(h, &each[i]);
		}
	}
}

/* One that came later begins, with no lock yet, and then has one of its own: all take the slow path from then on. */
static void count_apart(const struct il_header *h, int which)
{
	uint8_t own[64];

	fresh_tables(false, false);
	make_interpreters(1, 512, 0);
	set_version(512);
	t.private->thread = 7;
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(t.private->with_main, 1);
	assert_int_equal(t.private->turn, 7);

	make_interpreters(3, 512, 0);
	set_version(256);
	if (t.layout.minor >= 13) { /* the last one has its number, and is not in the list */
		m.mutex = 1;
		m.newest = m.main;
		run_kind(h, INLINE_ENTRY);
		assert_int_equal(t.private->with_main, 1);
		make_interpreters(3, 512, 0);
	}
	/* what had the main one's lock last is gone by now */
	set64(m.gil, layout_monitoring(&t.layout)->gil_holder, 8);
	set64(m.is[which], t.layout.is_gil, 0);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(t.private->with_main, 1);
	set64(m.is[which], t.layout.is_gil, address(own));
	run_kind(h, INLINE_ENTRY);
	assert_true(t.private->with_main == IL_APART);
	assert_int_equal(t.private->turn, 0);
	set64(m.is[which], t.layout.is_gil, address(m.gil));
	m.newest = 8; /* no more looked at */
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(func_of_code()->calls, t.shared->slow);
	assert_int_equal(t.shared->slow, t.layout.minor >= 13 ? 5 : 4);
	assert_int_equal(t.private->lock, 0);
}

static void test_count__a_lock_of_its_own(void **state)
{
	const struct inline_plan plan = { .frame_reg = PREG_RBX, .instr_reg = PREG_R13 };

	(void)state;
	t.instr[1] = 0;
	for (unsigned int minor = 12; minor <= LAST_MINOR; minor++) {
		use_version(minor);
		for (int which = 1; which <= 2; which++) /* the newest one, or the one before */
			count_apart(build_how(&plan, &(struct stub_how){ .count = true,
									 .turns = true,
									 .versions = true }),
				    which);
	}
}

/* A pool of objects of one size at the same place of each 2 MB of a heap: none takes another one's place. */
static void test_code__places(void **state)
{
	static uint8_t taken[IL_CACHE_CNT];

	(void)state;
	for (uint64_t part = 0; part < 32; part++)
		for (uint64_t i = 0; i < 78; i++)
			taken[IL_CODE_SLOT(0x7f1234e00000ull + (part << 21) + 48 + 208 * i)]++;
	for (uint32_t i = 0; i < IL_CACHE_CNT; i++)
		assert_in_range(taken[i], 0, 1);
}

/* An address that is full of others is not lost, up to the thirty-second. */
static void test_count__neighbours(void **state)
{
	struct il_func *f = (void *)(uintptr_t)func_of_code();
	const struct il_header *h;

	(void)state;
	use_version(FIRST_MINOR);
	h = build_how(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 },
		      &(struct stub_how){ .count = true });
	for (uint32_t taken = 1; taken <= 32; taken++) {
		fresh_tables(false, false);
		for (uint32_t i = 0; i < taken; i++)
			f[i].code = 64 * (i + 1);
		t.instr[1] = 0;
		run_kind(h, INLINE_ENTRY);
		run_kind(h, INLINE_ENTRY);
		assert_int_equal(f[taken].calls, taken < 32 ? 2 : 0);
		assert_int_equal(t.shared->lost_other, taken < 32 ? 0 : 2);
	}
}

static struct il_active *active_of(const void *frame)
{
	return (struct il_active *)(void *)(t.base + IL_ACTIVE) + IL_ACTIVE_PLACE(address(frame));
}

static uint32_t number_of(const struct il_node *n)
{
	return (uint32_t)(n - (const struct il_node *)(const void *)(t.base + IL_NODES));
}

static struct il_node *only_node(const struct il_node *but)
{
	struct il_node *nodes = (void *)(t.base + IL_NODES), *found = NULL;

	for (uint32_t i = 1; i < IL_NODE_CNT; i++) {
		if (!nodes[i].key || &nodes[i] == but)
			continue;
		assert_null(found);
		found = &nodes[i];
	}
	assert_non_null(found);
	return found;
}

/* A caller that waits for what it called: the time of that is not its own. */
static void test_count__times(void **state)
{
	const uint64_t *spans = (const void *)(t.base + IL_SPANS);
	const struct il_node *outer, *inner;
	uint64_t runs = 0, before, all;
	const struct il_header *h;

	(void)state;
	use_version(FIRST_MINOR);
	h = build_how(&(struct inline_plan){ .frame_reg = PREG_RBX, .instr_reg = PREG_R13 },
		      &(struct stub_how){ .count = true, .time = true });
	fresh_tables(true, false);
	t.instr[1] = 0;
	before = tsc_now();
	run_kind(h, INLINE_ENTRY);
	outer = only_node(NULL);
	/* the same function calls itself: its frame is now the one that called */
	active_of(t.frame)->frame = 0;
	*active_of(t.caller) = (struct il_active){ .frame = address(t.caller),
						   .start = before,
						   .node = number_of(outer),
						   .func = (uint32_t)slot_of_code() };
	run_kind(h, INLINE_ENTRY);
	inner = only_node(outer);
	run_kind(h, INLINE_RETURN);
	all = tsc_now() - before;
	assert_int_equal(inner->key >> 32, number_of(outer));
	assert_int_equal(inner->calls, 1);
	assert_int_equal(outer->calls, 1);
	assert_int_equal(outer->self, 0);
	assert_in_range(inner->self, 1, all);
	assert_int_equal(active_of(t.caller)->inner, inner->self);
	for (uint32_t i = 0; i < IL_SPAN_BUCKETS; i++)
		runs += spans[i];
	assert_int_equal(runs, 1);
}

/* Another thread has an event between the two times that a frame begins, where its code changes; what begins at its address when it
 * has ended is one more, and so is another function's that did not end in sight, or one that had called something. */
static void count_between(const struct il_header *h, bool locked)
{
	struct il_active *a = active_of(t.frame);
	const struct il_node *n;
	uint8_t own[64];

	fresh_tables(true, locked);
	make_interpreters(2, 0, 0);
	set64(m.is[1], t.layout.is_gil, address(own));
	run_kind(h, INLINE_ENTRY);
	n = only_node(NULL);
	pye_inline_count(t.private, address(t.caller), 0, INLINE_RETURN);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(n->calls, 1);
	run_kind(h, INLINE_RETURN);
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(n->calls, 2);
	pye_inline_count(t.private, address(t.caller), 0, INLINE_RETURN);
	a->inner = 1;
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(n->calls, 3);
	pye_inline_count(t.private, address(t.caller), 0, INLINE_RETURN);
	a->func++;
	run_kind(h, INLINE_ENTRY);
	assert_int_equal(n->calls, 4);
	assert_int_equal(a->func, slot_of_code());
}

static void test_count__begins_of_threads_that_run_at_once(void **state)
{
	const struct inline_plan plan = { .frame_reg = PREG_RBX, .instr_reg = PREG_R13 };

	(void)state;
	t.instr[1] = 0;
	for (unsigned int minor = 12; minor <= LAST_MINOR; minor++)
		for (int locked = 0; locked < 2; locked++) {
			use_version(minor);
			set64(t.caller, t.layout.f_previous, 0);
			set64(t.caller, t.layout.f_code, address(t.code));
			count_between(build_how(&plan, &(struct stub_how){ .count = true,
									   .time = true,
									   .locked = locked,
									   .turns = !locked }),
				      locked);
		}
}

/* --- threads that run at once --- */

/* The only one that has been written to since it was cleared. */
static struct inline_lane only_lane(void)
{
	struct inline_lane found = { 0 };

	for (uint32_t i = 0; i < IL_LANE_CNT; i++) {
		if (!lane_no(i).shared->head)
			continue;
		assert_null(found.shared);
		found = lane_no(i);
	}
	assert_non_null(found.shared);
	return found;
}

static void begin_lanes(void)
{
	t.layout = layout_find(13, true)->py;
	make_objects();
	fresh_lanes();
	t.instr[1] = 0;
}

static void *enter(void *arg)
{
	(void)arg;
	pye_inline_slow(t.private, address(t.frame), 0, INLINE_ENTRY);
	return NULL;
}

static void enter_in_a_thread(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, enter, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_lanes__one_for_each_thread(void **state)
{
	struct inline_lane mine, other;
	const struct il_def *d;
	uint64_t head;

	(void)state;
	begin_lanes();
	enter(NULL);
	mine = only_lane();
	d = (const void *)(mine.ring + 32);
	expect_definition(d);
	expect_event((const void *)((const uint8_t *)d + d->total), INLINE_ENTRY, 0);
	head = mine.shared->head;
	assert_int_equal(head, 32 + d->total + 16);
	enter(NULL);
	assert_int_equal(mine.shared->head, head + 16);

	mine.shared->head = 0; /* to find the other one */
	enter_in_a_thread();
	other = only_lane();
	assert_int_equal(other.shared->head, head);
	assert_int_not_equal(other.thread->tid, mine.thread->tid);

	/* one more, which gets the memory of the one before: it says that it is another one, and knows what that knew */
	enter_in_a_thread();
	if (other.shared->head != head) {
		const struct il_more_rec *r = (const void *)(other.ring + head);

		assert_int_equal(r->head.what >> 48, IL_SWITCH);
		assert_int_equal(r->w3, other.thread->tid);
		assert_int_equal(other.shared->head, head + 48);
	}
	assert_int_equal(t.shared->head | t.private->lock, 0);
}

/* What is freed leaves all caches; the one that frees it says so. */
static void test_lanes__a_code_object_that_is_freed(void **state)
{
	struct inline_lane mine, other;
	uint64_t head;

	(void)state;
	begin_lanes();
	enter_in_a_thread();
	other = only_lane();
	head = other.shared->head;
	other.shared->head = 0;
	enter(NULL);
	mine = only_lane();
	assert_int_equal(mine.shared->head, head);
	pye_inline_slow(t.private, address(t.code), 0, INLINE_DEALLOC);
	expect_event((const void *)(mine.ring + head), INLINE_DEALLOC, 0);
	assert_int_equal(((const uint64_t *)(uintptr_t)mine.state->cache)[slot_of_code()], 0);
	assert_int_equal(((const uint64_t *)(uintptr_t)other.state->cache)[slot_of_code()], 0);
	enter(NULL);
	expect_definition((const void *)(mine.ring + head + 32));
}

/* Whose thread is known to have ended, who has its number and memory says that it is another one; at any time. */
static void test_lanes__of_one_that_has_ended(void **state)
{
	const struct il_more_rec *r;
	struct inline_lane mine;
	uint64_t head;

	(void)state;
	begin_lanes();
	enter(NULL);
	mine = only_lane();
	assert_int_equal(mine.state->owner, gettid());
	for (uint64_t how = IL_OWNER_ENDED; how <= IL_OWNER_FREE; how <<= 1) {
		mine.state->owner |= how;
		head = mine.shared->head;
		r = (const void *)(mine.ring + head);
		enter(NULL);
		assert_int_equal(mine.shared->head, head + 48);
		assert_int_equal(r->head.what >> 48, IL_SWITCH);
		assert_int_equal(r->w3, gettid());
		assert_int_equal(mine.state->owner, gettid());
	}
	assert_int_equal(t.shared->head | t.private->lock, 0);
}

/* Without one a thread shares the ring; when one is free, it is taken. */
static void test_lanes__none_is_free(void **state)
{
	struct inline_lane lane = lane_no(5);
	uint64_t head;

	(void)state;
	begin_lanes();
	t.private->tid_at = 0x2d0;
	for (uint32_t i = 0; i < IL_LANE_CNT; i++) {
		t.private->selves[i] = 1 + i;
		lane_no(i).state->owner = 1000 + i;
		lane_no(i).state->shared = address(lane_no(i).shared);
		lane_no(i).state->threads = address(lane_no(i).thread);
	}
	enter(NULL);
	enter(NULL);
	head = t.shared->head;
	assert_int_equal(((const struct il_more_rec *)at(0))->head.what >> 48, IL_SWITCH);
	expect_event(at(head - 16), INLINE_ENTRY, 0);
	enter_in_a_thread();
	assert_int_equal(((const struct il_more_rec *)at(head))->head.what >> 48, IL_SWITCH);
	assert_int_equal(t.shared->head, head + 48);

	lane.state->owner = 1005 | IL_OWNER_ENDED; /* not all of it is read */
	t.shared->freed = 1;
	enter(NULL);
	assert_int_equal(lane.shared->head, 0);
	lane.state->owner = 1005 | IL_OWNER_FREE;
	lane.thread->lost = 1; /* not yet known */
	t.shared->freed = 2;
	enter(NULL);
	assert_int_equal(lane.shared->head, 0);
	lane.thread->lost = 0;
	t.shared->freed = 3;
	head = t.shared->head;
	enter(NULL);
	assert_int_not_equal(lane.shared->head, 0);
	assert_int_equal(t.shared->head, head);
	assert_int_equal(lane.state->owner, gettid());
	assert_int_equal(t.private->lock, 0);
}

/* A full one loses its own thread's events, and no other's. */
static void test_lanes__losses(void **state)
{
	struct inline_lane mine;

	(void)state;
	begin_lanes();
	enter(NULL);
	mine = only_lane();
	mine.shared->head = mine.state->limit = RING_BYTES;
	enter(NULL);
	enter(NULL);
	pye_inline_slow(t.private, address(t.code), 0, INLINE_DEALLOC);
	assert_int_equal(mine.thread->lost, 2);
	assert_int_equal(mine.shared->lost_mode & mine.shared->retire_lost, 1);
	assert_int_equal(t.shared->lost_mode | t.shared->retire_lost, 0);
	mine.shared->head = 0;
	enter_in_a_thread();
	assert_int_equal(only_lane().shared->lost_mode, 0);

	/* as inline__restart() has it: what the cache holds cannot be trusted */
	memset(&mine.shared->lost_mode, 0, 16);
	mine.shared->head = mine.shared->tail = RING_BYTES;
	mine.state->wipe = 1;
	mine.state->lost_mode = mine.state->limit = mine.state->thread = 0;
	memset((uint8_t *)(uintptr_t)mine.state->cache, 0xff, 8UL * IL_CACHE_CNT);
	((uint64_t *)(uintptr_t)mine.state->cache)[slot_of_code()] = address(t.code);
	enter(NULL);
	expect_definition((const void *)(mine.ring + 32));
	assert_int_equal(((const uint64_t *)(uintptr_t)mine.state->cache)[slot_of_code() ^ 1], 0);
}

/* --- detours: every register and flag is live --- */

#define ALL_FLAGS  0x8d5ull /* OF SF ZF AF PF CF */
#define TAKEN_AT   64
#define NEAR_BYTES 0x10000u

static struct {
	uint8_t *code; /* near the region: where the jump to the stub would be, and where it goes on */
	struct inline_detour plan;
	uint64_t tstate; /* the variable of the interpreter */
	uint8_t state[512];
	struct stub_how how;
	bool compares; /* the first instruction that gave way sets the flags */
	uint64_t slow; /* how often the slow path was taken */
} det;

/* Goes on at cpu_land, or traps. */
static void put_way(size_t at, bool right)
{
	uint64_t land = address(cpu_land);

	memcpy(det.code + at, right ? "\xff\x25\0\0\0\0" : "\x0f\x0b\0\0\0\0", 6);
	memcpy(det.code + at + 6, &land, 8);
}

/* The kind of the record that an event makes, its thread and its code object being known. */
static unsigned int run_detour(uint8_t kind, uint8_t reg, uint64_t flags)
{
	/* cmp esp, esp, or a nop; nop; ja: neither CF nor ZF */
	const uint8_t moved[] = {
		det.compares ? 0x39 : 0x66, det.compares ? 0xe4 : 0x90, 0x0f, 0x1f, 0x00, 0x77, 0x39
	};
	const uint64_t after = det.compares ? 0x44 : flags; /* ZF PF */
	bool taken = !(after & 0x41);
	const struct il_rec *r;
	struct err e;

	det.plan = (struct inline_detour){ .at = address(det.code),
					   .size = sizeof(moved),
					   .jump = 2,
					   .cond = COND_X86 | 7,
					   .kind = kind,
					   .sets_flags = det.compares,
					   .frame_reg = reg,
					   .target = address(det.code) + TAKEN_AT };
	memcpy(det.plan.code, moved, sizeof(moved));
	t.plan = (struct inline_plan){ .frame_reg = reg, .instr_reg = reg, .detour_cnt = 1 };
	t.plan.detours[0] = det.plan;
	put_way(sizeof(moved), !taken);
	put_way(TAKEN_AT, taken);
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(stub_image(&t.plan, &t.layout, 0, address(t.base), &det.how, t.base, &e),
			 0);
	assert_return_code(mprotect(t.base, IL_CODE_BYTES, PROT_READ | PROT_EXEC), 0);
	fresh();
	t.private->tstate_current = address(&det.tstate);
	for (int i = 0; i < 2; i++) {
		uint64_t before = t.shared->head;

		t.private->top = address(t.frame);
		const struct il_patch *p =
			&((const struct il_header *)(const void *)t.base)->patches[0];

		put_registers(INLINE_YIELD, false);
		cpu_in.flags = 2 | flags;
		assert_int_equal(p->size, 5);
		assert_int_equal(p->new & 0xff, 0xe9);
		cpu_stub = p->at + 5 + (uint64_t)(int64_t)(int32_t)(uint32_t)(p->new >> 8);
		cpu_run();
		assert_memory_equal(cpu_out.regs, cpu_in.regs, sizeof(cpu_in.regs));
		assert_int_equal(cpu_out.flags & ALL_FLAGS, after);
		assert_memory_equal(t.stack + STACK_AT - RED_ZONE, t.before + STACK_AT - RED_ZONE,
				    STACK_SIZE - STACK_AT + RED_ZONE);
		expect_vectors();
		r = at(before);
	}
	assert_int_equal(r->what & 0xfffffffffff8ull, address(t.frame));
	det.slow = t.shared->slow;
	if (kind == INLINE_EVAL_ENTRY)
		assert_int_equal(r->time & 0xffff, il_frame_hash(address(t.caller)));
	return (r->what & 7) == IL_MORE ? 0x10u | (unsigned int)(r->what >> 48) : r->what & 7;
}

static void eval_events(uint8_t reg, uint64_t flags)
{
	const struct pye_pylayout *l = &t.layout;
	const uint32_t function = 0x43, generator = 0x63; /* co_flags */

	set64(det.state, l->ts_exception, 0);
	memset(t.frame + l->f_instr, 0xff, 4);
	assert_int_equal(run_detour(INLINE_EVAL_ENTRY, reg, flags), IL_CALL);
	memset(t.frame + l->f_instr, 0, 4);
	assert_int_equal(run_detour(INLINE_EVAL_ENTRY, reg, flags), IL_RESUME);
	set_suspended(false);
	assert_int_equal(run_detour(INLINE_EVAL_EXIT, reg, flags), IL_RETURN);
	set_suspended(true);
	assert_int_equal(run_detour(INLINE_EVAL_EXIT, reg, flags), IL_YIELD);
	set64(det.state, l->ts_exception, 1);
	assert_int_equal(run_detour(INLINE_EVAL_ENTRY, reg, flags), 0x10 | IL_THROW);
	assert_int_equal(run_detour(INLINE_EVAL_EXIT, reg, flags), 0x10 | IL_UNWIND);
	/* one that has not begun: a generator, and what C calls all the same */
	memset(t.frame + l->f_instr, 0xff, 4);
	memcpy(t.code + l->co_flags, &generator, 4);
	assert_int_equal(run_detour(INLINE_EVAL_ENTRY, reg, flags), 0x10 | IL_THROW);
	memcpy(t.code + l->co_flags, &function, 4);
	assert_int_equal(run_detour(INLINE_EVAL_ENTRY, reg, flags), IL_CALL);
}

static const uint64_t flags[] = { 0, ALL_FLAGS, 0x801, 0x0d4, 0x040, 0x880 };

static void map_near(void)
{
	det.code = mmap(t.base - NEAR_BYTES, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(det.code != MAP_FAILED);
}

/* In a copy of the function that clears frames: the first one by the slow path, which learns the thread. */
static void test_detours__returns(void **state)
{
	(void)state;
	map_near();
	det.tstate = address(det.state);
	for (unsigned int minor = 12; minor <= 15; minor++) {
		t.layout = layout_find(minor, false)->py;
		make_objects();
		for (unsigned int i = 0; i < 64 * sizeof(flags) / sizeof(flags[0]); i++) {
			det.how.switches = i & 1;
			det.compares = i & 2;
			if (i / 4 % 16 == PREG_RSP)
				continue;
			assert_int_equal(run_detour(INLINE_RETURN, i / 4 % 16, flags[i / 64]),
					 IL_RETURN);
			assert_int_equal(det.slow, 1);
			if (det.how.switches)
				assert_int_equal(t.private->top, address(t.caller));
		}
	}
	det.how.switches = det.compares = false;
	assert_return_code(munmap(det.code, 4096), 0);
}

static void test_detours__leave_all_as_it_is(void **state)
{
	(void)state;
	map_near();
	for (unsigned int minor = 6; minor <= 10; minor++) {
		make_eval_objects(minor);
		memset(det.state, 0, sizeof(det.state));
		det.tstate = address(det.state);
		for (uint8_t reg = 0; reg < 16; reg++)
			for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
				if (reg != PREG_RSP)
					eval_events(reg, flags[i]);
	}
	assert_return_code(munmap(det.code, 4096), 0);
}

/* It is copied into other programs: nothing in it may lead out. */
static void test_slow__stands_alone(void **state)
{
	size_t size = (size_t)(__stop_pye_inline - __start_pye_inline);
	static struct elf_make made;
	struct elf_file *elf;
	struct disasm *d;
	struct insn insn;

	(void)state;
	make_init(&made, ET_DYN);
	assert_in_range(size, 256, MAKE_DATA - MAKE_TEXT);
	memset(made.bytes + MAKE_TEXT, 0xcc, MAKE_DATA - MAKE_TEXT);
	memcpy(made.bytes + MAKE_TEXT, __start_pye_inline, size);
	assert_int_equal(make_open_bytes(made.bytes, make_finish(&made), &elf, NULL), 0);
	assert_int_equal(disasm__new(elf, &d, NULL), 0);
	for (uint64_t pc = make_vaddr(MAKE_TEXT); pc < make_vaddr(MAKE_TEXT) + size;
	     pc += insn.size) {
		assert_int_equal(disasm__at(d, pc, &insn), 0);
		assert_int_equal(insn.pointer, 0);
		if (insn.target)
			assert_in_range(insn.target, make_vaddr(MAKE_TEXT),
					make_vaddr(MAKE_TEXT) + size - 1);
		assert_null(strstr(insn.text, "xmm"));
	}
	disasm__free(d);
	elf_file__free(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stubs__frame_in_a_register),
		cmocka_unit_test(test_stubs__frame_in_a_slot),
		cmocka_unit_test(test_stubs__instruction_in_a_slot),
		cmocka_unit_test(test_stubs__the_end_of_the_ring),
		cmocka_unit_test(test_stubs__a_head_that_was_written_over),
		cmocka_unit_test(test_stubs__the_clock_of_the_kernel),
		cmocka_unit_test(test_stubs__a_caller_that_adds_up_to_nothing),
		cmocka_unit_test(test_stubs__what_is_no_entry),
		cmocka_unit_test(test_stubs__what_is_left_out),
		cmocka_unit_test(test_stubs__a_code_object_that_is_freed),
		cmocka_unit_test(test_switches__every_register),
		cmocka_unit_test(test_switches__a_caller_that_is_unseen),
		cmocka_unit_test(test_switches__no_room),
		cmocka_unit_test(test_switches__too_deep),
		cmocka_unit_test(test_opcodes__every_register),
		cmocka_unit_test(test_opcodes__their_cost),
		cmocka_unit_test(test_count__every_register),
		cmocka_unit_test(test_switches__what_closes_a_generator),
		cmocka_unit_test(test_count__code_that_changes),
		cmocka_unit_test(test_count__a_lock_of_its_own),
		cmocka_unit_test(test_code__places),
		cmocka_unit_test(test_count__neighbours),
		cmocka_unit_test(test_count__times),
		cmocka_unit_test(test_count__begins_of_threads_that_run_at_once),
		cmocka_unit_test(test_lanes__one_for_each_thread),
		cmocka_unit_test(test_lanes__a_code_object_that_is_freed),
		cmocka_unit_test(test_lanes__of_one_that_has_ended),
		cmocka_unit_test(test_lanes__none_is_free),
		cmocka_unit_test(test_lanes__losses),
		cmocka_unit_test(test_detours__leave_all_as_it_is),
		cmocka_unit_test(test_detours__returns),
		cmocka_unit_test(test_slow__stands_alone),
	};

	return cmocka_run_group_tests(tests, region_set_up, region_tear_down);
}
