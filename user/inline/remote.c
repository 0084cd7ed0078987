// SPDX-License-Identifier: Apache-2.0
/*
 * The injected calls: code in the padding behind the interpreter's code, a table of calls and the thread's
 * registers on its own stack below the red zone. Once the registers point there the tracer is not needed
 * any more: the code makes the calls, copies the results away and restores every register. (A thread that
 * is single-stepped instead dies with its tracer: the trap flag stays set.)
 */
#include "inline/remote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define STOP_NS	    1000000000ull
#define CALL_NS	    1000000000ull
#define RED_ZONE    128
#define THREADS_MAX 65536u
#define SYSCALL_LEN 2

/* rbx: table of calls {number, six arguments}, rbp: how many; behind the table 15 registers and the flags.
 * r13: where the results go when the first call, which makes room there, has succeeded; r12: the table,
 * r14: its size. */
__asm__(".pushsection .rodata\n"
	".globl pye_chain_start, pye_chain_back, pye_chain_end\n"
	"pye_chain_start: cld\n"
	"1: mov (%rbx), %rax\n"
	"mov 8(%rbx), %rdi\n"
	"mov 16(%rbx), %rsi\n"
	"mov 24(%rbx), %rdx\n"
	"mov 32(%rbx), %r10\n"
	"mov 40(%rbx), %r8\n"
	"mov 48(%rbx), %r9\n"
	"syscall\n"
	"mov %rax, (%rbx)\n"
	"add $56, %rbx\n"
	"dec %rbp\n"
	"jnz 1b\n"
	"test %r13, %r13\n"
	"jz 2f\n"
	"cmpq $-4096, (%r12)\n"
	"ja 2f\n"
	"mov %r12, %rsi\n"
	"mov %r13, %rdi\n"
	"mov %r14, %rcx\n"
	"rep movsb\n"
	"movq $1, (%rdi)\n"
	"2: mov %rbx, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %r11; pop %r10; pop %r9; pop %r8\n"
	"pop %rdi; pop %rsi; pop %rbp; pop %rbx; pop %rdx; pop %rcx; pop %rax; popfq\n"
	"lea 128(%rsp), %rsp\n"
	"jmp *pye_chain_back(%rip)\n"
	"pye_chain_back: .quad 0\n"
	"pye_chain_end:\n"
	".popsection\n");
extern const uint8_t pye_chain_start[], pye_chain_back[], pye_chain_end[];

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void begin_stop(struct remote *r)
{
	if (!r->stopped_at)
		r->stopped_at = now_ns();
}

static void end_stop(struct remote *r)
{
	uint32_t us = (uint32_t)((now_ns() - r->stopped_at) / 1000);

	if (!r->stopped_at)
		return;
	r->stopped_at = 0;
	r->stops++;
	r->all_us += us;
	if (us > r->longest_us)
		r->longest_us = us;
}

int remote__open(struct remote *r, pid_t pid, struct err *e)
{
	char path[40];

	memset(r, 0, sizeof(*r));
	r->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	r->mem = open(path, O_RDWR | O_CLOEXEC);
	if (r->mem >= 0 && flock(r->mem, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(r->mem);
		r->mem = -1;
		return -EBUSY;
	}
	if (r->mem >= 0)
		return 0;
	if (errno == EACCES || errno == EPERM) {
		err_set(e, -PYE_EPRIV, "process %d may not be written to", pid);
		err_hint(
			e,
			"the inline engine needs what ptrace needs: a process of your own, or root");
		return -PYE_EPRIV;
	}
	return err_set(e, -PYE_ETARGET, "process %d: %s", pid, strerror(errno));
}

void remote__close(struct remote *r)
{
	remote__resume(r);
	free(r->threads);
	if (r->mem >= 0)
		close(r->mem);
	r->mem = -1;
	r->threads = NULL;
	r->size = 0;
}

int remote__read(const struct remote *r, uint64_t at, void *to, size_t size)
{
	return pread(r->mem, to, size, (off_t)at) == (ssize_t)size ? 0 : -EFAULT;
}

int remote__write(const struct remote *r, uint64_t at, const void *from, size_t size)
{
	return pwrite(r->mem, from, size, (off_t)at) == (ssize_t)size ? 0 : -EFAULT;
}

static bool has_signal(const struct remote *r, pid_t tid)
{
	char path[64], line[256];
	auto_fclose FILE *f = NULL;
	unsigned long long any = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", r->pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "SigPnd:", 7) || !strncmp(line, "ShdPnd:", 7))
			any |= strtoull(line + 7, NULL, 16);
	return any;
}

/* These answer a mere stop with EINTR, which the kernel never restarts. */
static bool is_interruptible(uint64_t nr)
{
	return nr == SYS_epoll_wait || nr == SYS_epoll_pwait || nr == SYS_epoll_pwait2 ||
	       nr == SYS_semop || nr == SYS_semtimedop || nr == SYS_io_getevents;
}

static int look(struct remote *r, struct remote_thread *t)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
		return -errno;
	if ((int64_t)regs.rax == -EINTR && is_interruptible(regs.orig_rax) &&
	    !has_signal(r, t->tid)) {
		regs.rax = regs.orig_rax;
		regs.rip -= SYSCALL_LEN;
		regs.orig_rax = (unsigned long long)-1;
		if (ptrace(PTRACE_SETREGS, t->tid, 0, &regs))
			return -errno;
	}
	t->pc = regs.rip;
	t->sp = regs.rsp;
	t->self = regs.fs_base;
	memcpy(t->regs,
	       (uint64_t[15]){ regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp,
			       regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14,
			       regs.r15 },
	       sizeof(t->regs));
	return 0;
}

