/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local store of profiles: a folder of windows, each a complete pprof file of one service over some
 * time (YYYYMMDDTHHMMSSZ-60s-SERVICE-1a2b3c4d.pb.gz), and a catalogue of them (catalogue.sqlite). A window
 * never changes. The catalogue holds nothing that is not in the windows: labels are comments of the
 * profile ("label: name=value"), times its time and duration. When it is missing, damaged or behind, it is
 * made again from the files; the real pprof, given the windows, needs neither it nor us.
 *
 * One process writes (it holds a lock on the folder), any number reads. Times are Unix nanoseconds.
 */
#ifndef PYEBPF_STORE_STORE_H
#define PYEBPF_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/selector.h"

#define STORE_LABELS_MAX 64 /* of a window */
#define STORE_LABEL_MAX	 1024 /* bytes of a name or a value */
#define STORE_SERVICE	 "service_name" /* the label that every window has */

/* What is known of a window without reading its profile. Strings borrowed. */
struct store_window {
	int64_t id; /* of the catalogue; stays as long as the catalogue is not made again */
	const char *file; /* name in the folder */
	int64_t start_ns, end_ns;
	uint64_t bytes;
	const struct store_label *labels; /* sorted by name */
	uint32_t label_cnt;
};

struct store;
struct store_file;

enum store_mode {
	STORE_READ,
	STORE_WRITE
};

/**
 * store__open - open a store
 * @dir:  made for STORE_WRITE when it is missing (0700); copied
 * @mode: STORE_WRITE fails when somebody else writes to it
 *
 * Finds out what differs between the folder and the catalogue and mends the catalogue. A reader mends its
 * own copy, in memory: it writes nothing. So does a writer while the disk is full; store__trim() finds out when it is not any more.
 *
 * Return: 0; -ENOSPC with a sentence: there is no room even for the folder; -PYE_EOUTPUT or -PYE_EFORMAT with a sentence; -ENOMEM.
 */
int store__open(struct store **out, const char *dir, enum store_mode mode, struct err *e);
void store__free(struct store *s);

static inline void store__freep(struct store **s)
{
	store__free(*s);
}

/* Windows that the catalogue did not know, and those that it knew and that were gone, when it was opened;
 * files that are no window. */
struct store_mended {
	uint64_t added, removed, unreadable;
};

const struct store_mended *store__mended(const struct store *s);

/* store_folder_is - is an open folder still the one of this name? It can be removed, or another one come in its place. */
bool store_folder_is(int fd, const char *dir);
bool store__is_there(const struct store *s);

/**
 * store__begin - start a window
 * @labels: STORE_SERVICE among them; the same have to be comments of the profile that is written
 *
 * Return: 0; -PYE_EOUTPUT or -ENOSPC with a sentence; -ENOMEM. Only with STORE_WRITE.
 */
int store__begin(struct store *s, int64_t start_ns, int64_t end_ns,
		 const struct store_label *labels, uint32_t label_cnt, struct store_file **out,
		 struct err *e);

/* store_file__write - append bytes; an outbuf_write_fn. 0 or -PYE_EOUTPUT. */
int store_file__write(void *file, const void *data, size_t len);

/**
 * store_file__commit - the window is complete: to disk, its name onto it, into the catalogue
 *
 * Return: 0, or with a sentence -ENOSPC, the disk is full, also when that was store_file__write(), or -PYE_EOUTPUT: nothing is left of
 * it, and no other window is touched.
 */
int store_file__commit(struct store_file *f, struct err *e);

/**
 * store__together_begin - what the catalogue is told from here on it writes at once, at store__together_end(): to do that for each of
 * many windows takes longer than to write these. They are on disk nevertheless when they are committed.
 *
 * store__together_end: 0; when the catalogue on disk cannot be written it goes on in memory; -PYE_EFORMAT with a sentence, -ENOMEM.
 */
void store__together_begin(struct store *s);
int store__together_end(struct store *s, struct err *e);

/* store_file__free - what was not committed is gone. NULL is fine. */
void store_file__free(struct store_file *f);

static inline void store_file__freep(struct store_file **f)
{
	store_file__free(*f);
}

/**
 * store__each - the windows that overlap [@since_ns, @until_ns) and that @selector takes, oldest first
 * @selector: NULL takes all
 * @fn:       0 or a negative number, which ends the walk. It must not write to the store.
 *
 * Return: 0, what @fn returned, -PYE_EFORMAT with a sentence when the catalogue fails, -ENOMEM.
 */
int store__each(struct store *s, int64_t since_ns, int64_t until_ns,
		const struct selector *selector,
		int (*fn)(void *ctx, const struct store_window *window), void *ctx, struct err *e);

/* store__open_window - its profile, for reading. A descriptor, the caller's; -PYE_EFORMAT with a sentence when
 * it is gone meanwhile. */
int store__open_window(const struct store *s, const struct store_window *window, struct err *e);

struct store_limits {
	uint64_t max_bytes; /* 0: none */
	int64_t max_age_ns; /* 0: none */
};

struct store_trimmed {
	uint64_t by_age, by_bytes; /* windows removed */
	uint64_t bytes; /* that they had */
};

/**
 * store__trim - remove the oldest windows until the limits hold
 * @removed: added to
 *
 * Return: 0, -PYE_EOUTPUT with a sentence, -ENOMEM.
 */
int store__trim(struct store *s, int64_t now_ns, const struct store_limits *limits,
		struct store_trimmed *removed, struct err *e);

/**
 * store__make_room - remove the oldest windows, since the disk is full
 * @bytes:   that they are to have
 * @keep:    the newest ones of so many bytes stay
 * @removed: added to; none was: there is nothing to make room with
 *
 * Return: as store__trim().
 */
int store__make_room(struct store *s, uint64_t bytes, uint64_t keep, struct store_trimmed *removed,
		     struct err *e);

struct store_purged {
	uint64_t windows, bytes; /* that were removed */
	uint64_t strangers; /* files that are not the store's: they stay, and so does the folder */
};

/**
 * store_purge - remove a store: its windows, sent or not, and all that was noted of them
 * @out: zeros when there is none
 *
 * Return: 0; -PYE_EOUTPUT with a sentence, also when somebody writes to it: then nothing is touched; -ENOMEM.
 */
int store_purge(const char *dir, struct store_purged *out, struct err *e);

#endif
