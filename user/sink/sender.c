// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "sink"
#include "sink/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "sink/ship.h"

#define SECOND	 1000000000ull
#define END_MS	 8000 /* more than a sender takes to end */
#define KILL_MS	 1000
#define AGAIN_NS (10 * SECOND) /* between two starts */

struct sender {
	char *store; /* settings that are read again have another one */
	const struct sink_list *sinks;
	struct sink_shared *shared; /* with the child */
	pid_t pid; /* 0: none */
	int stop_fd; /* closed: it is to end */
	uint64_t started_ns;
	uint64_t ended_cpu_ns; /* of those that have ended */
};

static _Noreturn void child(const struct sender *s, int stop_fd, pid_t parent)
{
	const struct ship_opts opts = {
		.store = s->store, .sinks = s->sinks, .shared = s->shared, .stop_fd = stop_fd
	};
	struct err e = { 0 };
	int err = child_confine("pyebpf-send", parent, stop_fd);

	err = err ? err : ship_run(&opts, &e);
	if (err)
		log_err("nothing is sent any more: %s", e.what[0] ? e.what : err_str(err));
	_exit(err ? 1 : 0);
}

static int start(struct sender *s, struct err *e)
{
	pid_t parent = getpid();
	int fds[2];

	/* gauges are set by who looks; of a sender before this one nothing is on its way */
	s->shared->ready = 0;
	for (uint32_t i = 0; i < s->shared->cnt; i++) {
		struct sink_stats *st = &s->shared->sinks[i];

		st->seen -= st->owed < st->seen ? st->owed : st->seen;
		st->owed = st->owed_bytes = 0;
		st->oldest_owed_ns = 0;
	}
	if (pipe2(fds, O_CLOEXEC))
		return err_set(e, -PYE_EOUTPUT, "no sender can be started: %s", strerror(errno));
	s->started_ns = now_ns();
	s->pid = fork();
	if (!s->pid) {
		close(fds[1]);
		child(s, fds[0], parent);
	}
	close(fds[0]);
	s->stop_fd = fds[1];
	if (s->pid > 0)
		return 0;
	s->pid = 0;
	close(s->stop_fd);
	return err_set(e, -PYE_EOUTPUT, "no sender can be started: %s", strerror(errno));
}

int sender__start(struct sender **out, const char *store, const struct sink_list *sinks,
		  struct err *e)
{
	struct sender *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct sender){ .store = strdup(store), .sinks = sinks, .stop_fd = -1 };
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!s->store || s->shared == MAP_FAILED) {
		if (s->shared != MAP_FAILED)
			munmap(s->shared, sizeof(*s->shared));
		free(s->store);
		free(s);
		return -ENOMEM;
	}
	ship_prepare(s->shared, sinks);
	err = start(s, e);
	if (err)
		sender__stop(s);
	else
		*out = s;
	return err;
}

const struct sink_shared *sender__shared(const struct sender *s)
{
	return s->shared;
}

pid_t sender__pid(const struct sender *s)
{
	return s ? s->pid : 0;
}

uint64_t sender__cpu_ns(const struct sender *s)
{
	clockid_t clock;

	if (!s)
		return 0;
	return s->ended_cpu_ns +
	       (s->pid && !clock_getcpuclockid(s->pid, &clock) ? clock_ns(clock) : 0);
}

int64_t sender__oldest_owed_ns(const struct sender *s)
{
	int64_t oldest = INT64_MAX;

	if (!s->shared->ready)
		return 0;
	for (uint32_t i = 0; i < s->shared->cnt; i++) {
		const struct sink_stats *st = &s->shared->sinks[i];

		if (st->owed && st->oldest_owed_ns < oldest)
			oldest = st->oldest_owed_ns;
	}
	return oldest;
}

void sender__check(struct sender *s)
{
	uint64_t used_ns = sender__cpu_ns(s);
	struct err e = { 0 };
	int status;

	if (!s)
		return;
	if (s->pid && waitpid(s->pid, &status, WNOHANG) == s->pid) {
		log_warn("what sends to the sinks has ended; it is started again");
		s->pid = 0;
		s->ended_cpu_ns = used_ns;
		close(s->stop_fd);
	}
	if (s->pid || now_ns() - s->started_ns < AGAIN_NS)
		return;
	s->shared->restarts++;
	if (start(s, &e))
		log_warn("%s", e.what);
}

void sender__stop(struct sender *s)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	int status, ms = 0;

	if (!s)
		return;
	if (s->pid) {
		close(s->stop_fd);
		for (; ms < END_MS && !waitpid(s->pid, &status, WNOHANG); ms += 20)
			nanosleep(&pause, NULL);
		if (ms >= END_MS)
			kill(s->pid, SIGKILL);
		/* one whose file system does not answer ends when that does */
		for (; ms >= END_MS && ms < END_MS + KILL_MS && !waitpid(s->pid, &status, WNOHANG);
		     ms += 20)
			nanosleep(&pause, NULL);
	}
	munmap(s->shared, sizeof(*s->shared));
	free(s->store);
	free(s);
}
