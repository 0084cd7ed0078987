// SPDX-License-Identifier: Apache-2.0
#include "base/color.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum color_when asked = COLOR_AUTO;

void color_choose(enum color_when when)
{
	asked = when;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

static bool is_zero(const char *name)
{
	const char *value = getenv(name);

	return value && !strcmp(value, "0");
}

static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

static bool is_on(FILE *f)
{
	if (asked != COLOR_AUTO)
		return asked == COLOR_ALWAYS;
	if (is_set("NO_COLOR"))
		return false;
	if (is_set("CLICOLOR_FORCE") && !is_zero("CLICOLOR_FORCE"))
		return true;
	return isatty(fileno(f)) && !is_dumb() && !is_zero("CLICOLOR");
}

const char *color_begin(FILE *f, enum color color)
{
	static const char *const codes[] = {
		[COLOR_NONE] = "",	    [COLOR_HEAD] = "\033[1m",  [COLOR_FAINT] = "\033[2m",
		[COLOR_BAD] = "\033[1;31m", [COLOR_WARN] = "\033[33m", [COLOR_GOOD] = "\033[32m"
	};

	return color != COLOR_NONE && is_on(f) ? codes[color] : "";
}

const char *color_end(FILE *f, enum color color)
{
	return color != COLOR_NONE && is_on(f) ? "\033[0m" : "";
}
