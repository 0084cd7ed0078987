// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/file.h"
#include "proc/info.h"

#define CGROUP2_MAGIC 0x63677270
#define ID_DIGITS_MIN 32 /* of a container: 64 as a rule */
#define MOUNTS_BYTES  (1u << 20)

static bool id_of_folder(const char *path, uint64_t *id)
{
	struct statfs fs;
	struct stat st;

	if (statfs(path, &fs) || fs.f_type != CGROUP2_MAGIC || stat(path, &st) ||
	    !S_ISDIR(st.st_mode))
		return false;
	*id = st.st_ino;
	return true;
}

/* A line of mountinfo: "36 35 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw". True: a whole hierarchy. */
static bool is_cgroup2(char *line, char **mounted_at)
{
	char *type = strstr(line, " - "), *rest = line, *root = NULL;

	if (!type || strncmp(type, " - cgroup2 ", 11) != 0)
		return false;
	for (int i = 0; i < 3; i++)
		strsep(&rest, " ");
	root = strsep(&rest, " ");
	*mounted_at = strsep(&rest, " ");
	return *mounted_at && root && root[0] == '/' && !root[1];
}

/* Below each mounted hierarchy. 0; -ENOENT; -ENODEV: none is mounted. */
static int id_below_mounts(const char *path, uint64_t *id)
{
	auto_free char *text = malloc(MOUNTS_BYTES);
	auto_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
	int err = -ENODEV;
	char *line, *rest = text;
	size_t n;

	if (!text)
		return -ENOMEM;
	if (!f)
		return -errno;
	n = fread(text, 1, MOUNTS_BYTES - 1, f);
	text[n] = '\0';
	while ((line = strsep(&rest, "\n"))) {
		char full[PATH_MAX], *at;

		if (!is_cgroup2(line, &at))
			continue;
		err = -ENOENT;
		if (snprintf(full, sizeof(full), "%s/%s", at, path) < (int)sizeof(full) &&
		    id_of_folder(full, id))
			return 0;
	}
	return err;
}

int cgroup_by_path(const char *path, uint64_t *id, struct err *e)
{
	char shown[256];
	int err;

	if (path[0] == '/' && id_of_folder(path, id))
		return 0;
	err = id_below_mounts(path, id);
	text_escape(shown, sizeof(shown), path, strlen(path));
	switch (err) {
	case 0:
	case -ENOMEM:
		return err;
	case -ENODEV:
		err_set(e, 0, "no cgroup hierarchy of version 2 is mounted");
		err_hint(
			e,
			"mount -t cgroup2 none /sys/fs/cgroup/unified, or name the processes with -p");
		return -PYE_EKERNEL;
	default:
		err_set(e, 0, "there is no cgroup %s of version 2", shown);
		err_hint(
			e,
			"/proc/PID/cgroup has the cgroup of a process in the line that begins with 0::");
		return -PYE_ETARGET;
	}
}

struct container {
	const char *prefix;
	char id[256]; /* of the first one that fits; "" = none yet */
	char paths[8][PATH_MAX]; /* of its cgroups */
	size_t path_cnt;
	bool several; /* containers fit */
	bool version1; /* a cgroup of version 1 fits */
};

/* The container that a component of a path stands for: a run of hex digits, or all of it. */
static size_t container_name(const char *part, size_t len, const char **name)
{
	for (size_t at = 0; at < len;) {
		size_t n = strspn(part + at, "0123456789abcdef");

		if (n >= ID_DIGITS_MIN) {
			*name = part + at;
			return n;
		}
		at += n ? n : 1;
	}
	*name = part;
	return len;
}

static bool fits(const char *name, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	/* a name that is no id has to be the whole one: "a" is not what "app.slice" means */
	if (len < ID_DIGITS_MIN)
		return n == len && !memcmp(name, prefix, n);
	return n <= len && !memcmp(name, prefix, n);
}

static void take_path(struct container *c, const char *path, size_t len)
{
	for (size_t i = 0; i < c->path_cnt; i++)
		if (strlen(c->paths[i]) == len && !memcmp(c->paths[i], path, len))
			return;
	if (c->path_cnt == sizeof(c->paths) / sizeof(c->paths[0]) || len >= sizeof(c->paths[0]))
		return;
	memcpy(c->paths[c->path_cnt], path, len);
	c->paths[c->path_cnt++][len] = '\0';
}

static void match_path(struct container *c, const char *path, bool version2)
{
	for (const char *part = path; *part;) {
		size_t len, name_len;
		const char *name;

		part += *part == '/';
		len = strcspn(part, "/");
		name_len = container_name(part, len, &name);
		if (!fits(name, name_len, c->prefix) || name_len >= sizeof(c->id)) {
			part += len;
			continue;
		}
		c->version1 = c->version1 || !version2;
		if (!version2)
			return;
		if (!c->id[0])
			memcpy(c->id, name, name_len);
		else if (strlen(c->id) != name_len || memcmp(c->id, name, name_len) != 0)
			c->several = true;
		take_path(c, path, (size_t)(part + len - path));
		return;
	}
}

static int match_processes(struct container *c)
{
	auto_free pid_t *pids = NULL;
	size_t cnt;
	int err = proc_pids(&pids, &cnt);

	for (size_t i = 0; !err && i < cnt; i++) {
		auto_free char *text = NULL;
		char *rest, *line;
		size_t len;

		if (proc_file__read(pids[i], "cgroup", 65536, &text, &len) < 0)
			continue;
		rest = text;
		while ((line = strsep(&rest, "\n"))) {
			char *path = strstr(line, ":/");

			if (path)
				match_path(c, path + 1, !strncmp(line, "0::", 3));
		}
	}
	return err;
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
	if (c->version1) {
		err_set(e, 0, "container %s has a cgroup of version 1 only", shown);
		err_hint(e, "name its processes with -p; pyebpf list shows them");
		return -PYE_EKERNEL;
	}
	err_set(e, 0, "no process runs in a container %s", shown);
	err_hint(e, "pyebpf list shows the containers of Python processes");
	return -PYE_ETARGET;
}

int cgroup_by_container(const char *prefix, uint64_t *ids, size_t cap, struct err *e)
{
	auto_free struct container *c = calloc(1, sizeof(*c));
	size_t cnt = 0;
	int err;

	if (!c)
		return -ENOMEM;
	c->prefix = prefix;
	err = match_processes(c);
	if (err)
		return err_set(e, -PYE_EKERNEL, "/proc cannot be read: %s", err_str(err));
	if (c->several || !c->path_cnt)
		return refuse_container(c, e);
	for (size_t i = 0; i < c->path_cnt && cnt < cap; i++) {
		err = cgroup_by_path(c->paths[i], &ids[cnt], e);
		if (err)
			return err;
		cnt++;
	}
	return (int)cnt;
}
