// SPDX-License-Identifier: Apache-2.0
/* Lists of processes. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "proc/file.h"
#include "proc/info.h"

struct pids {
	pid_t *items;
	size_t cnt, room;
};

static int append(struct pids *l, pid_t pid)
{
	if (l->cnt == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		pid_t *bigger = reallocarray(l->items, room, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		l->items = bigger;
		l->room = room;
	}
	l->items[l->cnt++] = pid;
	return 0;
}

int proc_pids(pid_t **out, size_t *cnt)
{
	struct pids l = { 0 };
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = append(&l, (pid_t)strtol(entry->d_name, NULL, 10));
	closedir(dir);
	if (!err && !l.cnt)
		err = -ENOENT;
	if (err) {
		free(l.items);
		return err;
	}
	qsort(l.items, l.cnt, sizeof(*l.items), order_pid);
	*out = l.items;
	*cnt = l.cnt;
	return 0;
}

static pid_t parent_of(pid_t pid)
{
	auto_free char *status = NULL;
	long long parent;
	size_t len;

	if (proc_file__read(pid, "status", 8192, &status, &len) < 0 ||
	    proc_file__field(status, "PPid", 0, &parent))
		return 0;
	return (pid_t)parent;
}

/* One pass over all processes and then only in memory: /proc/PID/task/TID/children is not in every
 * kernel. */
int proc_descendants(pid_t pid, pid_t *out, size_t cap)
{
	auto_free pid_t *all = NULL, *parents = NULL;
	size_t all_cnt = 0, cnt = 0;
	int err;

	err = proc_pids(&all, &all_cnt);
	if (err)
		return err;
	parents = calloc(all_cnt, sizeof(*parents));
	if (!parents)
		return -ENOMEM;
	for (size_t i = 0; i < all_cnt; i++)
		parents[i] = parent_of(all[i]);
	for (size_t done = 0; done <= cnt && cnt < cap; done++) {
		pid_t of = done ? out[done - 1] : pid;

		for (size_t i = 0; i < all_cnt && cnt < cap; i++) {
			if (parents[i] != of || all[i] == getpid())
				continue;
			out[cnt++] = all[i];
			parents[i] = 0; /* once, even if the tree changed while it was read */
		}
	}
	return (int)cnt;
}
