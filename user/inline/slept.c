// SPDX-License-Identifier: Apache-2.0
#include "inline/slept.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inline/sock_time_out.h"
#include "inline/time_out.h"
#include "proc/file.h"
#include "proc/pid.h"
#include "proc/threads.h"

#define FILE_BYTES 4096
#define STAT_CPU   39 /* field of proc(5): stat */
#define NS_PER_MS  1000000u
#define LAST_RAN   "se.exec_start"
#define HAS_RUN	   "se.sum_exec_runtime"
#define WAKING_NS \
	10000 /* of CPU time, to stand still: 3 to 8 us in most stops; more: it may have come to another such call */
#define CPUS_MAX 16 /* whose clocks are looked at, which takes us there */

/* The clock of a CPU: how far it is behind ours. */
struct cpu_clock {
	uint64_t cpu, behind_ns;
};

struct clocks {
	struct cpu_clock of[CPUS_MAX];
	size_t cnt;
	cpu_set_t allowed; /* where we may be, */
	bool moved; /* and are not to stay */
};

/* Of a thread in /proc, as a string for free(); NULL: it cannot be read. */
static char *read_file(pid_t pid, pid_t tid, const char *name)
{
	char path[48], *text = NULL;
	size_t len;

	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	return proc_file__read(pid, path, FILE_BYTES, &text, &len) < 0 ? NULL : text;
}

/* What stands behind the colon; NULL: nothing does. */
static const char *behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	at = at ? strchr(at, ':') : NULL;
	return at ? at + 1 : NULL;
}

/* "123.456789" ms; 0: not known */
static uint64_t time_behind(const char *text, const char *name)
{
	const char *at = behind(text, name);
	char *point = NULL;
	uint64_t ms = at ? strtoull(at, &point, 10) : 0;

	return point && *point == '.' ? ms * NS_PER_MS + strtoull(point + 1, NULL, 10) : 0;
}

/* 0: not known */
static uint64_t count_sleeps(const char *text, const char *name)
{
	const char *at = behind(text, name);

	return at ? strtoull(at, NULL, 10) : 0;
}

/* The call that it waits in. False: it does not. */
static bool read_call(pid_t pid, pid_t tid, uint64_t call[SLEPT_WORDS])
{
	auto_free char *text = read_file(pid, tid, "syscall");
	char *at = text, *end;

	if (!text)
		return false;
	for (size_t i = 0; i < SLEPT_WORDS; i++, at = end) {
		call[i] = strtoull(at, &end, 0);
		if (end == at)
			return false;
	}
	return (int64_t)call[0] >= 0;
}

static struct user_regs_struct regs_of(const uint64_t call[SLEPT_WORDS])
{
	return (struct user_regs_struct){ .orig_rax = call[0],
					  .rdi = call[1],
					  .rsi = call[2],
					  .rdx = call[3],
					  .r10 = call[4],
					  .r8 = call[5],
					  .r9 = call[6],
					  .rsp = call[7],
					  .rip = call[8] };
}

bool slept__read_call(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	uint64_t call[SLEPT_WORDS];

	if (!read_call(pid, tid, call))
		return false;
	*regs = regs_of(call);
	return true;
}

static bool is_call(const uint64_t call[SLEPT_WORDS], const struct user_regs_struct *regs)
{
	const uint64_t of_regs[SLEPT_WORDS] = { regs->orig_rax, regs->rdi, regs->rsi,
						regs->rdx,	regs->r10, regs->r8,
						regs->r9,	regs->rsp, regs->rip };

	return !memcmp(call, of_regs, sizeof(of_regs));
}

/* The CPU that it was on last. */
static bool read_cpu(pid_t pid, pid_t tid, uint64_t *cpu)
{
	auto_free char *text = read_file(pid, tid, "stat");

	return text && !proc_stat_number(text, STAT_CPU, cpu) && *cpu < CPU_SETSIZE;
}

/* We have just come to that CPU, which is when its clock was looked at for us. */
static bool ask_clock(struct clocks *c, struct cpu_clock *out)
{
	auto_free char *text = NULL;
	cpu_set_t there;
	uint64_t ran;

	CPU_ZERO(&there);
	CPU_SET(out->cpu, &there);
	if (!c->moved && sched_getaffinity(0, sizeof(c->allowed), &c->allowed))
		return false;
	if (sched_setaffinity(0, sizeof(there), &there))
		return false;
	c->moved = true;
	nanosleep(&(struct timespec){ .tv_nsec = 1 }, NULL);
	text = read_file(getpid(), gettid(), "sched");
	ran = text ? time_behind(text, LAST_RAN) : 0;
	out->behind_ns = now_ns() - ran;
	return ran != 0;
}

