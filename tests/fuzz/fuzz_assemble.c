// SPDX-License-Identifier: Apache-2.0
/*
 * The assembler over any records. The first byte chooses: 0 to 127, the rest is batches as they stand, two
 * bytes of length before each; otherwise it is a program of small steps (enter, leave, lose, walk, define,
 * retire, fork, end ...) that makes a stream as the kernel would, with lies where a step says so, so that
 * mutations reach states that a random stream does not. Whatever comes in: events written and events lost
 * are those generated, what was written is what a decoder reads, and its frames nest.
 */
#include "../unit/record_make.h"
#include "assemble/assemble.h"
#include "capfile/format.h"
#include "capfile/writer.h"
#include "checker.h"
#include "decode/decode.h"

enum {
	THREADS = 8,
	DEPTH = 64,
	STEPS_MAX = 4000,
	INPUT_MAX = 1 << 16
};

/* What a thread of the program of steps has open. */
struct model {
	uint32_t seq, depth;
	uint64_t frames[DEPTH];
};

struct fuzz {
	struct batch_make b;
	struct assembler *a;
	struct capw *w;
	struct model threads[THREADS];
	uint32_t round, next_code, next_pix, next_idle;
	int lies;
	uint8_t ended[THREADS + 3]; /* by number: never used again */
	uint64_t next_frame;
};

static void feed(struct fuzz *f, const uint8_t *data, size_t len)
{
	/* a copy of its size, for the sanitizer */
	uint8_t *copy = malloc(len + 1);
	struct capture_batch batch = { .data = copy, .len = len, .round = f->round };

	demand(copy != NULL);
	memcpy(copy, data, len);
	assembler__feed(f->a, &batch);
	free(copy);
}

static void flush(struct fuzz *f)
{
	feed(f, f->b.data, f->b.len);
	f->b.len = 0;
}

static void add_process(struct fuzz *f, uint32_t pix, uint16_t flags)
{
	struct pye_pylayout layout = make_layout;
	const struct assembler_process p = { .trace = { .id = pix, .pid = 100 + pix, .comm = "p" },
					     .layout = &layout,
					     .proc_pid = -1 };

	layout.flags = flags;
	demand(!assembler__process(f->a, &p));
}

/* An event of a thread, from a stack that fits or one that does not. */
static void event(struct fuzz *f, uint32_t tix, uint8_t what, uint8_t arg)
{
	struct model *t = &f->threads[tix];
	uint64_t frame;

	if (what < 100 && t->depth < DEPTH) {
		frame = 0x10000 + 0x40 * (f->next_frame++ % 4096);
		t->frames[t->depth++] = frame;
		make_entry(&f->b, tix + 1, t->seq++, frame, arg, arg % 3);
		return;
	}
	frame = t->depth ? t->frames[--t->depth] : 0x8888;
	make_exit(&f->b, tix + 1, t->seq++, arg > 250 ? 0x9999 : frame, arg % 4);
}

static void walk(struct fuzz *f, uint32_t tix, uint8_t arg)
{
	static const unsigned int ends[] = { PYE_WALK_ROOT, PYE_WALK_ANCHORED, PYE_WALK_CUT, 0 };
	struct model *t = &f->threads[tix];
	struct pye_walk_frame frames[DEPTH] = { 0 };
	unsigned int end = ends[arg & 3];
	uint32_t cnt = end == PYE_WALK_ANCHORED ? arg >> 6 : t->depth;

	for (uint32_t i = 0; i < cnt; i++) {
		frames[i].frame =
			(end == PYE_WALK_ANCHORED ? 0xff000 + i : t->frames[t->depth - 1 - i]) &
			0xffffffffffff;
		frames[i].code = arg & 4 ? i : 1 + i % 20;
	}
	make_walk(&f->b, tix + 1, t->seq, frames, cnt, (enum pye_walk_reason)(arg >> 3 & 3), end,
		  t->depth && !(arg & 32) ? t->frames[t->depth - 1] : 0x7777);
	for (uint32_t i = 0; end == PYE_WALK_ANCHORED && i < cnt && t->depth < DEPTH; i++)
		t->frames[t->depth++] = frames[cnt - 1 - i].frame;
}

static void idle(struct fuzz *f, uint8_t arg)
{
	struct assembler_frame frames[8];
	const struct assembler_idle thread = { .id = f->next_idle++,
					       .pix = 1 + arg % 3,
					       .tid = 10 + arg % 16,
					       .comm = "idle",
					       .ts_ns = f->b.now,
					       .frames = frames,
					       .frame_cnt = arg % 8 };

	for (uint32_t i = 0; i < 8; i++)
		frames[i] = (struct assembler_frame){ .frame = 0x10000 + 0x40 * i, .code = 1 + i };
	assembler__idle(f->a, &thread);
}

