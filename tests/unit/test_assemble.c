// SPDX-License-Identifier: Apache-2.0
/*
 * The assembler: hand-made records into a real capture, and what a decoder reads from that. In every
 * test the events generated are those written and those lost, and the frames of each thread nest.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "assemble_seen.h"

#define F(n) (0x1000 + 0x100 * (uint64_t)(n)) /* address of a frame */

static void call(struct assembly *as, uint32_t seq, unsigned int n)
{
	make_entry(&as->b, 1, seq, F(n), n, PYE_ENTRY_CALL);
}

static void leave(struct assembly *as, uint32_t seq, unsigned int n)
{
	make_exit(&as->b, 1, seq, F(n), PYE_EXIT_RETURN);
}

/* A walk that ends at the root; the frames from the top down, 0 ends them. */
static void walk(struct assembly *as, uint32_t seq, enum pye_walk_reason reason, const char *frames)
{
	struct pye_walk_frame w[32] = { 0 };
	uint32_t cnt = 0;

	for (; frames[cnt]; cnt++) {
		w[cnt].code = (uint32_t)(frames[cnt] - 'a' + 1);
		w[cnt].frame = F(w[cnt].code) & 0xffffffffffff;
	}
	make_walk(&as->b, 1, seq, w, cnt, reason, PYE_WALK_ROOT, 0);
}

static void test_assemble__calls_and_their_ends(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	call(as, 1, 2);
	make_exit(&as->b, 1, 2, F(2), PYE_EXIT_YIELD);
	make_entry(&as->b, 1, 3, F(2), 2, PYE_ENTRY_RESUME);
	make_exit(&as->b, 1, 4, F(2), PYE_EXIT_YIELD);
	make_entry(&as->b, 1, 5, F(2), 2, PYE_ENTRY_THROW);
	make_exit(&as->b, 1, 6, F(2), PYE_EXIT_UNWIND);
	leave(as, 7, 1);
	assembly_expect(as, 8,
			"call a, call b, yield b, resume b, yield b, throw b, unwind b, return a");
}

static void test_assemble__bits_of_the_kernel_are_no_part_of_an_id(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	make_entry(&as->b, 1, 0, F(1), 1 | PYE_CODE_GENERATOR | PYE_CODE_CHOSEN, PYE_ENTRY_CALL);
	leave(as, 1, 1);
	assembly_expect(as, 2, "call a, return a");
}

/* Three threads in three rings, read in turns. */
static void test_assemble__threads(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	assembly_feed(as);
	for (uint32_t tix = 2; tix <= 3; tix++) {
		make_thread(&as->b, tix, 1, 100 + tix, 0);
		assembly_feed(as);
	}
	for (uint32_t seq = 0; seq < 1000; seq += 2)
		for (uint32_t tix = 1; tix <= 3; tix++) {
			make_entry(&as->b, tix, seq, F(tix), tix, PYE_ENTRY_CALL);
			make_exit(&as->b, tix, seq + 1, F(tix), PYE_EXIT_RETURN);
			assembly_feed(as);
		}
	make_thread_end(&as->b, 2, 1, 1000);
	assembly_feed(as);
	assert_int_equal(assembler__threads(as->a), 2);
	assembly_finish(as);
	for (uint32_t tix = 1; tix <= 3; tix++)
		assert_int_equal(as->threads[tix].events, 1000);
	assert_int_equal(as->totals.generated, 3000);
	assert_int_equal(as->threads[1].def.end_ns, 0);
	assert_true(as->threads[2].def.end_ns > 0);
	assert_string_equal(as->threads[2].name, "ended");
	assert_memory_equal(as->threads[3].text, "call c, return c, call c", 24);
	assembly_free(as);
}

/* The pieces of definitions made at the same time by several threads lie among each other. */
static void test_assemble__definitions_among_each_other(void **state)
{
	struct assembly *as = assembly_new(0);
	struct batch_make *b = &as->b;

	(void)state;
	make_thread(b, 1, 1, 101, 0);
	make_def(b, 1, 1, 3);
	make_def(b, 1, 2, 3);
	make_str(b, 2, PYE_STR_FILE, "f");
	make_str(b, 1, PYE_STR_FILE, "f");
	assembly_feed(as);
	make_str(b, 1, PYE_STR_NAME, "one");
	make_str(b, 2, PYE_STR_NAME, "two");
	make_str(b, 2, PYE_STR_QUALNAME, "T.two");
	call(as, 0, 2);
	make_str(b, 1, PYE_STR_QUALNAME, "O.one");
	call(as, 1, 1);
	leave(as, 2, 1);
	leave(as, 3, 2);
	assembly_expect(as, 4, "call T.two, call O.one, return O.one, return T.two");
}

