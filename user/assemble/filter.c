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
#include "assemble/chosen.h"
#include "profile/code_glob.h"
#include "profile/module.h"

#define CODES_MAX (1u << 20)
#define DEPTH_MAX (1u << 20)
#define AGAIN_MASK \
	1023u /* so many calls of what should be held back, and the source is told again */

/* One that is not kept; or the root. */
struct hidden_code {
	uint32_t code, pix;
	bool root;
	uint64_t address; /* 0: read from outside */
	UT_hash_handle hh;
};

struct asm_filter {
	struct assembler_filter how;
	struct func_spec function; /* of root or only */
	struct hidden_code *codes;
	struct assembler_filtered seen;
};

int assembler__filter(struct assembler *a, const struct assembler_filter *filter)
{
	const char *function = filter->root ? filter->root : filter->only;

	a->filter = calloc(1, sizeof(*a->filter));
	if (!a->filter)
		return -ENOMEM;
	a->filter->how = *filter;
	a->fold_ns = filter->min_ns;
	for (size_t i = 0; i < filter->include_cnt; i++)
		asm_wants(a, filter->include[i]);
	for (size_t i = 0; i < filter->exclude_cnt; i++)
		asm_wants(a, filter->exclude[i]);
	if (function) {
		asm_wants(a, function);
		func_spec_parse(&a->filter->function, function);
	}
	return 0;
}

void assembler__filtered(const struct assembler *a, struct assembler_filtered *out)
{
	*out = a->filter ? a->filter->seen : (struct assembler_filtered){ 0 };
	out->threads = a->threads_seen;
}

static bool any_meant(const struct assembler *a, const char *const *globs, size_t cnt,
		      const struct trace_func *func)
{
	for (size_t i = 0; i < cnt; i++)
		if (asm_code_meant(a, globs[i], func))
			return true;
	return false;
}

static bool is_function(struct assembler *a, const struct trace_func *func)
{
	bool is = asm_func_meant(a, &a->filter->function, func);

	a->filter->seen.functions += is;
	return is;
}

/* Does the source take it for the function? It only looks at the end of the name. */
static bool is_taken(const struct asm_filter *f, const struct trace_func *func)
{
	size_t n = strlen(func->qualname);

	return f->function.text && n <= f->function.len &&
	       !memcmp(f->function.text + f->function.len - n, func->qualname, n);
}

static bool is_kept(struct assembler *a, const struct trace_func *func)
{
	const struct assembler_filter *how = &a->filter->how;
	bool is = (!how->include_cnt || any_meant(a, how->include, how->include_cnt, func)) &&
		  !any_meant(a, how->exclude, how->exclude_cnt, func);

	a->filter->seen.codes += is;
	return is;
}

bool asm_filter_has_depth(const struct assembler *a)
{
	return a->filter && a->filter->how.max_depth;
}

bool asm_filter_idle(const struct assembler *a, const struct assembler_idle *idle)
{
	const char *glob = a->filter ? a->filter->how.thread : NULL;

	if (!glob || (idle->given && glob_matches(glob, idle->given)))
		return true;
	return (!idle->given || idle->comm_is_own) && glob_matches(glob, idle->comm);
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

static void tell(const struct asm_filter *f, const struct pye_verdict *verdict)
{
	if (f->how.decide && verdict->code)
		f->how.decide(f->how.ctx, verdict);
}

static void tell_hidden(const struct asm_filter *f, const struct hidden_code *h)
{
	tell(f, &(struct pye_verdict){ .code = h->address,
				       .pix = h->pix,
				       .id = h->code,
				       .set = PYE_CODE_QUIET,
				       .clear = PYE_CODE_CHOSEN });
}

static int add_code(struct asm_filter *f, const struct trace_func *func, uint64_t address,
		    struct hidden_code **out)
{
	struct hidden_code *h;

	if (HASH_COUNT(f->codes) >= CODES_MAX)
		forget(f, f->codes); /* the oldest: if it still runs, it is shown as unreadable */
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->code = func->id;
	h->pix = func->process;
	h->address = address;
	HASH_ADD(hh, f->codes, code, sizeof(h->code), h);
	*out = h;
	return 0;
}

int asm_filter_func(struct assembler *a, const struct trace_func *func, uint64_t address)
{
	struct asm_filter *f = a->filter;
	bool function = f->function.text && is_function(a, func);
	struct hidden_code *h;
	int err;

	if (f->how.only ? function : !function && is_kept(a, func)) {
		if (f->how.root && is_taken(f, func))
			tell(f, &(struct pye_verdict){ .code = address,
						       .pix = func->process,
						       .id = func->id,
						       .clear = PYE_CODE_CHOSEN });
		return false;
	}
	err = add_code(f, func, address, &h);
	if (err)
		return err;
	h->root = function;
	/* what cannot be the only function was never taken for it */
	if (!function && (!f->how.only || is_taken(f, func)))
		tell_hidden(f, h);
	return !function;
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

/* In front of the stack as it is now. */
static bool is_hidden(const struct asm_filter *f, const struct hidden_code *h, uint32_t depth)
{
	if (h && h->root)
		return f->how.max_depth && depth >= f->how.max_depth;
	/* what is shown begins with the root */
	return h || (f->how.root && !depth) || (f->how.max_depth && depth >= f->how.max_depth);
}

bool asm_filter_hides(const struct assembler *a, uint32_t code, uint32_t depth)
{
	return is_hidden(a->filter, find_code(a->filter, code), depth);
}

bool asm_filter_enter(struct assembler *a, struct asm_thread *t, uint64_t frame,
		      enum trace_kind kind, uint32_t code)
{
	struct asm_filter *f = a->filter;
	struct hidden_code *h = find_code(f, code);

	if (!is_hidden(f, h, t->depth))
		return false;
	if (kind != TRACE_OPEN) {
		f->seen.events++;
		if (!(++f->seen.calls & AGAIN_MASK) && h && !h->root)
			tell_hidden(f, h);
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
