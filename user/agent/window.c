// SPDX-License-Identifier: Apache-2.0
#include "agent/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/split.h"
#include "base/cleanup.h"
#include "base/grow.h"
#include "base/strpool.h"
#include "decode/decode.h"
#include "export/export.h"
#include "profile/forward.h"
#include "store/head.h"

#define COMMENT_BYTES (2 * STORE_LABEL_MAX + 16)
#define EVICT_BYTES \
	(64u << 10) /* besides those of the profile: room for the next, and for the tables */
#define EVICTIONS_MAX 4 /* for a window */

/* The profile of a service while the capture is read. */
struct profile {
	struct store_label
		labels[STORE_LABELS_MAX]; /* copies: a struct service has room for much more */
	uint32_t label_cnt;
	char *comments[STORE_LABELS_MAX + 1];
	struct export_opts opts;
	struct export_out out;
	void *self; /* of the exporter */
	char *data; /* what it wrote */
	size_t len, cap;
	uint64_t samples;
};

struct profiles {
	struct store *store;
	struct services *services;
	const struct window_opts *opts;
	struct strpool keys; /* labels as text -> group + 1 */
	struct profile **profiles;
	uint32_t profile_cnt, profile_cap;
	struct service next; /* of the group that is opened next */
	int64_t start_ns, end_ns;
	uint32_t *ended; /* processes */
	uint32_t ended_cnt, ended_cap;
	struct trace_totals totals;
	uint64_t start_mono_ns;
	uint64_t bytes; /* of all profiles */
	unsigned int evictions;
};

static void profile_free(struct profile *p)
{
	if (!p)
		return;
	exporter__free(&export_pprof, p->self);
	for (size_t i = 0; p->comments[i]; i++)
		free(p->comments[i]);
	for (uint32_t i = 0; i < p->label_cnt; i++) {
		free((char *)p->labels[i].name);
		free((char *)p->labels[i].value);
	}
	free(p->data);
	free(p);
}

static void window_done(struct profiles *w)
{
	for (uint32_t i = 0; i < w->profile_cnt; i++)
		profile_free(w->profiles[i]);
	free(w->profiles);
	free(w->ended);
	strpool__done(&w->keys);
}

static int keep(void *ctx, const void *data, size_t len)
{
	struct profile *p = ctx;

	if (len > p->cap - p->len) {
		size_t cap = p->cap ? p->cap * 2 : 65536;
		char *grown;

		while (cap - p->len < len)
			cap *= 2;
		grown = realloc(p->data, cap);
		if (!grown)
			return -ENOMEM;
		p->data = grown;
		p->cap = cap;
	}
	memcpy(p->data + p->len, data, len);
	p->len += len;
	return 0;
}

/* --- groups --- */

static void key_of(const struct service *s, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < s->label_cnt && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s=%s\n", s->labels[i].name,
				      s->labels[i].value);
}

static int note_ended(struct profiles *w, uint32_t process)
{
	if (GROW(w->ended, w->ended_cap, w->ended_cnt))
		return -ENOMEM;
	w->ended[w->ended_cnt++] = process;
	return 0;
}

static int find_group(void *ctx, const struct trace_process *process, uint32_t *group)
{
	struct profiles *w = ctx;
	const struct service *known = w->opts->by_pid
					      ? services__by_pid(w->services, (pid_t)process->pid)
					      : services__get(w->services, process->id);
	char key[sizeof(w->next.text) + 256];
	struct service made, shaped;
	uint32_t id;
	int err;

	if (!known) {
		service_by(&(struct service_facts){ .pid = process->pid,
						    .cgroup = "",
						    .cmdline = "",
						    .comm = process->comm,
						    .exe = process->exe,
						    .python = process->python },
			   &made);
		known = &made;
	}
	if (!service_apply(w->opts->rules, known, &shaped)) {
		*group = SPLIT_NONE;
		return 0;
	}
	key_of(&shaped, key, sizeof(key));
	err = strpool__add(&w->keys, key, strlen(key), &id);
	if (err)
		return err;
	*group = id - 1; /* 0 is "" */
	service_copy(&w->next, &shaped);
	return 0;
}