static void test_assemble__names(void **state)
{
	char *text = malloc(PYE_STR_BYTES + 1);
	struct assembly *as = assembly_new(0);
	struct batch_make *b = &as->b;
	struct pye_str_rec *rec;

	(void)state;
	make_thread(b, 1, 1, 101, 0);
	make_def(b, 1, 1, 1); /* before 3.11: no qualified name */
	make_str(b, 1, PYE_STR_NAME, "plain");
	make_def(b, 1, 2, 0);
	make_def(b, 1, 3, 1);
	make_str(b, 3, PYE_STR_NAME, "");
	make_def(b, 1, 4, 1);
	memset(text, 'x', PYE_STR_BYTES);
	text[PYE_STR_BYTES] = '\0';
	rec = make_str(b, 4, PYE_STR_NAME, text);
	rec->status = PYE_STR_CUT;
	rec->str.length = 100000;
	make_str(b, 4, PYE_STR_NAME, "again"); /* of a definition that is complete */
	for (uint32_t i = 1; i <= 4; i++) {
		call(as, 2 * i - 2, i);
		leave(as, 2 * i - 1, i);
	}
	assembly_finish(as);
	assert_string_equal(as->funcs[1], "plain");
	assert_string_equal(as->funcs[2], "[unreadable code 0x7002]");
	assert_string_equal(as->funcs[3], "");
	assert_memory_equal(as->funcs[4], "xxxx", 4);
	assert_int_equal(assembler__oddities(as->a)->unnamed, 1);
	assert_int_equal(assembler__oddities(as->a)->malformed, 1);
	assembly_free(as);
	free(text);
}

/* What the kernel could not read is read from outside: here from ourselves. */
static void test_assemble__names_read_from_outside(void **state)
{
	static struct {
		uint64_t pad[2], length, pad2;
		uint32_t state, pad3;
		char data[64];
	} str = { .length = 6, .state = MAKE_ASCII, .data = "afield" };
	struct assembly *as = assembly_new(0);
	struct pye_str_rec *rec;

	(void)state;
	make_thread(&as->b, 1, 1, 101, 0);
	make_def(&as->b, 1, 1, 1);
	rec = make_str(&as->b, 1, PYE_STR_NAME, "");
	rec->status = PYE_STR_FAULT;
	rec->str = (struct pye_str){ .addr = (uintptr_t)&str };
	make_def(&as->b, 1, 2, 1);
	rec = make_str(&as->b, 2, PYE_STR_NAME, "");
	rec->status = PYE_STR_FAULT;
	rec->str = (struct pye_str){ .addr = 8 };
	call(as, 0, 1);
	call(as, 1, 2);
	assembly_expect(as, 2, "call afield, call [unreadable code 0x7002]");
}

static void test_assemble__names_of_a_process_that_is_gone(void **state)
{
	struct assembly *as = assembly_new(0);
	struct assembler_process p = { .trace = { .id = 2, .pid = 9 }, .layout = &make_layout };
	struct pye_str_rec *rec;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	p.proc_pid = pid;
	assert_int_equal(assembler__process(as->a, &p), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	make_thread(&as->b, 1, 2, 101, 0);
	make_def(&as->b, 2, 1, 1);
	rec = make_str(&as->b, 1, PYE_STR_NAME, "");
	rec->status = PYE_STR_FAULT;
	call(as, 0, 1);
	assembly_expect(as, 1, "call [unreadable code 0x7001]");
}

/* The ring of definitions was full: pieces are missing, and the kernel gave the code another id. */
static void test_assemble__missing_pieces(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		make_def(&as->b, 1, 100 + i, 3);
		make_str(&as->b, 100 + i, PYE_STR_FILE, "f");
	}
	make_str(&as->b, 100, PYE_STR_NAME, "n"); /* long given up */
	make_def(&as->b, 1, 1099, 3); /* made again */
	make_str(&as->b, 1099, PYE_STR_FILE, "f");
	make_str(&as->b, 1099, PYE_STR_NAME, "n");
	make_str(&as->b, 1099, PYE_STR_QUALNAME, "N.n");
	make_entry(&as->b, 1, 0, F(1), 1099, PYE_ENTRY_CALL);
	leave(as, 1, 1);
	assembly_expect(as, 2, "call N.n, return N.n");
}

/* A frame whose definition is missing keeps its place: what is around it stays right. */
static void test_assemble__a_missing_definition(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_entry(&as->b, 1, 1, F(9), 999, PYE_ENTRY_CALL);
	make_entry(&as->b, 1, 2, F(8), 998, PYE_ENTRY_CALL);
	call(as, 3, 2);
	leave(as, 4, 2);
	leave(as, 5, 8);
	leave(as, 6, 9);
	leave(as, 7, 1);
	make_retire(&as->b, 1, 8, 1, 999); /* which stood for 998, too */
	assembly_feed(as);
	as->round = 2;
	make_entry(&as->b, 1, 8, F(8), 998, PYE_ENTRY_CALL);
	leave(as, 9, 8);
	assembly_expect(as, 10,
			"call a, call [unreadable], call [unreadable], call b, return b, "
			"return [unreadable], return [unreadable], return a, "
			"call [unreadable], return [unreadable]");
}

static void test_assemble__a_hole_at_the_start(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	walk(as, 5, PYE_WALK_UNKNOWN, "ba");
	call(as, 5, 3);
	leave(as, 6, 3);
	leave(as, 7, 2);
	assembly_expect(as, 8, "gap lost 5, open a, open b, call c, return c, return b");
}

