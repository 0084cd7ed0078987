// SPDX-License-Identifier: Apache-2.0
/*
 * Filters. A code object is judged once, when its names have come; the source of the records is told and
 * holds back what it can from then on. What it let pass until then is left out here: such a frame lies on
 * a small stack of its own, so that its exit is known, and the thread's stack has only what the capture
 * has.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/filter.h"
#include "assemble/assemble_priv.h"
#include "profile/code_glob.h"
#include "profile/place.h"

#define CODES_MAX (1u << 20)
#define DEPTH_MAX (1u << 20)
#define AGAIN_MASK \
	1023u /* so many calls of what should be held back, and the source is told again */

struct hidden_code {
	uint32_t code, pix;
	uint64_t address; /* 0: read from outside */
	UT_hash_handle hh;
};

struct asm_filter {
	struct assembler_filter how;
	struct hidden_code *codes;
	struct assembler_filtered seen;
};

int assembler__filter(struct assembler *a, const struct assembler_filter *filter)
{
	a->filter = calloc(1, sizeof(*a->filter));
	if (!a->filter)
		return -ENOMEM;
	a->filter->how = *filter;
	a->fold_ns = filter->min_ns;
	return 0;
}

void assembler__filtered(const struct assembler *a, struct assembler_filtered *out)
{
	*out = a->filter ? a->filter->seen : (struct assembler_filtered){ 0 };
}

static bool any_matches(const char *const *globs, size_t cnt, const char *file, const char *below)
{
	for (size_t i = 0; i < cnt; i++)
		if (code_glob_matches(globs[i], file, below))
			return true;
	return false;
}

static bool is_kept(const struct assembler_filter *how, const struct trace_func *func)
{
	const char *below;

	place_of_file(func->file, &below);
	if (how->include_cnt && !any_matches(how->include, how->include_cnt, func->file, below))
		return false;
	return !any_matches(how->exclude, how->exclude_cnt, func->file, below);
}

bool asm_filter_has_depth(const struct assembler *a)
{
	return a->filter && a->filter->how.max_depth;
}

bool asm_filter_thread(const struct assembler *a, const char *name)
{
	return !a->filter || !a->filter->how.thread || glob_matches(a->filter->how.thread, name);
}

static struct hidden_code *find_code(const struct asm_filter *f, uint32_t code)
{
	struct hidden_code *h;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): uthash reads the key by bytes */
	HASH_FIND(hh, f->codes, &code, sizeof(code), h);
	return h;
}

static void forget(struct asm_filter *f, struct hidden_code *h)
{
	HASH_DEL(f->codes, h);
	free(h);
}

static void tell(const struct asm_filter *f, const struct hidden_code *h)
{
	if (f->how.decide && h->address)
		f->how.decide(f->how.ctx, &(struct pye_verdict){ .code = h->address,
								 .pix = h->pix,
								 .id = h->code,
								 .set = PYE_CODE_QUIET });
}

int asm_filter_func(struct assembler *a, const struct trace_func *func, uint64_t address)
{
	struct asm_filter *f = a->filter;
	struct hidden_code *h;

	if (is_kept(&f->how, func))
		return false;
	if (HASH_COUNT(f->codes) >= CODES_MAX)
		forget(f, f->codes); /* the oldest: if it still runs, it is shown as unreadable */
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->code = func->id;
	h->pix = func->process;
	h->address = address;
	HASH_ADD(hh, f->codes, code, sizeof(h->code), h);
	tell(f, h);
	return true;
}

void asm_filter_retire(struct assembler *a, uint32_t code)
{
	struct hidden_code *h = find_code(a->filter, code);

	if (h)
		forget(a->filter, h);
}

/* The source can have forgotten to say that a hidden frame was left, but not of one that is shown. */
static void settle(struct asm_thread *t)
{
	struct asm_hidden *h = &t->hidden;

	while (h->cnt && h->v[h->cnt - 1].depth > t->depth)
		h->cnt--;
}

static void hide(struct asm_thread *t, uint64_t frame)
{
	struct asm_hidden *h = &t->hidden;

	settle(t);
	if (h->cnt == h->size) {
		uint32_t size = h->size ? h->size * 2 : 16;
		struct asm_hidden_frame *more =
			size > DEPTH_MAX ? NULL : reallocarray(h->v, size, sizeof(*more));

		if (!more) {
			h->cnt = 0; /* an exit that is nobody's is taken for one of those */
		} else {
			h->v = more;
			h->size = size;
		}
		if (!h->size)
			return;
	}
	h->v[h->cnt++] = (struct asm_hidden_frame){ .frame = frame, .depth = t->depth };
}

bool asm_filter_hides(const struct assembler *a, uint32_t code)
{
	return find_code(a->filter, code);
}

bool asm_filter_enter(struct assembler *a, struct asm_thread *t, uint64_t frame,
		      enum trace_kind kind, uint32_t code)
{
	struct asm_filter *f = a->filter;
	struct hidden_code *h = find_code(f, code);

	if (!h && !(f->how.max_depth && t->depth >= f->how.max_depth))
		return false;
	if (kind != TRACE_OPEN) {
		f->seen.events++;
		if (!(++f->seen.calls & AGAIN_MASK) && h)
			tell(f, h);
	}
	hide(t, frame);
	return true;
}

bool asm_filter_is_shown(const struct asm_thread *t, uint64_t frame)
{
	for (uint32_t at = t->depth; at; at--)
		if (t->stack[at - 1] == frame)
			return true;
	return false;
}

bool asm_filter_leave(struct assembler *a, struct asm_thread *t, uint64_t frame)
{
	struct asm_hidden *h = &t->hidden;
	uint32_t at;

	settle(t);
	for (at = h->cnt; at && h->v[at - 1].frame != frame; at--)
		;
	/* entered when it was held back, left when its code object had another number */
	if (!at && asm_filter_is_shown(t, frame))
		return false;
	if (at)
		h->cnt = at - 1;
	a->filter->seen.events++;
	return true;
}

void asm_filter_free(struct asm_filter *f)
{
	struct hidden_code *h, *next;

	if (!f)
		return;
	HASH_ITER(hh, f->codes, h, next)
	forget(f, h);
	free(f);
}
