// SPDX-License-Identifier: Apache-2.0
/*
 * The inline engine's rings: the target can write into them, so any bytes are read, as the events of a trace, of
 * --opcodes, or of threads with a ring each. The first byte says of which version, which of these and who takes them, the second what
 * the threads' counters hold. Whatever comes in: batches are whole, each instruction ends, and a ring that holds what
 * no stub writes is an error.
 */
#include <errno.h>

#include "abi/event.h"
#include "capture/cap_inline.h"
#include "capture/inline_opcodes.h"
#include "capture/inline_priv.h"
#include "cpython/layouts.h"
#include "fuzz.h"

enum {
	RING_BYTES = 65536,
	PID = 4194305, /* more than there can be */
	OPCODES = 0x80,
	LANES = 0x40,
	QUIET = 0x20,
	TAKEN = 0x10, /* by one who takes what comes, not in batches */
	USED = 2 /* lanes, and the ring of all */
};
#define MEMORY_BYTES (IL_SHARED_HEAD + 2 * RING_BYTES + IL_LANE_CNT * IL_LANE_BYTES(RING_BYTES))

static struct {
	uint8_t *memory; /* as from IL_SHARED on */
	struct inline_engine engine;
	struct interp in;
	uint64_t ended;
	struct cap_inline *first; /* knows the clocks, which takes a while */
} f;

/* The stubs' clock: the same in each run. */
uint64_t tsc_now(void)
{
	return 1u << 20;
}

bool tsc_is_steady(void)
{
	return true;
}

struct clock_pair clock_pair_read(void)
{
	uint64_t ns = now_ns();

	return (struct clock_pair){ ns / 2, ns };
}

/* Who takes what comes: events never as records. */
static int on_record(void *ctx, const void *rec, uint32_t len)
{
	const struct pye_head *head = rec;

	(void)ctx;
	demand(len >= sizeof(*head) && head->kind && head->kind != PYE_REC_ENTRY &&
	       head->kind != PYE_REC_EXIT);
	return 0;
}

static int on_steps(void *ctx, uint32_t tix, uint32_t seq, const struct trace_step *steps,
		    uint32_t cnt)
{
	(void)ctx;
	(void)seq;
	demand(tix && cnt && cnt <= STEPS_MAX);
	for (uint32_t i = 0; i < cnt; i++)
		demand(steps[i].frame && steps[i].kind < TRACE_KIND_CNT &&
		       steps[i].kind != TRACE_OPEN && (!i || steps[i].ts_ns >= steps[i - 1].ts_ns));
	return 0;
}

static const struct capture_taker taker = { NULL, on_record, on_steps };

/* There is no target that could be told anything. */
int remote__write(const struct remote *r, uint64_t at, const void *from, size_t size)
{
	demand(r && at && from && size);
	return 0;
}

void inline__touch_lane(const struct inline_engine *e, uint32_t i)
{
	demand(e && i < IL_LANE_CNT);
}

static int on_end(void *ctx, const struct inline_opcode_event *event)
{
	(void)ctx;
	demand(event->file && event->qualname);
	f.ended++;
	return 0;
}

static void check_batch(const struct capture_batch *batch)
{
	const uint8_t *at = batch->data, *end = batch->len ? at + batch->len : at;

	while (at < end) {
		uint32_t bytes;

		memcpy(&bytes, at, 4);
		demand(bytes && bytes <= (size_t)(end - at) - CAPTURE_HEADER_BYTES);
		at += CAPTURE_HEADER_BYTES + ((bytes + 7u) & ~7u);
	}
	demand(at == end);
}

/* As the two mappings show it; what the input before this one wrote is wiped. */
static void fill(const uint8_t *data, size_t size, uint8_t counters)
{
	struct il_thread *threads = (void *)(f.memory + (IL_THREADS - IL_SHARED));

	memset(f.memory, 0, IL_SHARED_HEAD + 2 * RING_BYTES);
	memcpy(f.memory + IL_SHARED_HEAD, data, size);
	memcpy(f.memory + IL_SHARED_HEAD + RING_BYTES, data, size);
	f.engine.shared->head = size & ~15ull;
	for (uint32_t i = 0; i < counters; i++)
		threads[i * 7 % IL_THREAD_CNT] = (struct il_thread){ i % 4, i % 5, i * i, 0 };
}

