/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process belongs to: the labels under which its samples are kept. Nothing of its environment and
 * nothing of its arguments but the name of the program is looked at, unless that is asked for.
 *
 * service_name is, the first of these that is there:
 *   1. the systemd unit that it runs in: web.service -> web, web@blue.service -> web
 *   2. its program, when the executable is python by name: python3 /srv/shop/app.py -> app, -m shop.api ->
 *      shop.api; or the first word of the title that it gave itself: "gunicorn: worker [app]" -> gunicorn
 *   3. its executable: /opt/venv/bin/uwsgi -> uwsgi
 * Units of logins (user@1000, session scopes) and of a container's engine (docker, containerd) are none.
 */
#ifndef PYEBPF_AGENT_SERVICE_H
#define PYEBPF_AGENT_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/selector.h"

#define SERVICE_LABELS_MAX 160 /* those of a pod and its annotations, too, for rules */
#define SERVICE_CONTAINER  "__meta_container_id"
#define SERVICE_POD_UID	   "__meta_kubernetes_pod_uid"
#define SERVICE_META	   "__" /* labels whose names begin so are for rules, and are not kept */

struct service {
	struct store_label labels[SERVICE_LABELS_MAX]; /* service_name first */
	uint32_t label_cnt, used;
	char text[24576]; /* holds names and values */
};

/* What is known of a process. Strings borrowed. */
struct service_facts {
	uint32_t pid; /* as the capture has it; 0: not known */
	const char *cgroup; /* /proc/PID/cgroup, or "" */
	const char *cmdline; /* its arguments, each NUL-terminated; any bytes */
	size_t cmdline_len;
	bool show_cmdline; /* keep them as __meta_process_cmdline: they can hold secrets */
	const char *comm, *exe;
	const char *python; /* version, "3.12" */
};

/**
 * service_by - the labels of a process
 *
 * Labels: service_name, unit, container_id (12 digits, or a name), executable, python; those that are known. For rules
 * there are, besides, __meta_process_pid, __meta_process_executable_path, __meta_process_cgroup (the innermost
 * one), __meta_thread_comm, __meta_container_id (64 digits), SERVICE_POD_UID, and what show_cmdline says.
 */
void service_by(const struct service_facts *facts, struct service *out);

/* service_of - the same, @facts completed by what /proc says of @pid; one that is gone has what they tell. */
void service_of(pid_t pid, const struct service_facts *facts, struct service *out);

/* service_add - one more label; the value is escaped, as it is a target's own choice. One that finds no
 * room is left out. */
void service_add(struct service *s, const char *name, const char *value, size_t len);

/* service_set - the same in place of one of that name; "" takes it away. */
void service_set(struct service *s, const char *name, const char *value, size_t len);

/* service_remove - the label at @index. */
void service_remove(struct service *s, uint32_t index);

/* service_copy - a plain assignment would leave the labels in @from. */
void service_copy(struct service *to, const struct service *from);

/* glob_any - does one of them fit? * and ? stand for others. */
bool glob_any(const char *const *globs, uint32_t cnt, const char *name);

#endif