static void test_assemble__a_hole_in_the_middle(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	call(as, 1, 2);
	walk(as, 5, PYE_WALK_UNKNOWN, "a");
	leave(as, 5, 1);
	assembly_expect(as, 6, "call a, call b, gap lost 3, open a, return a");
}

static void test_assemble__a_hole_at_the_end(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	make_thread(&as->b, 2, 1, 102, 0);
	make_thread(&as->b, 3, 1, 103, 0);
	call(as, 0, 1);
	make_thread_end(&as->b, 1, 1, 4);
	make_entry(&as->b, 2, 0, F(2), 2, PYE_ENTRY_CALL);
	assembly_feed(as);
	make_entry(&as->b, 3, 0, F(3), 2, PYE_ENTRY_CALL);
	assembly_feed(as);
	assembler__final(as->a, 2, 11,
			 as->b.now + 9000); /* until then it went on without being seen */
	assembler__final(as->a, 2, 11, as->b.now + 9000);
	assembler__final(as->a, 3, 2, 1); /* it was seen later than that */
	assembly_finish(as);
	assert_string_equal(as->threads[1].text, "call a, gap lost 3");
	assert_string_equal(as->threads[2].text, "call b, gap lost 10");
	assert_int_equal(as->threads[2].gap_ns, as->b.now + 9000 - as->threads[2].last_ns);
	assert_string_equal(as->threads[3].text, "call b, gap lost 1");
	assert_int_equal(as->threads[3].gap_ns, 0);
	assert_int_equal(as->totals.generated, 17);
	assert_int_equal(as->totals.lost[LOSS_RING], 14);
	assembly_free(as);
}

static void test_assemble__threads_that_nobody_heard_of(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	make_entry(&as->b, 7, 0, F(1), 1, PYE_ENTRY_CALL);
	make_exit(&as->b, 7, 1, F(1), PYE_EXIT_RETURN);
	walk(as, 0, PYE_WALK_UNKNOWN, "");
	call(as, 0, 1);
	make_thread_end(&as->b, 9, 1, 20);
	assembly_feed(as);
	assembler__final(as->a, 7, 2, 0);
	assembler__final(as->a, 8, 1000, 0);
	assert_int_equal(assembler__oddities(as->a)->malformed, 2);
	assembly_expect(as, 1023, "call a");
}

/* Numbers have 32 bits, and a thread can have more events than that. */
static void test_assemble__numbers_wrap(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	walk(as, 0xffffffff, PYE_WALK_UNKNOWN, "a");
	call(as, 0xffffffff, 2);
	leave(as, 0, 2);
	walk(as, 3, PYE_WALK_UNKNOWN, "");
	call(as, 3, 1);
	make_thread_end(&as->b, 1, 1, 6);
	assembly_feed(as);
	assert_int_equal(as->totals.generated, 0);
	assembly_expect(
		as, 0x100000006,
		"call a, gap lost 4294967294, open a, call b, return b, gap lost 2, call a, "
		"gap lost 2");
}

static void test_assemble__the_reason_of_a_loss(void **state)
{
	const uint64_t kernel[LOSS_CNT] = { [LOSS_READ] = 2, [LOSS_MAP] = 7, [LOSS_KERNEL] = 11 };
	struct assembly *as = assembly_usual(0);
	struct trace_totals totals;

	(void)state;
	call(as, 0, 1);
	walk(as, 6, PYE_WALK_UNKNOWN, "a");
	leave(as, 6, 1);
	assembly_feed(as);
	assembler__totals(as->a, kernel, &totals);
	assert_int_equal(totals.lost[LOSS_READ], 2);
	assert_int_equal(totals.lost[LOSS_RING], 3);
	assert_int_equal(totals.generated, 2 + 5 + 7 + 11);
	assert_int_equal(totals.generated, totals.written + lost_sum(&totals));
	assembly_expect(as, 7, "call a, gap lost 5, open a, return a");
}

static void test_assemble__the_first_event_shows_the_stack(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	walk(as, 0, PYE_WALK_UNKNOWN, "ba");
	leave(as, 0, 2);
	leave(as, 1, 1);
	assembly_expect(as, 2, "open a, open b, return b, return a");
}

