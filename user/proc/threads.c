// SPDX-License-Identifier: Apache-2.0
#include "proc/threads.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "proc/file.h"

struct list {
	struct proc_thread *items;
	size_t cnt, room;
};

int threads__one(pid_t pid, pid_t tid, struct proc_thread *out)
{
	auto_free char *status = NULL, *comm = NULL;
	char name[48];
	long long own;
	size_t len;
	int err;

	*out = (struct proc_thread){ .tid = tid, .own_tid = tid };
	snprintf(name, sizeof(name), "task/%d/comm", tid);
	err = proc_file__read(pid, name, sizeof(out->comm) - 1, &comm, &len);
	if (err < 0)
		return err;
	if (len && comm[len - 1] == '\n')
		len--;
	memcpy(out->comm, comm, len);
	snprintf(name, sizeof(name), "task/%d/status", tid);
	err = proc_file__read(pid, name, 8192, &status, &len);
	if (err < 0)
		return err;
	if (!proc_file__field(status, "NSpid", -1, &own))
		out->own_tid = (pid_t)own;
	return 0;
}

static int append(struct list *l, const struct proc_thread *t)
{
	if (l->cnt == l->room) {
		size_t room = l->room ? 2 * l->room : 16;
		void *bigger = reallocarray(l->items, room, sizeof(*t));

		if (!bigger)
			return -ENOMEM;
		l->items = bigger;
		l->room = room;
	}
	l->items[l->cnt++] = *t;
	return 0;
}

DIR *threads__open(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return opendir(path);
}

bool threads__has(pid_t pid, pid_t tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

pid_t threads__next(DIR *threads)
{
	struct dirent *entry;

	while (threads && (entry = readdir(threads))) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid > 0)
			return (pid_t)tid;
	}
	return 0;
}

static int fill(pid_t pid, DIR *dir, struct list *l)
{
	pid_t tid;

	while ((tid = threads__next(dir))) {
		struct proc_thread t;
		int err;

		if (l->cnt == THREADS_MAX)
			return 1;
		err = threads__one(pid, tid, &t);
		if (!err)
			err = append(l, &t);
		if (err && err != -ESRCH)
			return err;
	}
	return 0;
}

int threads__list(pid_t pid, struct proc_thread **out, size_t *cnt)
{
	auto_fn(threads__closep) DIR *dir = NULL;
	struct list l = { 0 };
	int err;

	dir = threads__open(pid);
	if (!dir)
		return proc_gone(-errno);
	err = fill(pid, dir, &l);
	if (!err && !l.cnt)
		err = -ESRCH;
	if (err < 0) {
		free(l.items);
		return err;
	}
	qsort(l.items, l.cnt, sizeof(*l.items), order_pid);
	*out = l.items;
	*cnt = l.cnt;
	return err;
}
