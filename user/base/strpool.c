// SPDX-License-Identifier: Apache-2.0
#include "base/strpool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_BYTES =
		1 << 10, /* of the first block: there are pools of few strings, and many of them */
	BLOCK_BYTES = 64 << 10,
	FIRST_CAP = 64
};

struct strpool_block {
	struct strpool_block *next;
	size_t used, size;
	char data[];
};

int strpool__init(struct strpool *t)
{
	uint32_t id;

	*t = (struct strpool){ 0 };
	return strpool__add(t, "", 0, &id);
}

void strpool__done(struct strpool *t)
{
	while (t->blocks) {
		struct strpool_block *next = t->blocks->next;

		free(t->blocks);
		t->blocks = next;
	}
	free(t->strs);
	free(t->hashes);
	free(t->slots);
	*t = (struct strpool){ 0 };
}

/* FNV-1a over eight bytes at a time, with a final mix. */
static uint64_t hash_of(const char *s, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull ^ len, piece;

	for (; len >= 8; s += 8, len -= 8) {
		memcpy(&piece, s, 8);
		h = (h ^ piece) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	piece = 0;
	if (len)
		memcpy(&piece, s, len);
	h = (h ^ piece) * 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}

/* Where the string is or belongs. */
static uint32_t slot_of(const struct strpool *t, const char *s, size_t len, uint64_t hash)
{
	uint32_t mask = t->slot_cnt - 1, i;

	for (i = (uint32_t)hash & mask; t->slots[i]; i = (i + 1) & mask) {
		uint32_t id = t->slots[i] - 1;

		if (t->hashes[id] == hash && t->strs[id].len == len &&
		    !memcmp(t->strs[id].s, s, len))
			break;
	}
	return i;
}

static int grow(struct strpool *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : FIRST_CAP;
	struct strpool_str *strs;
	uint64_t *hashes;
	uint32_t *slots;

	if (cap > 1u << 30)
		return -EOVERFLOW;
	strs = realloc(t->strs, cap * sizeof(*strs));
	if (!strs)
		return -ENOMEM;
	t->strs = strs;
	hashes = realloc(t->hashes, cap * sizeof(*hashes));
	if (!hashes)
		return -ENOMEM;
	t->hashes = hashes;
	slots = calloc((size_t)cap * 2, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(t->slots);
	t->slots = slots;
	t->slot_cnt = cap * 2;
	t->cap = cap;
	for (uint32_t id = 0; id < t->cnt; id++) {
		uint32_t i = (uint32_t)hashes[id] & (t->slot_cnt - 1);

		while (slots[i])
			i = (i + 1) & (t->slot_cnt - 1);
		slots[i] = id + 1;
	}
	return 0;
}

/* Of the block after @b: each is four times the one before. */
static size_t block_size(const struct strpool_block *b, size_t len)
{
	size_t size = b ? (b->size + sizeof(*b)) * 4 : FIRST_BYTES;

	size = (size < BLOCK_BYTES ? size : BLOCK_BYTES) - sizeof(*b);
	return len < size / 4 ? size : len + 1;
}

static char *keep(struct strpool *t, const char *s, size_t len)
{
	struct strpool_block *b = t->blocks;
	char *at;

	if (!b || b->size - b->used <= len) {
		size_t size = block_size(b, len);

		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		*b = (struct strpool_block){ .next = t->blocks, .size = size };
		t->blocks = b;
	}
	at = b->data + b->used;
	memcpy(at, s, len);
	at[len] = '\0';
	b->used += len + 1;
	return at;
}

bool strpool__find(const struct strpool *t, const char *s, size_t len, uint32_t *id)
{
	uint32_t at = t->slots[slot_of(t, s, len, hash_of(s, len))];

	*id = at - 1;
	return at != 0;
}

int strpool__add(struct strpool *t, const char *s, size_t len, uint32_t *id)
{
	uint64_t hash = hash_of(s, len);
	uint32_t slot;
	char *kept;
	int err;

	if (t->cnt == t->cap) {
		err = grow(t);
		if (err)
			return err;
	}
	slot = slot_of(t, s, len, hash);
	if (t->slots[slot]) {
		*id = t->slots[slot] - 1;
		return 0;
	}
	kept = keep(t, s, len);
	if (!kept)
		return -ENOMEM;
	t->strs[t->cnt] = (struct strpool_str){ .s = kept, .len = len };
	t->hashes[t->cnt] = hash;
	t->slots[slot] = t->cnt + 1;
	*id = t->cnt++;
	return 0;
}
