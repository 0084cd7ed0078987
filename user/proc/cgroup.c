// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/container.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/mounts.h"

#define NAME_MIN     32 /* of a container's id: then its beginning is enough */
#define CGROUP_BYTES 65536 /* of a cgroup file */
#define OWN_NAME     "/proc/self/cgroup"

/* --- hierarchies --- */

/* Is the word one of a list with commas? */
static bool has_word(const char *list, const char *word, size_t len)
{
	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, word, len))
			return true;
		list += n + (list[n] != '\0');
	}
	return false;
}

/* Are all of a hierarchy's controllers options of the mount? Its name is one, too. */
static bool is_mount_of(const struct mount *m, const struct cgroup_line *line)
{
	const char *at = line->controllers, *end = at + line->controllers_len;

	if (at == end)
		return false;
	for (;;) {
		const char *comma = memchr(at, ',', (size_t)(end - at));

		if (!has_word(m->options, at, (size_t)((comma ? comma : end) - at)))
			return false;
		if (!comma)
			return true;
		at = comma + 1;
	}
}

/* The kernel's number of the hierarchy that is mounted there. @own: our own cgroups, in all of them. */
static bool hierarchy_of(const struct mount *m, const char *own, uint32_t *hierarchy)
{
	struct cgroup_line line;

	*hierarchy = 0;
	if (!strcmp(m->type, "cgroup2"))
		return true;
	if (strcmp(m->type, "cgroup") != 0)
		return false;
	while (cgroup_line__next(&own, &line)) {
		if (!is_mount_of(m, &line))
			continue;
		*hierarchy = line.hierarchy;
		return true;
	}
	return false;
}

/* What a look through the mounts is for. */
struct search {
	const char *path;
	int64_t only; /* this hierarchy; -1: all */
	struct cgroup_key *keys;
	size_t cap, cnt;
	bool mounted; /* one of them is */
};

static void take_key(struct search *s, uint64_t id, uint32_t hierarchy)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->keys[i].id == id && s->keys[i].hierarchy == hierarchy)
			return;
	if (s->cnt < s->cap)
		s->keys[s->cnt++] = (struct cgroup_key){ .id = id, .hierarchy = hierarchy };
}

static bool is_folder(const char *path, dev_t dev, uint64_t *id)
{
	struct stat st;

	if (stat(path, &st) || !S_ISDIR(st.st_mode) || st.st_dev != dev)
		return false;
	*id = st.st_ino;
	return true;
}

/* What of a path lies below what is mounted, or NULL. */
static const char *below(const char *root, const char *path)
{
	size_t n;

	if (!strcmp(root, "/"))
		return path;
	root += path[0] != '/';
	n = strlen(root);
	return !strncmp(path, root, n) && (!path[n] || path[n] == '/') ? path + n : NULL;
}

static void search_mount(struct search *s, const struct mount *m, uint32_t hierarchy)
{
	const char *rest = below(m->root, s->path);
	bool whole = s->path[0] == '/';
	char full[PATH_MAX];
	uint64_t id;

	s->mounted = true;
	if (!rest || snprintf(full, sizeof(full), "%s/%s", m->at, rest) >= (int)sizeof(full))
		full[0] = '\0';
	if ((whole && is_folder(s->path, m->dev, &id)) || (full[0] && is_folder(full, m->dev, &id)))
		take_key(s, id, hierarchy);
}

static char *read_own(void)
{
	auto_fclose FILE *f = fopen(OWN_NAME, "re");
	char *text = calloc(1, CGROUP_BYTES);

	if (text && f)
		text[fread(text, 1, CGROUP_BYTES - 1, f)] = '\0';
	return text;
}

/* 0; -ENOMEM. */
static int search_mounts(struct search *s)
{
	auto_free char *text = mounts_read(), *own = read_own();
	uint32_t hierarchy;
	char *rest = text;
	struct mount m;

	if (!own || (!text && errno == ENOMEM))
		return -ENOMEM;
	while (rest && mount__next(&rest, &m))
		if (hierarchy_of(&m, own, &hierarchy) &&
		    (s->only < 0 || (uint32_t)s->only == hierarchy))
			search_mount(s, &m, hierarchy);
	return 0;
}

int cgroup_by_path(const char *path, struct cgroup_key *keys, size_t cap, struct err *e)
{
	struct search s = { .path = path, .only = -1, .keys = keys, .cap = cap };
	char shown[256];
	int err = search_mounts(&s);

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
	bool several; /* containers fit */
};

enum {
	PATHS = sizeof(((struct container *)NULL)->paths) / sizeof(struct cgroup_path)
};

static void container__freep(struct container **c)
{
	for (size_t i = 0; *c && i < (*c)->path_cnt; i++)
		free((*c)->paths[i].path);
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

/* The outermost component that fits: what a container starts in itself is meant, too. */
static int match_line(struct container *c, const struct cgroup_line *line)
{
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
		return take_path(c, line->hierarchy, line->path, end);
	}
	return 0;
}

static int match_processes(struct container *c)
{
	auto_free pid_t *pids = NULL;
	size_t cnt;
	int err = proc_pids(&pids, &cnt);

	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++) {
		auto_free char *text = NULL;
		struct cgroup_line line;
		const char *rest;
		size_t len;

		if (proc_file__read(pids[i], "cgroup", CGROUP_BYTES, &text, &len) < 0)
			continue;
		for (rest = text; !err && cgroup_line__next(&rest, &line);)
			err = match_line(c, &line);
		if (err)
			return err;
	}
	return 0;
}

/* Those of one hierarchy: how many there are, also when it is not mounted. */
static int keys_of(const struct container *c, uint32_t hierarchy, struct cgroup_key *keys,
		   size_t cap)
{
	struct search s = { .only = hierarchy, .keys = keys, .cap = cap };

	for (size_t i = 0; i < c->path_cnt; i++) {
		int err;

		if (c->paths[i].hierarchy != hierarchy)
			continue;
		s.path = c->paths[i].path;
		err = search_mounts(&s);
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

int cgroup_by_container(const char *prefix, struct cgroup_key *keys, size_t cap, struct err *e)
{
	auto_fn(container__freep) struct container *c = calloc(1, sizeof(*c));
	int err, cnt;

	if (!c)
		return -ENOMEM;
	c->prefix = prefix;
	err = match_processes(c);
	if (err == -ENOMEM)
		return err;
	if (err)
		return err_set(e, -PYE_EKERNEL, "/proc cannot be read: %s", err_str(err));
	if (c->several)
		return refuse_container(c, e);
	cnt = keys_of(c, 0, keys, cap);
	for (size_t i = 0; !cnt && i < c->path_cnt; i++)
		cnt = keys_of(c, c->paths[i].hierarchy, keys, cap);
	return cnt ? cnt : refuse_container(c, e);
}
