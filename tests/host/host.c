// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX    16
#define REGIONS_MAX 16

struct map {
	const void *key;
	enum host_map_kind kind;
	uint32_t key_size, value_size, entries;
	uint32_t used; /* hash: entries in `content` */
	uint8_t *content; /* array: values; hash: key and value, in turn */
};

struct region {
	uint64_t addr;
	const uint8_t *data;
	size_t len;
};

struct host host = { .fail_read = HOST_NEVER, .fail_reserve = HOST_NEVER };

static struct map maps[MAPS_MAX];
static size_t map_cnt;
static struct region regions[REGIONS_MAX];
static size_t region_cnt;
static size_t record_room;
static void *thread;
static uint64_t clock_ns;

static void broken(const char *what)
{
	fprintf(stderr, "host: %s\n", what);
	abort();
}

void host_forget_records(void)
{
	for (size_t i = 0; i < host.record_cnt; i++)
		free(host.records[i]);
	host.record_cnt = 0;
}

void host_reset(void)
{
	host_forget_records();
	free(host.records);
	record_room = 0;
	region_cnt = 0;
	clock_ns = 0;
	free(thread);
	thread = NULL;
	for (size_t i = 0; i < map_cnt; i++) {
		free(maps[i].content);
		maps[i].content = NULL;
		maps[i].used = 0;
	}
	host = (struct host){ .fail_read = HOST_NEVER,
			      .fail_reserve = HOST_NEVER,
			      .ring_records = UINT64_MAX };
}

void host_memory(uint64_t addr, const void *data, size_t len)
{
	if (region_cnt == REGIONS_MAX)
		broken("too many regions");
	regions[region_cnt++] = (struct region){ addr, data, len };
}

void host_map(void *map, enum host_map_kind kind, uint32_t key_size, uint32_t value_size,
	      uint32_t entries)
{
	if (map_cnt == MAPS_MAX)
		broken("too many maps");
	maps[map_cnt++] = (struct map){ .key = map,
					.kind = kind,
					.key_size = key_size,
					.value_size = value_size,
					.entries = entries };
}

static struct map *find(const void *map)
{
	for (size_t i = 0; i < map_cnt; i++)
		if (maps[i].key == map)
			return &maps[i];
	broken("a map that the test does not know");
	return NULL;
}

static bool is_time(uint64_t number, uint64_t wanted, bool all)
{
	return all ? number >= wanted : number == wanted;
}

long host_read(void *to, uint32_t size, const void *from, bool may_sleep)
{
	uint64_t addr = (uintptr_t)from;

	memset(to, 0, size); /* the kernel clears what it cannot read */
	if (host.before_read)
		host.before_read(host.reads);
	if (is_time(host.reads++, host.fail_read, host.fail_all_reads))
		return -EFAULT;
	if (host.paged_out && !may_sleep)
		return -EFAULT;
	for (size_t i = 0; i < region_cnt; i++) {
		const struct region *r = &regions[i];

		if (addr < r->addr || addr - r->addr > r->len || r->len - (addr - r->addr) < size)
			continue;
		memcpy(to, r->data + (addr - r->addr), size);
		return 0;
	}
	return -EFAULT;
}

/* Small maps only: a search from the front does. */
static uint8_t *slot(struct map *m, const void *key)
{
	uint32_t step = m->key_size + m->value_size, index;

	if (m->kind == HOST_ARRAY) {
		memcpy(&index, key, sizeof(index));
		return index < m->entries ? m->content + (size_t)index * m->value_size : NULL;
	}
	for (uint32_t i = 0; i < m->used; i++)
		if (!memcmp(m->content + (size_t)i * step, key, m->key_size))
			return m->content + (size_t)i * step + m->key_size;
	return NULL;
}

static void allocate(struct map *m)
{
	size_t step = m->value_size + (m->kind == HOST_HASH ? m->key_size : 0);

	if (!m->content)
		m->content = calloc(m->entries, step);
	if (!m->content)
		broken("no memory");
}

void *host_map_lookup(const void *map, const void *key)
{
	struct map *m = find(map);

	if (m->kind == HOST_RINGS)
		return (void *)map; /* one ring behind all its slots */
	if (m->kind == HOST_RING)
		broken("look-up in a ring");
	allocate(m);
	return slot(m, key);
}

long host_map_update(const void *map, const void *key, const void *value)
{
	struct map *m = find(map);
	uint8_t *at;

	allocate(m);
	at = slot(m, key);
	if (!at && m->kind == HOST_HASH && m->used < m->entries) {
		at = m->content + (size_t)m->used++ * (m->key_size + m->value_size);
		memcpy(at, key, m->key_size);
		at += m->key_size;
	}
	if (!at)
		return -E2BIG;
	memcpy(at, value, m->value_size);
	return 0;
}

long host_map_delete(const void *map, const void *key)
{
	struct map *m = find(map);
	size_t step = m->key_size + m->value_size;
	uint8_t *at;

	if (m->kind != HOST_HASH)
		broken("delete in something else than a hash table");
	allocate(m);
	at = slot(m, key);
	if (!at)
		return -ENOENT;
	m->used--;
	memmove(at - m->key_size, m->content + m->used * step, step);
	return 0;
}

long host_map_each(const void *map, long (*round)(void *, void *, void *, void *), void *ctx)
{
	struct map *m = find(map);
	uint32_t i;

	allocate(m);
	for (i = 0; i < m->entries; i++) {
		uint32_t key = i;
		long end = round((void *)map, &key, m->content + (size_t)i * m->value_size, ctx);

		if (end & ~1L)
			broken("a callback may return 0 or 1");
		if (end)
			return i + 1;
	}
	return i;
}

long host_rounds(uint32_t cnt, long (*round)(uint32_t, void *), void *ctx)
{
	uint32_t i;

	for (i = 0; i < cnt; i++) {
		long end = round(i, ctx);

		if (end & ~1L)
			broken("a callback may return 0 or 1");
		if (end)
			return i + 1;
	}
	return i;
}

void *host_ring_reserve(const void *ring, uint64_t size)
{
	struct host_record *r;

	if (size % 8)
		broken("a record that is not a multiple of 8 bytes");
	if (is_time(host.reserves++, host.fail_reserve, host.fail_all_reserves) ||
	    host.record_cnt >= host.ring_records)
		return NULL;
	if (host.record_cnt == record_room) {
		record_room = record_room ? 2 * record_room : 64;
		host.records = realloc(host.records, record_room * sizeof(*host.records));
	}
	r = malloc(sizeof(*r) + size);
	if (!r || !host.records)
		broken("no memory");
	/* the ring gives what an earlier record left there */
	memset(r->data, 0xa5, size);
	r->ring = ring;
	r->size = (uint32_t)size;
	r->submitted = false;
	host.records[host.record_cnt++] = r;
	return r->data;
}

void host_ring_submit(void *record)
{
	struct host_record *r = (void *)((uint8_t *)record - offsetof(struct host_record, data));

	if (r->submitted)
		broken("a record submitted twice");
	r->submitted = true;
}

uint64_t host_ring_query(const void *ring, uint64_t what)
{
	(void)ring;
	return what ? UINT64_MAX : 0;
}

void *host_thread_storage(size_t size)
{
	if (!thread)
		thread = calloc(1, size);
	if (!thread)
		broken("no memory");
	return thread;
}

uint64_t host_now(void)
{
	return ++clock_ns;
}
