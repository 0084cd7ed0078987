// SPDX-License-Identifier: Apache-2.0
#include "profile/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The rest of @path after its last folder of this name, given with both slashes. */
static const char *after_folder(const char *path, const char *folder)
{
	const char *found = NULL;

	for (const char *at = path; (at = strstr(at, folder)); at++)
		found = at + strlen(folder);
	return found;
}

/* Is the folder that ends at @end called lib, lib64, lib32 or libx32? */
static bool is_lib(const char *path, const char *end)
{
	static const char *const names[] = { "lib", "lib64", "lib32", "libx32" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		if ((size_t)(end - path) >= len && !strncmp(end - len, names[i], len) &&
		    (end - len == path || end[-(ptrdiff_t)len - 1] == '/'))
			return true;
	}
	return false;
}

/* "3.11/", "3.13t/", "3.13td/", "311.zip/": the rest behind it. */
static const char *after_version(const char *at)
{
	size_t dot = strspn(at, "."), digits = strspn(at + dot, "0123456789");

	if (!digits)
		return NULL;
	at += dot + digits;
	if (!dot)
		return strncmp(at, ".zip/", 5) != 0 ? NULL : at + 5;
	at += strspn(at, "td");
	return *at == '/' ? at + 1 : NULL;
}

static const char *after_stdlib(const char *path)
{
	for (const char *at = path; (at = strstr(at, "/python3")); at++) {
		const char *rest = is_lib(path, at) ? after_version(at + strlen("/python3")) : NULL;

		if (rest)
			return rest;
	}
	return NULL;
}

enum place place_of_file(const char *file, const char **below)
{
	*below = after_folder(file, "/site-packages/");
	if (!*below)
		*below = after_folder(file, "/dist-packages/");
	if (*below)
		return PLACE_PACKAGES;
	*below = after_stdlib(file);
	return *below ? PLACE_STDLIB : PLACE_ELSEWHERE;
}

const char *place_short_file(const char *file)
{
	const char *below;

	return *file != '<' && place_of_file(file, &below) != PLACE_ELSEWHERE ? below : file;
}
