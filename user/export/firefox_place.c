// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_place.h"

#include <stdbool.h>
#include <string.h>

/* The rest of @path below folder @dir, NULL if it is not inside. */
static const char *below(const char *path, const char *dir)
{
	size_t len = dir ? strlen(dir) : 0;

	while (len && dir[len - 1] == '/')
		len--;
	if (!len || strncmp(path, dir, len) != 0 || path[len] != '/')
		return NULL;
	return path + len + 1;
}

/* The rest of @path after its last folder of this name, given with both slashes. */
static const char *after_folder(const char *path, const char *folder)
{
	const char *found = NULL;

	for (const char *at = path; (at = strstr(at, folder)); at++)
		found = at + strlen(folder);
	return found;
}

/* lib/python3.11/, lib64/python3.13t/ and lib/python311.zip/ */
static const char *guess_stdlib(const char *path)
{
	for (const char *at = path; (at = strstr(at, "/python3")); at++) {
		const char *end = at + strlen("/python3");

		end += strspn(end, ".0123456789t");
		if (!strncmp(end, "zip/", 4))
			end += 3;
		if (*end == '/')
			return end + 1;
	}
	return NULL;
}

static void set_package(struct ff_place *place, const char *rest)
{
	size_t len = strcspn(rest, "/");

	if (!rest[len]) {
		const char *dot = memchr(rest, '.', len);

		if (dot && dot > rest)
			len = (size_t)(dot - rest);
	}
	place->package = rest;
	place->package_len = len;
}

static struct ff_place frozen(const char *name)
{
	size_t len = strcspn(name, ".>");
	bool importlib = len >= 9 && !strncmp(name, "importlib", 9);

	return (struct ff_place){
		.category = importlib ? FF_CAT_IMPORTLIB : FF_CAT_STDLIB,
		.package = name,
		.package_len = len,
	};
}

static const char *under_roots(const char *file, const char *const *roots)
{
	const char *slash = strrchr(file, '/');

	for (size_t i = 0; roots && roots[i]; i++) {
		const char *rest = below(file, roots[i]);

		if (rest)
			return rest;
	}
	return slash ? slash + 1 : file;
}

struct ff_place ff_place_of(const char *file, const char *prefix, const char *const *roots)
{
	struct ff_place place = { .category = FF_CAT_USER, .package = file };
	const char *rest;

	if (!*file) {
		place.category = FF_CAT_OTHER;
		return place;
	}
	if (!strncmp(file, "<frozen ", 8))
		return frozen(file + 8);
	if (*file == '<')
		return place;
	rest = after_folder(file, "/site-packages/");
	if (!rest)
		rest = after_folder(file, "/dist-packages/");
	if (rest) {
		place.category = FF_CAT_PACKAGES;
		set_package(&place, rest);
		return place;
	}
	rest = prefix && *prefix ? below(file, prefix) : guess_stdlib(file);
	if (!rest) {
		set_package(&place, under_roots(file, roots));
		return place;
	}
	place.category = strncmp(rest, "importlib/", 10) ? FF_CAT_STDLIB : FF_CAT_IMPORTLIB;
	set_package(&place, rest);
	return place;
}
