// SPDX-License-Identifier: Apache-2.0
#include "tui/fit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/text.h"

#define CUT	  ".."
#define CUT_WIDTH 2
#define PLACE_MIN 10 /* columns of a place that are worth showing */

/* One character: its columns, and its bytes in the terminal's encoding. */
struct shown {
	char bytes[4];
	size_t len;
	int width;
};

static size_t next(const char *text, struct shown *c)
{
	uint32_t cp;
	size_t len = text_next(text, strlen(text), &cp);
	int width = cp < 0x80 ? 1 : MB_CUR_MAX > 1 ? wcwidth((wchar_t)cp) : -1;

	if (width < 0) {
		*c = (struct shown){ .bytes = "?", .len = 1, .width = 1 };
	} else {
		c->len = text_put_code_point(c->bytes, cp);
		c->width = width;
	}
	return len;
}

int fit_width(const char *text)
{
	struct shown c;
	int width = 0;

	while (*text) {
		text += next(text, &c);
		width += c.width;
	}
	return width;
}

/* As much of the text as there is room for. Its columns. */
static int put(char *out, size_t size, size_t *at, const char *text, int width)
{
	struct shown c;
	int used = 0;

	while (*text) {
		text += next(text, &c);
		if (used + c.width > width || *at + c.len >= size)
			break;
		memcpy(out + *at, c.bytes, c.len);
		*at += c.len;
		used += c.width;
	}
	return used;
}

static size_t fill(char *out, size_t size, size_t at, int columns)
{
	for (; columns > 0 && at + 1 < size; columns--)
		out[at++] = ' ';
	out[at] = '\0';
	return at;
}

size_t fit_text(char *out, size_t size, const char *text, int width)
{
	bool cut = fit_width(text) > width && width > CUT_WIDTH;
	size_t at = 0;
	int used = put(out, size, &at, text, cut ? width - CUT_WIDTH : width);

	if (cut)
		used += put(out, size, &at, CUT, CUT_WIDTH);
	return fill(out, size, at, width - used);
}

size_t fit_end(char *out, size_t size, const char *text, int width)
{
	int over = fit_width(text) - width;
	size_t at = 0;
	int used = 0;
	struct shown c;

	if (over > 0 && width > CUT_WIDTH) {
		used = put(out, size, &at, CUT, CUT_WIDTH);
		over += CUT_WIDTH;
	}
	while (over > 0 && *text) {
		text += next(text, &c);
		over -= c.width;
	}
	used += put(out, size, &at, text, width - used);
	return fill(out, size, at, width - used);
}

size_t fit_name(char *out, size_t size, const char *name, const char *place, int width)
{
	int name_width = fit_width(name), place_width = fit_width(place);
	int left = width - name_width - 3;
	char cut[512], whole[1100];

	if (!*place || left < (place_width < PLACE_MIN ? place_width : PLACE_MIN))
		return fit_text(out, size, name, width);
	fit_end(cut, sizeof(cut), place, place_width < left ? place_width : left);
	snprintf(whole, sizeof(whole), "%s (%s)", name, cut);
	return fit_text(out, size, whole, width);
}