static bool find_clock(struct clocks *c, uint64_t cpu, uint64_t *behind_ns)
{
	struct cpu_clock new = { .cpu = cpu };

	for (size_t i = 0; i < c->cnt; i++)
		if (c->of[i].cpu == cpu) {
			*behind_ns = c->of[i].behind_ns;
			return true;
		}
	if (c->cnt == CPUS_MAX || !ask_clock(c, &new))
		return false;
	c->of[c->cnt++] = new;
	*behind_ns = new.behind_ns;
	return true;
}

/* Does it wait in a call with a time-out that is not noted yet? */
static bool waits_for_long(struct slept *s, pid_t pid, struct slept_thread *t)
{
	struct user_regs_struct regs;

	if (!read_call(pid, t->tid, t->call))
		return false;
	regs = regs_of(t->call);
	if (sock_time_out__is_in(pid, &regs, &t->takes_ns))
		s->socks = s->socks ?: sock_time_outs__new();
	else
		t->takes_ns = time_out__takes(t->tid, &regs);
	return t->takes_ns != 0;
}

static void note(struct slept *s, struct clocks *c, pid_t pid, pid_t tid)
{
	struct slept_thread t = { .tid = tid };
	auto_free char *status = NULL, *sched = NULL;
	uint64_t behind_ns, cpu;

	if (!waits_for_long(s, pid, &t)) /* of most that is all */
		return;
	status = read_file(pid, tid, "status");
	if (!status || !waits_for_long(s, pid, &t))
		return;
	sched = read_file(pid, tid, "sched");
	if (!sched || !read_cpu(pid, tid, &cpu))
		return;
	t.sleeps = count_sleeps(status, "\nvoluntary_ctxt_switches");
	t.since_ns = time_behind(sched, LAST_RAN);
	/* in one sleep from the first look to the last one */
	if (!t.since_ns || t.sleeps != count_sleeps(sched, "\nnr_voluntary_switches") ||
	    !find_clock(c, cpu, &behind_ns))
		return;
	t.since_ns += behind_ns;
	t.ran_ns = time_behind(sched, HAS_RUN);
	s->threads[s->cnt++] = t;
}

void slept__add(struct slept *s, pid_t pid, pid_t only)
{
	auto_fn(threads__closep) DIR *threads = only ? NULL : threads__open(pid);
	struct clocks clocks = { 0 };
	pid_t tid = only;

	while (s->cnt < SLEPT_MAX && (only || (tid = threads__next(threads)))) {
		note(s, &clocks, pid, tid);
		if (only)
			break;
	}
	if (clocks.moved)
		sched_setaffinity(0, sizeof(clocks.allowed), &clocks.allowed);
}

void slept__note(struct slept *s, pid_t pid, pid_t only)
{
	s->cnt = 0;
	slept__add(s, pid, only);
}

void slept__free(struct slept *s)
{
	sock_time_outs__free(s->socks);
	s->socks = NULL;
}

/*
 * That call has ended by itself, perhaps, and the thread has come to the next one, just so, when it was stopped: that has hardly begun.
 * Where it was on its way out of the first it waits once more: rather too long than too short.
 */
static bool may_be_the_next(const struct slept_thread *t, pid_t pid)
{
	auto_free char *sched = NULL;

	if (t->since_ns + t->takes_ns > now_ns())
		return false;
	sched = read_file(pid, t->tid, "sched");
	return !sched || time_behind(sched, HAS_RUN) - t->ran_ns > WAKING_NS;
}

uint64_t slept__since(const struct slept *s, pid_t pid, pid_t tid,
		      const struct user_regs_struct *regs, uint64_t sleeps)
{
	for (size_t i = 0; i < s->cnt; i++) {
		const struct slept_thread *t = &s->threads[i];

		/* once to stand still */
		if (t->tid == tid && sleeps == t->sleeps + 1 && is_call(t->call, regs))
			return may_be_the_next(t, pid) ? 0 : t->since_ns;
	}
	return 0;
}
