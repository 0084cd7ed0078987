// SPDX-License-Identifier: Apache-2.0
#include "profile/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(s + len - n, end, n);
}

/* "<frozen a.b>": a.b, else all of it. */
static char *frozen_name(char *out, size_t size, const char *file)
{
	static const char before[] = "<frozen ";
	size_t len = strlen(file), skip = sizeof(before) - 1;

	if (!strncmp(file, before, skip) && len > skip + 1 && file[len - 1] == '>')
		snprintf(out, size, "%.*s", (int)(len - skip - 1), file + skip);
	else
		snprintf(out, size, "%s", file);
	return out;
}

char *module_name(char *out, size_t size, const char *short_file)
{
	const char *from = short_file, *slash = strrchr(short_file, '/');
	size_t len;

	if (*from == '<' || !*from)
		return frozen_name(out, size, short_file);
	if (*from == '/' && slash)
		from = slash + 1;
	len = strlen(from);
	if (ends_with(from, len, ".py"))
		len -= 3;
	else if (ends_with(from, len, ".pyc"))
		len -= 4;
	if (ends_with(from, len, "/__init__"))
		len -= strlen("/__init__");
	if (len >= size)
		len = size - 1;
	for (size_t i = 0; i < len; i++)
		out[i] = from[i] == '/' ? '.' : from[i];
	out[len] = '\0';
	return out;
}

void func_spec_parse(struct func_spec *spec, const char *text)
{
	const char *colon = strrchr(text, ':');

	*spec = (struct func_spec){ .text = text, .len = strlen(text) };
	if (!colon || colon == text || !colon[1] || strspn(colon + 1, "0123456789") > 9 ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return;
	spec->has_line = true;
	spec->line = (uint32_t)strtoul(colon + 1, NULL, 10);
	spec->len = (size_t)(colon - text);
}

/* Whether @whole is the first @len bytes of @part, or ends with @before and them. */
static bool is_tail(const char *whole, char before, const char *part, size_t len)
{
	size_t n = strlen(whole);

	if (!len || n < len || memcmp(whole + n - len, part, len) != 0)
		return false;
	return n == len || whole[n - len - 1] == before;
}

bool func_spec_matches(const struct func_spec *spec, const char *file, const char *short_file,
		       const char *qualname, uint32_t line)
{
	size_t n = strlen(qualname);
	char module[1024];
	size_t place;

	if ((spec->has_line && spec->line != line) || !n ||
	    !ends_with(spec->text, spec->len, qualname))
		return false;
	if (spec->len == n)
		return true;
	place = spec->len - n - 1;
	if (spec->text[place] != ':' && spec->text[place] != '.')
		return false;
	if (is_tail(module_name(module, sizeof(module), short_file), '.', spec->text, place))
		return true;
	return spec->text[place] == ':' && is_tail(file, '/', spec->text, place);
}

bool func_spec_in_main(const struct func_spec *spec, struct func_spec *rest)
{
	static const char module[] = "__main__";
	size_t skip = sizeof(module);

	if (spec->len <= skip || memcmp(spec->text, module, skip - 1) != 0 ||
	    (spec->text[skip - 1] != ':' && spec->text[skip - 1] != '.'))
		return false;
	*rest = *spec;
	rest->text += skip;
	rest->len -= skip;
	return true;
}

/* A package is run by its __main__.py, and a folder by that in it. */
static bool is_or_runs(const char *module, const char *program)
{
	size_t n = strlen(program);

	return !strncmp(module, program, n) && (!module[n] || !strcmp(module + n, ".__main__"));
}

bool file_is_main(const char *program, bool is_module, const char *file, const char *short_file)
{
	char name[1024];

	while (!is_module && !strncmp(program, "./", 2))
		program += 2;
	if (!*program)
		return false;
	if (!is_module)
		return is_tail(file, '/', program, strlen(program));
	module_name(name, sizeof(name), short_file);
	if (is_or_runs(name, program))
		return true;
	/* of a file that no import root is known of, only its own name: the end of the module's path */
	snprintf(name, sizeof(name), "%s.py", program);
	for (char *c = name; *c && strcmp(c, ".py") != 0; c++)
		*c = *c == '.' ? '/' : *c;
	if (is_tail(file, '/', name, strlen(name)))
		return true;
	snprintf(name + strlen(name) - 3, sizeof(name) - strlen(name) + 3, "/__main__.py");
	return is_tail(file, '/', name, strlen(name));
}
