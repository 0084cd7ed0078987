// SPDX-License-Identifier: Apache-2.0
#include "cpython/interp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sandbox.h"
#include "cpython/inline_plan.h"
#include "cpython/interp.h"
#include "cpython/layouts.h"
#include "cpython/version.h"
#include "elf/elf_file.h"
#include "proc/file_id.h"

/* An agent that runs for months meets new files all the time; then it starts over. */
#define CACHE_FILES_MAX 1024

struct entry {
	struct entry *next;
	struct file_id key;
	struct interp_file *file; /* NULL: no interpreter, the usual case */
	struct inline_plan *inline_plan; /* NULL: not asked for */
};

struct interp_cache {
	struct entry *entries;
	unsigned int cnt;
	struct interp_file none; /* stands for all files without an interpreter */
};

/* PyInterpreterState_Head() of 3.6: [endbr64] mov rax, [rip + x]; ret. */
static uint64_t head_by_function(const struct elf_file *elf)
{
	struct elf_symbol sym;
	uint8_t code[12];
	int32_t disp;
	size_t at = 0;

	if (elf_file__symbol(elf, "PyInterpreterState_Head", &sym) ||
	    elf_file__read(elf, sym.vaddr, code, sizeof(code)))
		return 0;
	if (memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0)
		at = 4;
	if (memcmp(code + at, "\x48\x8b\x05", 3) != 0 || code[at + 7] != 0xc3)
		return 0;
	memcpy(&disp, code + at + 3, sizeof(disp));
	return sym.vaddr + at + 7 + (uint64_t)(int64_t)disp;
}

static void copy_code(const struct elf_file *elf, struct interp_file *out)
{
	for (uint32_t i = 0; i < out->plan.site_cnt; i++) {
		size_t len = INTERP_CODE_SIZE;

		while (len && elf_file__read(elf, out->plan.sites[i].vaddr, out->code[i], len))
			len /= 2;
		out->code_len[i] = (uint8_t)len;
	}
}

static int describe(const struct elf_file *elf, const char *engine, struct interp_file *out)
{
	struct elf_symbol sym;
	int err;

	if (!plan_is_interpreter(elf)) {
		/* for Python 2 "not Python" would puzzle people */
		if (!elf_file__symbol(elf, "PyEval_EvalFrameEx", &sym) &&
		    !elf_file__symbol(elf, "PyString_FromString", &sym))
			return err_set(&out->e, -PYE_EVERSION, "it is Python 2; known are %s",
				       layout_names());
		return err_set(&out->e, -PYE_ENOTPYTHON,
			       "the file holds no CPython interpreter loop");
	}
	err = plan_make(elf, engine, &out->plan, &out->e);
	if (!err)
		err = interp__layout(&out->plan, elf, &out->layout, &out->e);
	if (err)
		return err;
	out->is_executable = elf_file__is_fixed(elf) || elf_file__has_interp(elf);
	out->has_jit = version_has_jit(elf, &out->plan);
	version_text(elf, &out->plan, out->version, sizeof(out->version));
	if (out->plan.runtime && out->layout.rt_interpreters != PYE_NO_FIELD)
		out->head = out->plan.runtime + out->layout.rt_interpreters;
	else
		out->head = head_by_function(elf);
	copy_code(elf, out);
	return 0;
}

/* What the sandboxed process is to know. */
struct job {
	const char *name, *engine;
};

static void look(int fd, const void *arg, void *answer)
{
	const struct job *job = arg;
	struct interp_file *out = answer;
	struct elf_file *elf = NULL;

	out->err = elf_file__from_fd(fd, job->name, &elf, &out->e);
	if (!out->err)
		out->err = describe(elf, job->engine, out);
}

void interp_file__read(int fd, const char *name, const char *engine, struct interp_file *out)
{
	const struct job job = { name, engine };
	struct err e = { 0 };
	int err = sandbox_run(look, fd, &job, out, sizeof(*out), &sandbox_usual, &e);

	if (!err && interp_file__vet(out, fd, engine))
		err = err_set(&e, -PYE_EPLAN, "the sandboxed reader's answer makes no sense");
	if (!err && out->err == -ENOMEM)
		err = err_set(
			&e, -PYE_EPLAN,
			"looking into it takes more memory than %u MB, or than pyebpf may have (ulimit -v)",
			SANDBOX_MEMORY_BYTES >> 20);
	if (!err)
		return;
	memset(out, 0, sizeof(*out));
	out->err = err;
	out->e = e;
}

/* O_NONBLOCK: a FIFO in the place of a library must not hang us. */
static void load(const char *path, const char *engine, struct interp_file *out)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		out->err = -errno;
	else
		interp_file__read(fd, path, engine, out);
	if (out->err == -PYE_EFORMAT)
		out->err = -PYE_ENOTPYTHON; /* anything can be mapped as code */
}

int interp_cache__new(struct interp_cache **out)
{
	struct interp_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->none.err = -PYE_ENOTPYTHON;
	*out = cache;
	return 0;
}

static void clear(struct interp_cache *cache)
{
	while (cache->entries) {
		struct entry *entry = cache->entries;

		cache->entries = entry->next;
		free(entry->file);
		free(entry->inline_plan);
		free(entry);
	}
	cache->cnt = 0;
}

void interp_cache__free(struct interp_cache *cache)
{
	if (!cache)
		return;
	clear(cache);
	free(cache);
}

static struct entry *find(const struct interp_cache *cache, const struct file_id *key)
{
	struct entry *entry = cache->entries;

	while (entry && !file_id__same(&entry->key, key))
		entry = entry->next;
	return entry;
}

static struct entry *make_entry(const struct file_id *key, const char *path, const char *engine)
{
	auto_free struct interp_file *file = malloc(sizeof(*file));
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!file || !entry) {
		free(entry);
		return NULL;
	}
	entry->key = *key;
	load(path, engine, file);
	if (file->err != -PYE_ENOTPYTHON)
		entry->file = take_ptr(file);
	return entry;
}

const struct interp_file *interp_file__get(struct interp_cache *cache, const char *path,
					   const char *engine)
{
	struct file_id key;
	struct entry *entry;

	if (!file_id__read(path, &key))
		return &cache->none;
	entry = find(cache, &key);
	if (!entry) {
		entry = make_entry(&key, path, engine);
		if (!entry)
			return NULL;
		entry->next = cache->entries;
		cache->entries = entry;
		cache->cnt++;
	} else if (entry->file && entry->file->err < 0 && entry->file->err > -PYE_ENOTPYTHON) {
		load(path, engine, entry->file); /* no memory, no descriptors: that passes */
	}
	return entry->file ? entry->file : &cache->none;
}

int inline_plan_load_cached(struct interp_cache *cache, const char *path, struct inline_plan *out,
			    struct err *e)
{
	struct file_id key;
	struct entry *entry = cache && file_id__read(path, &key) ? find(cache, &key) : NULL;
	int err;

	if (entry && entry->inline_plan) {
		*out = *entry->inline_plan;
		return 0;
	}
	err = inline_plan_load(path, out, e);
	if (err || !entry)
		return err;
	entry->inline_plan = malloc(sizeof(*out));
	if (entry->inline_plan)
		*entry->inline_plan = *out;
	return 0;
}

void interp_cache__trim(struct interp_cache *cache)
{
	if (cache->cnt >= CACHE_FILES_MAX)
		clear(cache);
}
