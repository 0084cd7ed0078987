// SPDX-License-Identifier: Apache-2.0
#include "agent/services.h"

#include <errno.h>
#include <stdlib.h>

#include <uthash.h>

struct entry {
	uint32_t process;
	pid_t pid;
	struct service service;
	UT_hash_handle hh;
};

struct services {
	struct entry *by_process;
};

int services__new(struct services **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void drop(struct services *s, struct entry *e)
{
	HASH_DEL(s->by_process, e);
	free(e);
}

void services__free(struct services *s)
{
	struct entry *e, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->by_process, e, next)
	drop(s, e);
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
	service_copy(&e->service, service);
	return 0;
}

const struct service *services__get(const struct services *s, uint32_t process)
{
	struct entry *e = find(s, process);

	return e ? &e->service : NULL;
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
	return found ? &found->service : NULL;
}

int services__each(const struct services *s,
		   int (*fn)(void *ctx, pid_t pid, const struct service *service), void *ctx)
{
	struct entry *e, *next;
	int got = 0;

	HASH_ITER(hh, s->by_process, e, next)
	{
		got = e->pid > 0 ? fn(ctx, e->pid, &e->service) : 0;
		if (got)
			break;
	}
	return got;
}

void services__forget(struct services *s, uint32_t process)
{
	struct entry *e = find(s, process);

	if (e)
		drop(s, e);
}
