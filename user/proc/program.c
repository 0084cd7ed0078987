// SPDX-License-Identifier: Apache-2.0
#include "proc/program.h"

#include <string.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* python, python3, python3.12, python3.13t, python3-dbg */
static bool is_python(const char *path)
{
	const char *name = base_name(path);

	return begins(name, "python") && !name[6 + strspn(name + 6, "0123456789.td-bg")];
}

static bool is_loader(const char *path)
{
	const char *name = base_name(path);

	return begins(name, "ld-linux") || begins(name, "ld-musl") || begins(name, "ld.so");
}

static const char *after(const char *at)
{
	return at + strlen(at) + 1;
}

/* ld.so [OPTION...] PROGRAM: where that is, or the end. Options take an argument, but for three. */
static const char *loaded(const char *at, const char *end)
{
	for (at = after(at); at < end && at[0] == '-'; at = after(at))
		if (!strchr(at, '=') && strcmp(at, "--inhibit-cache") != 0 &&
		    strcmp(at, "--verify") != 0 && strcmp(at, "--list") != 0 && after(at) < end)
			at = after(at);
	return at;
}

/* -m, -c, -W and -X take what follows in the same word, or the next one; they can come after others, as in -Im. */
static const char *taking(const char *word)
{
	return word[0] == '-' && word[1] != '-' ? strpbrk(word + 1, "mcWX") : NULL;
}

static struct program named(enum program_kind kind, const char *name)
{
	return (struct program){ kind, name, strlen(name) };
}

static struct program run_by_python(const char *at, const char *end)
{
	for (at = after(at); at < end; at = after(at)) {
		const char *option = taking(at), *value;

		if (at[0] != '-' || !at[1])
			return at[0] == '-' ? (struct program){ PROGRAM_NONE, NULL, 0 }
					    : named(PROGRAM_SCRIPT, at);
		if (!strcmp(at, "--check-hash-based-pycs") && after(at) < end)
			at = after(at);
		if (!option)
			continue;
		value = option[1] ? option + 1 : after(at);
		if (value >= end)
			break;
		if (*option == 'm')
			return named(PROGRAM_MODULE, value);
		if (*option == 'c')
			return (struct program){ PROGRAM_CODE, NULL, 0 };
		if (!option[1])
			at = after(at);
	}
	return (struct program){ PROGRAM_NONE, NULL, 0 };
}

/* "gunicorn: worker [app]", also behind a path */
static struct program title(const char *text)
{
	const char *name = text;

	for (size_t i = 0, len = strcspn(text, " :"); i < len; i++)
		if (text[i] == '/')
			name = text + i + 1;
	if (!strcspn(name, " :"))
		return (struct program){ PROGRAM_NONE, NULL, 0 };
	return (struct program){ PROGRAM_TITLE, name, strcspn(name, " :") };
}

struct program program_of(const char *cmdline, size_t len, const char *exe)
{
	const char *end = cmdline + len;

	if (!len || end[-1])
		return (struct program){ PROGRAM_NONE, NULL, 0 };
	if (is_loader(exe)) {
		cmdline = loaded(cmdline, end);
		exe = cmdline < end ? cmdline : "";
	}
	if (cmdline >= end || (exe[0] && !is_python(exe)))
		return (struct program){ PROGRAM_NONE, NULL, 0 };
	return is_python(cmdline) ? run_by_python(cmdline, end) : title(cmdline);
}
