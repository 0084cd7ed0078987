// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes line tables. A line of the input is a code object: minor version, first line, table in hex ("-":
 * empty), then pairs of what a frame says of its instruction (a byte offset to 3.9, else code units) and
 * its line (0: none). Prints how many were compared and how many differ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/linetable.h"

#define WRONG UINT32_MAX

/* The same from the place of the one before, from one behind it, and anew. */
static uint32_t line_311(const struct linetable *t, struct linetable_place *place, int64_t at)
{
	uint32_t line = linetable_311(t, at);

	if (linetable_311_from(t, place, at) != line)
		return WRONG;
	linetable_311_from(t, place, at + at % 5);
	return linetable_311_from(t, place, at) == line ? line : WRONG;
}

static uint32_t line_of(const struct linetable *t, struct linetable_place *place,
			unsigned int minor, int64_t at)
{
	if (minor < 10)
		return linetable_lnotab(t, at);
	return minor == 10 ? linetable_310(t, at) : line_311(t, place, at);
}

static int parse_table(struct linetable *t, const char *hex)
{
	size_t len = strcmp(hex, "-") != 0 ? strlen(hex) / 2 : 0;

	t->data = malloc(len + 1);
	t->len = (uint32_t)len;
	for (size_t i = 0; t->data && i < len; i++) {
		char byte[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		t->data[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return t->data ? 0 : -1;
}

int main(void)
{
	unsigned long compared = 0, wrong = 0;
	char *text = NULL;
	size_t size = 0;

	while (getline(&text, &size, stdin) > 0) {
		char *rest = text, *minor = strsep(&rest, " "), *first = strsep(&rest, " "),
		     *hex = strsep(&rest, " "), *at;
		struct linetable_place place = { 0 };
		struct linetable t = { .first = (uint32_t)strtoul(first ? first : "", NULL, 10) };

		if (!hex || parse_table(&t, hex))
			return 1;
		while ((at = strsep(&rest, " ")) && rest) {
			char *line = strsep(&rest, " ");

			compared++;
			wrong += line_of(&t, &place, (unsigned int)atoi(minor), atoll(at)) !=
				 strtoul(line, NULL, 10);
		}
		linetable__done(&t);
	}
	free(text);
	printf("%lu %lu\n", compared, wrong);
	return 0;
}
