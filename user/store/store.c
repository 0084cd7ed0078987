// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/outfile.h"
#include "base/text.h"
#include "store/catalogue.h"
#include "store/head.h"
#include "store/store_priv.h"

#define NAMES_MAX 64 /* of windows with the same labels and time */

static const char window_end[] = ".pb.gz";

struct store_file {
	struct store *store;
	struct outfile *out;
	char name[NAME_MAX + 1];
	int64_t start_ns, end_ns;
	struct store_label labels[STORE_LABELS_MAX]; /* sorted, copies */
	uint32_t label_cnt;
	uint64_t bytes;
};

static void search_close(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int path_in(const struct store *s, const char *name, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/%s", s->dir, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && !strcmp(name + len - end_len, end);
}

/* --- mending --- */

static int remember(struct store *s, const char *name, struct err *e)
{
	auto_close int fd = openat(s->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	auto_fn(head_done) struct head head = { 0 };
	struct store_window w = { .file = name };
	struct stat st;
	int err = 0;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || (err = head_read(fd, &head))) {
		s->mended.unreadable++;
		return err == -ENOMEM ? err : 0;
	}
	w.start_ns = head.start_ns;
	w.end_ns = head.end_ns;
	w.bytes = (uint64_t)st.st_size;
	w.labels = head.labels;
	w.label_cnt = head.label_cnt;
	err = catalogue__add(s->catalogue, &w, e);
	s->mended.added += !err;
	return err;
}

bool store_is_window(const char *name)
{
	return ends_with(name, window_end);
}

bool store_is_left_over(const char *name)
{
	return !strncmp(name, ".pyebpf-", 8) && ends_with(name, ".tmp");
}

static int add_missing(struct store *s, struct err *e)
{
	auto_fn(search_close) DIR *dir = opendir(s->dir);
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return err_set(e, -PYE_EFORMAT, "the store %s cannot be read: %s", s->dir,
			       strerror(errno));
	while (!err && (entry = readdir(dir))) {
		if (s->lock_fd >= 0 && store_is_left_over(entry->d_name))
			unlinkat(s->dir_fd, entry->d_name, 0);
		if (!store_is_window(entry->d_name))
			continue;
		err = catalogue__has(s->catalogue, entry->d_name, e);
		err = err ? (err < 0 ? err : 0) : remember(s, entry->d_name, e);
	}
	return err;
}

struct names {
	char **items;
	uint32_t cnt, cap;
	const struct store *store;
};

static void names_done(struct names *n)
{
	for (uint32_t i = 0; i < n->cnt; i++)
		free(n->items[i]);
	free(n->items);
}

static int note_missing(void *ctx, const struct store_window *w)
{
	struct names *n = ctx;

	if (!faccessat(n->store->dir_fd, w->file, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (GROW(n->items, n->cap, n->cnt))
		return -ENOMEM;
	n->items[n->cnt] = strdup(w->file);
	return n->items[n->cnt++] ? 0 : -ENOMEM;
}

static int remove_gone(struct store *s, struct err *e)
{
	auto_fn(names_done) struct names gone = { .store = s };
	int err = catalogue__each(s->catalogue, INT64_MIN, INT64_MAX, note_missing, &gone, e);

	for (uint32_t i = 0; i < gone.cnt && !err; i++) {
		err = catalogue__remove(s->catalogue, gone.items[i], e);
		s->mended.removed += !err;
	}
	return err;
}

static int mend(struct store *s, struct err *e)
{
	int err = catalogue__begin(s->catalogue, e);

	err = err ? err : remove_gone(s, e);
	err = err ? err : add_missing(s, e);
	return err ? err : catalogue__commit(s->catalogue, e);
}

/* --- opening --- */

static int refuse(const struct store *s, const char *done, struct err *e)
{
	int code = err_is_full(errno) ? -ENOSPC : -PYE_EOUTPUT;

	return err_set(e, code, "the store %s cannot be %s: %s", s->dir, done, strerror(errno));
}

/* Of one that was killed the children hold it a moment longer. */
enum {
	LOCK_TRIES = 20,
	LOCK_WAIT_NS = 50000000
};

int store_lock(struct store *s, struct err *e)
{
	char path[PATH_MAX];
	int err = path_in(s, "lock", path, sizeof(path));

	if (err)
		return err_set(e, -PYE_EOUTPUT, "the name of the store is too long");
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return refuse(s, "written", e);
	for (unsigned int tries = 0; tries < LOCK_TRIES; tries++) {
		if (!flock(s->lock_fd, LOCK_EX | LOCK_NB))
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_WAIT_NS }, NULL);
	}
	err_set(e, -PYE_EOUTPUT, "another pyebpf writes to the store %s", s->dir);
	err_hint(e, "give each its own folder, or stop the other one");
	return -PYE_EOUTPUT;
}

static void drop_catalogue(const struct store *s)
{
	static const char *const names[] = { CATALOGUE, CATALOGUE "-journal" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(s->dir_fd, names[i], 0);
}

/* Labels are nobody's business either: SQLite would make it as readable as the umask lets it. */
static void make_private(const struct store *s)
{
	auto_close int fd =
		openat(s->dir_fd, CATALOGUE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		fchmod(fd, 0600);
}

static int try_open(struct store *s, const char *path, struct err *e)
{
	int err;

	catalogue__free(take_ptr(s->catalogue));
	s->mended = (struct store_mended){ 0 };
	make_private(s);
	err = catalogue__open(&s->catalogue, path, e);
	return err ? err : mend(s, e);
}

static int open_on_disk(struct store *s, struct err *e)
{
	char path[PATH_MAX];
	int err;

	if (path_in(s, CATALOGUE, path, sizeof(path)))
		return err_set(e, -PYE_EOUTPUT, "the name of the store is too long");
	err = try_open(s, path, e);
	if (err != -PYE_EFORMAT)
		return err;
	catalogue__free(take_ptr(s->catalogue));
	drop_catalogue(s);
	return try_open(s, path, e);
}

static int open_in_memory(struct store *s, struct err *e)
{
	char path[PATH_MAX];
	int err = catalogue__open(&s->catalogue, NULL, e);

	/* what cannot be copied is read from the files */
	if (!err && !path_in(s, CATALOGUE, path, sizeof(path)))
		err = catalogue__copy(s->catalogue, path);

	return err ? err : mend(s, e);
}

int store_leave_disk(struct store *s, struct err *e)
{
	catalogue__free(take_ptr(s->catalogue));
	s->mended = (struct store_mended){ 0 };
	s->off_disk = true;
	s->together = false;
	return open_in_memory(s, e);
}

void store_back_to_disk(struct store *s)
{
	struct catalogue *in_memory = take_ptr(s->catalogue);

	s->off_disk = open_on_disk(s, NULL) != 0;
	if (s->off_disk) {
		catalogue__free(s->catalogue);
		s->catalogue = take_ptr(in_memory);
	}
	catalogue__free(in_memory);
}

static int open_writable(struct store *s, struct err *e)
{
	int err = open_on_disk(s, e);

	return err == -ENOSPC ? store_leave_disk(s, e) : err;
}

static int open_all(struct store *s, enum store_mode mode, struct err *e)
{
	int err;

	if (mode == STORE_WRITE && mkdir(s->dir, 0700) && errno != EEXIST)
		return refuse(s, "made", e);
	s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_set(e, mode == STORE_WRITE ? -PYE_EOUTPUT : -PYE_EFORMAT,
			       "the store %s cannot be opened: %s", s->dir, strerror(errno));
	if (mode == STORE_READ)
		return open_in_memory(s, e);
	err = store_lock(s, e);
	return err ? err : open_writable(s, e);
}

int store__open(struct store **out, const char *dir, enum store_mode mode, struct err *e)
{
	auto_fn(store__freep) struct store *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->dir_fd = s->lock_fd = -1;
	s->dir = strdup(dir);
	err = s->dir ? open_all(s, mode, e) : -ENOMEM;
	if (!err)
		*out = take_ptr(s);
	return err;
}

void store__free(struct store *s)
{
	if (!s)
		return;
	catalogue__free(s->catalogue);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s->dir);
	free(s);
}

const struct store_mended *store__mended(const struct store *s)
{
	return &s->mended;
}

bool store_folder_is(int fd, const char *dir)
{
	struct stat open, named;

	return !fstat(fd, &open) && !stat(dir, &named) && open.st_ino == named.st_ino &&
	       open.st_dev == named.st_dev;
}

bool store__is_there(const struct store *s)
{
	return store_folder_is(s->dir_fd, s->dir);
}

/* --- writing --- */

static int compare_labels(const void *a, const void *b)
{
	const struct store_label *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int copy_labels(struct store_file *f, const struct store_label *labels, uint32_t cnt,
		       struct err *e)
{
	if (cnt > STORE_LABELS_MAX)
		return err_set(e, -PYE_EOUTPUT, "a window has at most %u labels", STORE_LABELS_MAX);
	for (uint32_t i = 0; i < cnt; i++) {
		struct store_label *l = &f->labels[i];

		if (!label_is_name(labels[i].name) || strlen(labels[i].name) > STORE_LABEL_MAX ||
		    strlen(labels[i].value) > STORE_LABEL_MAX)
			return err_set(e, -PYE_EOUTPUT, "no label can be called %.40s",
				       labels[i].name);
		f->label_cnt++;
		l->name = strdup(labels[i].name);
		l->value = strdup(labels[i].value);
		if (!l->name || !l->value)
			return -ENOMEM;
	}
	if (!*label_value(f->labels, f->label_cnt, STORE_SERVICE))
		return err_set(e, -PYE_EOUTPUT, "a window needs the label " STORE_SERVICE);
	qsort(f->labels, f->label_cnt, sizeof(f->labels[0]), compare_labels);
	return 0;
}

/* Two windows of the same time and service, but other labels, have other names. */
static uint32_t hash_labels(const struct store_file *f)
{
	uint64_t hash = HASH_BEGIN;

	for (uint32_t i = 0; i < f->label_cnt; i++) {
		hash = hash_text(hash, f->labels[i].name);
		hash = hash_text(hash, f->labels[i].value);
	}
	return (uint32_t)(hash ^ hash >> 32);
}

/* @again: windows of that name are there. A clock that was set back shows a time twice. */
static void name_file(struct store_file *f, uint32_t again)
{
	char service[64], stamp[32];
	time_t seconds = (time_t)(f->start_ns / 1000000000);
	uint64_t length = (uint64_t)(f->end_ns - f->start_ns + 999999999) / 1000000000u;
	struct tm tm;
	size_t n = 0;

	for (const char *c = label_value(f->labels, f->label_cnt, STORE_SERVICE);
	     *c && n + 1 < sizeof(service); c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			     (*c >= '0' && *c <= '9') || *c == '.' || *c == '_' || *c == '-';

		service[n++] = plain ? *c : '_';
	}
	service[n] = '\0';
	gmtime_r(&seconds, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(f->name, sizeof(f->name), "%s-%" PRIu64 "s-%s-%08" PRIx32 "%s", stamp, length,
		 service, hash_labels(f) + again, window_end);
}

int store__begin(struct store *s, int64_t start_ns, int64_t end_ns,
		 const struct store_label *labels, uint32_t label_cnt, struct store_file **out,
		 struct err *e)
{
	auto_fn(store_file__freep) struct store_file *f = calloc(1, sizeof(*f));
	char path[PATH_MAX];
	int err;

	if (!f)
		return -ENOMEM;
	*f = (struct store_file){ .store = s, .start_ns = start_ns, .end_ns = end_ns };
	if (s->lock_fd < 0 || end_ns < start_ns || start_ns < 0)
		return err_set(e, -PYE_EOUTPUT, "no window can be written here");
	err = copy_labels(f, labels, label_cnt, e);
	if (err)
		return err;
	for (uint32_t again = 0; again < NAMES_MAX; again++) {
		name_file(f, again);
		if (faccessat(s->dir_fd, f->name, F_OK, AT_SYMLINK_NOFOLLOW))
			break;
	}
	if (path_in(s, f->name, path, sizeof(path)))
		return err_set(e, -PYE_EOUTPUT, "the name of the store is too long");
	err = outfile__open(&f->out, path, OUTFILE_ATOMIC, false, e);
	if (!err)
		*out = take_ptr(f);
	return err;
}

int store_file__write(void *file, const void *data, size_t len)
{
	struct store_file *f = file;

	return outfile__write(f->out, data, len);
}

int store_file__commit(struct store_file *f, struct err *e)
{
	struct store_window w = {
		.file = f->name,
		.start_ns = f->start_ns,
		.end_ns = f->end_ns,
		.bytes = outfile__bytes(f->out),
		.labels = f->labels,
		.label_cnt = f->label_cnt,
	};
	struct catalogue *c = f->store->catalogue;
	bool alone = !f->store->together;
	int err = outfile__commit(f->out, e);

	if (err)
		return err;
	err = alone ? catalogue__begin(c, e) : 0;
	err = err ? err : catalogue__add(c, &w, e);
	err = err || !alone ? err : catalogue__commit(c, e);
	/* the window is there: what is made of the files has it */
	return err == -ENOSPC ? store_leave_disk(f->store, e) : err;
}

void store__together_begin(struct store *s)
{
	s->together = s->together || !catalogue__begin(s->catalogue, NULL);
}

int store__together_end(struct store *s, struct err *e)
{
	int err = s->together ? catalogue__commit(s->catalogue, e) : 0;

	s->together = false;
	return err ? store_leave_disk(s, e) : 0;
}

void store_file__free(struct store_file *f)
{
	if (!f)
		return;
	outfile__free(f->out);
	for (uint32_t i = 0; i < f->label_cnt; i++) {
		free((char *)f->labels[i].name);
		free((char *)f->labels[i].value);
	}
	free(f);
}

/* --- reading --- */

struct chosen {
	const struct selector *selector;
	int (*fn)(void *ctx, const struct store_window *window);
	void *ctx;
};

static int take_window(void *ctx, const struct store_window *w)
{
	const struct chosen *c = ctx;

	return selector__takes(c->selector, w->labels, w->label_cnt) ? c->fn(c->ctx, w) : 0;
}

int store__each(struct store *s, int64_t since_ns, int64_t until_ns,
		const struct selector *selector,
		int (*fn)(void *ctx, const struct store_window *window), void *ctx, struct err *e)
{
	struct chosen chosen = { selector, fn, ctx };

	return catalogue__each(s->catalogue, since_ns, until_ns, take_window, &chosen, e);
}

int store__open_window(const struct store *s, const struct store_window *window, struct err *e)
{
	int fd = openat(s->dir_fd, window->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 ? fd
		       : err_set(e, -PYE_EFORMAT, "the window %s cannot be read: %s", window->file,
				 strerror(errno));
}
