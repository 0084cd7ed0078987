/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process runs, so that advice fits: nobody in a container is told to use sudo. */
#ifndef PYEBPF_BASE_WHERE_H
#define PYEBPF_BASE_WHERE_H

#include <stdbool.h>

enum where {
	WHERE_HOST,
	WHERE_DOCKER,
	WHERE_PODMAN,
	WHERE_KUBERNETES,
	WHERE_CONTAINER, /* another one: LXC, systemd-nspawn */
};

/* where_are_we - by the marks that container engines leave; a machine without any is a host. */
enum where where_are_we(void);

/* where_name - "the host", "a docker container", "a Kubernetes pod"; static. */
const char *where_name(enum where where);

/* where_user_ns, where_pid_ns - not the first user (pid) namespace of the machine? */
bool where_user_ns(void);
bool where_pid_ns(void);

/* where_rule - the number in /proc/sys of a name with dots; false: there is no such rule. */
bool where_rule(const char *name, int *value);

#endif
