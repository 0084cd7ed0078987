/* SPDX-License-Identifier: Apache-2.0 */
/* Empty BPF programs at the sites of a plan: the floor that nothing at these sites can go below. */
#ifndef PYEBPF_BENCH_EMPTY_PROBES_H
#define PYEBPF_BENCH_EMPTY_PROBES_H

#include <stdbool.h>
#include <sys/types.h>

#include "cpython/plan.h"

/* Which sites of a plan: a frame is entered, or one is left. */
enum probe_family {
	FAMILY_ENTRY = 1,
	FAMILY_EXIT = 2,
	FAMILY_BOTH = 3
};

/* family_of - the family of a site, 0 if it is of none (the deallocator's). */
enum probe_family family_of(enum probe_kind kind);

/**
 * empty_program - load a program that returns 0
 * @sleepable: as the programs of pyebpf are
 *
 * Return: its descriptor or a negative errno.
 */
int empty_program(const char *name, bool sleepable);

/* empty_attach - one uprobe_multi link for the sites of @family; its descriptor or a negative errno. */
int empty_attach(int prog_fd, const struct probe_plan *plan, const char *path,
		 enum probe_family family, pid_t pid);

#endif
