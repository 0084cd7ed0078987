// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/cgroup_tree.h"
#include "proc/container.h"
#include "proc/file.h"
#include "proc/info.h"

#define NAME_MIN 32 /* of a container's id: then its beginning is enough */

int cgroup_by_path(const char *path, struct cgroup_key *keys, size_t cap, struct err *e)
{
	struct cgroup_search s = { .path = path, .only = -1, .keys = keys, .cap = cap };
	char shown[256];
	int err = cgroup_search(&s);

	if (err)
		return err;
	if (s.cnt)
		return (int)s.cnt;
	if (!s.mounted) {
		err_set(e, 0, "no hierarchy of cgroups is mounted");
		err_hint(
			e,
			"mount -t cgroup2 none /sys/fs/cgroup/unified, or name the processes with -p");
		return -PYE_EKERNEL;
	}
	text_escape(shown, sizeof(shown), path, strlen(path));
	err_set(e, 0, "there is no cgroup %s", shown);
	err_hint(e,
		 "/proc/PID/cgroup has those of a process, behind the second colon of each line");
	return -PYE_ETARGET;
}

/* --- containers --- */

struct cgroup_path {
	uint32_t hierarchy;
	char *path; /* owned */
};

struct container {
	const char *prefix;
	char id[256]; /* of the first one that fits; "" = none yet */
	struct cgroup_path paths[64]; /* of its cgroups */
	size_t path_cnt;
	pid_t *pids; /* owned; in it, at a look */
	size_t pid_cnt;
	bool several; /* containers fit */
};

enum {
	PATHS = sizeof(((struct container *)NULL)->paths) / sizeof(struct cgroup_path)
};

static void container__freep(struct container **c)
{
	for (size_t i = 0; *c && i < (*c)->path_cnt; i++)
		free((*c)->paths[i].path);
	if (*c)
		free((*c)->pids);
	free(*c);
}

static bool fits(const char *name, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	/* a name that is no id has to be the whole one: "a" is not what "app.slice" means */
	if (len < NAME_MIN)
		return n == len && !memcmp(name, prefix, n);
	return n <= len && !memcmp(name, prefix, n);
}

static int take_path(struct container *c, uint32_t hierarchy, const char *path, size_t len)
{
	for (size_t i = 0; i < c->path_cnt; i++)
		if (c->paths[i].hierarchy == hierarchy && strlen(c->paths[i].path) == len &&
		    !memcmp(c->paths[i].path, path, len))
			return 0;
	if (c->path_cnt == PATHS)
		return 0;
	c->paths[c->path_cnt] =
		(struct cgroup_path){ .hierarchy = hierarchy, .path = strndup(path, len) };
	return c->paths[c->path_cnt].path ? (c->path_cnt++, 0) : -ENOMEM;
}

/* The outermost component that fits: what a container starts in itself is meant, too. 1: one does. */
static int match_line(struct container *c, const struct cgroup_line *line)
{
	int err;

	for (size_t at = 1; at < line->path_len; at++) {
		struct container_name name;
		size_t end;

		if (line->path[at - 1] != '/')
			continue;
		end = at + strcspn(line->path + at, "/\n");
		if (!container_at(line->path, line->path_len, at, &name))
			name = (struct container_name){ .id = line->path + at, .len = end - at };
		if (!fits(name.id, name.len, c->prefix) || name.len >= sizeof(c->id))
			continue;
		if (!c->id[0])
			memcpy(c->id, name.id, name.len);
		else if (strlen(c->id) != name.len || memcmp(c->id, name.id, name.len) != 0)
			c->several = true;
		err = take_path(c, line->hierarchy, line->path, end);
		return err ? err : 1;
	}
	return 0;
}

/* Is it in the container? A negative errno, 0, 1. */
static int match_process(struct container *c, pid_t pid)
{
	auto_free char *text = NULL;
	struct cgroup_line line;
	const char *rest;
	int found = 0;
	size_t len;

	if (proc_file__read(pid, "cgroup", CGROUP_BYTES, &text, &len) < 0)
		return 0;
	for (rest = text; cgroup_line__next(&rest, &line);) {
		int err = match_line(c, &line);

		if (err < 0)
			return err;
		found |= err;
	}
	return found;
}

static int match_processes(struct container *c)
{
	size_t cnt;
	int err = proc_pids(&c->pids, &cnt);

	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++) {
		err = match_process(c, c->pids[i]);
		if (err < 0)
			return err;
		if (err)
			c->pids[c->pid_cnt++] = c->pids[i];
	}
	return 0;
}

/* Those of one hierarchy: how many there are, also when it is not mounted. */
static int keys_of(const struct container *c, uint32_t hierarchy, struct cgroup_key *keys,
		   size_t cap)
{
	struct cgroup_search s = { .only = hierarchy, .keys = keys, .cap = cap };

	for (size_t i = 0; i < c->path_cnt; i++) {
		int err;

		if (c->paths[i].hierarchy != hierarchy)
			continue;
		s.path = c->paths[i].path;
		err = cgroup_search(&s);
		if (err)
			return err;
	}
	return (int)s.cnt;
}

static int refuse_container(const struct container *c, struct err *e)
{
	char shown[256];

	text_escape(shown, sizeof(shown), c->prefix, strlen(c->prefix));
	if (c->several) {
		err_set(e, 0, "several containers begin with %s", shown);
		err_hint(e, "give more of the id");
		return -PYE_ETARGET;
	}
	if (c->path_cnt) {
		err_set(e, 0, "the hierarchy of the cgroups of container %s is not mounted", shown);
		err_hint(e, "name its processes with -p; pyebpf list shows them");
		return -PYE_EKERNEL;
	}
	err_set(e, 0, "no process runs in a container %s", shown);
	err_hint(e, "pyebpf list shows the containers of Python processes");
	return -PYE_ETARGET;
}

static int container__new(const char *prefix, struct container **out, struct err *e)
{
	auto_fn(container__freep) struct container *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->prefix = prefix;
	err = match_processes(c);
	if (err == -ENOMEM)
		return err;
	if (err) {
		err_set(e, 0, "/proc cannot be read: %s", err_str(err));
		return -PYE_EKERNEL;
	}
	if (c->several)
		return refuse_container(c, e);
	*out = take_ptr(c);
	return 0;
}

int container_pids(const char *prefix, pid_t **out, size_t *cnt, struct err *e)
{
	auto_fn(container__freep) struct container *c = NULL;
	int err = container__new(prefix, &c, e);

	if (err)
		return err;
	if (!c->pid_cnt)
		return refuse_container(c, e);
	*cnt = c->pid_cnt;
	*out = take_ptr(c->pids);
	return 0;
}

int cgroup_by_container(const char *prefix, struct cgroup_key *keys, size_t cap, struct err *e)
{
	auto_fn(container__freep) struct container *c = NULL;
	int err = container__new(prefix, &c, e), cnt;

	if (err)
		return err;
	cnt = keys_of(c, 0, keys, cap);
	for (size_t i = 0; !cnt && i < c->path_cnt; i++)
		cnt = keys_of(c, c->paths[i].hierarchy, keys, cap);
	return cnt ? cnt : refuse_container(c, e);
}
