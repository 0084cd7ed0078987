// SPDX-License-Identifier: Apache-2.0
#include "cmd/fleet_from.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "sink/ask.h"
#include "store/store.h"

struct from {
	const struct fleet_choice *choice;
	struct store *store; /* or: */
	struct sink_spec server;
	struct ask ask;
	struct selector *selector;
	const char *type; /* NULL: any */
	int64_t since_ns, until_ns;
	int (*fn)(void *ctx, const struct store_window *w);
	void *ctx;
};

static void from_done(struct from *f)
{
	selector__free(f->selector);
	store__free(f->store);
}

/* Nothing is older than 1970. */
static int64_t ago(int64_t now, uint64_t ns)
{
	return ns < (uint64_t)now ? now - (int64_t)ns : 0;
}

/* @dir: NULL: the server. */
static int from_open(struct from *f, const struct fleet_choice *choice, const char *dir,
		     const char *type, struct err *e)
{
	int64_t now = wall_ns();
	int err;

	if (choice->until_ns >= choice->since_ns)
		return err_set(e, -PYE_EUSAGE, "--since has to be longer ago than --until");
	f->choice = choice;
	f->type = choice->type ? choice->type : type;
	f->since_ns = ago(now, choice->since_ns);
	f->until_ns = ago(now, choice->until_ns);
	err = selector__parse(&f->selector, choice->query ? choice->query : "", e);
	if (err || dir)
		return err ? err : store__open(&f->store, dir, STORE_READ, e);
	f->ask = (struct ask){ .server = &f->server,
			       .selector = f->selector,
			       .service = choice->service,
			       .type = f->type,
			       .since_ns = f->since_ns,
			       .until_ns = f->until_ns,
			       .partial = choice->partial };
	return ask_spec(&f->server, choice->server, e);
}

static int of_choice(void *ctx, const struct store_window *w)
{
	const struct from *f = ctx;
	const char *wanted = f->choice->service;
	const char *type = label_value(w->labels, w->label_cnt, ASK_TYPE_LABEL);

	if (wanted && strcmp(wanted, label_value(w->labels, w->label_cnt, STORE_SERVICE)) != 0)
		return 0;
	/* one without it is of record, or of an agent that had no other type */
	if (f->type && strcmp(f->type, *type ? type : ASK_TYPE_DEFAULT) != 0)
		return 0;
	return f->fn(f->ctx, w);
}

static int each(struct from *f, int (*fn)(void *ctx, const struct store_window *w), void *ctx,
		struct err *e)
{
	f->fn = fn;
	f->ctx = ctx;
	return store__each(f->store, f->since_ns, f->until_ns, f->selector, of_choice, f, e);
}

/* --- sums --- */

struct adding {
	const struct store *store;
	struct sum *sum;
	struct err *e;
	uint64_t gone; /* removed while we read */
	uint64_t damaged; /* left out whole */
	struct err first; /* of them: what is wrong */
};

static int add_window(void *ctx, const struct store_window *w)
{
	struct adding *a = ctx;
	auto_close int fd = store__open_window(a->store, w, a->e);
	int err;

	if (fd < 0) {
		a->gone++;
		a->e->what[0] = '\0';
		return 0;
	}
	err = sum__add(a->sum, fd, w->file, NULL, a->e);
	if (err != -PYE_EFORMAT)
		return err;
	if (!a->damaged++)
		a->first = *a->e;
	*a->e = (struct err){ 0 };
	return 0; /* one costs none of the others */
}

static int sum_store(const struct fleet_choice *choice, const char *dir, struct sum *sum,
		     struct err *e)
{
	auto_fn(from_done) struct from f = { 0 };
	struct adding adding = { .sum = sum, .e = e };
	int err = from_open(&f, choice, dir, ASK_TYPE_DEFAULT, e);

	adding.store = f.store;
	err = err ? err : each(&f, add_window, &adding, e);
	if (!err && adding.gone)
		log_warn("%" PRIu64 " profiles were removed while they were read", adding.gone);
	if (!err && adding.damaged)
		log_warn("%" PRIu64 " profiles are damaged and left out: %s", adding.damaged,
			 adding.first.what);
	return err;
}