/* Our own child: nobody else will be told how it ended. */
static void note_end(struct remote *r, pid_t tid, int status)
{
	if (tid != r->pid)
		return;
	r->ended = true;
	r->status = status;
}

/* Until a seized and interrupted thread has stopped. A signal that was on its way is delivered first. */
static int await(struct remote *r, pid_t tid, uint64_t deadline)
{
	for (;;) {
		int status;
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid && !WIFSTOPPED(status))
			note_end(r, tid, status);
		if (got < 0 || (got == tid && !WIFSTOPPED(status)))
			return -ESRCH;
		if (got == tid && status >> 16 == PTRACE_EVENT_STOP)
			return 0;
		if (got == tid)
			ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status));
		else if (now_ns() > deadline)
			return -ETIMEDOUT;
		else
			sched_yield();
	}
}

static bool is_known(const struct remote *r, pid_t tid)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->threads[i].tid == tid)
			return true;
	return false;
}

static bool is_dead(pid_t pid, pid_t tid)
{
	char path[64], line[256] = "";
	auto_fclose FILE *f = NULL;
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return true;
	state = strrchr(line, ')');
	return state && (state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X'));
}

/* Seize and interrupt every thread that is new; they stop while we ask the others. */
static int seize_new(struct remote *r, size_t limit)
{
	char path[40];
	struct dirent *entry;
	DIR *dir;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", r->pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while (!err && r->cnt < limit && (entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || is_known(r, tid))
			continue;
		if (r->cnt == r->size) {
			size_t size = r->size ? 2 * r->size : 64;
			void *more = reallocarray(r->threads, size, sizeof(r->threads[0]));

			if (!more) {
				err = -ENOMEM;
				break;
			}
			r->threads = more;
			r->size = size;
		}
		if (ptrace(PTRACE_SEIZE, tid, 0, 0)) {
			err = errno == ESRCH || is_dead(r->pid, tid) ? 0 : -errno;
			continue;
		}
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		r->threads[r->cnt++] = (struct remote_thread){ .tid = tid };
	}
	closedir(dir);
	return err;
}

/* Wait for those seized from @waited on; what ends meanwhile is left out. */
static int await_all(struct remote *r, size_t waited, uint64_t deadline)
{
	while (waited < r->cnt) {
		struct remote_thread *t = &r->threads[waited];
		int err = await(r, t->tid, deadline);

		if (!err)
			err = look(r, t);
		if (err == -ESRCH)
			*t = r->threads[--r->cnt];
		else if (err)
			return err;
		else
			waited++;
	}
	return 0;
}

static int stop_held(struct remote *r)
{
	if (!r->threads) {
		r->threads = calloc(1, sizeof(r->threads[0]));
		if (!r->threads)
			return -ENOMEM;
		r->size = 1;
	}
	if (ptrace(PTRACE_INTERRUPT, r->held, 0, 0))
		return -errno;
	r->threads[0] = (struct remote_thread){ .tid = r->held };
	r->cnt = 1;
	return await_all(r, 0, now_ns() + STOP_NS);
}

static int stop_some(struct remote *r, size_t limit)
{
	uint64_t deadline = now_ns() + STOP_NS;
	int err;

	if (r->held)
		return stop_held(r);
	r->cnt = 0;
	for (;;) {
		size_t before = r->cnt;

		err = seize_new(r, limit);
		if (!err && r->cnt == before)
			break;
		if (!err)
			err = await_all(r, before, deadline);
		if (err || r->cnt >= limit)
			break;
	}
	if (!err && !r->cnt)
		err = -ESRCH;
	if (err)
		remote__resume(r);
	return err;
}

int remote__stop(struct remote *r)
{
	begin_stop(r);
	return stop_some(r, THREADS_MAX);
}

static void let_go(struct remote *r, pid_t tid)
{
	int status;

	if (!ptrace(PTRACE_DETACH, tid, 0, 0) || errno != ESRCH)
		return;
	/* it has not stopped yet: it cannot be let go before */
	while (waitpid(tid, &status, __WALL) == tid) {
		if (!WIFSTOPPED(status)) {
			note_end(r, tid, status);
			return;
		}
		if (!ptrace(PTRACE_DETACH, tid, 0,
			    status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status)))
			return;
	}
}

void remote__resume(struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->held)
			ptrace(PTRACE_CONT, r->held, 0, 0);
		else
			let_go(r, r->threads[i].tid);
	r->cnt = 0;
	if (r->calling)
		return; /* the thread is not back yet */
	end_stop(r);
}

