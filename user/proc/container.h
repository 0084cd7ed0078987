/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/PID/cgroup says: in which cgroup of each hierarchy a process is, and which container that stands
 * for. The kernel writes the lines, but whoever made the cgroups chose their names. No id of a
 * container is a secret of its engine: each has it in the name of the cgroup, in a form of its own.
 */
#ifndef PYEBPF_PROC_CONTAINER_H
#define PYEBPF_PROC_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "4:cpu,cpuacct:/docker/<id>"; of version 2 "0::/docker/<id>". Both texts are borrowed, not NUL-terminated. */
struct cgroup_line {
	uint32_t hierarchy; /* the kernel's number of it; 0: version 2 */
	const char *controllers; /* "cpu,cpuacct", "name=systemd"; "" of version 2 */
	size_t controllers_len;
	const char *path; /* begins with a slash */
	size_t path_len;
};

/* cgroup_line__next - the next line of @text, which is moved on; false at its end. What is none is left out. */
bool cgroup_line__next(const char **text, struct cgroup_line *out);

struct container_name {
	const char *
		engine; /* "docker", "podman", "containerd", "cri-o", "kubernetes", "lxc"...; static */
	const char *id; /* 64 hex digits as a rule, a name with some engines; borrowed */
	size_t len; /* 0: the engine is known, the container is not */
	size_t shown; /* of it, by engines: the first 12 digits, or the whole name */
	size_t end; /* in the path: of the cgroup that is the container's */
};

/**
 * container_at - the container that a component of a cgroup's path stands for
 * @path: at most @len bytes of it are looked at
 * @from: where the component begins, behind its slash; what is above it tells the engine, too
 *
 * Return: false for one that is no container, as those of an engine's monitors.
 */
bool container_at(const char *path, size_t len, size_t from, struct container_name *out);

/* container_in - the innermost container of a cgroup's path; false: none */
bool container_in(const char *path, size_t len, struct container_name *out);

/* container_of - the innermost container in the text of a cgroup file; false: none. Hierarchies can differ:
 * the first one that has an id tells. */
bool container_of(const char *text, struct container_name *out);

/* A pod's, by which kubelet names its cgroups: a UUID, or 32 digits of a pod of the node's own files. */
#define POD_UID_MIN 32
#define POD_UID_MAX 36

/* container_pod - the uid of the pod in the text of a cgroup file, with dashes; false: it is in none. */
bool container_pod(const char *text, char uid[POD_UID_MAX + 1]);

#endif