static int sum_stores(const struct fleet_choice *choice, struct sum *sum, uint64_t *profiles,
		      struct err *e)
{
	int err = 0;

	for (uint32_t i = 0; i < choice->stores.cnt && !err; i++)
		err = sum_store(choice, choice->stores.dirs[i], sum, e);
	*profiles = sum->cnt;
	return err;
}

struct asking {
	const struct ask *ask;
	uint64_t profiles;
};

static int push_answer(void *ctx, const struct trace_consumer *consumer, void *self, struct err *e)
{
	struct asking *a = ctx;
	int err = ask_sum(a->ask, consumer, self, &a->profiles, e);

	return err || a->profiles ? err : -PYE_ETARGET;
}

static int sum_server(const struct fleet_choice *choice, struct sum *sum, uint64_t *profiles,
		      struct err *e)
{
	auto_fn(from_done) struct from f = { 0 };
	struct asking asking = { .ask = &f.ask };
	int err = from_open(&f, choice, NULL, ASK_TYPE_DEFAULT, e);

	err = err ? err : sum__take(sum, push_answer, &asking, "the server", e);
	*profiles = asking.profiles;
	return err;
}

int fleet_sum(const struct fleet_choice *choice, struct sum *sum, uint64_t *profiles, struct err *e)
{
	int err;

	*profiles = 0;
	err = choice->server ? sum_server(choice, sum, profiles, e)
			     : sum_stores(choice, sum, profiles, e);
	if (*profiles || (err && err != -PYE_ETARGET))
		return err;
	err_set(e, -PYE_ETARGET, "no profile of that time and with these labels is in %s (type %s)",
		choice->server ? choice->server : choice->stores.dirs[0],
		choice->type ? choice->type : ASK_TYPE_DEFAULT);
	err_hint(e, "pyebpf fleet services shows what there is");
	return -PYE_ETARGET;
}

/* --- services --- */

void fleet_services_done(struct fleet_services *s)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		free(s->v[i].name);
	free(s->v);
}

static struct fleet_service *row_of(struct fleet_services *s, const char *name)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (!strcmp(s->v[i].name, name))
			return &s->v[i];
	if (GROW(s->v, s->cap, s->cnt))
		return NULL;
	s->v[s->cnt] = (struct fleet_service){ .name = strdup(name), .first_ns = INT64_MAX };
	return s->v[s->cnt].name ? &s->v[s->cnt++] : NULL;
}

static int count_window(void *ctx, const struct store_window *w)
{
	struct fleet_service *row =
		row_of(ctx, label_value(w->labels, w->label_cnt, STORE_SERVICE));

	if (!row)
		return -ENOMEM;
	row->profiles++;
	row->bytes += w->bytes;
	row->first_ns = w->start_ns < row->first_ns ? w->start_ns : row->first_ns;
	row->last_ns = w->end_ns > row->last_ns ? w->end_ns : row->last_ns;
	return 0;
}

static int take_answer(void *ctx, const struct ask_service *s)
{
	struct fleet_service *row = row_of(ctx, s->name);

	if (!row)
		return -ENOMEM;
	row->profiles = s->profiles;
	row->first_ns = s->first_ns;
	row->last_ns = s->last_ns;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct fleet_service *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int services_of(const struct fleet_choice *choice, const char *dir,
		       struct fleet_services *out, struct err *e)
{
	auto_fn(from_done) struct from f = { 0 };
	int err = from_open(&f, choice, dir, NULL, e);

	if (err)
		return err;
	return dir ? each(&f, count_window, out, e) : ask_services(&f.ask, take_answer, out, e);
}

int fleet_services(const struct fleet_choice *choice, struct fleet_services *out, struct err *e)
{
	int err = choice->server ? services_of(choice, NULL, out, e) : 0;

	for (uint32_t i = 0; i < choice->stores.cnt && !choice->server && !err; i++)
		err = services_of(choice, choice->stores.dirs[i], out, e);
	if (out->cnt)
		qsort(out->v, out->cnt, sizeof(out->v[0]), by_name);
	return err;
}
