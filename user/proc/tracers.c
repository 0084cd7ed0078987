// SPDX-License-Identifier: Apache-2.0
#include "proc/tracers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/file.h"
#include "proc/info.h"

/* Of one process; who has more than these has shown what it is. */
#define FDS_MAX 65536

/* Links of the network, of cgroups and iterators are no tracing. */
void tracer__count(struct tracer *t, const char *text)
{
	static const char *const kinds[] = { "perf", "kprobe_multi", "tracing", "raw_tracepoint" };
	const char *at = strstr(text, "link_type:\t");

	if (!at)
		return;
	at += strlen("link_type:\t");
	/* one of the old way is a link to a perf event, whose kind newer kernels say */
	if (!strncmp(at, "uprobe", 6) || (!strncmp(at, "perf", 4) && strstr(at, "uprobe"))) {
		t->uprobes++;
		return;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(at, kinds[i], strlen(kinds[i]))) {
			t->links++;
			return;
		}
}

static void look(struct tracer *t, int dir_fd, const char *fd)
{
	auto_free char *text = NULL;
	char target[64], name[64];
	ssize_t n = readlinkat(dir_fd, fd, target, sizeof(target) - 1);
	size_t len;

	if (n <= 0)
		return;
	target[n] = '\0';
	if (!strcmp(target, "anon_inode:[perf_event]"))
		t->events++;
	/* the kernel has written it with and without brackets, and with the kind of link in it */
	if (strncmp(target, "anon_inode:", 11) != 0 || !strstr(target, "bpf"))
		return;
	snprintf(name, sizeof(name), "fdinfo/%.16s", fd);
	if (proc_file__read(t->pid, name, 4096, &text, &len) >= 0)
		tracer__count(t, text);
}

static int look_at(struct tracer *t)
{
	const struct dirent *entry;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", t->pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	for (int i = 0; i < FDS_MAX && (entry = readdir(dir)); i++)
		look(t, dirfd(dir), entry->d_name);
	closedir(dir);
	return 0;
}

static pid_t own_pid(void)
{
	char text[16];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return (pid_t)strtol(text, NULL, 10);
}

static void name(struct tracer *t)
{
	auto_free char *comm = NULL;
	size_t len;

	if (proc_file__read(t->pid, "comm", sizeof(t->comm) - 1, &comm, &len) < 0)
		return;
	memcpy(t->comm, comm, len && comm[len - 1] == '\n' ? len - 1 : len);
}

int tracers__find(struct tracer *out, size_t cap, unsigned int *hidden)
{
	auto_free pid_t *pids = NULL;
	const pid_t own = own_pid(); /* as /proc shows it */
	size_t cnt;
	int err, found = 0;

	*hidden = 0;
	err = proc_pids(&pids, &cnt);
	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++) {
		struct tracer t = { .pid = pids[i] };

		if (t.pid == own)
			continue;
		err = look_at(&t);
		*hidden += err == -EACCES || err == -EPERM;
		if (!t.uprobes && !t.links && !t.events)
			continue;
		name(&t);
		if ((size_t)found < cap)
			out[found] = t;
		found++;
	}
	return found;
}
