// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "proc/container.h"
#include "proc/info.h"
#include "proc/mounts.h"

#define OWN_NAME   "/proc/self/cgroup"
#define UP	   "/.."
#define SPACES_MAX 4096 /* mount namespaces that are looked into */
#define DEPTH_MAX  12 /* levels of folders that are looked through */

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

/* One mount, as one process has it. */
struct view {
	char root[32]; /* of the process: "", "/proc/7/root" */
	const struct mount *mount;
	uint32_t hierarchy;
};

static void take_key(struct cgroup_search *s, uint64_t id, uint32_t hierarchy)
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

static bool goes_up(const char *path)
{
	return !strncmp(path, UP, 3) && (!path[3] || path[3] == '/');
}

/* What of a path lies below what is mounted, or NULL. */
static const char *below(const char *root, const char *path)
{
	size_t n;

	if (!strcmp(root, "/"))
		return goes_up(path) ? NULL : path;
	root += path[0] != '/';
	n = strlen(root);
	if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/') || goes_up(path + n))
		return NULL;
	return path + n;
}

/* The levels that a path goes up first; what comes behind. */
static unsigned int levels_up(const char *path, const char **rest)
{
	unsigned int n = 0;

	for (; goes_up(path); path += 3)
		n++;
	*rest = path;
	return n;
}

/* In each folder so many levels below @at: is the rest of the path there? @at has room for PATH_MAX. */
static void look_below(struct cgroup_search *s, const struct view *v, char *at, unsigned int levels,
		       const char *rest)
{
	size_t len = strlen(at);
	uint64_t id;
	DIR *dir;

	if (!levels) {
		if ((size_t)snprintf(at + len, PATH_MAX - len, "%s", rest) < PATH_MAX - len &&
		    is_folder(at, v->mount->dev, &id))
			take_key(s, id, v->hierarchy);
		at[len] = '\0';
		return;
	}
	dir = opendir(at);
	for (const struct dirent *d; dir && (d = readdir(dir));) {
		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(at + len, PATH_MAX - len, "/%s", d->d_name) < PATH_MAX - len)
			look_below(s, v, at, levels - 1, rest);
		at[len] = '\0';
	}
	if (dir)
		closedir(dir);
}

/* A mount of what is above our own cgroup: what it is called from there is not known, only how deep it lies. */
static void look_above(struct cgroup_search *s, const struct view *v)
{
	char at[PATH_MAX];
	const char *rest, *nothing;
	unsigned int ups = levels_up(s->path, &rest);
	unsigned int root_ups = levels_up(v->mount->root, &nothing);

	if (!ups || !*rest || *nothing || root_ups <= ups || root_ups - ups > DEPTH_MAX)
		return;
	if (snprintf(at, sizeof(at), "%s%s", v->root, v->mount->at) < (int)sizeof(at))
		look_below(s, v, at, root_ups - ups, rest);
}

static void search_mount(struct cgroup_search *s, const struct view *v)
{
	const struct mount *m = v->mount;
	const char *rest = below(m->root, s->path);
	char full[PATH_MAX];
	uint64_t id;

	s->mounted = true;
	if (!v->root[0] && s->path[0] == '/' && is_folder(s->path, m->dev, &id))
		take_key(s, id, v->hierarchy);
	if (!rest)
		look_above(s, v);
	else if (snprintf(full, sizeof(full), "%s%s/%s", v->root, m->at, rest) <
			 (int)sizeof(full) &&
		 is_folder(full, m->dev, &id))
		take_key(s, id, v->hierarchy);
}

static char *read_own(void)
{
	auto_fclose FILE *f = fopen(OWN_NAME, "re");
	char *text = calloc(1, CGROUP_BYTES);

	if (text && f)
		text[fread(text, 1, CGROUP_BYTES - 1, f)] = '\0';
	return text;
}

/* Those that a process has, 0: we. 0; -ENOMEM. */
static int search_mounts(struct cgroup_search *s, const char *own, pid_t pid)
{
	auto_free char *text = mounts_read(pid);
	struct view v = { .root = "" };
	char *rest = text;
	struct mount m;

	if (!text && errno == ENOMEM)
		return -ENOMEM;
	if (pid)
		snprintf(v.root, sizeof(v.root), "/proc/%d/root", pid);
	while (rest && mount__next(&rest, &m)) {
		if (!hierarchy_of(&m, own, &v.hierarchy) ||
		    (s->only >= 0 && (uint32_t)s->only != v.hierarchy))
			continue;
		v.mount = &m;
		search_mount(s, &v);
	}
	return 0;
}

/* Of a process, 0: ours. */
static bool namespace_of(pid_t pid, const char *kind, ino_t *out)
{
	char path[48];
	struct stat st;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	else
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	if (stat(path, &st))
		return false;
	*out = st.st_ino;
	return true;
}

/* Where others than root may mount there can be a file system that never answers. */
static bool is_trusted(pid_t pid)
{
	ino_t ours, theirs;

	return namespace_of(0, "user", &ours) && namespace_of(pid, "user", &theirs) &&
	       ours == theirs;
}

/* One process of each mount namespace, until one sees it. */
static int search_others(struct cgroup_search *s, const char *own)
{
	auto_free ino_t *seen = calloc(SPACES_MAX, sizeof(*seen));
	size_t pid_cnt, cnt = 0, before = s->cnt;
	auto_free pid_t *pids = NULL;
	int err = 0;

	if (!seen)
		return -ENOMEM;
	if (namespace_of(0, "mnt", &seen[0]))
		cnt = 1;
	if (proc_pids(&pids, &pid_cnt))
		return 0;
	for (size_t i = 0; i < pid_cnt && cnt < SPACES_MAX && !err && s->cnt == before; i++) {
		bool known = !is_trusted(pids[i]) || !namespace_of(pids[i], "mnt", &seen[cnt]);

		for (size_t k = 0; k < cnt && !known; k++)
			known = seen[k] == seen[cnt];
		if (known)
			continue;
		cnt++;
		err = search_mounts(s, own, pids[i]);
	}
	return err;
}

int cgroup_search(struct cgroup_search *s)
{
	auto_free char *own = read_own();
	size_t before = s->cnt;
	int err;

	if (!own)
		return -ENOMEM;
	err = search_mounts(s, own, 0);
	if (err || s->cnt > before || s->path[0] != '/')
		return err;
	return search_others(s, own);
}
