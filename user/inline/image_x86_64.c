// SPDX-License-Identifier: Apache-2.0
/*
 * The code page: the slow path, a stub for each redirected word, call and detour, and what is to be written at their places. To be
 * run in the target, and nothing here is of it yet.
 */
#include "inline/stub.h"

#include <string.h>

#include "cpython/plan.h"
#include "inline/emit_x86_64.h"
#include "inline/slow.h"

typedef void slow_fn(struct il_private *p, uint64_t object, uint64_t arg, uint32_t kind);

static uint32_t offset_of(const struct out *o, slow_fn *fn)
{
	return o->at + (uint32_t)((const uint8_t *)(uintptr_t)fn - __start_pye_inline);
}

static int copy_slow(struct out *o, struct err *e)
{
	size_t size = (size_t)(__stop_pye_inline - __start_pye_inline);

	o->at = (uint32_t)((sizeof(struct il_header) + 63) & ~63ul);
	if (size > IL_CODE_BYTES - o->at)
		return err_set(e, -PYE_EPLAN, "the inline engine's code does not fit");
	memcpy(o->image + o->at, __start_pye_inline, size);
	o->slow = offset_of(o, o->how.count ? pye_inline_count : pye_inline_slow);
	o->eval = o->how.count ? o->slow : offset_of(o, pye_inline_eval);
	o->at += (uint32_t)size;
	return 0;
}

/* What an image is made for. */
struct where {
	const struct inline_plan *plan;
	const struct pye_pylayout *layout;
	uint64_t bias, base;
};

/* 256 and more: no word of the table. */
static unsigned int opcode_of(const struct inline_plan *plan, uint64_t at)
{
	return plan->table && at >= plan->table && at - plan->table < 8UL * 256
		       ? (unsigned int)(at - plan->table) / 8
		       : 256;
}

static uint32_t original(struct out *o, uint64_t target)
{
	struct il_header *h = (void *)o->image;

	h->originals[o->original_cnt] = target;
	return o->original_cnt++;
}

/* Both stubs of a word of the dispatch table, or one of them. @kind: of the word; INLINE_OPCODE: none. */
static void patch_word(struct out *o, const struct where *w, unsigned int kind, unsigned int opcode,
		       const struct inline_word *word)
{
	struct il_header *h = (void *)o->image;
	uint64_t target = word->target + w->bias;
	uint8_t how = o->how.opcodes && opcode < 256 ? o->how.opcodes[opcode] : STUB_LEAVE_ALONE;
	/* a call comes before the instruction that says so, and what ends a frame behind it */
	bool last = kind == INLINE_ENTRY || kind == INLINE_CAUGHT;

	for (int i = 0; i < 2; i++) {
		uint32_t start;

		if ((i == 0) == last && how != STUB_LEAVE_ALONE)
			start = stub_emit_opcode(o, w->plan, w->layout, how, opcode,
						 original(o, target));
		else if ((i == 0) != last && kind != INLINE_OPCODE)
			start = stub_emit(o, w->plan, w->layout, kind, true, original(o, target));
		else
			continue;
		target = w->base + start;
	}
	h->patches[h->patch_cnt++] = (struct il_patch){
		.at = word->at + w->bias, .old = word->target + w->bias, .new = target, .size = 8
	};
}

static const struct inline_word *word_at(const struct inline_plan *plan, uint64_t at)
{
	for (uint32_t i = 0; i < plan->word_cnt; i++)
		if (plan->words[i].at == at)
			return &plan->words[i];
	return NULL;
}

/* The handlers that no event needs. */
static void patch_opcodes(struct out *o, const struct where *w)
{
	for (unsigned int i = 0; i < 256; i++) {
		struct inline_word word = { .at = w->plan->table + 8ull * i,
					    .target = w->plan->handlers[i] };

		if (o->how.opcodes[i] == STUB_LEAVE_ALONE || !word.target ||
		    word_at(w->plan, word.at))
			continue;
		patch_word(o, w, INLINE_OPCODE, i, &word);
	}
}

