// SPDX-License-Identifier: Apache-2.0
#include "base/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Inodes of the first namespaces; the kernel promises them in <linux/nsfs.h>. */
#define FIRST_USER_NS	0xeffffffdu
#define FIRST_PID_NS	0xeffffffcu
#define FIRST_CGROUP_NS 0xeffffffbu

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static bool is_other(const char *path, ino_t first)
{
	struct stat st;

	return !stat(path, &st) && st.st_ino != first;
}

enum where where_are_we(void)
{
	/* a pod's container has the marks of its engine too */
	if (secure_getenv("KUBERNETES_SERVICE_HOST") ||
	    exists("/var/run/secrets/kubernetes.io/serviceaccount"))
		return WHERE_KUBERNETES;
	if (exists("/run/.containerenv"))
		return WHERE_PODMAN;
	if (exists("/.dockerenv"))
		return WHERE_DOCKER;
	/* containerd and runc leave no mark, but give a view of the control groups of its own */
	return exists("/run/systemd/container") || is_other("/proc/self/ns/cgroup", FIRST_CGROUP_NS)
		       ? WHERE_CONTAINER
		       : WHERE_HOST;
}

const char *where_name(enum where where)
{
	switch (where) {
	case WHERE_HOST:
		break;
	case WHERE_DOCKER:
		return "a docker container";
	case WHERE_PODMAN:
		return "a podman container";
	case WHERE_KUBERNETES:
		return "a Kubernetes pod";
	case WHERE_CONTAINER:
		return "a container";
	}
	return "the host";
}

bool where_user_ns(void)
{
	return is_other("/proc/self/ns/user", FIRST_USER_NS);
}

bool where_pid_ns(void)
{
	return is_other("/proc/self/ns/pid", FIRST_PID_NS);
}

bool where_rule(const char *name, int *value)
{
	auto_fclose FILE *f = NULL;
	char path[96];

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	for (char *at = path + sizeof("/proc/sys/") - 1; *at; at++)
		if (*at == '.')
			*at = '/';
	f = fopen(path, "re");
	/* NOLINTNEXTLINE(cert-err34-c): a file of the kernel with a small number in it */
	return f && fscanf(f, "%d", value) == 1;
}
