/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups by what users type. The kernel knows one by the hierarchy (there is one of version 2, and
 * any number of version 1) and in there by an id, which on every 64-bit machine is the inode number of its
 * folder. One machine can have both versions.
 */
#ifndef PYEBPF_PROC_CGROUP_H
#define PYEBPF_PROC_CGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct cgroup_key {
	uint64_t id;
	uint32_t hierarchy; /* 0: version 2 */
};

/**
 * cgroup_by_path - a cgroup, of each hierarchy that has one there
 * @path: of its folder; or below the root of the hierarchies, with or without a slash first, as
 *	  /proc/PID/cgroup has it
 * @keys: room for @cap; what does not fit is left out
 *
 * Return: how many; -PYE_ETARGET when there is none, -PYE_EKERNEL without a mounted hierarchy; -ENOMEM.
 */
int cgroup_by_path(const char *path, struct cgroup_key *keys, size_t cap, struct err *e);

/**
 * cgroup_by_container - the cgroups of a container
 * @prefix: of the container's id, as its engine shows it; or a whole name, where names are in paths
 * @keys:   room for @cap; an engine can have several for one container
 *
 * Looks at the cgroups of all processes, so one has to run in the container. Of version 2 where the
 * container has some there, else of one hierarchy of version 1.
 *
 * Return: how many; -PYE_ETARGET when none or several containers are meant; -PYE_EKERNEL when the hierarchy
 * of its cgroups is not mounted; -ENOMEM.
 */
int cgroup_by_container(const char *prefix, struct cgroup_key *keys, size_t cap, struct err *e);

/**
 * container_pids - the processes of a container, and of what it has started in itself
 * @prefix: as of cgroup_by_container()
 * @out:    owned (free)
 *
 * Return: 0; -PYE_ETARGET when none or several containers are meant; -PYE_EKERNEL; -ENOMEM.
 */
int container_pids(const char *prefix, pid_t **out, size_t *cnt, struct err *e);

#endif
