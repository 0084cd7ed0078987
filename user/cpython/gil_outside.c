// SPDX-License-Identifier: Apache-2.0
#include "cpython/gil_outside.h"

#include <errno.h>
#include <stddef.h>

#include "abi/wait.h"
#include "cpython/interp.h"
#include "proc/mem.h"

#define INTERPRETERS_MAX 4096
#define STATUS_ACTIVE	 (1u << 4) /* of a thread state, 3.12 on: it is the one that runs */

/* Of the lock: u32 enabled (free-threaded builds only), u64 interval, pointer to the last holder, int
 * locked, u64 how often it has come to another thread. */
struct gil_head {
	uint64_t interval, holder;
	int32_t locked, pad;
	uint64_t switches;
};

/* Of the variable that points to the state of the thread with the lock, to 3.11; else 0. */
static uint64_t current_at(const struct interp *in)
{
	const struct pye_pylayout *l = &in->layout;

	if (l->rt_tstate_current != PYE_NO_FIELD)
		return in->interpreters - l->rt_interpreters + l->rt_tstate_current;
	return l->gil_behind ? in->plan.tstate_current + in->bias : 0;
}

uint64_t gil__of(const struct proc_mem *mem, const struct interp *in, uint64_t is)
{
	const struct pye_pylayout *l = &in->layout;
	uint64_t gil = 0;

	if (l->rt_gil != PYE_NO_FIELD)
		return in->interpreters - l->rt_interpreters + l->rt_gil;
	if (l->is_gil == PYE_NO_FIELD)
		return current_at(in);
	return proc_mem__word(mem, is + l->is_gil, &gil) ? 0 : gil;
}

uint64_t gil__holder(const struct proc_mem *mem, const struct interp *in, uint64_t gil)
{
	uint64_t skip = in->layout.flags & PYE_LAYOUT_FREE_THREADED ? 8 : 0;
	uint64_t current = current_at(in), holder;
	struct gil_head head;

	if (current)
		return proc_mem__word(mem, current, &holder) ? 0 : holder;
	if (!gil || proc_mem__read(mem, gil + skip, &head, sizeof(head)) || head.locked <= 0)
		return 0;
	return head.holder;
}

/* Of musl: the first one of those that wait for a condition, of whom one waits for this word; 0: it is no such word. */
static uint64_t first_waiter(const struct proc_mem *mem, uint64_t futex)
{
	uint64_t at = futex - offsetof(struct pye_musl_waiter, barrier), older;
	struct pye_musl_waiter w;

	if (proc_mem__read(mem, at, &w, sizeof(w)))
		return 0;
	for (int i = 0; i < PYE_MUSL_WAITERS && w.newer; i++) {
		older = at;
		at = w.newer;
		if (proc_mem__read(mem, at, &w, sizeof(w)) || w.older != older)
			return 0;
	}
	return w.newer ? 0 : at;
}

bool gil__is_word(const struct proc_mem *mem, const struct interp *in, uint64_t gil, uint64_t futex)
{
	const struct pye_pylayout *l = &in->layout;
	uint64_t start = gil - l->gil_before, words[PYE_GIL_BYTES / 8], waiter;
	uint64_t bytes = l->gil_behind ? l->gil_before + (uint64_t)l->gil_behind : PYE_GIL_BYTES;

	if (!gil)
		return false;
	if (futex - start < bytes)
		return true;
	waiter = first_waiter(mem, futex);
	if (!waiter || proc_mem__read(mem, start, words, sizeof(words)))
		return false;
	for (size_t i = 0; i < PYE_GIL_BYTES / 8; i++)
		if (words[i] == waiter)
			return true;
	return false;
}

int gil__shared(const struct proc_mem *mem, const struct interp *in, uint64_t *gil,
		unsigned int *none)
{
	uint64_t at, own;
	int cnt = 0;

	*gil = 0;
	*none = 0;
	if (!in->interpreters || proc_mem__word(mem, in->interpreters, &at))
		return -EFAULT;
	for (; at && cnt < INTERPRETERS_MAX; cnt++) {
		own = gil__of(mem, in, at);
		if (*gil && own && own != *gil)
			return 0;
		*gil = own ? own : *gil;
		*none += !own;
		if (proc_mem__word(mem, at + in->layout.is_next, &at))
			return -EFAULT;
	}
	return at || !cnt ? -EFAULT : cnt;
}

bool gil__is_held_by(const struct proc_mem *mem, const struct interp *in, uint64_t gil,
		     uint64_t tstate)
{
	const struct pye_pylayout *l = &in->layout;
	uint32_t status;

	if (!tstate || gil__holder(mem, in, gil) != tstate)
		return false;
	if (current_at(in))
		return true;
	return l->ts_status != PYE_NO_FIELD &&
	       !proc_mem__read(mem, tstate + l->ts_status, &status, sizeof(status)) &&
	       status & STATUS_ACTIVE;
}

void gil__turns(const struct proc_mem *mem, const struct interp *in, struct gil_turns *out)
{
	const struct pye_pylayout *l = &in->layout;
	struct gil_head head;
	unsigned int none;
	uint64_t gil;

	*out = (struct gil_turns){ 0 };
	if (l->flags & PYE_LAYOUT_FREE_THREADED ||
	    (l->rt_gil == PYE_NO_FIELD && l->is_gil == PYE_NO_FIELD) ||
	    gil__shared(mem, in, &gil, &none) <= 0 || none ||
	    proc_mem__read(mem, gil, &head, sizeof(head)))
		return;
	/* a thread can go on with another state, which does not count as a turn */
	if (head.locked && !gil__is_held_by(mem, in, gil, head.holder))
		return;
	*out = (struct gil_turns){ gil, head.holder, head.switches };
}
