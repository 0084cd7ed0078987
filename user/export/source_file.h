/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source that a name of a profile means, on the machine where the profile is looked at. The traced program
 * chose that name: the file is opened as the user who runs us, and shown only if it is Python's, by its name behind
 * all links or by its first line, so that nobody is made to show what they would not.
 */
#ifndef PYEBPF_EXPORT_SOURCE_FILE_H
#define PYEBPF_EXPORT_SOURCE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SOURCE_BYTES_MAX = 4 << 20,
	SOURCE_LINE_MAX = 1000, /* bytes of a line that are shown */
};

struct source_line {
	const char *s; /* any bytes; tabs are spaces */
	size_t len;
};

struct source_file {
	char *text; /* owned */
	struct source_line *lines; /* owned; the first one is line 1 */
	uint32_t line_cnt;
	bool newer; /* than the profile: its lines may be others */
	const char *missing; /* why there is no text; NULL: there is */
};

/**
 * source_file__init - read a file
 * @path:        co_filename
 * @start_unix_ns: of the profile; 0: not known
 *
 * That it cannot be shown is no error: @f says why.
 *
 * Return: 0 or -ENOMEM; source_file__done() either way.
 */
int source_file__init(struct source_file *f, const char *path, int64_t start_unix_ns);

void source_file__done(struct source_file *f);

#endif
