// SPDX-License-Identifier: Apache-2.0
#include "cpython/walk_outside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/event.h"
#include "abi/pylayout.h"
#include "base/cleanup.h"
#include "cpython/interp.h"
#include "cpython/outside_pages.h"
#include "proc/mem.h"

#define INTERPRETERS_MAX 1024

/* Of walk_outside_one(). */
#define ONE_THREADS 16u
#define ONE_FRAMES  8192u

/* Frames from 3.11 on lie side by side, so memory is read by pages; a walk sees each at one moment. Where the threads stand
 * still so many around it come along: those to 3.10 have neighbours, too, and a call costs as much as ten pages. */
#define BLOCK_BYTES  16384u
#define PAGE_CNT     4u

#define KNOWN_FRAMES 8u /* that are compared of a thread that slept */

struct page {
	uint64_t addr;
	size_t size; /* 0: empty */
	uint32_t noted; /* its pieces that were asked for, a bit each; where the next walk is to have them */
	uint8_t data[BLOCK_BYTES];
};

struct reader {
	const struct proc_mem *mem;
	const struct pye_pylayout *l;
	uint32_t next; /* page to be replaced next */
	uint32_t budget; /* frames */
	bool all;
	bool still; /* one read is enough */
	bool one_interpreter;
	struct outside_known *known; /* NULL: nothing */
	struct outside_pages *ready; /* NULL: none */
	size_t next_known;
	uint64_t only_thread; /* of known->only */
	uint32_t tries; /* else: threads to look at until one stands still */
	struct page pages[PAGE_CNT];
};

/* Brent's: the mark jumps ahead at powers of two, a cycle runs into it. */
struct cycle {
	uint64_t mark;
	uint32_t steps, limit;
};

struct stack {
	struct outside_frame *frames;
	uint32_t cnt, room;
	bool truncated;
};

static void forget_pages(struct reader *r)
{
	for (uint32_t i = 0; i < PAGE_CNT && !r->still; i++)
		r->pages[i].size = 0;
}

/* The page with @addr, and what comes along. */
static int fill(const struct reader *r, struct page *page, uint64_t addr)
{
	ssize_t n = 0;
	int err;

	addr &= ~(PROC_PAGE_BYTES - 1ull);
	page->size = 0;
	page->noted = 0;
	page->addr = addr & ~(BLOCK_BYTES - 1ull);
	if (r->still && !r->ready) /* which has one page at a time */
		n = proc_mem__read_held(r->mem, page->addr, page->data, BLOCK_BYTES);
	if (n >= (ssize_t)(addr - page->addr + PROC_PAGE_BYTES)) {
		page->size = (size_t)n;
		return 0;
	}
	page->addr = addr;
	err = proc_mem__read(r->mem, addr, page->data, PROC_PAGE_BYTES);
	page->size = err ? 0 : PROC_PAGE_BYTES;
	return err;
}

/* Of the pages that were not known to be needed: so that the next walk gets this piece with all others. */
static void note_piece(struct reader *r, struct page *page, uint64_t addr)
{
	uint32_t bit = 1u << ((addr - page->addr) / PROC_PIECE_BYTES);

	if (!r->ready || page->noted & bit)
		return;
	outside_pages__need(r->ready, addr);
	page->noted |= bit;
}

/* The piece of a page at @addr. */
static int get_piece(struct reader *r, uint64_t addr, const uint8_t **out)
{
	struct page *page = NULL;
	int err;

	*out = r->ready ? outside_pages__find(r->ready, addr) : NULL;
	if (*out)
		return 0;
	for (uint32_t i = 0; !page && i < PAGE_CNT; i++)
		if (addr - r->pages[i].addr < r->pages[i].size)
			page = &r->pages[i];
	if (!page) {
		page = &r->pages[r->next];
		err = fill(r, page, addr);
		if (err)
			return err;
		r->next = (r->next + 1) % PAGE_CNT;
	}
	note_piece(r, page, addr);
	*out = page->data + (addr - page->addr);
	return 0;
}

