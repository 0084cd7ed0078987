/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function lives, as far as its file's name tells: the category that colours it and the
 * package or module it is shown under. A capture has no module names (they are attributes of the
 * running program); so the module is derived from the folder that it was imported from.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_PLACE_H
#define PYEBPF_EXPORT_FIREFOX_PLACE_H

#include <stddef.h>

#include "profile/trace.h"

/* name, colour: the order is the index in meta.categories; Other is the default (grey). */
/* clang-format off */
#define FF_CATEGORIES(X) \
	X(FF_CAT_OTHER,     "Other",         "grey")        \
	X(FF_CAT_USER,      "User code",     "yellow")      \
	X(FF_CAT_PACKAGES,  "site-packages", "green")       \
	X(FF_CAT_STDLIB,    "stdlib",        "blue")        \
	X(FF_CAT_IMPORTLIB, "importlib",     "purple")      \
	X(FF_CAT_NATIVE,    "Native",        "orange")      \
	X(FF_CAT_KERNEL,    "Kernel",        "brown")       \
	X(FF_CAT_GC,        "GC",            "red")         \
	X(FF_CAT_GIL,       "GIL wait",      "lightred")    \
	X(FF_CAT_GAP,       "Gap",           "darkgrey")    \
	X(FF_CAT_IDLE,      "Idle",          "transparent") \
	X(FF_CAT_LOCK,      "Lock wait",     "magenta")     \
	X(FF_CAT_IO,        "I/O wait",      "lightblue")   \
	X(FF_CAT_FAULT,     "Page fault",    "brown")       \
	X(FF_CAT_PREEMPTED, "Preempted",     "darkgrey")
/* clang-format on */
enum ff_category {
#define X(id, name, colour) id,
	FF_CATEGORIES(X)
#undef X
};

struct ff_place {
	enum ff_category category;
	const char *package; /* top-level package or module, inside of the file name; may be empty */
	size_t package_len;
};

/**
 * ff_place_of - category and package of a file
 * @file:   co_filename
 * @prefix: folder of the standard library, "" or NULL if unknown: what profile/place.h takes for it
 * @roots:  NULL-terminated folders that modules are imported from, longest first; may be NULL
 */
struct ff_place ff_place_of(const char *file, const char *prefix, const char *const *roots);

/* ff_place_native - of one that is not Python's. */
struct ff_place ff_place_native(const struct trace_func *func);

#endif
