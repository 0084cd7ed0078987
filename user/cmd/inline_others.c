// SPDX-License-Identifier: Apache-2.0
#include "cmd/inline_others.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/file.h"
#include "proc/file_id.h"
#include "proc/maps.h"
#include "proc/root.h"

#define OTHERS_MAX    1024 /* then it starts over */
#define LIBS_MAX      64
#define ENVIRON_BYTES (256u << 10)
#define LOADER_CACHE  "/etc/ld.so.cache" /* says where libraries are */

struct library {
	char *path; /* as the process sees it; owned */
	struct file_id id;
};

struct inline_other {
	struct inline_other *next;
	struct file_id program;
	struct library libs[LIBS_MAX];
	size_t lib_cnt;
};

static bool read_program(pid_t pid, struct file_id *out)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return file_id__read(path, out);
}

/* By its path in the process's own root. */
static bool read_library(pid_t pid, const char *path, struct file_id *out)
{
	auto_close int fd = proc_root__open(pid, path);

	return fd >= 0 && file_id__of(fd, out);
}

/* LD_PRELOAD, LD_LIBRARY_PATH, LD_AUDIT ...; so has one that is too long to be looked at. */
static bool chooses_libraries(pid_t pid)
{
	auto_free char *text = NULL;
	size_t len;

	if (proc_file__read(pid, "environ", ENVIRON_BYTES, &text, &len))
		return true;
	for (const char *at = text; at < text + len; at += strlen(at) + 1)
		if (!strncmp(at, "LD_", 3))
			return true;
	return false;
}

static void free_other(struct inline_other *other)
{
	if (!other)
		return;
	for (size_t i = 0; i < other->lib_cnt; i++)
		free(other->libs[i].path);
	free(other);
}

static bool add_library(struct inline_other *other, pid_t pid, const char *path, ino_t ino)
{
	struct library *lib = &other->libs[other->lib_cnt];

	if (other->lib_cnt == LIBS_MAX || !read_library(pid, path, &lib->id) ||
	    (ino && lib->id.ino != ino))
		return false;
	lib->path = strdup(path);
	other->lib_cnt += lib->path != NULL;
	return lib->path != NULL;
}

/* Has none of the mappings before it the same file? */
static bool is_new(const struct maps *maps, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (mapping_same_file(&maps->items[k], &maps->items[i]))
			return false;
	return true;
}

/* All files that are mapped; false: one of them is not at its path. */
static bool add_libraries(struct inline_other *other, pid_t pid)
{
	struct maps maps;
	bool good = true;

	if (maps__read(pid, &maps))
		return false;
	for (size_t i = 0; good && i < maps.cnt; i++) {
		const struct mapping *m = &maps.items[i];

		if (m->ino && is_new(&maps, i))
			good = add_library(other, pid, m->path, m->ino);
	}
	maps__done(&maps);
	add_library(other, pid, LOADER_CACHE, 0); /* there may be none */
	return good && other->lib_cnt < LIBS_MAX;
}

void inline_others__add(struct inline_others *o, pid_t pid)
{
	struct inline_other *other = calloc(1, sizeof(*other));

	if (!other || chooses_libraries(pid) || !read_program(pid, &other->program) ||
	    !add_libraries(other, pid)) {
		free_other(other);
		return;
	}
	if (o->cnt == OTHERS_MAX)
		inline_others__done(o);
	other->next = o->list;
	o->list = other;
	o->cnt++;
}

static bool is_unchanged(const struct inline_other *other, pid_t pid)
{
	for (size_t i = 0; i < other->lib_cnt; i++) {
		struct file_id id;

		if (!read_library(pid, other->libs[i].path, &id) ||
		    !file_id__same(&id, &other->libs[i].id))
			return false;
	}
	return true;
}

bool inline_others__has(const struct inline_others *o, pid_t pid)
{
	const struct inline_other *other = o->list;
	struct file_id program;

	if (!other || !read_program(pid, &program))
		return false;
	while (other && !(file_id__same(&other->program, &program) && is_unchanged(other, pid)))
		other = other->next;
	return other && !chooses_libraries(pid);
}

void inline_others__done(struct inline_others *o)
{
	while (o->list) {
		struct inline_other *other = o->list;

		o->list = other->next;
		free_other(other);
	}
	o->cnt = 0;
}
