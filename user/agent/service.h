/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process belongs to: the labels under which its samples are kept. Nothing of its environment and
 * nothing of its arguments but the name of the program is looked at.
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

#include <stdint.h>
#include <sys/types.h>

#include "store/selector.h"

#define SERVICE_LABELS_MAX 8

struct service {
	struct store_label labels[SERVICE_LABELS_MAX]; /* service_name first */
	uint32_t label_cnt;
	char text[1024]; /* holds the values */
};

/**
 * service_of - the labels of a process
 * @pid:    as /proc shows it; one that is gone by now has what @comm and @exe tell
 * @python: version, "3.12"
 *
 * Labels: service_name, unit, container_id (12 digits), executable, python; those that are known.
 */
void service_of(pid_t pid, const char *comm, const char *exe, const char *python,
		struct service *out);

/* service_by - the same from what /proc says: @cgroup is /proc/PID/cgroup, @cmdline NUL-terminated arguments of
 * @len bytes; both may be "" or 0. */
void service_by(const char *cgroup, const char *cmdline, size_t len, const char *comm,
		const char *exe, const char *python, struct service *out);

/* service_copy - a plain assignment would leave the labels in @from. */
void service_copy(struct service *to, const struct service *from);

#endif
