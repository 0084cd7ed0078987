// SPDX-License-Identifier: Apache-2.0
#include "inline/detour.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"

/* Where they are, from the first to the last one: most words lead elsewhere, and all threads wait. */
struct span {
	uint64_t low, high;
};

static struct span span_of(const struct inline_plan *plan)
{
	struct span s = { UINT64_MAX, 0 };

	for (uint32_t i = 0; i < plan->detour_cnt; i++) {
		s.low = plan->detours[i].at < s.low ? plan->detours[i].at : s.low;
		s.high = plan->detours[i].quiet > s.high ? plan->detours[i].quiet : s.high;
	}
	return s;
}

static bool is_between(const struct inline_plan *plan, struct span span, uint64_t vaddr)
{
	if (vaddr - span.low >= span.high - span.low)
		return false;
	for (uint32_t i = 0; i < plan->detour_cnt; i++)
		if (vaddr > plan->detours[i].at && vaddr < plan->detours[i].quiet)
			return true;
	return false;
}

/* A thread in one, or whose signal handler or call returns to it? */
static bool is_thread_between(const struct remote *r, const struct remote_thread *t,
			      const struct inline_plan *plan, struct span span, uint64_t bias,
			      uint64_t *room)
{
	size_t cnt;
	const uint64_t *words = remote_stack(r, t, room, &cnt);

	if (is_between(plan, span, t->pc - bias))
		return true;
	for (size_t i = 0; i < cnt; i++)
		if (is_between(plan, span, words[i] - bias))
			return true;
	return false;
}

int detour_stop(struct remote *r, const struct inline_plan *plan, uint64_t bias)
{
	auto_free uint64_t *room = malloc(REMOTE_STACK_BYTES);
	const struct span span = span_of(plan);

	if (!room)
		return -ENOMEM;
	r->watched.start = span.low + bias;
	r->watched.end = span.high + bias;
	for (unsigned int i = 0; i < REMOTE_TRIES; i++) {
		bool between = false;
		int err = remote__stop_python(r);

		if (err)
			return err;
		for (size_t k = 0; k < r->cnt && !between && plan->detour_cnt; k++)
			between = is_thread_between(r, &r->threads[k], plan, span, bias, room);
		if (!between)
			return 0;
		remote__resume(r);
		remote__give_time(i);
	}
	return -EAGAIN;
}
