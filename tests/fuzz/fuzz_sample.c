// SPDX-License-Identifier: Apache-2.0
/*
 * The sampler's walker (bpf/py/sample.bpf.h) over a hostile target, for every layout. The input is the target's
 * memory, two bytes for each word of it, so that pointers hit: small numbers are addresses in it, some lie in a
 * word's upper bytes (bytes and ints of structs), some are wild. Pages are missing, reads fail, and the target
 * runs on while another thread's frame is read. Where it stands still a plain walk, a read for each field, has to
 * come to the same frames.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/layouts.h"
#include "walkers.h"

#include "py/sample.bpf.h"

#define PAGES	   16
#define PAGE	   4096u
#define MEMORY	   (PAGES * PAGE)
#define HEAD_BYTES 24
#define WALK \
	1100 /* frames: more than a record holds; the kernel's PYE_SAMPLE_WALK take long on a cycle */
#define WORDS (MEMORY / 8)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct layout *const layouts_known[] = {
	&layout_3_6,   &layout_3_7,  &layout_3_8,   &layout_3_9,   &layout_3_10,
	&layout_3_11,  &layout_3_12, &layout_3_13,  &layout_3_13t, &layout_3_14,
	&layout_3_14t, &layout_3_15, &layout_3_15t,
};

#define LAYOUT_CNT (sizeof(layouts_known) / sizeof(layouts_known[0]))

struct head {
	uint16_t layout;
	uint16_t missing; /* pages, a bit each */
	uint16_t fail_read; /* 0: none */
	uint16_t flags; /* 1: all reads after that one fail; 2: the target runs on */
	uint16_t self, interpreters, current, tstate; /* of struct sample_thread */
	uint16_t gil, walk; /* a lock; a thread state to walk from if none is found */
	uint16_t seed, pad;
};

static uint64_t memory[WORDS];
static uint32_t seed;

static void must(bool holds)
{
	if (!holds)
		abort();
}

static uint64_t word_of(uint16_t v, size_t i)
{
	if (v >= 0xfff0)
		return (v + i) * 0x9e3779b97f4a7c15u;
	if (v & 0x8000)
		return (uint64_t)(v >> 2 & 0x1fff) << (v & 3) * 16;
	return v;
}

/* Words swap their places. */
static void run_on(uint64_t number)
{
	for (int i = 0; i < 8; i++) {
		size_t x, y;
		uint64_t kept;

		seed = seed * 1664525 + 1013904223 + (uint32_t)number;
		x = seed >> 7 & (WORDS - 1);
		seed = seed * 1664525 + 1013904223;
		y = seed >> 7 & (WORDS - 1);
		kept = memory[x];
		memory[x] = memory[y];
		memory[y] = kept;
	}
}

static bool readable(uint16_t missing, uint64_t addr, uint64_t len)
{
	if (addr >= MEMORY || len > MEMORY - addr)
		return false;
	for (uint64_t page = addr / PAGE; page <= (addr + len - 1) / PAGE; page++)
		if (missing & 1u << page)
			return false;
	return true;
}

static uint64_t number_at(uint64_t addr, size_t len)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)memory + addr, len);
	return value;
}

struct plain {
	uint32_t status, cnt;
	struct pye_sample_frame frames[PYE_SAMPLE_FRAMES]; /* the innermost ones */
};

/* What sample_frames() is to find, from the current frame of a thread state. */
static void walk_plainly(struct plain *p, const struct pye_pylayout *l, uint16_t missing,
			 uint64_t frame)
{
	bool object = l->flags & PYE_LAYOUT_FRAME_OBJECT;

	p->status = PYE_SAMPLE_DEEP;
	p->cnt = 0;
	for (uint32_t i = 0; i < WALK; i++) {
		struct pye_sample_frame out = { 0 };

		if (!frame) {
			p->status = p->cnt ? PYE_SAMPLE_OK : PYE_SAMPLE_NO_FRAMES;
			return;
		}
		/* of a page all before the frame is read, too */
		if (!readable(missing, frame, object ? SAMPLE_FRAME : PYE_FRAME_READ)) {
			p->status = PYE_SAMPLE_FAULT;
			return;
		}
		out.code = number_at(frame + l->f_code, 8) & SAMPLE_ADDR & ~7ULL;
		if (object)
			out.instr = (uint64_t)(int64_t)(int32_t)number_at(frame + l->f_instr, 4);
		else
			out.instr = number_at(frame + l->f_instr, 8);
		if (l->f_entry && number_at(frame + l->f_entry, 1))
			out.code |= PYE_FRAME_ENTRY;
		if (l->f_owner != PYE_NO_FIELD &&
		    number_at(frame + l->f_owner, 1) >= PYE_OWNER_ENTRY) {
			if (p->cnt && p->cnt <= PYE_SAMPLE_FRAMES)
				p->frames[p->cnt - 1].code |= PYE_FRAME_ENTRY;
		} else {
			if (p->cnt < PYE_SAMPLE_FRAMES)
				p->frames[p->cnt] = out;
			p->cnt++;
		}
		frame = number_at(frame + l->f_previous, 8) & SAMPLE_ADDR;
	}
}

