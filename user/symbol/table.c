// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "symbol"
#include "symbol/table.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/sandbox.h"
#include "elf/elf_file.h"

#define SEGMENTS_MAX  16
#define FUNCTIONS_MAX (1u << 20)
#define STRINGS_MAX   (32u << 20)
#define LOOK_BACK     8

struct segment {
	uint64_t offset, vaddr, size;
};

/* One that has a name, or a piece of code that the unwinding tables tell from its neighbours. */
struct function {
	uint64_t vaddr;
	uint32_t size; /* 0: up to the next one */
	uint32_t name; /* offset in the strings; 0: none */
};

/* The answer of the sandboxed reader. First it is asked for the sizes only, with both 0. */
struct symbol_table {
	int err;
	uint32_t segment_cnt;
	struct segment segments[SEGMENTS_MAX];
	uint32_t function_cnt, string_bytes;
	struct function functions[]; /* rising, then the strings */
};

static size_t size_of(uint32_t functions, uint32_t strings)
{
	return sizeof(struct symbol_table) + functions * sizeof(struct function) + strings;
}

static char *strings_of(struct symbol_table *t)
{
	return (char *)&t->functions[t->function_cnt];
}

/* --- in the sandbox --- */

static bool is_function(const struct elf_file *elf, const struct elf_symbol *s)
{
	if (!s->name[0] || !elf_file__is_code(elf, s->vaddr))
		return false;
	return s->type == STT_FUNC || s->type == STT_GNU_IFUNC ||
	       (s->type == STT_NOTYPE && s->size);
}

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	/* those without a name come last: 0 becomes the largest */
	return x->name - 1 < y->name - 1 ? -1 : x->name - 1 > y->name - 1;
}

static void put_segments(const struct elf_file *elf, struct symbol_table *t)
{
	while (t->segment_cnt < SEGMENTS_MAX) {
		struct segment *s = &t->segments[t->segment_cnt];

		if (!elf_file__code_segment(elf, t->segment_cnt, &s->offset, &s->vaddr, &s->size))
			return;
		t->segment_cnt++;
	}
}

struct filling {
	const struct symbol_table *room;
	struct symbol_table *t;
	uint32_t cnt, bytes;
};

/* @name: NULL: none. false: there is no room for more. */
static bool put(struct filling *f, uint64_t vaddr, uint64_t size, const char *name)
{
	char *strings = (char *)&f->t->functions[f->room->function_cnt];
	size_t len = name ? strlen(name) + 1 : 0;

	if (f->cnt == FUNCTIONS_MAX || len > STRINGS_MAX - f->bytes)
		return false;
	if (f->cnt < f->room->function_cnt && f->bytes + len <= f->room->string_bytes) {
		f->t->functions[f->cnt] =
			(struct function){ vaddr, size > UINT32_MAX ? UINT32_MAX : (uint32_t)size,
					   name ? f->bytes : 0 };
		if (name)
			memcpy(strings + f->bytes, name, len);
	}
	f->cnt++;
	f->bytes += (uint32_t)len;
	return true;
}

static void put_functions(const struct elf_file *elf, struct symbol_table *t,
			  const struct symbol_table *room)
{
	struct filling f = { .room = room, .t = t, .bytes = 1 };
	auto_free uint64_t *starts = NULL;
	struct elf_symbol s;
	size_t cnt = 0;

	for (size_t i = 0; elf_file__symbol_at(elf, i, &s); i++)
		if (is_function(elf, &s) && !put(&f, s.vaddr, s.size, s.name))
			break;
	if (elf_file__functions(elf, &starts, &cnt))
		cnt = 0;
	for (size_t i = 0; i < cnt && put(&f, starts[i], 0, NULL); i++)
		;
	t->function_cnt = f.cnt;
	t->string_bytes = f.bytes;
	if (room->function_cnt)
		qsort(t->functions, room->function_cnt, sizeof(t->functions[0]), by_address);
}

