// SPDX-License-Identifier: Apache-2.0
#include "proc/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "proc/file.h"

struct cursor {
	char *at, *end; /* @end: the newline or NUL, which stops every number */
};

static bool number(struct cursor *c, unsigned int base, uint64_t *out)
{
	char *start = c->at;
	uint64_t value = 0;

	for (; c->at < c->end; c->at++) {
		unsigned char ch = (unsigned char)*c->at;
		unsigned int digit = ch >= '0' && ch <= '9'   ? ch - (unsigned int)'0'
				     : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10u
							      : base;

		if (digit >= base)
			break;
		if (value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	*out = value;
	return c->at > start;
}

static bool expect(struct cursor *c, char ch)
{
	if (c->at >= c->end || *c->at != ch)
		return false;
	c->at++;
	return true;
}

static bool flags(struct cursor *c, uint32_t *out)
{
	static const char letters[] = "rwx";

	if (c->end - c->at < 4)
		return false;
	*out = 0;
	for (int i = 0; i < 3; i++) {
		if (c->at[i] == letters[i])
			*out |= 1u << i;
		else if (c->at[i] != '-')
			return false;
	}
	if (c->at[3] == 's')
		*out |= MAPPING_SHARED;
	else if (c->at[3] != 'p')
		return false;
	c->at += 4;
	return true;
}

static bool parse_line(struct cursor *c, struct mapping *m)
{
	uint64_t major, minor, ino;

	if (!number(c, 16, &m->start) || !expect(c, '-') || !number(c, 16, &m->end) ||
	    !expect(c, ' ') || !flags(c, &m->flags) || !expect(c, ' ') ||
	    !number(c, 16, &m->offset) || !expect(c, ' ') || !number(c, 16, &major) ||
	    !expect(c, ':') || !number(c, 16, &minor) || !expect(c, ' ') || !number(c, 10, &ino))
		return false;
	if (m->start >= m->end || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	while (expect(c, ' '))
		;
	m->dev = makedev((unsigned int)major, (unsigned int)minor);
	m->ino = (ino_t)ino;
	m->path = c->at; /* ends where the caller writes a NUL */
	return true;
}

static size_t count_lines(const char *text, size_t len)
{
	size_t cnt = 1;

	for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + len - at))); at++)
		cnt++;
	return cnt;
}

int maps__parse(char *text, size_t len, struct maps *out)
{
	struct maps m = { .text = text };
	size_t room = count_lines(text, len);

	m.items = calloc(room, sizeof(*m.items));
	if (!m.items) {
		free(text);
		return -ENOMEM;
	}
	for (char *line = text, *next; line < text + len && m.cnt < room; line = next) {
		char *end = memchr(line, '\n', (size_t)(text + len - line));
		struct cursor c = { .at = line };
		struct mapping *item = &m.items[m.cnt];

		c.end = end ? end : text + len;
		next = c.end + 1;
		if (!parse_line(&c, item))
			continue;
		*c.end = '\0';
		if (!m.cnt || item->start >= item[-1].end)
			m.cnt++;
	}
	*out = m;
	return 0;
}

int maps__read(pid_t pid, struct maps *out)
{
	struct maps m;
	char *text;
	size_t len;
	int more, err;

	more = proc_file__read(pid, "maps", MAPS_CAP, &text, &len);
	if (more < 0)
		return more;
	while (more && len && text[len - 1] != '\n')
		text[--len] = '\0';
	err = maps__parse(text, len, &m);
	if (err)
		return err;
	m.truncated = more > 0;
	*out = m;
	return 0;
}

void maps__done(struct maps *m)
{
	free(m->items);
	free(m->text);
	*m = (struct maps){ 0 };
}

const struct mapping *maps__find(const struct maps *m, uint64_t addr)
{
	size_t low = 0, high = m->cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (addr < m->items[mid].start)
			high = mid;
		else if (addr >= m->items[mid].end)
			low = mid + 1;
		else
			return &m->items[mid];
	}
	return NULL;
}

const struct mapping *maps__vdso(const struct maps *m)
{
	for (size_t i = 0; i < m->cnt; i++)
		if (!strcmp(m->items[i].path, "[vdso]"))
			return &m->items[i];
	return NULL;
}

bool mapping_same_file(const struct mapping *a, const struct mapping *b)
{
	return a->ino && a->ino == b->ino && a->dev == b->dev;
}