static int add_labels(struct profile *p, const struct store_label *labels, uint32_t cnt)
{
	char text[COMMENT_BYTES];

	for (uint32_t i = 0; i < cnt && p->label_cnt < STORE_LABELS_MAX; i++) {
		struct store_label *l = &p->labels[p->label_cnt];

		if (*label_value(p->labels, p->label_cnt, labels[i].name))
			continue; /* each name once: what is known of the process goes before */
		head_comment(&labels[i], text, sizeof(text));
		p->comments[p->label_cnt++] = strdup(text);
		*l = (struct store_label){ strdup(labels[i].name), strdup(labels[i].value) };
		if (!p->comments[p->label_cnt - 1] || !l->name || !l->value)
			return -ENOMEM;
	}
	return 0;
}

static int open_group(void *ctx, uint32_t group, const struct trace_consumer **to, void **self)
{
	struct profiles *w = ctx;
	struct profile *p;
	int err;

	if (GROW(w->profiles, w->profile_cap, group))
		return -ENOMEM;
	p = w->profiles[group] = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	w->profile_cnt = group + 1;
	err = add_labels(p, w->next.labels, w->next.label_cnt);
	err = err ? err : add_labels(p, w->opts->labels, w->opts->label_cnt);
	if (err)
		return err;
	p->opts.comments = (const char *const *)p->comments;
	p->out = (struct export_out){ .ctx = p, .write = keep };
	err = exporter__new(&export_pprof, &p->self, &p->opts, &p->out);
	*to = &export_pprof.consumer;
	*self = p->self;
	return err;
}

/* What compresses a profile is large: there is one at a time, however many services there are. */
static int close_group(void *ctx, uint32_t group)
{
	struct profiles *w = ctx;
	struct profile *p = w->profiles[group];
	char *fits = p->len ? realloc(p->data, p->len) : NULL;

	exporter__free(&export_pprof, take_ptr(p->self));
	if (fits) {
		p->data = fits;
		p->cap = p->len;
	}
	return 0;
}

/* --- the capture, with an eye on what the window needs to know of it --- */

struct watch {
	struct forward next; /* to the split */
	struct profiles *window;
};

static int watch_begin(void *self, const struct trace_info *info)
{
	struct watch *w = self;

	w->window->start_ns = info->start_unix_ns;
	w->window->start_mono_ns = info->start_ns;
	return forward_begin(w, info);
}

static int watch_process(void *self, const struct trace_process *process)
{
	struct watch *w = self;
	int err = forward_process(w, process);

	return !err && process->end_ns ? note_ended(w->window, process->id) : err;
}

/* Waits of idle threads without end are told by one that is long; a short one tells nothing. */
static int watch_sample(void *self, const struct trace_sample *sample)
{
	const struct watch *w = self;

	if (sample->off_cpu && sample->weight_ns < w->window->opts->off_min_ns)
		return 0;
	return forward_sample(self, sample);
}

static int watch_end(void *self, const struct trace_totals *totals)
{
	struct watch *w = self;
	uint64_t from = w->window->start_mono_ns;

	w->window->totals = *totals;
	w->window->end_ns =
		w->window->start_ns + (int64_t)(totals->end_ns > from ? totals->end_ns - from : 0);
	return forward_end(w, totals);
}

static const struct trace_consumer watch_consumer = {
	.begin = watch_begin,
	.process = watch_process,
	.thread = forward_thread,
	.func = forward_func,
	.event = forward_event,
	.sample = watch_sample,
	.gap = forward_gap,
	.end = watch_end,
};

/* --- into the store --- */

static int put(const struct profiles *w, const struct profile *p, struct err *e)
{
	auto_fn(store_file__freep) struct store_file *f = NULL;
	int err;

	if (!w->store)
		return err_set(e, -ENOSPC, "there is no room for the store");
	err = store__begin(w->store, w->start_ns, w->end_ns, p->labels, p->label_cnt, &f, e);
	if (err)
		return err;
	/* what fails here the commit says */
	(void)store_file__write(f, p->data, p->len);
	return store_file__commit(f, e);
}

