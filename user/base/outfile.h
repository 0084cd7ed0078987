/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output files. A file is made as the invoking user: when root runs us through sudo, SUDO_UID and
 * SUDO_GID, with that user's groups, decide what may be created where, and own the result. Names
 * that exist are refused, links are never followed.
 *
 * OUTFILE_ATOMIC writes to a file without a name (open(2): O_TMPFILE; where there are none, .pyebpf-<random>.tmp in the same folder)
 * and gives it its name when everything is on disk: a name that exists is complete. OUTFILE_DIRECT
 * writes under the final name at once, for captures, which are readable after a kill.
 *
 * Where -PYE_EOUTPUT comes with a sentence, it is -ENOSPC when the disk, or a quota, is full.
 */
#ifndef PYEBPF_BASE_OUTFILE_H
#define PYEBPF_BASE_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum outfile_mode {
	OUTFILE_ATOMIC,
	OUTFILE_DIRECT
};

struct outfile;

/**
 * outfile_check - whether outfile__open() would refuse, to say so before the work starts
 * @path:  "-" is always fine
 * @force: a regular file that exists may be replaced
 * @e:     the sentence; may be NULL
 *
 * Return: 0 or -PYE_EOUTPUT.
 */
int outfile_check(const char *path, bool force, struct err *e);

/**
 * outfile__open - start a file
 * @path:  copied; "-" is stdout
 * @force: replace a regular file (at outfile__commit() with OUTFILE_ATOMIC, at once otherwise)
 *
 * Return: 0, -ENOMEM, or -PYE_EOUTPUT with a sentence in @e.
 */
int outfile__open(struct outfile **out, const char *path, enum outfile_mode mode, bool force,
		  struct err *e);

/**
 * outfile__write - append all of @data; an outbuf_write_fn
 * @outfile: a struct outfile
 *
 * Return: 0 or -PYE_EOUTPUT; outfile__explain() has the cause.
 */
int outfile__write(void *outfile, const void *data, size_t len);

/* outfile__explain - the sentence for a failed outfile__write(). Return: -PYE_EOUTPUT or -ENOSPC. */
int outfile__explain(const struct outfile *f, struct err *e);

/**
 * outfile__commit - everything to disk, and the name onto it
 *
 * Return: 0 or -PYE_EOUTPUT with a sentence; the file is then gone (OUTFILE_ATOMIC).
 */
int outfile__commit(struct outfile *f, struct err *e);

/* outfile__remove - unlink a file of OUTFILE_DIRECT, also after its commit; a capture not kept. */
void outfile__remove(struct outfile *f);

/**
 * outfile__free - close; NULL is fine
 *
 * Not committed: OUTFILE_ATOMIC leaves nothing behind, OUTFILE_DIRECT leaves the file as it is.
 */
void outfile__free(struct outfile *f);

static inline void outfile__freep(struct outfile **f)
{
	outfile__free(*f);
}

/* outfile__fd - readable too, if not stdout; borrowed. */
int outfile__fd(const struct outfile *f);
/* outfile__bytes - written so far through outfile__write(). */
uint64_t outfile__bytes(const struct outfile *f);

/**
 * outfile_invoker - who runs us
 *
 * SUDO_UID and SUDO_GID count only when the effective user is root and both are plain decimal
 * numbers; the own effective ids otherwise.
 *
 * Return: whether they come from sudo.
 */
bool outfile_invoker(uid_t *uid, gid_t *gid);

/**
 * outfile_default_name - pyebpf-<mode>-<comm>-<pid>-<YYYYMMDDTHHMMSSZ><extension>
 * @comm:      of the process; what does not belong in a file name becomes _
 * @unix_ns:   wall clock
 * @extension: with its dot
 *
 * Return: 0 or -ENAMETOOLONG.
 */
int outfile_default_name(char *out, size_t size, const char *mode, const char *comm, uint32_t pid,
			 int64_t unix_ns, const char *extension);

#endif
