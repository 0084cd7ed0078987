// SPDX-License-Identifier: Apache-2.0
#include "kube/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/err.h"

#define IDS_MAX (KUBE_PODS_MAX * KUBE_CONTAINERS_MAX)

/* What kubelet calls a pod of the node's own files, in the names of its cgroups. */
static const char static_uid[] = "kubernetes.io/config.hash";

struct entry {
	char uid[KUBE_TEXT_MAX + 1], static_uid[KUBE_TEXT_MAX + 1];
	char *bytes;
	size_t len;
	bool listed;
	uint64_t gone_ns; /* 0: it is there */
	UT_hash_handle hh;
};

/* A container that has ended keeps its name, too: it may have run in the window at hand. */
struct id {
	char id[KUBE_ID_MAX + 1], name[KUBE_TEXT_MAX + 1];
	struct entry *pod;
	UT_hash_handle hh;
};

struct kube_table {
	struct entry *by_uid;
	struct id *by_id;
};

int kube_table__new(struct kube_table **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void drop(struct kube_table *t, struct entry *e)
{
	struct id *id, *next;

	HASH_ITER(hh, t->by_id, id, next)
	{
		if (id->pod != e)
			continue;
		HASH_DEL(t->by_id, id);
		free(id);
	}
	HASH_DEL(t->by_uid, e);
	free(e->bytes);
	free(e);
}

void kube_table__free(struct kube_table *t)
{
	struct entry *e, *next;

	if (!t)
		return;
	HASH_ITER(hh, t->by_uid, e, next)
	drop(t, e);
	free(t);
}

static int put_id(struct kube_table *t, struct entry *pod, const struct kube_pair *container)
{
	struct id *id;

	HASH_FIND_STR(t->by_id, container->value, id);
	if (!id) {
		if (HASH_COUNT(t->by_id) >= IDS_MAX)
			return 0;
		id = calloc(1, sizeof(*id));
		if (!id)
			return -ENOMEM;
		snprintf(id->id, sizeof(id->id), "%s", container->value);
		HASH_ADD_STR(t->by_id, id, id);
	}
	snprintf(id->name, sizeof(id->name), "%s", container->name);
	id->pod = pod;
	return 0;
}

static struct entry *new_entry(struct kube_table *t, const char *uid)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	snprintf(e->uid, sizeof(e->uid), "%s", uid);
	HASH_ADD_STR(t->by_uid, uid, e);
	return e;
}

/* Of one that has gone, or that a list has not named so far. */
static bool make_room(struct kube_table *t)
{
	struct entry *e, *next;

	HASH_ITER(hh, t->by_uid, e, next)
	{
		if (!e->gone_ns && e->listed)
			continue;
		drop(t, e);
		return true;
	}
	return false;
}

int kube_table__put(struct kube_table *t, const char *bytes, size_t len, bool gone, uint64_t now_ns)
{
	struct kube_pod pod;
	struct entry *e;
	char *copy;
	int err = kube_pod_read(bytes, len, &pod);

	if (err)
		return err;
	HASH_FIND_STR(t->by_uid, pod.uid, e);
	if (!e && HASH_COUNT(t->by_uid) >= KUBE_PODS_MAX && !make_room(t))
		return -ENOSPC;
	copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, len);
	e = e ? e : new_entry(t, pod.uid);
	if (!e) {
		free(copy);
		return -ENOMEM;
	}
	free(e->bytes);
	e->bytes = copy;
	e->len = len;
	e->listed = true;
	e->gone_ns = gone ? now_ns : 0;
	snprintf(e->static_uid, sizeof(e->static_uid), "%s",
		 kube_pair_value(pod.annotations, pod.annotation_cnt, static_uid));
	for (uint32_t i = 0; i < pod.container_cnt && !err; i++)
		err = put_id(t, e, &pod.containers[i]);
	return err;
}

void kube_table__begin(struct kube_table *t)
{
	struct entry *e, *next;

	HASH_ITER(hh, t->by_uid, e, next)
	e->listed = false;
}

void kube_table__end(struct kube_table *t, uint64_t now_ns)
{
	struct entry *e, *next;

	HASH_ITER(hh, t->by_uid, e, next)
	{
		if (!e->listed && !e->gone_ns)
			e->gone_ns = now_ns;
	}
}

void kube_table__forget(struct kube_table *t, uint64_t before_ns)
{
	struct entry *e, *next;

	HASH_ITER(hh, t->by_uid, e, next)
	{
		if (e->gone_ns && e->gone_ns < before_ns)
			drop(t, e);
	}
}

static struct entry *find_uid(const struct kube_table *t, const char *uid)
{
	struct entry *e, *next;

	HASH_FIND_STR(t->by_uid, uid, e);
	if (e)
		return e;
	HASH_ITER(hh, t->by_uid, e, next)
	{
		if (!strcmp(e->static_uid, uid))
			return e;
	}
	return NULL;
}

bool kube_table__find(const struct kube_table *t, const char *id, const char *uid,
		      struct kube_pod *out, const char **container)
{
	const struct entry *e = NULL;
	struct id *found = NULL;

	if (*id)
		HASH_FIND_STR(t->by_id, id, found);
	e = found ? found->pod : *uid ? find_uid(t, uid) : NULL;
	/* it was read before; the table holds nothing that could not be */
	if (!e || kube_pod_read(e->bytes, e->len, out))
		return false;
	*container = found ? found->name : out->image_cnt == 1 ? out->images[0].name : "";
	return true;
}

uint32_t kube_table__cnt(const struct kube_table *t)
{
	struct entry *e, *next;
	uint32_t cnt = 0;

	HASH_ITER(hh, t->by_uid, e, next)
	cnt += !e->gone_ns;
	return cnt;
}
