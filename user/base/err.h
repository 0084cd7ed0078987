/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error numbers. A function returns 0 (or a positive result) on success and a negative number on
 * failure: a negated errno, or one of the causes below, which lie above the errno range. Library
 * folders stay silent; the command layer turns the number and the sentence left in `struct err`
 * into what the user reads.
 */
#ifndef PYEBPF_BASE_ERR_H
#define PYEBPF_BASE_ERR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* clang-format off */
#define PYE_ERRORS(X) \
	X(PYE_ENOTPYTHON, 4096, "not a Python process")                                   \
	X(PYE_EVERSION,   4097, "a Python version or build that is not supported")        \
	X(PYE_EPLAN,      4098, "no probe plan that passes its checks")                   \
	X(PYE_EKERNEL,    4099, "the kernel lacks something that is needed")              \
	X(PYE_EPRIV,      4100, "a privilege is missing")                                 \
	X(PYE_EFORMAT,    4101, "malformed input")                                        \
	X(PYE_ETARGET,    4102, "no such target")                                         \
	X(PYE_EOUTPUT,    4103, "the output could not be written")                        \
	X(PYE_EUSAGE,     4104, "usage")                                                  \
	X(PYE_ELOSS,      4105, "more was lost than may be")
/* clang-format on */

enum pye_errno {
#define X(name, number, text) name = (number),
	PYE_ERRORS(X)
#undef X
};

/* What is reported with an error: one sentence what, one line what to do about it (up to four, with
 * newlines between them, when a privilege is missing). */
struct err {
	char what[768];
	char hint[512];
};

/**
 * err_set - leave the sentence that explains a failure
 * @e:    may be NULL: then nothing is kept
 * @code: negative error number, handed through
 *
 * The newest sentence wins; outer layers that know more may overwrite it.
 *
 * Return: @code, so that `return err_set(e, -ENOENT, "...")` works.
 */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* err_hint - the "do this" of an error; @e may be NULL. */
void err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* err_is_full - does an errno say that a disk, or a quota, has no room, or that an error has made the disk read-only? */
static inline bool err_is_full(int number)
{
	return number == ENOSPC || number == EDQUOT || number == EROFS;
}

/* err_is_shortage - does it say that there is no descriptor, or no memory, left? It tells nothing of what was to be opened. */
static inline bool err_is_shortage(int number)
{
	return number == EMFILE || number == ENFILE || number == ENOMEM;
}

/* err_str - text of a negative error number, errno or PYE_E*. Never NULL, static. */
const char *err_str(int code);

/* err_exit_code - exit status of the command line for a negative error number (ux: 1 to 6). */
int err_exit_code(int code);

#endif
