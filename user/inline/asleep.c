// SPDX-License-Identifier: Apache-2.0
#include "inline/asleep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "inline/remote.h"
#include "proc/threads.h"

#define STATUS_BYTES 4096
#define WAKING_NS    30000 /* of CPU time, to stand still; more: it has done something else */

static int open_file(pid_t pid, pid_t tid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A file of a thread in /proc, as a string; empty: there is none. @held: it, open; else -1 */
static void read_file(pid_t pid, pid_t tid, const char *name, int held, char *out, size_t size)
{
	auto_close int fd = held < 0 ? open_file(pid, tid, name) : -1;
	ssize_t got = 0;

	if (held >= 0 || fd >= 0)
		got = pread(held >= 0 ? held : fd, out, size - 1, 0);
	out[got > 0 ? got : 0] = 0;
}

/* 0: not known. */
static uint64_t number_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static uint64_t sleeps(const char *status)
{
	return number_behind(status, "\nvoluntary_ctxt_switches:");
}

/* False: not known. */
static bool read_runs(pid_t pid, const struct asleep_thread *t, uint64_t *ran_ns, uint64_t *come)
{
	char text[128], *at;

	read_file(pid, t->tid, "schedstat", t->runs, text, sizeof(text));
	*ran_ns = strtoull(text, &at, 10);
	strtoull(at, &at, 10); /* how long it waited for one */
	*come = strtoull(at, NULL, 10);
	return *come != 0; /* a thread that is there has had one */
}

static bool sleeps_now(pid_t pid, struct asleep_thread *t)
{
	char status[STATUS_BYTES];
	uint64_t gone;

	/* in this order: the second number is at least as much as the first, at any moment */
	read_file(pid, t->tid, "status", t->status, status, sizeof(status));
	t->sleeps = sleeps(status);
	gone = t->sleeps + number_behind(status, "\nnonvoluntary_ctxt_switches:");
	return strstr(status, "\nState:\tS") && read_runs(pid, t, &t->ran_ns, &t->come) &&
	       t->come == gone;
}

static void close_files(const struct asleep_thread *t)
{
	if (t->status >= 0)
		close(t->status);
	if (t->runs >= 0)
		close(t->runs);
}

static void forget(struct asleep *a)
{
	for (size_t i = 0; i < a->cnt; i++)
		close_files(&a->threads[i]);
	a->cnt = 0;
}

/* @most: files that may be kept open */
static int add(struct asleep *a, pid_t tid, size_t most)
{
	struct asleep_thread t = { .tid = tid, .status = -1, .runs = -1 };

	if (a->cnt < ASLEEP_OPEN_MAX)
		t.status = open_file(a->pid, tid, "status");
	if (a->cnt + ASLEEP_OPEN_MAX < most)
		t.runs = open_file(a->pid, tid, "schedstat");

	if (!sleeps_now(a->pid, &t)) {
		close_files(&t);
		return 0;
	}
	if (a->cnt == a->size) {
		size_t size = a->size ? 2 * a->size : 64;
		void *more = reallocarray(a->threads, size, sizeof(a->threads[0]));

		if (!more) {
			close_files(&t);
			return -ENOMEM;
		}
		a->threads = more;
		a->size = size;
	}
	a->threads[a->cnt++] = t;
	return 0;
}

static size_t most_files(void)
{
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) ? 0 : files.rlim_cur / 2;
}

int asleep__note(struct asleep *a, pid_t pid)
{
	const size_t most = most_files();
	auto_fn(threads__closep) DIR *threads = NULL;
	pid_t tid;
	int err = 0;

	forget(a);
	a->pid = pid;
	threads = threads__open(pid);
	if (!threads)
		return -errno;
	while (!err && (tid = threads__next(threads)))
		err = add(a, tid, most);
	if (err)
		forget(a);
	else if (a->cnt)
		qsort(a->threads, a->cnt, sizeof(a->threads[0]), order_pid);
	return err;
}

static const struct asleep_thread *find(const struct asleep *a, pid_t tid)
{
	return a->cnt ? bsearch(&tid, a->threads, a->cnt, sizeof(a->threads[0]), order_pid) : NULL;
}

bool asleep__has_not_run(const struct asleep *a, pid_t tid)
{
	const struct asleep_thread *t = find(a, tid);
	uint64_t ran_ns, come;

	return t && read_runs(a->pid, t, &ran_ns, &come) && come == t->come && ran_ns == t->ran_ns;
}

bool asleep__is_still(const struct asleep *a, const struct remote_thread *t)
{
	const struct asleep_thread *found = t->in_call ? find(a, t->tid) : NULL;
	char status[STATUS_BYTES];
	uint64_t ran_ns, come;

	if (!found || !read_runs(a->pid, found, &ran_ns, &come) ||
	    ran_ns - found->ran_ns > WAKING_NS)
		return false;
	read_file(a->pid, t->tid, "status", found->status, status, sizeof(status));
	return sleeps(status) == found->sleeps + 1;
}

void asleep__done(struct asleep *a)
{
	forget(a);
	free(a->threads);
	*a = (struct asleep){ 0 };
}
