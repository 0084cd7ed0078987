// SPDX-License-Identifier: Apache-2.0
#include "inline/interrupted.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "inline/rest.h"
#include "inline/slept.h"
#include "inline/sock_time_out.h"
#include "inline/time_out.h"

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#define SYSCALL "\x0f\x05"
#define SLEEPS	"voluntary_ctxt_switches:"

/* Of proc(5), a bit for each signal; none where the thread is gone, which goes by its own number there. */
struct status {
	uint64_t pending, blocked, ignored, caught;
	uint64_t sleeps; /* voluntary context switches */
	pid_t pid;
};

static struct status read_status(pid_t tid)
{
	struct status s = { 0 };
	char path[40], line[256];
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t set = strlen(line) > 7 ? strtoull(line + 7, NULL, 16) : 0;

		if (!strncmp(line, "SigPnd:", 7) || !strncmp(line, "ShdPnd:", 7))
			s.pending |= set;
		else if (!strncmp(line, "SigBlk:", 7))
			s.blocked = set;
		else if (!strncmp(line, "SigIgn:", 7))
			s.ignored = set;
		else if (!strncmp(line, "SigCgt:", 7))
			s.caught = set;
		else if (!strncmp(line, "Tgid:", 5))
			s.pid = (pid_t)strtol(line + 5, NULL, 10);
		else if (!strncmp(line, SLEEPS, strlen(SLEEPS)))
			s.sleeps = strtoull(line + strlen(SLEEPS), NULL, 10);
	}
	return s;
}

static uint64_t bit(int sig)
{
	return 1ull << (sig - 1);
}

static bool has(uint64_t set, int sig)
{
	return set & bit(sig);
}

/* What a process takes no notice of; SIGCONT has it go on nevertheless. */
static uint64_t ignored(const struct status *s)
{
	uint64_t usually = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH);

	return (s->ignored | (usually & ~s->caught)) & ~bit(SIGCONT);
}

/* One that is ignored comes to a thread that is traced, too. */
static bool is_any(const struct status *s)
{
	return s->pending & ~s->blocked & ~ignored(s);
}

bool interrupted__has_signal(pid_t tid)
{
	struct status s = read_status(tid);

	return is_any(&s);
}

bool interrupted__blocks(pid_t tid, int sig)
{
	return has(read_status(tid).blocked, sig);
}

bool interrupted__waits(const struct user_regs_struct *regs)
{
	int64_t said = -(int64_t)regs->rax;

	return (int64_t)regs->orig_rax >= 0 &&
	       (said == ERESTARTSYS || said == ERESTARTNOINTR || said == ERESTARTNOHAND ||
		said == ERESTART_RESTARTBLOCK);
}

bool interrupted__ends(const struct user_regs_struct *regs)
{
	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax == -EINTR;
}

bool interrupted__is_one(uint64_t nr, const uint16_t *calls, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (nr == calls[i])
			return true;
	return false;
}

/* These answer a mere stop with EINTR, which the kernel never restarts; those on sockets where they have a time-out. */
static bool is_interruptible(uint64_t nr)
{
	static const uint16_t calls[] = { SYS_epoll_wait,      SYS_epoll_pwait,	  SYS_epoll_pwait2,
					  SYS_semop,	       SYS_semtimedop,	  SYS_io_getevents,
					  SYS_io_pgetevents,   SYS_recvfrom,	  SYS_recvmsg,
					  SYS_recvmmsg,	       SYS_read,	  SYS_readv,
					  SYS_sendto,	       SYS_sendmsg,	  SYS_sendmmsg,
					  SYS_write,	       SYS_writev,	  SYS_accept,
					  SYS_accept4,	       SYS_connect,	  SYS_sendfile,
					  SYS_rt_sigtimedwait, SYS_splice,	  SYS_preadv2,
					  SYS_pwritev2,	       SYS_io_uring_enter };

	return INTERRUPTED_IS_ONE(nr, calls);
}

/* None, as far as that can be told from its arguments: a socket's is not among them; or one that is kept. */
static bool waits_no_longer(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_semop || time_out__is_kept(regs);
}