static int read_paged(struct reader *r, uint64_t addr, void *buf, size_t size)
{
	uint8_t *to = buf;

	while (size) {
		size_t in_piece = (size_t)(addr % PROC_PIECE_BYTES);
		size_t n = PROC_PIECE_BYTES - in_piece < size ? PROC_PIECE_BYTES - in_piece : size;
		const uint8_t *piece;
		int err = get_piece(r, addr - in_piece, &piece);

		if (err)
			return err;
		memcpy(to, piece + in_piece, n);
		to += n;
		addr += n;
		size -= n;
	}
	return 0;
}

static bool in_cycle(struct cycle *c, uint64_t addr)
{
	if (addr == c->mark)
		return true;
	if (++c->steps >= c->limit) {
		c->mark = addr;
		c->limit = c->limit ? 2 * c->limit : 1;
		c->steps = 0;
	}
	return false;
}

static int append(struct stack *s, uint64_t frame, uint64_t code)
{
	if (s->cnt == s->room) {
		uint32_t room = s->room ? 2 * s->room : 64;
		void *bigger = reallocarray(s->frames, room, sizeof(*s->frames));

		if (!bigger)
			return -ENOMEM;
		s->frames = bigger;
		s->room = room;
	}
	s->frames[s->cnt++] = (struct outside_frame){ frame, code };
	return 0;
}

