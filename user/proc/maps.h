/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/maps. The kernel writes the lines, but the process chooses how many there are and what
 * the files are called: any bytes except NUL, a newline as \012 (a real backslash is not escaped, so
 * the path is for messages only; files are opened as mapped_file.h says).
 */
#ifndef PYEBPF_PROC_MAPS_H
#define PYEBPF_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Most that is read of a maps file: about half a million mappings. */
#define MAPS_CAP (64u << 20)

enum mapping_flags {
	MAPPING_READ = 1,
	MAPPING_WRITE = 2,
	MAPPING_EXEC = 4,
	MAPPING_SHARED = 8
};

struct mapping {
	uint64_t start, end; /* start < end */
	uint64_t offset; /* in the file */
	uint32_t flags; /* enum mapping_flags */
	dev_t dev;
	ino_t ino; /* 0: no file */
	const char *path; /* borrowed from the struct maps; "" for none */
};

struct maps {
	struct mapping *items; /* in rising order of addresses, not overlapping */
	size_t cnt;
	char *text;
	bool truncated; /* the file was larger than MAPS_CAP */
};

/**
 * maps__read - mappings of a process
 * @pid: as /proc shows it
 * @out: release with maps__done(); written only on success. No mappings: a kernel thread, or it ends
 *
 * Return: 0; -ESRCH; -EACCES; -ENOMEM; another negative errno.
 */
int maps__read(pid_t pid, struct maps *out);

/**
 * maps__parse - mappings in the text of a maps file
 * @text: NUL-terminated after @len bytes, owned from now on, also on failure; changed
 *
 * Lines that are none are left out, as are those not behind the line before.
 *
 * Return: 0 or -ENOMEM.
 */
int maps__parse(char *text, size_t len, struct maps *out);
void maps__done(struct maps *m);

/* maps__find - the mapping that holds an address; NULL if there is none. Borrowed. */
const struct mapping *maps__find(const struct maps *m, uint64_t addr);

/* maps__vdso - what the kernel maps into each process for its own calls, an ELF file; NULL if it is not there. Borrowed. */
const struct mapping *maps__vdso(const struct maps *m);

/* mapping_same_file - both are mappings of one file. */
bool mapping_same_file(const struct mapping *a, const struct mapping *b);

#endif