/*
 * On a full disk new profiles replace the oldest, but not those of the same window. Whoever else fills it gets what
 * is freed a few times for each window, so that he does not eat the whole store at once.
 */
static int put_or_evict(struct profiles *w, const struct profile *p, struct window_result *out,
			struct err *e)
{
	int err = put(w, p, e);

	for (; err == -ENOSPC && w->store && w->evictions < EVICTIONS_MAX; w->evictions++) {
		uint64_t before = out->evicted.by_bytes;

		if (store__make_room(w->store, p->len + EVICT_BYTES, out->bytes, &out->evicted,
				     NULL) ||
		    out->evicted.by_bytes == before)
			break;
		err = put(w, p, e);
	}
	out->full |= err == -ENOSPC;
	return err;
}

static void note_busiest(const struct profile *p, struct window_result *out)
{
	snprintf(out->busiest, sizeof(out->busiest), "%s",
		 label_value(p->labels, p->label_cnt, STORE_SERVICE));
}

static int put_all(struct profiles *w, struct window_result *out, struct err *e)
{
	for (uint32_t i = 0; i < w->profile_cnt; i++) {
		const struct profile *p = w->profiles[i];
		int err = p->samples ? put_or_evict(w, p, out, e) : 0;

		if (err == -ENOMEM)
			return err;
		out->unwritten += err != 0;
		if (err || !p->samples)
			continue;
		out->profiles++;
		out->samples += p->samples;
		out->bytes += p->len;
	}
	return 0;
}

int profiles__put(struct profiles *w, struct store *s, struct window_result *result, struct err *e)
{
	int err, end;

	w->store = s;
	if (s)
		store__together_begin(s);
	err = put_all(w, result, e);
	end = s ? store__together_end(s, e) : 0;
	return err ? err : end;
}

/* --- a window --- */

static void note_samples(struct profiles *w, const struct split *split, struct window_result *out)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < w->profile_cnt; i++) {
		struct profile *p = w->profiles[i];

		p->samples = split__samples(split, i);
		w->bytes += p->len;
		if (p->samples > most)
			note_busiest(p, out);
		most = p->samples > most ? p->samples : most;
	}
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		out->lost += w->totals.lost[i];
	out->unwanted = split__unwanted(split);
}

static int make(struct profiles *w, int fd, struct window_result *out, struct err *e)
{
	static const struct split_ops ops = { .group = find_group,
					      .open = open_group,
					      .close = close_group };
	auto_fn(split__freep) struct split *split = NULL;
	struct watch watch = { .window = w };
	int err = strpool__init(&w->keys);

	err = err ? err : split__new(&split, &ops, w);
	watch.next = (struct forward){ &split_consumer, split };
	err = err ? err : decode_file(fd, &watch_consumer, &watch, e);
	if (err)
		return err;
	note_samples(w, split, out);
	for (uint32_t i = 0; i < w->ended_cnt && !w->opts->by_pid; i++)
		services__forget(w->services, w->ended[i]);
	return 0;
}

int profiles__make(struct profiles **out, int fd, struct services *services,
		   const struct window_opts *opts, struct window_result *result, struct err *e)
{
	struct profiles *w = calloc(1, sizeof(*w));
	int err;

	*result = (struct window_result){ 0 };
	if (!w)
		return -ENOMEM;
	w->services = services;
	w->opts = opts;
	err = make(w, fd, result, e);
	if (err)
		profiles__free(w);
	else
		*out = w;
	return err;
}

uint64_t profiles__bytes(const struct profiles *w)
{
	return w->bytes;
}

uint32_t profiles__cnt(const struct profiles *w)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < w->profile_cnt; i++)
		cnt += w->profiles[i]->samples != 0;
	return cnt;
}

void profiles__free(struct profiles *w)
{
	if (w)
		window_done(w);
	free(w);
}
