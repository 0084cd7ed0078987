// SPDX-License-Identifier: Apache-2.0
#include "cmd/columns.h"

#include <stdbool.h>
#include <string.h>

/* Characters, not bytes, of UTF-8. */
static int width_of(const char *text, size_t len)
{
	int width = 0;

	for (size_t i = 0; i < len; i++)
		width += ((unsigned char)text[i] & 0xc0) != 0x80;
	return width;
}

/* The end of a cell: a tab, or the end of the line, where the last cell ends, too. */
static size_t cell_len(const char *at, size_t column)
{
	return strcspn(at, column + 1 < COLUMNS_MAX ? "\t\n" : "\n");
}

static bool is_row(const char *line)
{
	return line[strcspn(line, "\t\n")] == '\t';
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

static void measure(const char *line, int widths[COLUMNS_MAX])
{
	for (size_t i = 0; i < COLUMNS_MAX; i++) {
		size_t len = cell_len(line, i);
		int width = width_of(line, len);

		if (width > widths[i])
			widths[i] = width;
		if (line[len] != '\t')
			return;
		line += len + 1;
	}
}

static void print_row(const char *line, const int widths[COLUMNS_MAX], FILE *out)
{
	for (size_t i = 0; i < COLUMNS_MAX; i++) {
		size_t len = cell_len(line, i);
		int pad = widths[i] - width_of(line, len);
		bool last = line[len] != '\t';

		fprintf(out, "%*s%.*s", i ? 0 : pad, "", (int)len, line);
		if (last)
			break;
		fprintf(out, "%*s", (i ? pad : 0) + 2, "");
		line += len + 1;
	}
	fputc('\n', out);
}

void columns_print(const char *text, FILE *out)
{
	int widths[COLUMNS_MAX] = { 0 };

	for (const char *line = text; *line; line = next_line(line))
		if (is_row(line))
			measure(line, widths);
	for (const char *line = text; *line; line = next_line(line)) {
		if (is_row(line))
			print_row(line, widths, out);
		else
			fprintf(out, "%.*s\n", (int)strcspn(line, "\n"), line);
	}
}
