/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups of version 2 by what users type. The kernel knows them by an id, which on every 64-bit
 * machine is the inode number of the folder.
 */
#ifndef PYEBPF_PROC_CGROUP_H
#define PYEBPF_PROC_CGROUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/**
 * cgroup_by_path - id of a cgroup
 * @path: of its folder, or below the root of the hierarchy, with or without a slash first, as
 *	  /proc/PID/cgroup has it
 *
 * Return: 0; -PYE_ETARGET when there is none, -PYE_EKERNEL without a mounted hierarchy of version 2.
 */
int cgroup_by_path(const char *path, uint64_t *id, struct err *e);

/**
 * cgroup_by_container - ids of the cgroups of a container
 * @prefix: of the container's id, as its engine shows it; or a whole name, where names are in paths
 * @ids:    room for @cap; an engine can have several for one container
 *
 * Looks at the cgroups of all processes, so one has to run in the container.
 *
 * Return: how many; -PYE_ETARGET when none or several containers are meant; -PYE_EKERNEL when only
 * cgroups of version 1 tell; -ENOMEM.
 */
int cgroup_by_container(const char *prefix, uint64_t *ids, size_t cap, struct err *e);

#endif