static void process(struct fuzz *f, uint8_t arg)
{
	const struct assembler_child child = {
		.from = arg >> 4, .pix = f->next_pix, .pid = -1, .ts_ns = f->b.now, .late = arg & 1
	};

	flush(f);
	if (arg & 2)
		f->next_pix += !assembler__fork(f->a, &child);
	else
		assembler__process_end(f->a, arg >> 4, f->b.now);
}

static void step(struct fuzz *f, uint8_t what, uint8_t arg)
{
	uint32_t tix = what % THREADS;
	struct model *t = &f->threads[tix];

	if (what < 200) {
		event(f, tix, what, arg);
		return;
	}
	switch (what % 14) {
	case 0:
		t->seq += arg; /* lost */
		break;
	case 1:
	case 2:
		walk(f, tix, arg);
		break;
	case 3:
		make_code(&f->b, 1 + arg % 4, f->next_code++, "name");
		break;
	case 4:
		make_def(&f->b, 1 + arg % 4, arg, arg % 5);
		break;
	case 5:
		make_str(&f->b, arg, arg % 4, "some text")->status = arg % 3;
		break;
	case 6:
		if (!f->ended[1 + arg % (THREADS + 2)])
			make_thread(&f->b, 1 + arg % (THREADS + 2), 1 + arg % 3, 10 + arg % 16, 0);
		break;
	case 7:
		make_thread_end(&f->b, 1 + arg % (THREADS + 2), 1, t->seq);
		f->ended[1 + arg % (THREADS + 2)] = 1;
		break;
	case 8:
		make_retire(&f->b, tix + 1, t->seq, 1, arg);
		break;
	case 9:
		process(f, arg);
		break;
	case 10:
		idle(f, arg);
		break;
	case 11:
		flush(f);
		f->round += arg % 3;
		break;
	case 12:
		if (arg == 255)
			((struct pye_head *)make_rec(&f->b, PYE_REC_ENTRY, 0, tix + 1, t->seq++, 1,
						     32))
				->ts_ns = UINT64_MAX;
		f->b.now += arg * 1000ull;
		break;
	default:
		capw__flush(f->w, NULL);
	}
	if (f->b.len > MAKE_BYTES / 2)
		flush(f);
}

static void steps(struct fuzz *f, const uint8_t *data, size_t size)
{
	for (uint32_t i = 1; i <= 20; i++)
		make_code(&f->b, 1, i, "function");
	for (uint32_t i = 0; i < THREADS; i++)
		make_thread(&f->b, i + 1, 1 + i % 2, 10 + i, 0);
	for (size_t i = 0; i + 2 <= size && i < (size_t)2 * STEPS_MAX; i += 2)
		step(f, data[i], data[i + 1]);
	flush(f);
	for (uint32_t i = 0; i < THREADS; i++)
		assembler__final(f->a, i + 1, f->threads[i].seq, 0);
}

static void batches(struct fuzz *f, const uint8_t *data, size_t size)
{
	while (size >= 2) {
		size_t len = (size_t)data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		if (len > size)
			len = size;
		feed(f, data, len);
		data += len;
		size -= len;
		f->round++;
	}
}

static void check(struct fuzz *f, int fd)
{
	static struct checker c;
	struct trace_totals totals;
	uint64_t sum = 0;
	struct err e = { 0 };

	memset(&c, 0, sizeof(c));
	c.text_max = CAP_STRING_MAX;
	c.depth_max = CAP_DEPTH_MAX;
	c.ids_again = f->lies;
	assembler__finish(f->a);
	assembler__totals(f->a, NULL, &totals);
	demand(!capw__finish(f->w, &totals));
	assembler__totals(f->a, NULL, &totals);
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		sum += totals.lost[i];
	demand(totals.generated == totals.written + sum);
	demand(lseek(fd, 0, SEEK_SET) == 0);
	demand(!decode_file(fd, &checker_consumer, &c, &e));
	if (e.what[0])
		fprintf(stderr, "%s\n", e.what);
	demand(!e.what[0]);
	demand(c.events == totals.written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct trace_info info = {
		.engine = "", .version = "", .hostname = "", .kernel = "", .cpu = "", .arguments = ""
	};
	struct fuzz f = {
		.next_code = 21, .next_pix = 3, .next_idle = 1000, .lies = size && data[0] < 128
	};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	demand(fd >= 0);
	if (!size || size > INPUT_MAX) {
		close(fd);
		return 0;
	}
	make_init(&f.b);
	demand(!capw__new(&f.w, fd, NULL, &info) && !assembler__new(&f.a, f.w));
	add_process(&f, 1, data[0] & 1 ? PYE_LAYOUT_FRAME_OBJECT : 0);
	add_process(&f, 2, data[0] & 2 ? PYE_LAYOUT_FRAME_OBJECT : 0);
	if (data[0] < 128)
		batches(&f, data + 1, size - 1);
	else
		steps(&f, data + 1, size - 1);
	check(&f, fd);
	assembler__free(f.a);
	capw__free(f.w);
	free(f.b.data);
	close(fd);
	return 0;
}