/* As it stands still now. */
static int begin_anew(pid_t tid, struct user_regs_struct *regs, const struct slept *slept,
		      const struct status *s)
{
	uint64_t since_ns = slept ? slept__since(slept, s->pid, tid, regs, s->sleeps) : 0;

	time_out__keep(tid, regs, since_ns);
	if (sock_time_out__keep(slept ? slept->socks : NULL, s->pid, tid, regs, since_ns))
		regs->rax = (uint64_t)-EAGAIN;
	else
		regs->rax = (uint64_t)-ERESTARTNOHAND;
	return ptrace(PTRACE_SETREGS, tid, 0, regs) ? -errno : 0;
}

int interrupted__begin_anew(pid_t tid, struct user_regs_struct *regs, const struct slept *slept)
{
	struct status s = read_status(tid);

	return begin_anew(tid, regs, slept, &s);
}

bool interrupted__is_call(pid_t tid, uint64_t at)
{
	long code;

	errno = 0;
	code = ptrace(PTRACE_PEEKTEXT, tid, at, 0);
	return !errno && !memcmp(&code, SYSCALL, SYSCALL_LEN);
}

/* How a call asks to be begun anew that a handler may end. 0: another one; that of fork() may not. */
static int restart_of(uint64_t nr)
{
	static const uint16_t no_handler[] = { SYS_ppoll, SYS_select,	     SYS_pselect6,
					       SYS_pause, SYS_rt_sigsuspend, SYS_msgrcv,
					       SYS_msgsnd };
	static const uint16_t handler_says[] = { SYS_read,     SYS_readv,   SYS_write,	SYS_writev,
						 SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg,
						 SYS_accept,   SYS_accept4, SYS_wait4,	SYS_waitid,
						 SYS_flock };

	if (INTERRUPTED_IS_ONE(nr, no_handler))
		return ERESTARTNOHAND;
	return INTERRUPTED_IS_ONE(nr, handler_says) ? ERESTARTSYS : 0;
}

/* It is about to begin its call anew, for an earlier stop. A signal that comes now would have ended it, and its handler would run in front of it
 * instead, and it would wait: so it is behind it again, as it was then. */
static int go_behind(pid_t tid, struct user_regs_struct *regs)
{
	int restart = (int64_t)regs->orig_rax < 0 ? 0 : restart_of(regs->orig_rax);

	if (!restart || regs->rax != regs->orig_rax || !interrupted__is_call(tid, regs->rip))
		return 0;
	regs->rip += SYSCALL_LEN;
	regs->rax = (uint64_t)-restart;
	return ptrace(PTRACE_SETREGS, tid, 0, regs) ? -errno : 0;
}

int interrupted__look(pid_t tid, struct user_regs_struct *regs, const struct slept *slept)
{
	struct status s;
	int err;

	if (ptrace(PTRACE_GETREGS, tid, 0, regs))
		return -errno;
	err = go_behind(tid, regs);
	if (err)
		return err;
	if (!interrupted__ends(regs) || !is_interruptible(regs->orig_rax))
		return 0;
	s = read_status(tid);
	return is_any(&s) ? 0 : begin_anew(tid, regs, slept, &s);
}

int interrupted__pass(pid_t tid, int sig, bool lasting, const struct slept *slept)
{
	struct user_regs_struct regs;
	struct status s;
	bool ends;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return sig;
	ends = interrupted__ends(&regs) && is_interruptible(regs.orig_rax);
	if (!ends && !rest__is_left(tid, &regs))
		return sig;
	s = read_status(tid);
	if (!has(ignored(&s), sig))
		return sig;
	if (ends && !is_any(&s) && (!lasting || waits_no_longer(&regs)))
		begin_anew(tid, &regs, slept, &s);
	return 0;
}

bool interrupted__is_group_stop(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

long interrupted__go_on(enum __ptrace_request request, pid_t tid, int sig)
{
	return ptrace(request, tid, NULL, (void *)(intptr_t)sig); /* as wide as what is looked at */
}

bool interrupted__is_diverted(pid_t tid)
{
	struct {
		uint64_t mode, selector, start, bytes;
	} dispatch = { 0 };

	return !ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(dispatch), &dispatch) &&
	       dispatch.mode;
}

/* A call can have ended with ENOSYS, too: the kernel tells from 5.3 on. */
bool interrupted__begins_call(pid_t tid)
{
	struct __ptrace_syscall_info info = { 0 };
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0)
		return info.op == PTRACE_SYSCALL_INFO_ENTRY;
	return !ptrace(PTRACE_GETREGS, tid, 0, &regs) && (int64_t)regs.rax == -ENOSYS;
}
