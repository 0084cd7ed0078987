// SPDX-License-Identifier: Apache-2.0
#include "inline/detour.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define STACK_BYTES (64u << 10)

static bool is_between(const struct inline_plan *plan, uint64_t vaddr)
{
	for (uint32_t i = 0; i < plan->detour_cnt; i++)
		if (vaddr > plan->detours[i].at && vaddr < plan->detours[i].quiet)
			return true;
	return false;
}

/* A thread in one, or whose signal handler or call returns to it? */
static bool is_thread_between(const struct remote *r, const struct remote_thread *t,
			      const struct inline_plan *plan, uint64_t bias, uint64_t *words)
{
	ssize_t got = remote__read_some(r, t->sp & ~7ull, words, STACK_BYTES);

	if (is_between(plan, t->pc - bias))
		return true;
	for (ssize_t i = 0; i < got / 8; i++)
		if (is_between(plan, words[i] - bias))
			return true;
	return false;
}

int detour_stop(struct remote *r, const struct inline_plan *plan, uint64_t bias)
{
	auto_free uint64_t *words = malloc(STACK_BYTES);

	if (!words)
		return -ENOMEM;
	for (unsigned int i = 0; i < REMOTE_TRIES; i++) {
		bool between = false;
		int err = remote__stop_python(r);

		if (err)
			return err;
		for (size_t k = 0; k < r->cnt && !between && plan->detour_cnt; k++)
			between = is_thread_between(r, &r->threads[k], plan, bias, words);
		if (!between)
			return 0;
		remote__resume(r);
		remote__give_time(i);
	}
	return -EAGAIN;
}
