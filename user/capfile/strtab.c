// SPDX-License-Identifier: Apache-2.0
/* Strings with a count of users, in a hash table with chains. */
#include <stdlib.h>
#include <string.h>

#include "capfile/sum.h"
#include "capfile/writer_priv.h"

static bool rehash(struct strtab *t)
{
	uint32_t cnt = t->bucket_cnt ? t->bucket_cnt * 2 : 64;
	struct wstring **buckets = calloc(cnt, sizeof(buckets[0]));

	if (!buckets)
		return false;
	for (uint32_t i = 0; i < t->bucket_cnt; i++) {
		for (struct wstring *s = t->buckets[i], *next; s; s = next) {
			next = s->next;
			s->next = buckets[s->hash & (cnt - 1)];
			buckets[s->hash & (cnt - 1)] = s;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->bucket_cnt = cnt;
	return true;
}

static size_t size_of(const struct wstring *s)
{
	return sizeof(*s) + s->len + 1;
}

struct wstring *strtab__get(struct strtab *t, const char *text, size_t *memory)
{
	size_t len = bytes_string_length(text);
	uint32_t hash = (uint32_t)cap_sum(text, len, 0);
	struct wstring *s;

	if (t->cnt >= t->bucket_cnt && !rehash(t) && !t->bucket_cnt)
		return NULL;
	for (s = t->buckets[hash & (t->bucket_cnt - 1)]; s; s = s->next) {
		if (s->hash == hash && s->len == len && !memcmp(s->text, text, len)) {
			s->ref_cnt++;
			return s;
		}
	}
	s = calloc(1, sizeof(*s) + len + 1);
	if (!s)
		return NULL;
	memcpy(s->text, text, len);
	s->len = (uint32_t)len;
	s->hash = hash;
	s->ref_cnt = 1;
	s->next = t->buckets[hash & (t->bucket_cnt - 1)];
	t->buckets[hash & (t->bucket_cnt - 1)] = s;
	t->cnt++;
	*memory += size_of(s);
	return s;
}

void strtab__put(struct strtab *t, struct wstring *s, size_t *memory)
{
	struct wstring **at;

	if (!s || --s->ref_cnt)
		return;
	for (at = &t->buckets[s->hash & (t->bucket_cnt - 1)]; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	t->cnt--;
	*memory -= size_of(s);
	free(s);
}

void strtab__done(struct strtab *t)
{
	for (uint32_t i = 0; i < t->bucket_cnt; i++) {
		for (struct wstring *s = t->buckets[i], *next; s; s = next) {
			next = s->next;
			free(s);
		}
	}
	free(t->buckets);
	*t = (struct strtab){ 0 };
}