static uint64_t word_at(const uint8_t *data, unsigned int offset)
{
	uint64_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

/* Bytes of a frame that hold all that is needed of it. */
static size_t frame_size(const struct pye_pylayout *l)
{
	size_t last = l->f_code > l->f_previous ? l->f_code : l->f_previous;

	last += sizeof(uint64_t);
	return l->f_owner != PYE_NO_FIELD && l->f_owner >= last ? l->f_owner + 1u : last;
}

/* 3.12 on: so many bytes before a generator's frame is its gi_exc_state.previous_item: NULL but while it runs. */
#define GEN_HANDLES 24

static bool is_one_of(const uint8_t ops[4], uint8_t op)
{
	return op == ops[0] || op == ops[1] || op == ops[2] || op == ops[3];
}

/* To 3.10. 3.9 does not link it to its caller. */
static bool is_object_linked(struct reader *r, uint64_t frame, uint64_t previous)
{
	const struct pye_pylayout *l = r->l;
	uint64_t top, gen;
	int32_t depth, at[2];

	if (!(l->flags & PYE_LAYOUT_FRAME_STATE))
		return !previous && !read_paged(r, frame + l->f_stack, &top, sizeof(top)) && top &&
		       !read_paged(r, frame + l->f_gen, &gen, sizeof(gen)) && gen;
	/* f_lasti; f_lineno, which is not 0 while a trace function is called for it: its stack pointer is saved then, too */
	return !read_paged(r, frame + l->f_stack, &depth, sizeof(depth)) && depth >= 0 &&
	       !read_paged(r, frame + l->f_instr, at, sizeof(at)) && !at[1];
}

/* Is it told that it yields? Then its event has come. */
static bool is_told_of_yield(struct reader *r, uint64_t frame, uint8_t op)
{
	const struct pye_pylayout *l = r->l;
	int8_t state;

	if (l->f_state == PYE_NO_FIELD)
		return op == l->yield_ops[0] || op == l->yield_ops[1];
	return !read_paged(r, frame + (uint64_t)(int16_t)l->f_state, &state, sizeof(state)) &&
	       state < 0;
}

/*
 * Is a frame that has others on top in the chain, and does not run? See frame_is_linked() in bpf/py/frame.bpf.h.
 * @by_c: 3.11: C called what is on top of it; else what looks like an instruction can be the cache of one
 */
static bool is_linked(struct reader *r, uint64_t frame, const uint8_t *data, bool by_c)
{
	const struct pye_pylayout *l = r->l;
	uint64_t instr, handles;
	int32_t depth;
	uint8_t op[2];

	if (l->f_owner == PYE_NO_FIELD)
		return is_object_linked(r, frame, word_at(data, l->f_previous));
	if (l->idle_ops[0] ? !by_c : data[l->f_owner] != PYE_OWNER_GENERATOR)
		return false;
	if (read_paged(r, frame + l->f_instr, &instr, sizeof(instr)) ||
	    read_paged(r, instr, op, sizeof(op)))
		return false;
	if (l->idle_ops[0])
		return !read_paged(r, frame + l->f_stack, &depth, sizeof(depth)) && op[0] &&
		       is_one_of(depth >= 0 ? l->idle_ops : l->begin_ops, op[0]);
	if (is_told_of_yield(r, frame, op[0]))
		return true;
	/* what follows another instruction can be its cache, with any value */
	if (l->resume_ahead && ((op[0] != l->yield_ops[0] && op[0] != l->yield_ops[1]) ||
				read_paged(r, instr + l->resume_ahead, op, sizeof(op))))
		return false;
	/* where it is suspended; or it runs, and a tool is told that it goes on */
	return (op[1] & l->resume_mask & 3) >= 2 && is_one_of(l->resume_ops, op[0]) &&
	       !read_paged(r, frame - GEN_HANDLES, &handles, sizeof(handles)) && !handles;
}

/* The innermost frame of a thread; 0 when it runs no Python code. */
static int first_frame(struct reader *r, uint64_t tstate, uint64_t *frame)
{
	int err = read_paged(r, tstate + r->l->ts_frame, frame, sizeof(*frame));

	if (err || !*frame || !(r->l->flags & PYE_LAYOUT_CFRAME))
		return err;
	return read_paged(r, *frame + r->l->cframe_frame, frame, sizeof(*frame));
}

/* @most: of its frames, the innermost ones */
static int walk_once(struct reader *r, uint64_t tstate, uint32_t most, struct stack *s)
{
	const struct pye_pylayout *l = r->l;
	struct cycle cycle = { 0 };
	uint8_t data[PYE_FRAME_READ + 64];
	size_t size = frame_size(l);
	bool ends = !(l->flags & PYE_LAYOUT_C_ROOT), by_c = false;
	uint64_t frame;
	int err;

	if (size > sizeof(data))
		return -EINVAL;
	forget_pages(r);
	s->cnt = 0;
	s->truncated = false;
	err = first_frame(r, tstate, &frame);
	for (; !err && frame; frame = word_at(data, l->f_previous)) {
		uint64_t code;

		if (in_cycle(&cycle, frame))
			return -ELOOP;
		if (!r->budget)
			return -E2BIG;
		r->budget--;
		err = read_paged(r, frame, data, size);
		if (err)
			break;
		ends = !(l->flags & PYE_LAYOUT_C_ROOT);
		if (l->f_owner != PYE_NO_FIELD && data[l->f_owner] >= PYE_OWNER_ENTRY) {
			ends = true;
			continue;
		}
		if (r->still && s->cnt && is_linked(r, frame, data, by_c)) {
			s->truncated |= l->f_owner == PYE_NO_FIELD && !word_at(data, l->f_previous);
			continue;
		}
		if (s->cnt == most) {
			s->truncated = true;
			break;
		}
		by_c = l->f_entry && data[l->f_entry];
		code = word_at(data, l->f_code) & ~7ull;
		err = code ? append(s, frame, code) : -EFAULT;
	}
	/* a generator that yields is cut off its caller a few instructions before that is the current frame; what has others on top
	 * of it does not yield, but is of an extension that links frames of its own (Nuitka) */
	return !err && s->cnt == 1 && !ends && !s->truncated ? -EAGAIN : err;
}

static bool same_stack(const struct stack *a, const struct stack *b)
{
	return a->cnt == b->cnt &&
	       (!a->cnt || memcmp(a->frames, b->frames, a->cnt * sizeof(*a->frames)) == 0);
}

/* What a thread state says of itself. */
static int read_thread(struct reader *r, uint64_t tstate, struct outside_thread *t, uint64_t *next)
{
	const struct pye_pylayout *l = r->l;
	uint64_t native = 0;
	int err;

	forget_pages(r);
	*t = (struct outside_thread){ .tstate = tstate };
	err = read_paged(r, tstate + l->ts_next, next, sizeof(*next));
	if (!err)
		err = read_paged(r, tstate + l->ts_interp, &t->interp, sizeof(t->interp));
	if (!err)
		err = read_paged(r, tstate + l->ts_thread_id, &t->thread_id, sizeof(t->thread_id));
	if (!err && l->ts_native_id != PYE_NO_FIELD)
		err = read_paged(r, tstate + l->ts_native_id, &native, sizeof(native));
	t->native_id = native <= INT32_MAX ? (pid_t)native : 0;
	return err;
}

static int status_of(int err, enum outside_status *status)
{
	if (err == -ESRCH || err == -ENOMEM)
		return err;
	*status = err == -E2BIG	   ? OUTSIDE_TOO_MUCH
		  : err == -EAGAIN ? OUTSIDE_MOVED
		  : err		   ? OUTSIDE_BROKEN
				   : OUTSIDE_AGREED;
	return 0;
}

/* Fills in frames and status; the thread state itself may be freed meanwhile, so it is read again. */
static int walk_thread(struct reader *r, struct outside_thread *t)
{
	struct stack first = { 0 }, second = { 0 };
	struct outside_thread again = { 0 };
	uint64_t next;
	int err;

	err = walk_once(r, t->tstate, OUTSIDE_FRAMES_MAX, &first);
	if (!err && !r->still)
		err = walk_once(r, t->tstate, OUTSIDE_FRAMES_MAX, &second);
	if (!err && !r->still)
		err = read_thread(r, t->tstate, &again, &next);
	err = status_of(err, &t->status);
	if (!err && t->status == OUTSIDE_AGREED) {
		if (r->still || (same_stack(&first, &second) && again.thread_id == t->thread_id &&
				 again.interp == t->interp)) {
			t->frames = take_ptr(first.frames);
			t->frame_cnt = first.cnt;
			t->truncated = first.truncated;
		} else {
			t->status = OUTSIDE_MOVED;
		}
	}
	free(first.frames);
	free(second.frames);
	return err;
}

struct outside_thread *outside_stacks__find(const struct outside_stacks *s, uint64_t tstate,
					    size_t *next)
{
	for (size_t i = 0; i < s->cnt; i++) {
		size_t at = (*next + i) % s->cnt;

		if (s->threads[at].tstate != tstate)
			continue;
		*next = at + 1;
		return &s->threads[at];
	}
	return NULL;
}

/* What was read of it before. NULL: nothing. */
static struct outside_thread *find_known(struct reader *r, const struct outside_thread *t)
{
	struct outside_thread *b =
		outside_stacks__find(&r->known->stacks, t->tstate, &r->next_known);

	return b && b->thread_id == t->thread_id && b->interp == t->interp &&
			       b->status == OUTSIDE_AGREED
		       ? b
		       : NULL;
}

/* What changes when it runs. @frame: its innermost one, or 0 */
static int read_top(struct reader *r, struct outside_thread *t, uint64_t frame)
{
	int err = read_paged(r, t->tstate + r->l->ts_frame, &t->top, sizeof(t->top));

	return err || !frame ? err : read_paged(r, frame + r->l->f_instr, &t->at, sizeof(t->at));
}

static uint64_t innermost(const struct outside_thread *t)
{
	return t->frame_cnt ? t->frames[0].frame : 0;
}

/* Was it kept from running? */
static bool take_kept(struct reader *r, struct outside_thread *t)
{
	struct outside_known *known = r->known;
	struct outside_thread *b;

	if (!known || !known->kept || !r->one_interpreter)
		return false;
	b = find_known(r, t);
	if (!b || !known->kept(known->ctx, b) || b->frame_cnt > r->budget ||
	    read_top(r, t, innermost(b)) || t->top != b->top || t->at != b->at)
		return false;
	t->status = OUTSIDE_AGREED;
	t->tid = b->tid;
	t->truncated = b->truncated;
	r->budget -= b->frame_cnt;
	if (known->rehearsed)
		return true;
	t->frames = take_ptr(b->frames);
	t->frame_cnt = b->frame_cnt;
	b->frame_cnt = 0;
	return true;
}

/* Does it have the frames that it had before? False, too, where nothing is won by that, or it cannot be said. */
static bool take_known(struct reader *r, struct outside_thread *t)
{
	const struct outside_thread *b = r->known ? find_known(r, t) : NULL;
	struct stack top = { 0 };
	uint32_t budget = r->budget;
	bool same;

	if (!b || b->frame_cnt < OUTSIDE_KNOWN_MIN || budget < b->frame_cnt ||
	    !r->known->slept(r->known->ctx, b))
		return false;
	same = !walk_once(r, t->tstate, KNOWN_FRAMES, &top) && top.cnt == KNOWN_FRAMES &&
	       !memcmp(top.frames, b->frames, top.cnt * sizeof(*top.frames));
	free(top.frames);
	r->budget = budget;
	t->frames = same ? reallocarray(NULL, b->frame_cnt, sizeof(*b->frames)) : NULL;
	if (!t->frames)
		return false;
	memcpy(t->frames, b->frames, b->frame_cnt * sizeof(*b->frames));
	r->budget -= b->frame_cnt;
	t->frame_cnt = b->frame_cnt;
	t->truncated = b->truncated;
	t->status = OUTSIDE_AGREED;
	return true;
}

static int append_thread(struct outside_stacks *out, size_t *room, struct outside_thread *t)
{
	if (out->cnt == *room) {
		size_t more = *room ? 2 * *room : 16;
		void *bigger = reallocarray(out->threads, more, sizeof(*t));

		if (!bigger) {
			free(t->frames);
			return -ENOMEM;
		}
		out->threads = bigger;
		*room = more;
	}
	out->threads[out->cnt++] = *t;
	return 0;
}

/* The thread that has run can have several states. */
static uint64_t only_thread(const struct outside_known *known)
{
	for (size_t i = 0; i < known->stacks.cnt; i++)
		if (known->stacks.threads[i].tstate == known->only)
			return known->stacks.threads[i].thread_id;
	return 0;
}

static bool has_not_run(const struct reader *r, const struct outside_thread *b, uint64_t is)
{
	return !b->known && b->interp == is && b->status == OUTSIDE_AGREED &&
	       b->tstate != r->known->only && b->thread_id != r->only_thread &&
	       b->frame_cnt <= r->budget;
}

/* From this state on all up to one of the thread that has run: only that one can have made or taken out any. @next: behind them.
 * 0: none; 1; or an error. */
static int take_unchanged(struct reader *r, const struct outside_thread *t,
			  struct outside_stacks *out, size_t *room, uint64_t *next)
{
	struct outside_thread *b = r->known && r->known->only ? find_known(r, t) : NULL;
	const struct outside_thread *first = b, *end;
	int err = 0;

	if (!b)
		return 0;
	end = r->known->stacks.threads + r->known->stacks.cnt;
	for (; !err && b < end && out->cnt < OUTSIDE_THREADS_MAX && has_not_run(r, b, t->interp);
	     b++) {
		struct outside_thread taken = *b;

		taken.known = b->known = true;
		b->frames = NULL;
		b->frame_cnt = 0;
		r->budget -= taken.frame_cnt;
		err = append_thread(out, room, &taken);
	}
	if (b == first || err)
		return err;
	r->next_known = (size_t)(b - r->known->stacks.threads);
	err = read_paged(r, b[-1].tstate + r->l->ts_next, next, sizeof(*next));
	return err ? err : 1;
}

static bool has_enough(const struct reader *r, const struct outside_stacks *out)
{
	return !r->all && (out->cnt || !r->tries);
}

/* A thread by itself. */
static int add_thread(struct reader *r, struct outside_thread *t, struct outside_stacks *out,
		      size_t *room)
{
	int err = take_kept(r, t) || take_known(r, t) ? 0 : walk_thread(r, t);

	if (!err && r->still && !r->known && read_top(r, t, innermost(t)))
		t->top = UINT64_MAX; /* it runs: nothing is there */
	return !err && (r->all || t->frame_cnt) ? append_thread(out, room, t) : err;
}

static int walk_interpreter(struct reader *r, uint64_t is, struct outside_stacks *out, size_t *room)
{
	struct cycle cycle = { 0 };
	uint64_t tstate, next;
	int err;

	forget_pages(r);
	err = read_paged(r, is + r->l->is_threads, &tstate, sizeof(tstate));
	for (; !err && tstate; tstate = next) {
		struct outside_thread t;

		err = read_thread(r, tstate, &t, &next);
		if (err || t.interp != is || in_cycle(&cycle, tstate) ||
		    out->cnt == OUTSIDE_THREADS_MAX) {
			out->truncated = true; /* torn, a cycle, or too many */
			break;
		}
		err = take_unchanged(r, &t, out, room, &next);
		if (!err)
			err = add_thread(r, &t, out, room);
		err = err < 0 ? err : 0;
		r->tries -= !r->all;
		if (has_enough(r, out))
			return err;
	}
	if (err == -EFAULT) {
		out->truncated = true;
		return 0;
	}
	return err;
}

static int walk_all(struct reader *r, uint64_t head, struct outside_stacks *out)
{
	uint64_t is, next;
	size_t room = 0;
	int err;

	err = proc_mem__word(r->mem, head, &is);
	r->one_interpreter = !err && is && !proc_mem__word(r->mem, is + r->l->is_next, &next) &&
			     !next;
	for (int i = 0; !err && is; i++) {
		err = walk_interpreter(r, is, out, &room);
		if (err || has_enough(r, out))
			break;
		if (i == INTERPRETERS_MAX || proc_mem__word(r->mem, is + r->l->is_next, &is)) {
			out->truncated = true;
			break;
		}
	}
	return err;
}

static struct reader *new_reader(const struct proc_mem *mem, const struct interp *in,
				 uint32_t budget)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->mem = mem;
	r->l = &in->layout;
	r->budget = budget;
	r->all = true;
	return r;
}