/* What the kernel would do for an interrupted call when the thread goes on: it does not, once the
 * registers were changed. */
static void restart_by_hand(struct user_regs_struct *regs)
{
	if ((int64_t)regs->orig_rax < 0)
		return;
	switch ((int64_t)regs->rax) {
	case -512: /* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND */
	case -513:
	case -514:
		regs->rax = regs->orig_rax;
		break;
	case -516: /* ERESTART_RESTARTBLOCK */
		regs->rax = SYS_restart_syscall;
		break;
	default:
		return;
	}
	regs->rip -= SYSCALL_LEN;
}

static int set_up(struct remote *r, pid_t tid, const struct remote_call *calls, unsigned int cnt,
		  uint64_t results)
{
	size_t code_bytes = (size_t)(pye_chain_end - pye_chain_start), table_bytes = 56UL * cnt;
	struct user_regs_struct regs, run;
	uint8_t code[REMOTE_SCRATCH_BYTES];
	uint64_t words[7 * REMOTE_CALLS_MAX + 16], at;
	int err;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return -errno;
	run = regs;
	restart_by_hand(&regs);
	memcpy(words, calls, table_bytes);
	memcpy(words + 7UL * cnt,
	       (uint64_t[16]){ regs.r15, regs.r14, regs.r13, regs.r12, regs.r11, regs.r10, regs.r9,
			       regs.r8, regs.rdi, regs.rsi, regs.rbp, regs.rbx, regs.rdx, regs.rcx,
			       regs.rax, regs.eflags },
	       16UL * 8);
	at = regs.rsp - RED_ZONE - table_bytes - 16UL * 8;
	memcpy(code, pye_chain_start, code_bytes);
	memcpy(code + (pye_chain_back - pye_chain_start), &regs.rip, 8);
	err = remote__write(r, r->scratch, code, code_bytes);
	if (!err)
		err = remote__write(r, at, words, table_bytes + 16UL * 8);
	if (err)
		return err;
	run.rip = r->scratch;
	run.rsp = (at - 64) & ~15ull;
	run.rbx = run.r12 = at;
	run.rbp = cnt;
	run.r13 = results;
	run.r14 = table_bytes;
	run.orig_rax = (unsigned long long)-1;
	run.eflags &= ~0x500ull; /* direction, trap */
	return ptrace(PTRACE_SETREGS, tid, 0, &run) ? -errno : 0;
}

static int wait_for_results(struct remote *r, unsigned int cnt, uint64_t results, int64_t *values)
{
	uint64_t words[7 * REMOTE_CALLS_MAX + 1], deadline = now_ns() + CALL_NS, zero = 0;

	while (remote__read(r, results, words, 56UL * cnt + 8) || words[7UL * cnt] != 1) {
		if (now_ns() > deadline)
			return -ETIMEDOUT;
		sched_yield();
	}
	for (unsigned int i = 0; i < cnt; i++)
		values[i] = (int64_t)words[7UL * i];
	return remote__write(r, results + 56UL * cnt, &zero, 8);
}

static bool in_scratch(const struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->threads[i].pc >= r->scratch &&
		    r->threads[i].pc < r->scratch + REMOTE_SCRATCH_BYTES)
			return true;
	return false;
}

/* Stop one thread, which is not (nor is any other) still on its way out of the calls before. */
static int stop_one(struct remote *r)
{
	for (int i = 0; i < 1000; i++) {
		int err = stop_some(r, 1);

		if (err)
			return err;
		if (!in_scratch(r))
			return 0;
		remote__resume(r);
		usleep(20);
	}
	return -EAGAIN;
}

int remote__call(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		 uint64_t results, int64_t *values)
{
	int err;

	begin_stop(r);
	err = r->cnt ? 0 : stop_one(r);
	if (err) {
		end_stop(r);
		return err;
	}
	if (in_scratch(r))
		err = -EAGAIN;
	if (!err)
		err = set_up(r, r->threads[0].tid, calls, cnt, results);
	r->calling = true;
	remote__resume(r);
	r->calling = false;
	if (!err && results)
		err = wait_for_results(r, cnt, results, values);
	end_stop(r);
	return err;
}

int remote__calls_done(struct remote *r)
{
	for (int i = 0; i < 1000; i++) {
		bool in;
		int err = remote__stop(r);

		if (err)
			return err;
		in = in_scratch(r);
		if (!in)
			return 0;
		remote__resume(r);
		usleep(20);
	}
	return -ETIMEDOUT;
}

int remote__finish(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		   uint64_t gone)
{
	uint8_t byte, zeros[REMOTE_SCRATCH_BYTES] = { 0 };
	uint64_t deadline = now_ns() + CALL_NS;
	int err = remote__call(r, calls, cnt, 0, NULL);

	while (!err && !remote__read(r, gone, &byte, 1)) {
		if (now_ns() > deadline)
			err = -ETIMEDOUT;
		usleep(50);
	}
	if (!err)
		err = remote__calls_done(r);
	if (!err)
		remote__write(r, r->scratch, zeros, sizeof(zeros));
	remote__resume(r);
	return err;
}
