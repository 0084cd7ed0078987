// SPDX-License-Identifier: Apache-2.0
/*
 * The inline engine's ring: the target can write into it, so any bytes are read, as the events of a trace or of
 * --opcodes. The first byte says of which version and for whom, the second what the threads' counters hold. Whatever
 * comes in: batches are whole, instructions come with a number, and a ring that holds what no stub writes is an error.
 */
#include <errno.h>

#include "abi/event.h"
#include "capture/cap_inline.h"
#include "capture/inline_opcodes.h"
#include "cpython/layouts.h"
#include "fuzz.h"

enum {
	RING_BYTES = 65536,
	PID = 4194305, /* more than there can be */
	OPCODES = 0x80
};

static struct {
	uint8_t memory[IL_SHARED_HEAD + 2 * RING_BYTES] __attribute__((aligned(64)));
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

/* As the two mappings show it. */
static void fill(const uint8_t *data, size_t size, uint8_t counters)
{
	struct il_thread *threads = (void *)(f.memory + (IL_THREADS - IL_SHARED));

	memset(f.memory, 0, sizeof(f.memory));
	memcpy(f.memory + IL_SHARED_HEAD, data, size);
	memcpy(f.memory + IL_SHARED_HEAD + RING_BYTES, data, size);
	f.engine.shared->head = size & ~15ull;
	for (uint32_t i = 0; i < counters; i++)
		threads[i * 7 % IL_THREAD_CNT] = (struct il_thread){ i % 4, i % 5, i * i, 0 };
}

static void read_all(struct cap_inline *c, uint8_t counters)
{
	struct capture_batch batch;
	int got;

	while ((got = cap_inline_ops.next(c, &batch)) > 0)
		check_batch(&batch);
	demand(!got || got == -EILSEQ || got == -ENOMEM);
	demand(got || cap_inline__is_at_end(c));
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
	minor = 6 + data[0] % 10;
	f.in.layout = layout_find(minor, false)->py;
	f.engine = (struct inline_engine){ .in = &f.in,
					   .shared = (void *)f.memory,
					   .threads = (void *)(f.memory + (IL_THREADS - IL_SHARED)),
					   .ring = f.memory + IL_SHARED_HEAD,
					   .ring_bytes = RING_BYTES };
	demand(f.first || !cap_inline__new(&f.first, 1, PID, &ids, NULL));
	demand(!cap_inline__new(&c, 1, PID, &ids, f.first));
	cap_inline__use(c, &f.engine);
	fill(data + 2, size - 2, data[1]);
	if (data[0] & OPCODES && opcode_names(minor))
		read_opcodes(c, minor);
	else
		read_all(c, data[1]);
	cap_inline__free(c);
	return 0;
}
