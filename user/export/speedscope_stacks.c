// SPDX-License-Identifier: Apache-2.0
#include "export/speedscope_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "export/folding.h"
#include "export/json.h"

enum {
	LAST = UINT32_MAX
};

/* A stack; its functions lie in ss_stacks.funcs. */
struct record {
	size_t first;
	uint64_t self_ns;
	uint32_t cnt;
	uint32_t thread, next; /* of that thread; LAST */
};

struct ss_stacks {
	const struct agg_result *r;
	uint64_t least_ns; /* a stack with less is one of the others */
	uint32_t *funcs;
	size_t func_cnt, func_cap;
	struct record *records;
	uint32_t record_cnt, record_cap;
	uint32_t *heads; /* by thread: the first record, or LAST */
	uint64_t *totals, *other_ns; /* by thread */
};

void ss_stacks__free(struct ss_stacks *s)
{
	if (!s)
		return;
	free(s->funcs);
	free(s->records);
	free(s->heads);
	free(s->totals);
	free(s->other_ns);
	free(s);
}

static int descending(const void *left, const void *right)
{
	const uint64_t *l = left, *r = right;

	return (*l < *r) - (*l > *r);
}

/* So that at most SS_STACKS_MAX stacks have that much self time or more. */
static int find_least(struct ss_stacks *s)
{
	auto_free uint64_t *sorted = NULL;
	uint32_t cnt = 0;

	s->least_ns = 1;
	if (s->r->stack_cnt <= SS_STACKS_MAX)
		return 0;
	sorted = malloc(s->r->stack_cnt * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->r->stack_cnt; i++) {
		if (s->r->stacks[i].self_ns)
			sorted[cnt++] = s->r->stacks[i].self_ns;
	}
	qsort(sorted, cnt, sizeof(*sorted), descending);
	if (cnt > SS_STACKS_MAX)
		s->least_ns = sorted[SS_STACKS_MAX] + 1;
	return 0;
}

static int keep(struct ss_stacks *s, const struct folded_stack *stack)
{
	if (GROW(s->records, s->record_cap, s->record_cnt))
		return -ENOMEM;
	if (s->func_cap - s->func_cnt < stack->func_cnt) {
		size_t cap = s->func_cap * 2 + stack->func_cnt + 1024;
		uint32_t *grown = realloc(s->funcs, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->funcs = grown;
		s->func_cap = cap;
	}
	memcpy(s->funcs + s->func_cnt, stack->funcs, stack->func_cnt * sizeof(*s->funcs));
	s->records[s->record_cnt++] = (struct record){ .first = s->func_cnt,
						       .self_ns = stack->self_ns,
						       .cnt = stack->func_cnt,
						       .thread = stack->thread };
	s->func_cnt += stack->func_cnt;
	return 0;
}

static int on_stack(void *ctx, const struct folded_stack *stack)
{
	struct ss_stacks *s = ctx;

	s->totals[stack->thread] += stack->self_ns;
	if (stack->self_ns >= s->least_ns)
		return keep(s, stack);
	s->other_ns[stack->thread] += stack->self_ns;
	return 0;
}

int ss_stacks__new(struct ss_stacks **out, const struct agg_result *r)
{
	auto_fn(ss_stacks__freep) struct ss_stacks *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->r = r;
	s->heads = malloc((r->thread_cnt + 1ull) * sizeof(*s->heads));
	s->totals = calloc(r->thread_cnt + 1ull, sizeof(*s->totals));
	s->other_ns = calloc(r->thread_cnt + 1ull, sizeof(*s->other_ns));
	if (!s->heads || !s->totals || !s->other_ns)
		return -ENOMEM;
	err = find_least(s);
	err = err ? err : folding_each(r, SS_FRAMES_MAX, on_stack, s);
	if (err)
		return err;
	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		s->heads[i] = LAST;
		s->totals[i] += r->threads[i].gap_ns;
	}
	for (uint32_t i = s->record_cnt; i-- > 0;) {
		struct record *record = &s->records[i];

		record->next = s->heads[record->thread];
		s->heads[record->thread] = i;
	}
	*out = take_ptr(s);
	return 0;
}

uint64_t ss_stacks__total(const struct ss_stacks *s, uint32_t thread)
{
	return s->totals[thread];
}

static void put_sample(const struct ss_stacks *s, const struct record *record,
		       const struct ss_frames *frames, struct outbuf *b)
{
	for (uint32_t i = 0; i < record->cnt; i++) {
		uint32_t func = s->funcs[record->first + i];

		outbuf__putc(b, i ? ',' : '[');
		json_u64(b, func == FOLDING_CUT ? frames->cut : frames->of_func[func]);
	}
	outbuf__puts(b, "],");
}

void ss_stacks__put(const struct ss_stacks *s, uint32_t thread, const struct ss_frames *frames,
		    struct outbuf *b)
{
	outbuf__puts(b, ",\"samples\":[");
	for (uint32_t i = s->heads[thread]; i != LAST; i = s->records[i].next)
		put_sample(s, &s->records[i], frames, b);
	/* always there, so that the commas fall into place: both can weigh 0 */
	outbuf__putc(b, '[');
	json_u64(b, frames->other);
	outbuf__puts(b, "],[");
	json_u64(b, frames->of_gap[thread]);
	outbuf__puts(b, "]],\"weights\":[");
	for (uint32_t i = s->heads[thread]; i != LAST; i = s->records[i].next) {
		json_u64(b, s->records[i].self_ns);
		outbuf__putc(b, ',');
	}
	json_u64(b, s->other_ns[thread]);
	outbuf__putc(b, ',');
	json_u64(b, s->r->threads[thread].gap_ns);
	outbuf__putc(b, ']');
}