/* Takes the reader. */
static int walk(struct reader *reader, uint64_t interpreters, struct outside_stacks *out)
{
	auto_fn(outside_stacks__done) struct outside_stacks s = { 0 };
	auto_free struct reader *r = reader;
	int err;

	if (!r)
		return -ENOMEM;
	if (!interpreters)
		return -EFAULT;
	err = walk_all(r, interpreters, &s);
	if (err)
		return err;
	*out = s;
	s = (struct outside_stacks){ 0 };
	return 0;
}

int walk_outside(const struct proc_mem *mem, const struct interp *in, struct outside_stacks *out)
{
	return walk(new_reader(mem, in, OUTSIDE_FRAMES_ALL), in->interpreters, out);
}

int walk_outside_held(const struct proc_mem *mem, const struct interp *in,
		      struct outside_known *known, struct outside_pages *pages,
		      struct outside_stacks *out)
{
	struct reader *r = new_reader(mem, in, OUTSIDE_FRAMES_ALL);

	if (r) {
		r->still = true;
		r->known = known;
		r->only_thread = known && known->only ? only_thread(known) : 0;
		r->ready = known && known->only ? NULL : pages; /* few of them */
	}
	if (r && r->ready)
		outside_pages__read(pages, mem);
	return walk(r, in->interpreters, out);
}

int walk_outside_one(const struct proc_mem *mem, const struct interp *in,
		     struct outside_stacks *out)
{
	struct reader *r = new_reader(mem, in, ONE_FRAMES);

	if (r) {
		r->all = false;
		r->tries = ONE_THREADS;
	}
	return walk(r, in->interpreters, out);
}

void outside_stacks__done(struct outside_stacks *s)
{
	for (size_t i = 0; i < s->cnt; i++)
		free(s->threads[i].frames);
	free(s->threads);
	*s = (struct outside_stacks){ 0 };
}

bool outside_thread__same(const struct outside_thread *a, const struct outside_thread *b)
{
	return a->tstate == b->tstate && a->thread_id == b->thread_id &&
	       a->status == OUTSIDE_AGREED && b->status == OUTSIDE_AGREED &&
	       a->frame_cnt == b->frame_cnt &&
	       !memcmp(a->frames, b->frames, a->frame_cnt * sizeof(*a->frames));
}