static int patch_call(struct il_header *h, const struct inline_call *c, uint64_t bias,
		      uint64_t base, uint32_t start, struct err *e)
{
	uint64_t after = c->at + bias + 5;
	int64_t distance = (int64_t)(base + start - after);

	if (distance != (int32_t)distance)
		return err_set(e, -PYE_EPLAN,
			       "there is no room for the stubs near the interpreter's code");
	h->patches[h->patch_cnt++] = (struct il_patch){ .at = c->at + bias + 1,
							.old = (uint32_t)(c->target + bias - after),
							.new = (uint32_t)distance,
							.size = 4 };
	return 0;
}

static int patch_detour(struct il_header *h, const struct inline_detour *d, uint64_t bias,
			uint64_t base, uint32_t start, struct err *e)
{
	struct il_patch *p = &h->patches[h->patch_cnt];
	int64_t distance = (int64_t)(base + start - (d->at + bias + 5));

	if (distance != (int32_t)distance)
		return err_set(e, -PYE_EPLAN,
			       "there is no room for the stubs near the interpreter's code");
	*p = (struct il_patch){ .at = d->at + bias,
				.new = 0xe9 | (uint64_t)(uint32_t)distance << 8,
				.size = 5 };
	memcpy(&p->old, d->code, p->size);
	h->patch_cnt++;
	return 0;
}

/* --count needs no more than where a frame begins, and with --time where it ends. */
static bool is_wanted(const struct stub_how *how, unsigned int kind)
{
	switch (kind) {
	case INLINE_ENTRY:
	case INLINE_EVAL_ENTRY:
	case INLINE_DEALLOC:
		return true;
	case INLINE_THROW: /* its time, and who its callees' caller is */
	case INLINE_YIELD:
	case INLINE_RETURN:
	case INLINE_UNWIND:
	case INLINE_EVAL_EXIT:
		return !how->count || how->time;
	default:
		return !how->count;
	}
}

/* Whatever a vetted plan holds, with each handler of the table besides it. */
_Static_assert(INLINE_WORDS_MAX + 256 + INLINE_CALLS_MAX + INLINE_DETOURS_MAX <= IL_PATCH_MAX,
	       "patches have room");
_Static_assert(2 * INLINE_WORDS_MAX + 256 + INLINE_CALLS_MAX + INLINE_DETOURS_MAX <=
		       IL_ORIGINAL_MAX,
	       "originals have room");

int stub_image(const struct inline_plan *plan, const struct pye_pylayout *layout, uint64_t bias,
	       uint64_t base, const struct stub_how *how, uint8_t *out, struct err *e)
{
	struct il_header *h = (void *)out;
	const struct where w = { plan, layout, bias, base };
	struct out o = { .image = out, .base = base };
	int err;

	if (how)
		o.how = *how;
	memset(out, 0xcc, IL_CODE_BYTES);
	memset(h, 0, sizeof(*h));
	err = copy_slow(&o, e);
	for (uint32_t i = 0; !err && i < plan->word_cnt; i++) {
		const struct inline_word *word = &plan->words[i];

		if (is_wanted(&o.how, word->kind))
			patch_word(&o, &w, word->kind, opcode_of(plan, word->at), word);
	}
	if (!err && o.how.opcodes)
		patch_opcodes(&o, &w);
	for (uint32_t i = 0; !err && i < plan->call_cnt; i++) {
		const struct inline_call *c = &plan->calls[i];

		if (!is_wanted(&o.how, c->kind))
			continue;
		err = patch_call(
			h, c, bias, base,
			stub_emit(&o, plan, layout, c->kind, false, original(&o, c->target + bias)),
			e);
	}
	for (uint32_t i = 0; !err && i < plan->detour_cnt; i++) {
		const struct inline_detour *d = &plan->detours[i];

		if (!is_wanted(&o.how, d->kind))
			continue;
		err = patch_detour(h, d, bias, base,
				   detour_stub(&o, layout, d, bias, base,
					       original(&o, d->at + d->size + bias)),
				   e);
	}
	if (!err && o.full)
		err = err_set(e, -PYE_EPLAN, "the inline engine's stubs do not fit");
	return err;
}