static void look(int fd, const void *arg, void *answer)
{
	const struct symbol_table *room = arg;
	struct symbol_table *t = answer;
	struct elf_file *elf = NULL;
	struct err e = { 0 };

	t->err = elf_file__from_fd(fd, "", &elf, &e);
	if (t->err)
		return;
	put_segments(elf, t);
	put_functions(elf, t, room);
}

/* --- here --- */

static bool is_sound(struct symbol_table *t, const struct symbol_table *room)
{
	if (t->err > 0 || t->segment_cnt > SEGMENTS_MAX || t->function_cnt > FUNCTIONS_MAX ||
	    t->string_bytes > STRINGS_MAX)
		return false;
	if (!room->function_cnt)
		return true;
	if (t->function_cnt != room->function_cnt || t->string_bytes != room->string_bytes ||
	    strings_of(t)[t->string_bytes - 1])
		return false;
	for (uint32_t i = 0; i < t->function_cnt; i++)
		if (t->functions[i].name >= t->string_bytes ||
		    (i && t->functions[i].vaddr < t->functions[i - 1].vaddr))
			return false;
	return true;
}

static int ask(struct symbol_table **out, int fd, const struct symbol_table *room, struct err *e)
{
	size_t size = size_of(room->function_cnt, room->string_bytes);
	auto_free struct symbol_table *t = calloc(1, size);
	int err;

	if (!t)
		return -ENOMEM;
	err = sandbox_run(look, fd, room, t, size, &sandbox_usual, e);
	if (!err && !is_sound(t, room))
		err = err_set(e, -PYE_EPLAN, "the sandboxed reader's answer makes no sense");
	err = err ? err : t->err;
	if (!err)
		*out = take_ptr(t);
	return err;
}

int symbol_table__read(struct symbol_table **out, int fd, const char *name)
{
	static const struct symbol_table nothing;
	auto_free struct symbol_table *sizes = NULL;
	struct err e = { 0 };
	int err = ask(&sizes, fd, &nothing, &e);

	if (!err && !sizes->function_cnt)
		*out = take_ptr(sizes);
	else if (!err)
		err = ask(out, fd, sizes, &e);
	if (err)
		log_debug("no symbols of %s: %s", name, e.what[0] ? e.what : err_str(err));
	return err;
}

void symbol_table__free(struct symbol_table *t)
{
	free(t);
}

static bool holds(const struct symbol_table *t, uint32_t at, uint64_t vaddr)
{
	return !t->functions[at].size || vaddr - t->functions[at].vaddr < t->functions[at].size;
}

uint32_t symbol_table__find(const struct symbol_table *t, uint64_t offset)
{
	uint32_t low = 0, high = t->function_cnt, found = SYMBOL_NONE;
	uint64_t vaddr = 0;

	for (uint32_t i = 0; i < t->segment_cnt; i++)
		if (offset - t->segments[i].offset < t->segments[i].size)
			vaddr = t->segments[i].vaddr + (offset - t->segments[i].offset);
	while (vaddr && low < high) { /* the first one that begins behind it */
		uint32_t mid = low + (high - low) / 2;

		if (t->functions[mid].vaddr <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	/* names go before pieces, even if the piece begins later; .dynsym's go before others */
	for (uint32_t n = 0; n < LOOK_BACK && low; n++) {
		low--;
		if (!holds(t, low, vaddr))
			continue;
		if (found == SYMBOL_NONE ||
		    (t->functions[low].name &&
		     (!t->functions[found].name ||
		      t->functions[low].vaddr == t->functions[found].vaddr)))
			found = low;
	}
	return found;
}

const char *symbol_table__name(const struct symbol_table *t, uint32_t symbol)
{
	const char *strings = (const char *)&t->functions[t->function_cnt];

	return symbol < t->function_cnt ? strings + t->functions[symbol].name : "";
}
