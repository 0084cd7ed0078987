// SPDX-License-Identifier: Apache-2.0
#include "sink/pprof_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/grow.h"

void pprof_window__done(struct pprof_window *p)
{
	pprof_reader__done(&p->r);
	source__done(&p->source);
	free(p->stacks);
	free(p->frames);
	free(p->values);
	idmap__done(&p->by_locations);
}

const char *pprof_window__name(const struct pprof_window *p, const struct window_frame *f)
{
	return pprof_names__text(&p->r.names, p->r.names.functions[f->function].name);
}

const char *pprof_window__file(const struct pprof_window *p, const struct window_frame *f)
{
	return pprof_names__text(&p->r.names, p->r.names.functions[f->function].file);
}

/* What tells frames apart, with a NUL between the parts, so that no two lists are the same bytes. */
static void hash_frame(const struct pprof_window *p, const struct window_frame *f,
		       XXH3_state_t *state)
{
	const char *name = pprof_window__name(p, f), *file = pprof_window__file(p, f);
	uint32_t line = htole32(f->line);

	XXH3_64bits_update(state, name, strlen(name) + 1);
	XXH3_64bits_update(state, file, strlen(file) + 1);
	XXH3_64bits_update(state, &line, sizeof(line));
}

static int add_frames(struct pprof_window *p, const struct pprof_sample *s)
{
	for (uint32_t i = s->location_cnt; i-- > 0;) {
		struct pprof_location *at;
		int err = pprof_names__find(&p->r.names, s->locations[i], &at);

		if (err)
			return err;
		for (uint32_t k = at->line_cnt; k-- > 0;) {
			const struct pprof_line *line = &p->r.names.lines[at->first_line + k];

			if (GROW(p->frames, p->frame_cap, p->frame_cnt))
				return -ENOMEM;
			p->frames[p->frame_cnt++] =
				(struct window_frame){ line->function, line->line };
		}
	}
	return 0;
}

static int add_stack(struct pprof_window *p, const struct pprof_sample *s)
{
	struct window_stack *stack;
	XXH3_state_t state;
	uint32_t first = p->frame_cnt;
	int err;

	if (GROW(p->stacks, p->stack_cap, p->stack_cnt) ||
	    GROW(p->values, p->value_cap, (uint64_t)(p->stack_cnt + 1) * p->r.names.type_cnt))
		return -ENOMEM;
	err = add_frames(p, s);
	if (err)
		return err;
	XXH3_64bits_reset(&state);
	for (uint32_t i = first; i < p->frame_cnt; i++)
		hash_frame(p, &p->frames[i], &state);
	stack = &p->stacks[p->stack_cnt];
	stack->hash = XXH3_64bits_digest(&state);
	stack->first_frame = first;
	stack->frame_cnt = p->frame_cnt - first;
	memset(p->values + (size_t)p->stack_cnt * p->r.names.type_cnt, 0,
	       p->r.names.type_cnt * sizeof(*p->values));
	p->stack_cnt++;
	return 0;
}

static int add_sample(void *ctx, const struct pprof_sample *s)
{
	struct pprof_window *p = ctx;
	uint64_t key = XXH3_64bits(s->locations, s->location_cnt * sizeof(*s->locations));
	uint32_t stack = idmap__find(&p->by_locations, key);
	int64_t *values;
	int err = 0;

	if (s->value_cnt != p->r.names.type_cnt)
		return pprof_reader__malformed(&p->r, "a sample has not a value of each type");
	if (stack == IDMAP_NONE) {
		stack = p->stack_cnt;
		err = add_stack(p, s);
		err = err ? err : idmap__set(&p->by_locations, key, stack);
	}
	if (err)
		return err;
	values = p->values + (size_t)stack * p->r.names.type_cnt;
	for (uint32_t i = 0; i < s->value_cnt; i++)
		if (__builtin_add_overflow(values[i], (int64_t)s->values[i], &values[i]))
			return pprof_reader__malformed(&p->r, "a value is too large");
	return 0;
}

int pprof_window__read(struct pprof_window *p, int fd, struct err *e)
{
	int err;

	*p = (struct pprof_window){ 0 };
	if (lseek(fd, 0, SEEK_SET))
		return -errno;
	err = source__open(&p->source, fd, e);
	err = err ? err : pprof_reader__names(&p->r, &p->source, e);
	if (!err && !p->r.names.type_cnt)
		err = pprof_reader__malformed(&p->r, "no types of values");
	return err ? err : pprof_reader__samples(&p->r, add_sample, p);
}
