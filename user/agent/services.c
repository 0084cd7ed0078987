// SPDX-License-Identifier: Apache-2.0
#include "agent/services.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

enum verdict {
	VERDICT_NONE,
	VERDICT_WANTED,
	VERDICT_UNWANTED
};

struct entry {
	uint32_t process;
	enum verdict verdict;
	pid_t pid;
	char *labels; /* names and values, each with its NUL: most have few */
	size_t len;
	UT_hash_handle hh;
};

struct services {
	struct entry *by_process;
	struct service *shown; /* the last one that was asked for */
};

static int pack(struct entry *e, const struct service *from)
{
	size_t len = 0;
	char *at;

	for (uint32_t i = 0; i < from->label_cnt; i++)
		len += strlen(from->labels[i].name) + strlen(from->labels[i].value) + 2;
	at = malloc(len ? len : 1);
	if (!at)
		return -ENOMEM;
	free(e->labels);
	e->labels = at;
	e->len = len;
	for (uint32_t i = 0; i < from->label_cnt; i++) {
		at = stpcpy(at, from->labels[i].name) + 1;
		at = stpcpy(at, from->labels[i].value) + 1;
	}
	return 0;
}

static void unpack(const struct entry *e, struct service *out)
{
	const char *at = e->labels, *end = at + e->len;

	out->label_cnt = out->used = 0;
	while (at < end) {
		const char *value = at + strlen(at) + 1;

		out->labels[out->label_cnt++] = (struct store_label){ at, value };
		at = value + strlen(value) + 1;
	}
}

int services__new(struct services **out)
{
	struct services *s = calloc(1, sizeof(*s));

	if (s)
		s->shown = calloc(1, sizeof(*s->shown));
	if (!s || !s->shown) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

static void drop(struct services *s, struct entry *e)
{
	HASH_DEL(s->by_process, e);
	free(e->labels);
	free(e);
}

void services__free(struct services *s)
{
	struct entry *e, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->by_process, e, next)
	drop(s, e);
	free(s->shown);
	free(s);
}

static struct entry *find(const struct services *s, uint32_t process)
{
	struct entry *e;

	HASH_FIND(hh, s->by_process, &process, sizeof(process), e);
	return e;
}

int services__set(struct services *s, uint32_t process, pid_t pid, const struct service *service)
{
	struct entry *e = find(s, process);

	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->process = process;
		HASH_ADD(hh, s->by_process, process, sizeof(process), e);
	}
	e->pid = pid;
	e->verdict = VERDICT_NONE;
	if (!pack(e, service))
		return 0;
	if (!e->labels)
		drop(s, e);
	return -ENOMEM;
}

const struct service *services__get(const struct services *s, uint32_t process)
{
	const struct entry *e = find(s, process);

	if (e)
		unpack(e, s->shown);
	return e ? s->shown : NULL;
}

uint32_t services__cnt(const struct services *s)
{
	return HASH_COUNT(s->by_process);
}

const struct service *services__by_pid(const struct services *s, pid_t pid)
{
	struct entry *e, *next, *found = NULL;

	HASH_ITER(hh, s->by_process, e, next)
	if (e->pid == pid)
		found = e; /* later ones come later */
	if (found)
		unpack(found, s->shown);
	return found ? s->shown : NULL;
}

int services__each(const struct services *s,
		   int (*fn)(void *ctx, pid_t pid, const struct service *service), void *ctx)
{
	struct entry *e, *next;
	int got = 0;

	HASH_ITER(hh, s->by_process, e, next)
	{
		if (e->pid <= 0)
			continue;
		unpack(e, s->shown);
		got = fn(ctx, e->pid, s->shown);
		if (got)
			break;
	}
	return got;
}

void services__judge(struct services *s, bool all, const struct services_judge *judge, void *ctx)
{
	struct entry *e, *next;

	HASH_ITER(hh, s->by_process, e, next)
	{
		enum verdict verdict;

		if (e->pid <= 0 || (e->verdict && !all))
			continue;
		unpack(e, s->shown);
		verdict = judge->wants(ctx, s->shown) ? VERDICT_WANTED : VERDICT_UNWANTED;
		if (verdict != e->verdict)
			judge->tell(ctx, e->process, e->pid, verdict == VERDICT_WANTED);
		e->verdict = verdict;
	}
}

void services__forget(struct services *s, uint32_t process)
{
	struct entry *e = find(s, process);

	if (e)
		drop(s, e);
}
