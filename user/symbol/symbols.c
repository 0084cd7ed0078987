// SPDX-License-Identifier: Apache-2.0
#include "symbol/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/mapped_file.h"
#include "proc/maps.h"
#include "symbol/kallsyms.h"
#include "symbol/table.h"

#define FILES_MAX     4096 /* past it files have no symbols */
#define MAPS_AGAIN_NS 1000000000ull /* between two looks for what is new */
#define MAPS_SURE_NS  10000000ull /* the same, where something must be new */

struct file_key {
	dev_t dev;
	ino_t ino;
};

struct file {
	struct file_key key;
	uint32_t number;
	char *path; /* as the first process maps it */
	char unknown[80]; /* stands for functions without a name */
	struct symbol_table *table; /* NULL: it has none */
	UT_hash_handle hh;
};

struct symbols {
	struct kallsyms *kernel; /* NULL: not known */
	struct file *files;
};

struct symbol_space {
	pid_t pid;
	struct maps maps;
	uint64_t read_ns; /* 0: not yet */
};

/* The upper half of a key: files have their numbers, from 1 on. */
enum {
	FROM_KERNEL = UINT32_MAX,
	FROM_NO_FILE = UINT32_MAX - 1,
	FROM_VDSO = UINT32_MAX - 2
};

static uint64_t key_of(uint32_t from, uint32_t symbol)
{
	return (uint64_t)from << 32 | symbol;
}

int symbols__new(struct symbols **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void file_free(struct file *f)
{
	symbol_table__free(f->table);
	free(f->path);
	free(f);
}

void symbols__free(struct symbols *s)
{
	struct file *f, *next;

	if (!s)
		return;
	HASH_ITER(hh, s->files, f, next)
	{
		HASH_DEL(s->files, f);
		file_free(f);
	}
	kallsyms__free(s->kernel);
	free(s);
}

int symbols__read_kernel(struct symbols *s)
{
	return s->kernel ? 0 : kallsyms__read(&s->kernel);
}

struct symbol_space *symbol_space__new(pid_t pid)
{
	struct symbol_space *space = calloc(1, sizeof(*space));

	if (space)
		space->pid = pid;
	return space;
}

void symbol_space__free(struct symbol_space *space)
{
	if (!space)
		return;
	maps__done(&space->maps);
	free(space);
}

static void read_table(struct file *f, pid_t pid, const struct mapping *m)
{
	auto_close int fd = -1;
	struct mapped_file found;

	if (mapped_file__open(pid, m, &found))
		return;
	fd = open(found.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	mapped_file__close(&found);
	if (fd >= 0)
		symbol_table__read(&f->table, fd, f->path);
}

static struct file *file_find(const struct symbols *s, dev_t dev, ino_t ino)
{
	struct file_key key;
	struct file *f;

	memset(&key, 0, sizeof(key));
	key.dev = dev;
	key.ino = ino;
	HASH_FIND(hh, s->files, &key, sizeof(key), f);
	return f;
}

static struct file *file_get(struct symbols *s, pid_t pid, const struct mapping *m)
{
	const char *slash = strrchr(m->path, '/');
	struct file *f = file_find(s, m->dev, m->ino);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->key.dev = m->dev;
	f->key.ino = m->ino;
	f->number = HASH_COUNT(s->files) + 1;
	f->path = strdup(m->path);
	if (!f->path) {
		free(f);
		return NULL;
	}
	snprintf(f->unknown, sizeof(f->unknown), "[%.70s]", slash ? slash + 1 : m->path);
	if (f->number <= FILES_MAX)
		read_table(f, pid, m);
	HASH_ADD(hh, s->files, key, sizeof(f->key), f);
	return f;
}

static void name_in_file(const struct file *f, uint64_t offset, struct symbol *out)
{
	uint32_t symbol = f->table ? symbol_table__find(f->table, offset) : SYMBOL_NONE;

	out->file = f->path;
	out->name = symbol == SYMBOL_NONE ? "" : symbol_table__name(f->table, symbol);
	out->key = out->piece = key_of(f->number, symbol);
	if (out->name[0])
		return;
	out->name = f->unknown;
	out->key = key_of(f->number, SYMBOL_NONE);
}

static void name_without_file(const struct mapping *m, struct symbol *out)
{
	*out = (struct symbol){ "[code without a file]", "", key_of(FROM_NO_FILE, 0), 0 };
	if (!strcmp(m->path, "[vdso]"))
		*out = (struct symbol){ "[vdso]", "[vdso]", key_of(FROM_VDSO, 0), 0 };
	out->piece = out->key;
}

/* The executable mapping of an address, as it was when they were read. */
static const struct mapping *code_at(const struct symbol_space *space, uint64_t addr)
{
	const struct mapping *m = maps__find(&space->maps, addr);

	return m && m->flags & MAPPING_EXEC ? m : NULL;
}

static int read_maps(struct symbol_space *space, uint64_t every_ns)
{
	uint64_t now = now_ns();
	struct maps maps;
	int err;

	if (space->read_ns && now - space->read_ns < every_ns)
		return 0;
	space->read_ns = now;
	err = maps__read(space->pid, &maps);
	if (err)
		return err;
	maps__done(&space->maps);
	space->maps = maps;
	return 0;
}

int symbols__user(struct symbols *s, struct symbol_space *space, uint64_t addr, bool sure,
		  struct symbol *out)
{
	const struct mapping *m = code_at(space, addr);
	struct file *f;
	int err;

	if (!m) {
		err = read_maps(space, sure ? MAPS_SURE_NS : MAPS_AGAIN_NS);
		if (err)
			return err;
		m = code_at(space, addr);
	}
	if (!m)
		return -ENOENT;
	if (!m->ino) {
		name_without_file(m, out);
		return 0;
	}
	f = file_get(s, space->pid, m);
	if (!f)
		return -ENOMEM;
	name_in_file(f, addr - m->start + m->offset, out);
	return 0;
}

uint64_t symbols__piece(const struct symbols *s, dev_t dev, ino_t ino, uint64_t offset)
{
	const struct file *f = file_find(s, dev, ino);
	struct symbol symbol;

	if (!f)
		return 0;
	name_in_file(f, offset, &symbol);
	return symbol.piece;
}

void symbols__kernel(const struct symbols *s, uint64_t addr, struct symbol *out)
{
	struct kallsym found;

	*out = (struct symbol){ "[kernel]", "[kernel]", key_of(FROM_KERNEL, UINT32_MAX), 0 };
	out->piece = out->key;
	if (!s->kernel || kallsyms__find(s->kernel, addr, &found))
		return;
	out->name = found.name;
	out->key = key_of(FROM_KERNEL, found.number);
	out->piece = out->key;
	out->file = found.module;
	if (!found.module[0])
		out->file = "[kernel]";
}
