// SPDX-License-Identifier: Apache-2.0
/*
 * A dispatch table is 256 code pointers in a row, in which every opcode number that the version does
 * not use points to one place, the "unknown opcode" label, and no used number does. Which numbers those
 * are differs per version: a window of 256 words that slides over all data tells table and version at
 * once, in stripped files too. From 3.15 on a second table for JIT tracing lies beside it, in which all
 * used numbers share one target; the real one has well over a hundred different ones.
 */
#include "cpython/optable.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "elf/elf_file.h"

#define CHUNK	     ((size_t)32 << 10) /* words read at once */
#define VERSION_MAX  32
#define DISTINCT_MIN 100

struct pattern {
	bool unused[OPTABLE_CNT];
	uint8_t first, last; /* unused numbers, looked at first */
	uint8_t from; /* the first number that is looked at */
};

struct search {
	const struct elf_file *elf;
	struct pattern patterns[VERSION_MAX];
	uint64_t low, high; /* all code lies in there */
	uint64_t run[2 * OPTABLE_CNT]; /* the last code pointers of the run at hand */
	size_t run_cnt;
	struct optable found;
	size_t found_cnt;
	uint64_t other; /* vaddr of a second one */
};

/* "0,6-8,159-255" */
static void parse_pattern(const char *text, struct pattern *out)
{
	char *end;

	memset(out, 0, sizeof(*out));
	for (const char *at = text; *at; at = *end == ',' ? end + 1 : end) {
		unsigned long lo = strtoul(at, &end, 10), hi = lo;

		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		if (at == text)
			out->first = (uint8_t)lo;
		out->last = (uint8_t)hi;
		for (unsigned long k = lo; k <= hi && k < OPTABLE_CNT; k++)
			out->unused[k] = true;
	}
}

static bool matches(const struct pattern *p, const uint64_t *window)
{
	uint64_t unknown = window[p->first];

	if (window[p->last] != unknown)
		return false;
	for (size_t k = p->from; k < OPTABLE_CNT; k++)
		if ((window[k] == unknown) != p->unused[k])
			return false;
	return true;
}

static size_t distinct(const uint64_t *window)
{
	uint64_t sorted[OPTABLE_CNT];
	size_t cnt = 1;

	memcpy(sorted, window, sizeof(sorted));
	qsort(sorted, OPTABLE_CNT, sizeof(sorted[0]), order_u64);
	for (size_t i = 1; i < OPTABLE_CNT; i++)
		cnt += sorted[i] != sorted[i - 1];
	return cnt;
}

static void check_window(struct search *s, const uint64_t *window, uint64_t vaddr)
{
	for (size_t v = 0; v < python_version_cnt; v++) {
		if (!matches(&s->patterns[v], window) || distinct(window) < DISTINCT_MIN)
			continue;
		if (s->found_cnt++) {
			s->other = vaddr;
			continue;
		}
		s->found.version = &python_versions[v];
		s->found.vaddr = vaddr;
		s->found.unknown = window[s->patterns[v].first];
		memcpy(s->found.targets, window, sizeof(s->found.targets));
	}
}

static void add_word(struct search *s, uint64_t word, uint64_t vaddr)
{
	if (word < s->low || word >= s->high || !elf_file__is_code(s->elf, word)) {
		s->run_cnt = 0;
		return;
	}
	if (s->run_cnt == 2 * (size_t)OPTABLE_CNT) {
		s->run_cnt = OPTABLE_CNT - 1;
		memmove(s->run, s->run + OPTABLE_CNT + 1, s->run_cnt * sizeof(s->run[0]));
	}
	s->run[s->run_cnt++] = word;
	if (s->run_cnt >= OPTABLE_CNT)
		check_window(s, s->run + s->run_cnt - OPTABLE_CNT,
			     vaddr - 8 * (uint64_t)(OPTABLE_CNT - 1));
}

static void search_words(struct search *s, uint64_t *words, uint64_t start, uint64_t end)
{
	start = (start + 7) & ~(uint64_t)7;
	s->run_cnt = 0;
	while (start < end && end - start >= 8) {
		size_t cnt = (end - start) / 8 < CHUNK ? (end - start) / 8 : CHUNK;

		if (elf_file__pointers(s->elf, start, words, cnt))
			return;
		for (size_t i = 0; i < cnt; i++)
			add_word(s, words[i], start + 8 * i);
		start += 8 * cnt;
	}
}

static void init_search(struct search *s, const struct elf_file *elf)
{
	uint64_t start, end;

	s->elf = elf;
	s->low = UINT64_MAX;
	for (size_t v = 0; v < python_version_cnt && v < VERSION_MAX; v++) {
		parse_pattern(python_versions[v].unused, &s->patterns[v]);
		s->patterns[v].from = python_versions[v].cache_unreachable;
	}
	for (size_t i = 0; elf_file__code(elf, i, &start, &end); i++) {
		s->low = start < s->low ? start : s->low;
		s->high = end > s->high ? end : s->high;
	}
}

int optable__find(const struct elf_file *elf, struct optable *out, struct err *e)
{
	auto_free struct search *s = calloc(1, sizeof(*s));
	auto_free uint64_t *words = calloc(CHUNK, sizeof(*words));
	const struct elf_section *section;

	if (!s || !words)
		return -ENOMEM;
	init_search(s, elf);
	for (size_t i = 0; (section = elf_file__section(elf, i)); i++) {
		if (section->type != SHT_PROGBITS || !(section->flags & SHF_ALLOC) ||
		    section->flags & SHF_EXECINSTR ||
		    section->vaddr + section->size < section->vaddr)
			continue;
		search_words(s, words, section->vaddr, section->vaddr + section->size);
	}
	if (!s->found_cnt)
		return -ENOENT;
	if (s->found_cnt > 1)
		return err_set(
			e, -PYE_EPLAN,
			"%zu dispatch tables look like a Python's, at 0x%lx (3.%u) and 0x%lx: "
			"which one is used cannot be told",
			s->found_cnt, s->found.vaddr, s->found.version->minor, s->other);
	*out = s->found;
	return 0;
}
