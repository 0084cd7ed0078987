/* SPDX-License-Identifier: Apache-2.0 */
/* One line of `pyebpf list`. */
#ifndef PYEBPF_CMD_LIST_ROW_H
#define PYEBPF_CMD_LIST_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "cpython/interp.h"
#include "proc/info.h"

struct outbuf;

struct list_row {
	struct proc_info info;
	char *cmdline; /* arguments, each NUL-terminated; NULL when it may not be read */
	size_t cmdline_len;
	char user[64]; /* name, or number of one without; set by the caller */
	char container[64];
	bool other_mounts, other_pids; /* namespaces of its own */
	const char
		*inline_barred; /* why its user needs a privilege for --engine inline; NULL: none */
	struct err
		inline_why_not; /* why --engine inline takes it for nobody, though the others do; empty: it does */
	bool has_stubs, stubs_read; /* of the inline engine; and somebody reads what they write */
	int err; /* why it cannot be traced; 0: @in is valid */
	struct err e;
	bool sampled; /* it can be recorded nevertheless */
	struct interp in;
};

/**
 * list_row__new - look at a process
 * @pid:     as /proc shows it
 * @given:   by the user, who knows that it is Python, or is about to be
 * @sampled: keeps what is known of files for those that cannot be traced
 * @out:     owned; only written on success
 *
 * Return: 0 when it is Python, traceable or not (see its @err); as interp__find() when it is not Python,
 * gone or may not be looked at; -ENOMEM.
 */
int list_row__new(pid_t pid, bool given, const char *engine, struct interp_cache *cache,
		  struct interp_cache *sampled, struct list_row **out, struct err *e);
void list_row__free(struct list_row *row);

static inline void list_row__freep(struct list_row **row)
{
	list_row__free(*row);
}

/* For columns_print(): cells with tabs between them, then lines without one. */
void list_row_print_head(FILE *out);
void list_row__print(const struct list_row *row, FILE *out);

/* list_row__json - the same and more as a JSON object. */
void list_row__json(const struct list_row *row, struct outbuf *out);

#endif
