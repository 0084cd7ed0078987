// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_place.h"

#include <stdbool.h>
#include <string.h>

#include "profile/place.h"

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
	enum place in;

	if (!*file) {
		place.category = FF_CAT_OTHER;
		return place;
	}
	/* a program that was frozen with its interpreter */
	if (!strcmp(file, "<frozen __main__>"))
		return place;
	if (!strncmp(file, "<frozen ", 8))
		return frozen(file + 8);
	if (*file == '<')
		return place;
	in = place_of_file(file, &rest);
	if (in == PLACE_PACKAGES) {
		place.category = FF_CAT_PACKAGES;
		set_package(&place, rest);
		return place;
	}
	if (prefix && *prefix)
		rest = below(file, prefix);
	if (!rest) {
		set_package(&place, under_roots(file, roots));
		return place;
	}
	place.category = strncmp(rest, "importlib/", 10) ? FF_CAT_STDLIB : FF_CAT_IMPORTLIB;
	set_package(&place, rest);
	return place;
}

struct ff_place ff_place_native(const struct trace_func *func)
{
	const char *file = trace_native_file(func->file);

	return (struct ff_place){
		.category = func->kind == FUNC_KERNEL ? FF_CAT_KERNEL : FF_CAT_NATIVE,
		.package = file,
		.package_len = strlen(file),
	};
}
