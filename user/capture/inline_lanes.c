// SPDX-License-Identifier: Apache-2.0
/*
 * Where threads run at once, each of the first ones has a ring of its own, and the others share one more.
 * Order holds inside a ring. What the events of two threads have to do with each other is a code object that
 * is freed before another one gets its address, and a generator that goes on in another thread. So calls and
 * returns are taken ring by ring, and all else by its time: the target reads the clock for it after what it
 * depends on was in its ring. A pass goes as far as the clock was when it began. What depends on anything
 * that this pass does not see, because the heads are not looked at in the same moment, is younger. So each record is taken by
 * itself here, and only what comes of it goes on many at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/inline_priv.h"

#define PASS_BYTES ((uint64_t)128 << 10) /* of each ring */
#define BUSY_BYTES ((uint64_t)256 << 10) /* who has written so much will write all over its ring */

struct lane {
	struct inline_lane at;
	uint64_t bytes, tail, head;
	uint64_t end; /* of this pass; the head, or before */
	uint64_t next; /* tsc of the record at the tail */
	struct track *now;
	uint64_t self, tid; /* of who wrote last, where now is NULL since it has ended */
	uint32_t *slots;
	bool touched; /* all of its ring has memory */
};

struct lanes {
	struct lane all[IL_LANE_CNT + 1]; /* the last one is that of those who have none */
	struct lane *busy[IL_LANE_CNT + 1]; /* in this pass */
	uint32_t busy_cnt;
};

static int lanes_new(struct cap_inline *c)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));

	if (!lanes)
		return -ENOMEM;
	for (uint32_t i = 0; i < IL_LANE_CNT; i++)
		lanes->all[i] =
			(struct lane){ .at = inline__lane(c->e, i), .bytes = c->e->lane_ring };
	lanes->all[IL_LANE_CNT] =
		(struct lane){ .at = { .shared = c->e->shared, .ring = c->e->ring },
			       .bytes = c->e->ring_bytes,
			       .slots = c->common };
	c->lanes = lanes;
	return 0;
}

static const struct il_rec *record_of(const struct lane *l)
{
	return (const void *)(l->at.ring + (l->tail & (l->bytes - 1)));
}

/* Near the moment when the pass began. */
static uint64_t tsc_of(const struct cap_inline *c, uint64_t time)
{
	return inline_tsc(c->last_tsc, time);
}

/* No record that another thread can have to do with. */
static bool is_own(uint64_t what)
{
	return (what & 7) == IL_CALL || (what & 7) == IL_RETURN;
}

static bool is_switch(uint64_t what)
{
	return (what & 7) == IL_MORE && what >> 48 == IL_SWITCH;
}

static int take(struct cap_inline *c, struct lane *l)
{
	uint64_t room = l->head - l->tail, most = l->bytes + IL_SLACK - (l->tail & (l->bytes - 1));
	uint32_t size;

	/* without a lane, who has both of the last one is taken for that one by the target */
	if (!c->now && l->self && !is_switch(record_of(l)->what))
		c->now = track_get(c, l->self, l->tid);
	size = inline_record(c, record_of(l), room < most ? room : most);
	l->tail += size;
	return size ? c->failed : -EILSEQ;
}

/* What is next, if that is its turn, and then what need not wait for others. */
static int run(struct cap_inline *c, struct lane *l, uint64_t until, bool turn)
{
	int err = 0;

	c->now = l->now;
	c->slots = l->slots;
	if (turn)
		err = take(c, l);
	while (!err && l->tail < l->end) {
		const struct il_rec *r = record_of(l);

		if (!is_own(r->what) || tsc_of(c, r->time) > until)
			break;
		err = take(c, l);
	}
	l->now = c->now;
	c->now = NULL;
	if (l->tail < l->head)
		l->next = tsc_of(c, record_of(l)->time);
	return err;
}

static struct lane *earliest(const struct lanes *lanes)
{
	struct lane *found = NULL;

	for (uint32_t i = 0; i < lanes->busy_cnt; i++) {
		struct lane *l = lanes->busy[i];

		if (l->tail < l->head && (!found || l->next < found->next))
			found = l;
	}
	return found;
}

