/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the folder of a cgroup can be seen. In a cgroup namespace of one's own, as in each container on a host of version 2,
 * /proc/PID/cgroup is written as the way from one's own cgroup ("/../../pod1/<id>"), and one's own mount shows nothing else.
 * Other mount namespaces show more: a container's own that container, the host's all.
 */
#ifndef PYEBPF_PROC_CGROUP_TREE_H
#define PYEBPF_PROC_CGROUP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/cgroup.h"

#define CGROUP_BYTES 65536 /* of a cgroup file */

struct cgroup_search {
	const char *path; /* as /proc/PID/cgroup has it for us; or of a folder */
	int64_t only; /* this hierarchy; -1: all */
	struct cgroup_key *keys; /* found ones are added */
	size_t cap, cnt;
	bool mounted; /* one of the hierarchies is */
};

/**
 * cgroup_search - the folders of a cgroup, by our own mounts, and when these have none by those of other processes
 *
 * Return: 0, also when there is none; -ENOMEM.
 */
int cgroup_search(struct cgroup_search *s);

#endif