static void test_assemble__a_walk_that_was_cut(void **state)
{
	const struct pye_walk_frame frame = { .frame = F(2), .code = 2 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	make_walk(&as->b, 1, 0, &frame, 1, PYE_WALK_UNKNOWN, PYE_WALK_CUT, 0);
	leave(as, 0, 2);
	leave(as, 1, 1); /* is not known: the kernel walks again */
	assembly_expect(as, 2, "open [unreadable], open b, return b, gap switch 1");
}

static void test_assemble__thrown_into(void **state)
{
	const struct pye_walk_frame frames[] = { { .frame = F(3), .code = 3 },
						 { .frame = F(2), .code = 2 } };
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_walk(&as->b, 1, 1, frames, 2, PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(1));
	make_exit(&as->b, 1, 1, F(3), PYE_EXIT_UNWIND);
	make_exit(&as->b, 1, 2, F(2), PYE_EXIT_YIELD);
	leave(as, 3, 1);
	assembly_expect(as, 6, "call a, throw b, throw c, unwind c, yield b, return a");
}

/* Two in a row, each with frames of its own. */
static void test_assemble__thrown_into_twice(void **state)
{
	const struct pye_walk_frame outer = { .frame = F(2), .code = 2 };
	const struct pye_walk_frame inner = { .frame = F(3), .code = 3 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_walk(&as->b, 1, 1, &outer, 1, PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(1));
	make_walk(&as->b, 1, 1, &inner, 1, PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(2));
	make_exit(&as->b, 1, 1, F(3), PYE_EXIT_UNWIND);
	make_exit(&as->b, 1, 2, F(2), PYE_EXIT_UNWIND);
	leave(as, 3, 1);
	assembly_expect(as, 6, "call a, throw b, throw c, unwind c, unwind b, return a");
}

/* The walk was written, its event was not: the throws count, and come before the gap. */
static void test_assemble__thrown_into_and_lost(void **state)
{
	const struct pye_walk_frame frame = { .frame = F(2), .code = 2 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_walk(&as->b, 1, 1, &frame, 1, PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(1));
	walk(as, 3, PYE_WALK_UNKNOWN, "a");
	leave(as, 3, 1);
	assembly_expect(as, 5, "call a, throw b, gap lost 2, open a, return a");
}

static void test_assemble__a_walk_above_the_wrong_frame(void **state)
{
	const struct pye_walk_frame frame = { .frame = F(2), .code = 2 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_walk(&as->b, 1, 1, &frame, 1, PYE_WALK_THROWN, PYE_WALK_ANCHORED, F(3));
	leave(as, 1, 2);
	assembly_feed(as);
	assert_int_equal(assembler__oddities(as->a)->mismatched, 1);
	assembly_expect(as, 3, "call a, gap switch 0, throw b, return b");
}

static void test_assemble__another_stack(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	walk(as, 1, PYE_WALK_SWITCH, "cb");
	call(as, 1, 4);
	leave(as, 2, 4);
	walk(as, 3, PYE_WALK_SWITCH, "a");
	leave(as, 3, 1);
	assembly_expect(
		as, 4,
		"call a, gap switch 0, open b, open c, call d, return d, gap switch 0, open a, "
		"return a");
}

static void test_assemble__a_deep_walk(void **state)
{
	enum {
		DEEP = 10000
	};
	struct pye_walk_frame *frames = calloc(DEEP, sizeof(*frames));
	struct assembly *as = assembly_usual(0);

	(void)state;
	assert_non_null(frames);
	for (uint32_t i = 0; i < DEEP; i++) {
		frames[i].frame = (0x100000 + 8ull * (DEEP - i)) & 0xffffffffffff;
		frames[i].code = 1 + i % 4;
	}
	make_walk(&as->b, 1, 0, frames, DEEP, PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	assembly_feed(as);
	for (uint32_t i = 0; i < DEEP; i++)
		make_exit(&as->b, 1, i, frames[i].frame, PYE_EXIT_RETURN);
	assembly_finish(as);
	assert_int_equal(as->threads[1].events, DEEP);
	assert_int_equal(as->threads[1].depth, 0);
	assert_int_equal(as->totals.generated, DEEP);
	assembly_free(as);
	free(frames);
}

/* The ring was full in the middle of a walk, or right after it: the next event has another one. */
static void test_assemble__a_walk_and_then_a_loss(void **state)
{
	struct pye_walk_frame frames[60] = { 0 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	for (uint32_t i = 0; i < 60; i++) {
		frames[i].frame = (0x200000 + 8ull * (60 - i)) & 0xffffffffffff;
		frames[i].code = 3;
	}
	make_walk(&as->b, 1, 0, frames, 60, PYE_WALK_UNKNOWN, 0, 0);
	make_walk(&as->b, 1, 1, frames, 60, PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	walk(as, 2, PYE_WALK_UNKNOWN, "a");
	call(as, 2, 2);
	walk(as, 3, PYE_WALK_SWITCH,
	     "cccc"); /* its event was lost, and what is known is not its stack */
	leave(as, 4, 2);
	assembly_expect(as, 5, "gap lost 2, open a, call b, gap lost 1");
}

static void test_assemble__an_exit_that_does_not_match(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	call(as, 1, 2);
	leave(as, 2, 1);
	leave(as, 3, 2);
	leave(as, 4, 1);
	call(as, 5, 3);
	leave(as, 6, 3);
	assembly_feed(as);
	assert_int_equal(assembler__oddities(as->a)->mismatched, 3);
	assembly_finish(as);
	assert_int_equal(as->totals.lost[LOSS_USER], 3);
	assert_string_equal(as->threads[1].text, "call a, call b, gap switch 1, call c, return c");
	assembly_free(as);
}

static void test_assemble__entries_taken_back(void **state)
{
	struct assembly *as = assembly_usual(PYE_LAYOUT_FRAME_OBJECT);

	(void)state;
	call(as, 0, 1);
	call(as, 1, 2);
	make_exit(&as->b, 1, 2, F(2), PYE_EXIT_REFUSED);
	call(as, 3, 3);
	assembly_feed(as);
	make_exit(&as->b, 1, 4, F(3), PYE_EXIT_REFUSED); /* in another batch */
	call(as, 5, 2);
	assembly_feed(as);
	leave(as, 6, 2);
	leave(as, 7, 1);
	call(as, 8, 4); /* waits for ever */
	assembly_expect(as, 5, "call a, call b, return b, return a, call d");
}

static void test_assemble__a_hole_before_what_is_taken_back(void **state)
{
	struct assembly *as = assembly_usual(PYE_LAYOUT_FRAME_OBJECT);

	(void)state;
	call(as, 0, 1);
	call(as, 1, 2);
	walk(as, 3, PYE_WALK_UNKNOWN, "ba");
	make_exit(&as->b, 1, 3, F(2), PYE_EXIT_REFUSED);
	call(as, 4, 3);
	make_thread_end(&as->b, 1, 1, 7);
	assembly_expect(as, 7,
			"call a, call b, gap lost 1, open a, open b, unwind b, call c, gap lost 2");
}

/* One that comes for another frame, or where entries are not held back, is an exit like others. */
static void test_assemble__what_cannot_be_taken_back(void **state)
{
	struct assembly *as = assembly_usual(PYE_LAYOUT_FRAME_OBJECT);

	(void)state;
	call(as, 0, 1);
	make_exit(&as->b, 1, 1, F(2), PYE_EXIT_REFUSED);
	assembly_expect(as, 2, "call a, gap switch 1");
	as = assembly_usual(0);
	call(as, 0, 1);
	make_exit(&as->b, 1, 1, F(1), PYE_EXIT_REFUSED);
	assembly_expect(as, 2, "call a, unwind a");
}

static void test_assemble__fork_exec_and_end(void **state)
{
	const struct assembler_child child = { .from = 1, .pix = 2, .pid = getpid(), .ts_ns = 500 };
	const struct assembler_child stranger = { .from = 77, .pix = 3 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	assert_int_equal(assembler__fork(as->a, &child), 0);
	assert_int_equal(assembler__fork(as->a, &stranger), -ENOENT);
	make_thread(&as->b, 2, 2, 102, 0);
	make_code(&as->b, 2, 5, "e");
	make_entry(&as->b, 2, 0, F(5), 5, PYE_ENTRY_CALL);
	assembly_feed(as);
	assembler__process_end(as->a, 2, 5000);
	assembler__process_end(as->a, 99, 5000);
	make_exit(&as->b, 2, 1, F(5), PYE_EXIT_RETURN); /* was in its ring */
	make_thread_end(&as->b, 2, 2, 2);
	assembly_finish(as);
	assert_string_equal(as->threads[2].text, "call e, return e");
	assert_int_equal(as->threads[2].def.process, 2);
	assert_int_equal(as->processes[2].pid, (uint32_t)getpid());
	assert_int_equal(as->processes[2].start_ns, 500);
	assert_int_equal(as->processes[2].end_ns, 5000);
	assert_int_equal(as->processes[1].end_ns, 0);
	assembly_free(as);
}

/* A chunk is written between the end of a process and what its threads had left in the rings. */
static void test_assemble__an_end_is_known_before_the_last_events(void **state)
{
	const struct assembler_child child = { .from = 1, .pix = 2, .pid = getpid(), .ts_ns = 500 };
	struct assembly *as = assembly_usual(0);

	(void)state;
	assert_int_equal(assembler__fork(as->a, &child), 0);
	assembly_feed(as);
	assembler__process_end(as->a, 2, 5000);
	for (int i = 0; i < 3; i++) {
		assembler__totals(as->a, NULL, &as->totals);
		assert_int_equal(capw__flush(as->w, &as->totals), 0);
	}
	make_thread(&as->b, 2, 2, 102, 0);
	make_code(&as->b, 2, 5, "e");
	make_entry(&as->b, 2, 0, F(5), 5, PYE_ENTRY_CALL);
	make_exit(&as->b, 2, 1, F(5), PYE_EXIT_RETURN);
	make_thread_end(&as->b, 2, 2, 2);
	assembly_finish(as);
	assert_string_equal(as->threads[2].text, "call e, return e");
	assert_int_equal(as->totals.lost[LOSS_USER], 0);
	assert_int_equal(as->processes[2].end_ns, 5000);
	assembly_free(as);
}

static void test_assemble__a_child_that_ran_untraced_at_first(void **state)
{
	const struct assembler_child child = {
		.from = 1, .pix = 2, .pid = getpid(), .ts_ns = 500, .late = true
	};
	struct assembly *as = assembly_new(0);

	(void)state;
	assert_int_equal(assembler__fork(as->a, &child), 0);
	make_code(&as->b, 2, 1, "a");
	make_code(&as->b, 2, 2, "b");
	make_thread(&as->b, 1, 2, 101, 0);
	walk(as, 0, PYE_WALK_UNKNOWN, "a");
	call(as, 0, 2);
	assembly_expect(as, 1, "gap attach 0, open a, call b");
}

/* Children come and go by the thousand: nothing of them stays, neither names nor open files. */
static void test_assemble__processes_that_ended_are_forgotten(void **state)
{
	struct assembly *as = assembly_usual(0);
	struct rlimit files;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		const struct assembler_child child = { .from = 1, .pix = 2 + i, .pid = getpid() };
		uint32_t tix = 2 + i, code = 10 + i * 200;

		assert_int_equal(assembler__fork(as->a, &child), 0);
		for (uint32_t k = 0; k < 200; k++)
			make_code(&as->b, child.pix, code + k, "a_function_of_the_child");
		make_thread(&as->b, tix, child.pix, 200 + i, 0);
		make_entry(&as->b, tix, 0, F(1), code, PYE_ENTRY_CALL);
		assembler__process_end(as->a, child.pix,
				       as->b.now); /* what it wrote is read later */
		make_thread_end(&as->b, tix, child.pix, 1);
		assert_int_equal(assembly_feed(as), 0);
		as->round++;
	}
	assert_int_equal(assembler__threads(as->a), 1);
	assert_int_equal(assembler__oddities(as->a)->unnamed, 0);
	assembly_expect(as, 1000, "");
}

static void add_idle(struct assembly *as, uint32_t id, uint32_t tid, const char *frames)
{
	struct assembler_frame f[8];
	const struct assembler_idle idle = { .id = id,
					     .pix = 1,
					     .tid = tid,
					     .comm = "sleeper",
					     .ts_ns = as->b.now,
					     .frames = f,
					     .frame_cnt = (uint32_t)strlen(frames) };

	for (uint32_t i = 0; frames[i]; i++)
		f[i] = (struct assembler_frame){ .frame = F(frames[i] - 'a' + 1),
						 .code = (uint32_t)(frames[i] - 'a' + 1) };
	assert_int_equal(assembler__idle(as->a, &idle), 0);
}

static void test_assemble__idle_threads(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	assembly_feed(as);
	add_idle(as, 50, 101, "a"); /* runs already */
	add_idle(as, 51, 102, "ab");
	add_idle(as, 52, 103, "ab");
	add_idle(as, 53, 104, "ab");
	assert_int_equal(assembler__threads(as->a), 4);
	make_thread(&as->b, 2, 1, 102, 0); /* as it was seen */
	make_walk(&as->b, 2, 0,
		  (struct pye_walk_frame[]){ { .frame = F(2), .code = 2 },
					     { .frame = F(1), .code = 1 } },
		  2, PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	make_exit(&as->b, 2, 0, F(2), PYE_EXIT_RETURN);
	make_exit(&as->b, 2, 1, F(1), PYE_EXIT_RETURN);
	make_thread(&as->b, 3, 1, 103, 0); /* otherwise */
	make_walk(&as->b, 3, 0, (struct pye_walk_frame[]){ { .frame = F(3), .code = 3 } }, 1,
		  PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	make_exit(&as->b, 3, 0, F(3), PYE_EXIT_RETURN);
	make_thread(&as->b, 4, 1, 104, 3); /* its first events were lost */
	make_walk(&as->b, 4, 3, (struct pye_walk_frame[]){ { .frame = F(1), .code = 1 } }, 1,
		  PYE_WALK_UNKNOWN, PYE_WALK_ROOT, 0);
	make_exit(&as->b, 4, 3, F(1), PYE_EXIT_RETURN);
	assembly_finish(as);
	assert_string_equal(as->threads[50].text, "");
	assert_string_equal(as->threads[51].text, "open a, open b, return b, return a");
	assert_string_equal(as->threads[52].text, "open a, open b, gap attach 0, open c, return c");
	assert_string_equal(as->threads[53].text, "open a, open b, gap lost 3, open a, return a");
	assert_string_equal(as->threads[51].name, "sleeper");
	assembly_free(as);
}

static void test_assemble__idle_threads_end_with_their_process(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	assembly_feed(as);
	add_idle(as, 51, 102, "ab");
	add_idle(as, 52, 103, "a");
	make_thread(&as->b, 3, 1, 103, 0); /* one is woken by the end of the program */
	make_thread_end(&as->b, 3, 1, 0);
	make_thread_end(&as->b, 1, 1, 0);
	assembler__process_end(as->a, 1, 9999);
	for (as->round = 1; as->round < 5; as->round++) {
		make_thread(&as->b, 10 + as->round, 2, 500 + as->round, 0);
		assembly_feed(as);
	}
	assert_int_equal(assembler__threads(as->a), 4);
	assembly_finish(as);
	assert_int_equal(as->threads[51].def.end_ns, 9999);
	assert_string_equal(as->threads[51].text, "open a, open b");
	assembly_free(as);
}

/* An id is forgotten, but not before events that lie in other rings have been read. */
static void test_assemble__retired_code(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	leave(as, 1, 1);
	make_retire(&as->b, 1, 2, 1, 1);
	assembly_feed(as);
	as->round = 1;
	make_thread(&as->b, 2, 1, 102, 0);
	make_entry(&as->b, 2, 0, F(1), 1, PYE_ENTRY_CALL); /* before, in the other ring */
	make_exit(&as->b, 2, 1, F(1), PYE_EXIT_RETURN);
	assembly_feed(as);
	as->round = 2;
	assembly_feed(as);
	capw__flush(as->w, NULL);
	make_entry(&as->b, 1, 2, F(1), 1, PYE_ENTRY_CALL); /* which cannot be */
	assembly_finish(as);
	assert_string_equal(as->threads[2].text, "call a, return a");
	assert_string_equal(as->threads[1].text, "call a, return a, call [unreadable]");
	assembly_free(as);
}

/* A program that compiles and drops code all the time. */
static void test_assemble__no_end_of_code(void **state)
{
	struct assembly *as = assembly_usual(0);
	uint32_t seq = 0;

	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		make_code(&as->b, 1, 10 + i, "<expression>");
		make_entry(&as->b, 1, seq++, F(1), 10 + i, PYE_ENTRY_CALL);
		make_exit(&as->b, 1, seq++, F(1), PYE_EXIT_RETURN);
		make_retire(&as->b, 1, seq, 1, 10 + i);
		if (i % 1000 == 999)
			assert_int_equal(assembly_feed(as), 0);
		if (i % 20000 == 0)
			as->round++;
	}
	assert_int_equal(assembler__oddities(as->a)->unnamed, 0);
	assembly_finish(as);
	assert_int_equal(as->totals.written, 400000);
	assembly_free(as);
}

/* No room for more definitions: events go on without a name, and the session with them. */
static void test_assemble__too_much_code_that_lives(void **state)
{
	enum {
		CODES = 400000
	};
	struct assembly *as = assembly_usual(0);
	uint32_t seq = 0;

	(void)state;
	for (uint32_t i = 0; i < CODES; i++) {
		make_code(&as->b, 1, 10 + i, "some_method_of_a_class");
		if (i % 100)
			continue;
		make_entry(&as->b, 1, seq++, F(1), 10 + i, PYE_ENTRY_CALL);
		make_exit(&as->b, 1, seq++, F(1), PYE_EXIT_RETURN);
		assert_int_equal(assembly_feed(as), 0);
	}
	assert_true(assembler__oddities(as->a)->unnamed > 1000);
	assembly_finish(as);
	assert_int_equal(as->totals.written, seq);
	assembly_free(as);
}

static void test_assemble__duplicate_threads(void **state)
{
	struct assembly *as = assembly_usual(0);

	(void)state;
	call(as, 0, 1);
	make_thread(&as->b, 1, 1, 101, 0);
	make_thread(&as->b, 1, 9, 101, 0);
	leave(as, 1, 1);
	assembly_feed(as);
	add_idle(as, 60, 102, "a");
	make_thread(&as->b, 1, 1, 102, 0); /* a number that is another's */
	make_thread_end(&as->b, 1, 1, 2);
	make_thread_end(&as->b, 1, 1, 2); /* as of a thread never heard of: what is lost is lost */
	assembly_feed(as);
	assert_int_equal(assembler__oddities(as->a)->malformed, 3);
	assert_int_equal(assembler__threads(as->a), 1);
	assembly_expect(as, 4, "call a, return a");
}

static void test_assemble__discarded_and_unknown_records(void **state)
{
	struct assembly *as = assembly_usual(0);
	uint32_t *header;

	(void)state;
	call(as, 0, 1);
	header = (uint32_t *)(void *)(as->b.data + as->b.len);
	call(as, 1, 2);
	*header |= CAPTURE_DISCARDED;
	make_rec(&as->b, 0, 0, 1, 1, 0, sizeof(struct pye_head));
	make_rec(&as->b, 200, 0, 1, 1, 0, 100);
	make_rec(&as->b, PYE_REC_FORK, 0, 1, 1, 0, sizeof(struct pye_proc_rec));
	make_rec(&as->b, PYE_REC_ENTRY, 0, 1, 1, F(2), sizeof(struct pye_entry_rec) - 1);
	make_rec(&as->b, PYE_REC_WALK, PYE_WALK_FIRST, 1, 1, 0, 100);
	leave(as, 1, 1);
	assembly_feed(as);
	assert_int_equal(assembler__oddities(as->a)->malformed, 5);
	assembly_expect(as, 2, "call a, return a");
}

/* A batch that ends anywhere: nothing behind its end is read, and what was whole counts. */
static void test_assemble__truncated_batches(void **state)
{
	size_t whole;

	(void)state;
	for (size_t cut = 1;; cut++) {
		struct assembly *as = assembly_usual(0);
		size_t before;

		call(as, 0, 1);
		before = as->b.len;
		walk(as, 1, PYE_WALK_SWITCH, "ab");
		make_code(&as->b, 1, 5, "e");
		leave(as, 1, 1);
		whole = as->b.len;
		as->b.len -= cut;
		assembly_finish(as);
		assert_true(as->totals.written == 1);
		assembly_free(as);
		if (before + cut >= whole)
			break;
	}
}

static void test_assemble__lies_inside_records(void **state)
{
	struct assembly *as = assembly_usual(0);
	struct pye_walk_rec *w;
	struct pye_str_rec *str;

	(void)state;
	call(as, 0, 1);
	w = make_rec(&as->b, PYE_REC_WALK, PYE_WALK_FIRST | PYE_WALK_ROOT, 1, 1, 0, sizeof(*w));
	w->cnt = PYE_WALK_FRAMES + 1;
	make_def(&as->b, 1, 6, 3);
	str = make_str(&as->b, 6, PYE_STR_NAME, "x");
	str->data_len = 65;
	make_str(&as->b, 6, 9, "which");
	make_str(&as->b, 6, PYE_STR_FILE, "x")->str.length = UINT64_MAX;
	leave(as, 1, 1);
	make_entry(&as->b, 1, 2, F(1), 1, 7); /* kinds that are none */
	make_exit(&as->b, 1, 3, F(1), 250);
	((struct pye_head *)make_rec(&as->b, PYE_REC_ENTRY, 0, 1, 4, F(2), 32))->ts_ns = UINT64_MAX;
	call(as, 5, 1);
	assembly_feed(as);
	assert_int_equal(assembler__oddities(as->a)->malformed, 4);
	assembly_finish(as);
	assert_int_equal(as->totals.generated, 6);
	assert_int_equal(as->totals.written, 5);
	assembly_free(as);
}

/* A disk that is full: events are lost with their number, the trace goes on, and what comes out nests. */
static void test_assemble__a_full_disk(void **state)
{
	struct rlimit before, limit = { .rlim_cur = 20000, .rlim_max = RLIM_INFINITY };
	struct assembly *as = assembly_new_on(fileno(tmpfile()), 0);
	uint32_t seq = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit.rlim_max = before.rlim_max;
	for (uint32_t i = 1; i <= 4; i++)
		make_code(&as->b, 1, i, "x");
	make_thread(&as->b, 1, 1, 101, 0);
	assembly_feed(as);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (uint32_t i = 0; i < 200; i++) {
		for (uint32_t k = 0; k < 500; k++) {
			call(as, seq++, 1 + i % 4);
			as->b.now += i * 7919 % 100000;
			leave(as, seq++, 1 + i % 4);
		}
		seq += i % 3; /* holes and walks at the time of the failure, too */
		walk(as, seq, PYE_WALK_UNKNOWN, "dcba");
		call(as, seq++, 1);
		assembly_feed(as);
		capw__flush(as->w, NULL);
		if (i == 150)
			assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	}
	make_thread_end(&as->b, 1, 1, seq);
	assembly_finish(as);
	assert_true(as->totals.lost[LOSS_USER] > 1000);
	assert_int_equal(as->totals.generated, seq);
	assembly_free(as);
}

static void test_assemble__frames_beyond_counting(void **state)
{
	enum {
		DEEP = (1 << 20) + 1000
	};
	struct assembly *as = assembly_usual(0);

	(void)state;
	for (uint32_t i = 0; i < DEEP; i++) {
		make_entry(&as->b, 1, i, 0x100000 + 8ull * i, 1, PYE_ENTRY_CALL);
		if (i % 10000 == 0)
			assembly_feed(as);
	}
	for (uint32_t i = DEEP; i-- > 0;) {
		make_exit(&as->b, 1, 2 * DEEP - 1 - i, 0x100000 + 8ull * i, PYE_EXIT_RETURN);
		if (i % 10000 == 0)
			assembly_feed(as);
	}
	assembler__finish(as->a);
	assembler__totals(as->a, NULL, &as->totals);
	assert_int_equal(as->totals.generated, 2 * DEEP);
	assert_int_equal(as->totals.generated, as->totals.written + lost_sum(&as->totals));
	assembly_free(as);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_assemble__##name)
	const struct CMUnitTest tests[] = {
		T(calls_and_their_ends),
		T(bits_of_the_kernel_are_no_part_of_an_id),
		T(threads),
		T(definitions_among_each_other),
		T(names),
		T(names_read_from_outside),
		T(names_of_a_process_that_is_gone),
		T(missing_pieces),
		T(a_missing_definition),
		T(a_hole_at_the_start),
		T(a_hole_in_the_middle),
		T(a_hole_at_the_end),
		T(threads_that_nobody_heard_of),
		T(numbers_wrap),
		T(the_reason_of_a_loss),
		T(the_first_event_shows_the_stack),
		T(a_walk_that_was_cut),
		T(thrown_into),
		T(thrown_into_twice),
		T(thrown_into_and_lost),
		T(a_walk_above_the_wrong_frame),
		T(another_stack),
		T(a_deep_walk),
		T(a_walk_and_then_a_loss),
		T(an_exit_that_does_not_match),
		T(entries_taken_back),
		T(a_hole_before_what_is_taken_back),
		T(what_cannot_be_taken_back),
		T(fork_exec_and_end),
		T(an_end_is_known_before_the_last_events),
		T(a_child_that_ran_untraced_at_first),
		T(processes_that_ended_are_forgotten),
		T(idle_threads),
		T(idle_threads_end_with_their_process),
		T(retired_code),
		T(no_end_of_code),
		T(too_much_code_that_lives),
		T(duplicate_threads),
		T(discarded_and_unknown_records),
		T(truncated_batches),
		T(lies_inside_records),
		T(a_full_disk),
		T(frames_beyond_counting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