/* Which rings have something. A second is more than two processors' clocks can be apart. */
static int look(struct cap_inline *c, uint64_t horizon)
{
	struct lanes *lanes = c->lanes;

	lanes->busy_cnt = 0;
	for (uint32_t i = 0; i <= IL_LANE_CNT; i++) {
		struct lane *l = &lanes->all[i];

		l->head = __atomic_load_n(&l->at.shared->head, __ATOMIC_ACQUIRE);
		if (l->head - l->tail > l->bytes || l->head % 16)
			return -EILSEQ;
		if (l->head == l->tail)
			continue;
		if (!l->touched && l->head > BUSY_BYTES && i < IL_LANE_CNT) {
			inline__touch_lane(c->e, i);
			l->touched = true;
		}
		if (!l->slots)
			l->slots = calloc(IL_CACHE_CNT, sizeof(*l->slots));
		if (!l->slots)
			return -ENOMEM;
		l->end = l->head - l->tail > PASS_BYTES ? l->tail + PASS_BYTES : l->head;
		l->next = tsc_of(c, record_of(l)->time);
		if (l->next > horizon + c->e->hz)
			return -EILSEQ;
		lanes->busy[lanes->busy_cnt++] = l;
	}
	return 0;
}

static int pass(struct cap_inline *c, uint64_t until)
{
	struct lanes *lanes = c->lanes;
	struct lane *l;
	int err = 0;

	for (uint32_t i = 0; !err && i < lanes->busy_cnt; i++)
		err = run(c, lanes->busy[i], until, false);
	while (!err && (l = earliest(lanes)) && l->tail < l->end && l->next <= until)
		err = run(c, l, until, true);
	return err;
}

static void give_back(struct cap_inline *c, uint64_t horizon)
{
	struct lanes *lanes = c->lanes;

	c->at_end = true;
	for (uint32_t i = 0; i < lanes->busy_cnt; i++) {
		struct lane *l = lanes->busy[i];

		c->tail +=
			l->tail - l->at.shared->tail; /* of all together: whether there was any */
		__atomic_store_n(&l->at.shared->tail, l->tail, __ATOMIC_RELEASE);
		c->at_end &= l->tail == l->head;
	}
	if (c->at_end)
		c->settled = horizon;
}

int lanes_read(struct cap_inline *c)
{
	uint64_t horizon, until = UINT64_MAX;
	const struct lane *first;
	int err = c->lanes ? 0 : lanes_new(c);

	if (err)
		return err;
	__builtin_ia32_lfence();
	horizon = inline__now(c->e);
	__builtin_ia32_lfence();
	c->last_tsc = horizon;
	err = look(c, horizon);
	first = err ? NULL : earliest(c->lanes);
	if (first)
		until = inline_clock__until(&c->clock, first->next);
	if (!err)
		err = pass(c, until < horizon ? until : horizon);
	if (!err)
		give_back(c, horizon);
	return err;
}

unsigned int lanes_backlog(const struct cap_inline *c)
{
	unsigned int most = 0;

	for (uint32_t i = 0; i <= IL_LANE_CNT; i++) {
		const struct lane *l = &c->lanes->all[i];
		uint64_t used = l->at.shared->head - l->tail;
		unsigned int full = used >= l->bytes ? 100 : (unsigned int)(used * 100 / l->bytes);

		most = full > most ? full : most;
	}
	return most;
}

void lanes_recounted(struct cap_inline *c)
{
	for (uint32_t i = 0; c->lanes && i <= IL_LANE_CNT; i++)
		if (c->lanes->all[i].at.shared->lost_mode) {
			c->lanes->all[i].now = NULL;
			c->lanes->all[i].self = 0;
		}
}

/* Of its lane, unless somebody has claimed that meanwhile. */
static bool set_owner(struct cap_inline *c, const struct track *t, uint64_t from, uint64_t to)
{
	bool set = false;

	for (uint32_t i = 0; c->lanes && i < IL_LANE_CNT; i++) {
		const struct inline_lane *at = &c->lanes->all[i].at;
		uint64_t was = t->key.tid | from;

		if (at->thread->self == t->key.self && at->thread->tid == t->key.tid)
			set |= __atomic_compare_exchange_n(&at->state->owner, &was, t->key.tid | to,
							   false, __ATOMIC_RELEASE,
							   __ATOMIC_RELAXED);
	}
	return set;
}

void lanes_ended(struct cap_inline *c, const struct track *t)
{
	set_owner(c, t, 0, IL_OWNER_ENDED);
}

void lanes_gone(struct cap_inline *c, const struct track *t)
{
	if (set_owner(c, t, IL_OWNER_ENDED, IL_OWNER_FREE))
		__atomic_fetch_add(&c->e->shared->freed, 1, __ATOMIC_RELEASE);
}

void lanes_forget(struct cap_inline *c, const struct track *t)
{
	for (uint32_t i = 0; c->lanes && i <= IL_LANE_CNT; i++) {
		struct lane *l = &c->lanes->all[i];

		if (l->now != t)
			continue;
		l->now = NULL;
		l->self = t->key.self;
		l->tid = t->key.tid;
	}
}

void lanes_free(struct cap_inline *c)
{
	for (uint32_t i = 0; c->lanes && i < IL_LANE_CNT; i++)
		free(c->lanes->all[i].slots);
	free(c->lanes);
	c->lanes = NULL;
}
