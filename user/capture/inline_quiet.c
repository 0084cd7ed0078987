// SPDX-License-Identifier: Apache-2.0
/*
 * Code that is left out. The target is told with how much of the ring was read then: an address that was freed behind that is
 * perhaps another one's by now. It takes over what it is told when it takes its slow path, so a limit of its ring of 0 is the bell.
 */
#include <stddef.h>
#include <stdlib.h>

#include "capture/inline_priv.h"

#define WAITING_MAX (1u << 16) /* what is more is recorded, and left out behind the ring */

static void add(struct cap_inline *c, const struct code_of *code)
{
	struct verdicts *w = &c->verdicts;

	if (w->cnt == w->size) {
		uint32_t size = w->size ? 2 * w->size : IL_VERDICT_CNT;
		struct il_verdict *more =
			size > WAITING_MAX ? NULL : reallocarray(w->v, size, sizeof(*more));

		if (!more)
			return;
		w->v = more;
		w->size = size;
	}
	w->v[w->cnt++] = (struct il_verdict){ code->address, c->tail };
}

void quiet_defined(struct cap_inline *c, struct code_of *code, uint32_t flags)
{
	code->is_function = !(flags & IL_CO_GENERATORS);
	if (code->quiet && code->is_function)
		add(c, code);
}

void cap_inline__decide(struct cap_inline *c, const struct pye_verdict *verdict)
{
	uint64_t address = verdict->code;
	struct code_of *code;

	if (!c->e->quiet || !(verdict->set & PYE_CODE_QUIET))
		return;
	HASH_FIND(hh, c->codes, &address, sizeof(address), code);
	if (!code || code->id != verdict->id)
		return;
	code->quiet = true;
	if (code->is_function)
		add(c, code);
}

void quiet_tell(struct cap_inline *c)
{
	struct verdicts *w = &c->verdicts;
	struct il_shared *h = c->e ? c->e->shared : NULL;
	struct il_verdict *log;
	uint64_t head, zero = 0;
	uint32_t told = 0;

	/* behind the detach there is no ring to be rung at, and perhaps something else of the target's in its place */
	if (!w->cnt || !h || !c->e->reserved)
		return;
	log = (struct il_verdict *)((uint8_t *)h + IL_VERDICTS);
	head = h->verdict_head;
	while (told < w->cnt &&
	       head - __atomic_load_n(&h->verdict_tail, __ATOMIC_ACQUIRE) < IL_VERDICT_CNT)
		log[head++ & (IL_VERDICT_CNT - 1)] = w->v[told++];
	if (!told)
		return;
	__atomic_store_n(&h->verdict_head, head, __ATOMIC_RELEASE);
	w->cnt -= told;
	for (uint32_t i = 0; i < w->cnt; i++)
		w->v[i] = w->v[told + i];
	/* whatever it writes there itself meanwhile is good, too: then the next lap of the ring is the bell */
	remote__write(&c->e->remote, c->e->base + IL_PRIVATE + offsetof(struct il_private, limit),
		      &zero, sizeof(zero));
}

uint64_t cap_inline__left_out(const struct cap_inline *c)
{
	return c->e && c->e->shared ? c->e->shared->quiet : 0;
}