static void check_walk(const struct sample_scratch *s, const struct pye_pylayout *l,
		       uint32_t status, const struct head *h, bool still)
{
	static struct plain p;
	uint64_t frame = tstate_word((struct sample_scratch *)s, l->ts_frame) & SAMPLE_ADDR;
	uint32_t compared;

	must(status < PYE_SAMPLE_STATUS_CNT && s->rec.cnt <= WALK);
	must(status != PYE_SAMPLE_OK || s->rec.cnt);
	/* a frame takes two reads at most, and one finds the first */
	must(host.reads <= WALK + 2);
	for (uint32_t i = 0; i < s->rec.cnt && i < PYE_SAMPLE_FRAMES; i++)
		must(!(s->rec.frames[i].code & ~((SAMPLE_ADDR & ~7ULL) | PYE_FRAME_ENTRY)));
	if (!still)
		return;
	if (frame && l->flags & PYE_LAYOUT_CFRAME) {
		if (!readable(h->missing, frame + l->cframe_frame, 8)) {
			must(status == PYE_SAMPLE_FAULT && !s->rec.cnt);
			return;
		}
		/* not masked where it comes from a cframe */
		frame = number_at(frame + l->cframe_frame, 8);
	}
	walk_plainly(&p, l, h->missing, frame);
	must(p.status == status && p.cnt == s->rec.cnt);
	compared = p.cnt > PYE_SAMPLE_FRAMES ? PYE_SAMPLE_FRAMES / 2 : p.cnt;
	must(!memcmp(p.frames, s->rec.frames, compared * sizeof(p.frames[0])));
}

static void set_up(const struct head *h, const uint8_t *data, size_t size)
{
	size_t from = PAGES;

	for (size_t i = 0; i < WORDS; i++) {
		uint16_t v;

		memcpy(&v, data + 2 * (i % (size / 2)), sizeof(v));
		memory[i] = word_of(v, i);
	}
	host_reset();
	for (size_t page = 0; page <= PAGES; page++) { /* a region for each run of pages */
		bool there = page < PAGES && !(h->missing & 1u << page);

		if (there && from == PAGES)
			from = page;
		if (there || from == PAGES)
			continue;
		host_memory(from * PAGE, (const uint8_t *)memory + from * PAGE,
			    (page - from) * PAGE);
		from = PAGES;
	}
	if (h->fail_read)
		host.fail_read = h->fail_read;
	host.fail_all_reads = h->flags & 1;
	seed = h->seed;
	host.before_read = h->flags & 2 ? run_on : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	const struct pye_pylayout *l;
	struct pye_pylayout apart; /* with the lock among its file's variables */
	struct sample_scratch *s;
	struct sample_parts *parts;
	struct sample_thread who;
	uint64_t found;
	struct head h;
	bool still;

	if (size < HEAD_BYTES + 2)
		return 0;
	if (!ready) {
		walkers_maps();
		host_map(&sample_rounds, HOST_ARRAY, 4, 1, WALK / SAMPLE_ROUND);
		host_map(&search_rounds, HOST_ARRAY, 4, 1, PYE_SAMPLE_THREADS);
		ready = true;
	}
	memcpy(&h, data, sizeof(h));
	l = &layouts_known[h.layout % LAYOUT_CNT]->py;
	set_up(&h, data + HEAD_BYTES, size - HEAD_BYTES);
	s = malloc(sizeof(*s)); /* the sanitizer sees its ends */
	parts = malloc(sizeof(*parts));
	must(s && parts);
	memset(s, 0xa5, sizeof(*s));
	memset(parts, 0xa5, sizeof(*parts));
	who = (struct sample_thread){ h.self, h.interpreters, h.current, h.tstate };
	found = sample_tstate(s, l, &who);
	must(host.reads <= 2ull * PYE_SAMPLE_THREADS + 8);
	if (!found)
		found = tstate_load(s, h.walk) ? 0 : h.walk;
	host.reads = 0;
	still = !h.fail_read && !(h.flags & 2);
	if (found)
		check_walk(s, l, sample_frames(s, parts, l), &h, still);
	host.reads = 0;
	s->rec.holder = (struct pye_sample_frame){ 0 };
	apart = *l;
	if (l->is_gil == PYE_NO_FIELD && l->rt_gil == PYE_NO_FIELD)
		apart.gil_behind = 1 << 20;
	holder_take(s, &apart, h.gil);
	must(!(s->rec.holder.code & ~(SAMPLE_ADDR & ~7ULL)));
	must(host.reads <= 2 + 8ull * SAMPLE_HOLDER_TRIES);
	free(parts);
	free(s);
	return 0;
}