/* An equal share for each. */
static void fill_lanes(const uint8_t *data, size_t size, uint8_t counters)
{
	size_t share = size / (USED + 1) & ~15ull;

	f.engine.lane_ring = RING_BYTES;
	for (uint32_t i = 0; i < USED; i++) {
		struct inline_lane lane = inline__lane(&f.engine, i);

		memset(lane.state, 0, IL_LANE_CACHE);
		memset((void *)(uintptr_t)lane.ring, 0, RING_BYTES + IL_SLACK);
		memcpy((void *)(uintptr_t)lane.ring, data + i * share, share);
		lane.shared->head = share;
		*lane.thread =
			(struct il_thread){ counters & 3, counters >> 2 & 3, counters >> 4, 0 };
	}
	fill(data + USED * share, size - USED * share, counters);
}

/* Code objects that are left out; what the target says of how far it has read that is no more to be trusted. */
static void leave_out(struct cap_inline *c, const uint8_t *records, uint8_t counters)
{
	struct pye_verdict verdict = { .set = PYE_CODE_QUIET };

	for (uint32_t id = 1; id < 4; id++) {
		verdict.id = id;
		memcpy(&verdict.code, records + 8 * (size_t)(counters % 64 + id), 8);
		cap_inline__decide(c, &verdict);
	}
}

static void read_all(struct cap_inline *c, uint8_t counters)
{
	struct capture_batch batch;
	int got;

	while ((got = cap_inline_ops.next(c, &batch)) > 0) {
		check_batch(&batch);
		leave_out(c, f.memory + IL_SHARED_HEAD, counters);
	}
	demand(!got || got == -EILSEQ || got == -ENOMEM);
	/* what is said to have been written after now waits */
	demand(got || f.engine.lane_ring || cap_inline__is_at_end(c));
	if (counters)
		cap_inline__recount(c);
	cap_inline__reap(c);
	cap_inline__end(c);
	if (cap_inline_ops.next(c, &batch) >= 0)
		check_batch(&batch);
}

static void read_opcodes(struct cap_inline *c, unsigned int minor)
{
	struct inline_opcodes_view view = { 0 };
	struct inline_opcodes *o;

	demand(!inline_opcodes__new(&o, &f.in.layout, opcode_names(minor), on_end, NULL));
	f.ended = 0;
	cap_inline__take(c, inline_opcodes__taker(o));
	read_all(c, 0);
	demand(!inline_opcodes__finish(o) && !inline_opcodes__sums(o, &view));
	demand(view.cnt == f.ended && view.untimed <= view.cnt);
	inline_opcodes__free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cap_inline_ids ids = { 0 };
	unsigned int minor;
	struct cap_inline *c;

	if (size < 2 || size > RING_BYTES)
		return 0;
	minor = 6 + (data[0] & 15) % 10;
	if (!f.memory)
		f.memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	demand(f.memory != MAP_FAILED);
	f.in.layout = layout_find(minor, false)->py;
	f.engine = (struct inline_engine){ .in = &f.in,
					   .shared = (void *)f.memory,
					   .threads = (void *)(f.memory + (IL_THREADS - IL_SHARED)),
					   .ring = f.memory + IL_SHARED_HEAD,
					   .ring_bytes = RING_BYTES,
					   .base = 1u << 16,
					   .quiet = data[0] & QUIET && !(data[0] & LANES),
					   .switches = (data[0] & 15) >= 10,
					   .hz = 1u << 19 };
	demand(f.first || !cap_inline__new(&f.first, 1, PID, &ids, NULL));
	demand(!cap_inline__new(&c, 1, PID, &ids, f.first));
	cap_inline__use(c, &f.engine);
	if (data[0] & TAKEN)
		cap_inline__hand_to(c, &taker);
	if (data[0] & LANES)
		fill_lanes(data + 2, size - 2, data[1]);
	else
		fill(data + 2, size - 2, data[1]);
	if (data[0] & OPCODES && opcode_names(minor))
		read_opcodes(c, minor);
	else
		read_all(c, data[1]);
	cap_inline__free(c);
	return 0;
}
