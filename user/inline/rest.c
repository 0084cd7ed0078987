// SPDX-License-Identifier: Apache-2.0
#include "inline/rest.h"

#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "inline/engine_priv.h"
#include "inline/interrupted.h"
#include "inline/thread_room.h"
#include "proc/pid.h"

#define VECTOR_MAX 64 /* of more the part is told */

/* Which registers change when a part is done: up with it, and down. */
struct moves {
	unsigned long long *at, *left, *offset; /* offset: in a file, or NULL */
};

static bool find_moves(struct user_regs_struct *regs, struct moves *m)
{
	*m = (struct moves){ &regs->rsi, &regs->rdx, NULL };
	switch (regs->orig_rax) {
	case SYS_pwrite64:
		m->offset = &regs->r10;
		return true;
	case SYS_write:
		return true;
	case SYS_sendto: /* each of these is told of by itself */
		return !(regs->r10 & MSG_ZEROCOPY);
	case SYS_recvfrom: /* what was seen is seen again */
		return (regs->r10 & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL;
	case SYS_sendfile:
		*m = (struct moves){
			NULL, &regs->r10, NULL
		}; /* where it is says the file, or the kernel writes it */
		return true;
	case SYS_getrandom:
		*m = (struct moves){ &regs->rdi, &regs->rsi, NULL };
		return true;
	}
	return false;
}

/* Of writev() and sendmsg(): what is left is one of ours, in a thread_room. */
struct vector {
	struct msghdr msg; /* of sendmsg() */
	struct iovec parts[VECTOR_MAX];
	size_t cnt;
	uint64_t bytes; /* of all */
};

static bool has_vector(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_writev ||
	       (regs->orig_rax == SYS_sendmsg && !(regs->rdx & MSG_ZEROCOPY));
}

static bool read_vector(pid_t tid, const struct user_regs_struct *regs, struct vector *v)
{
	*v = (struct vector){ .msg = { .msg_iov = (struct iovec *)(uintptr_t)regs->rsi,
				       .msg_iovlen = regs->rdx } };
	if (regs->orig_rax == SYS_sendmsg &&
	    !thread_room__read(tid, regs->rsi, &v->msg, sizeof(v->msg)))
		return false;
	v->cnt = v->msg.msg_iovlen;
	if (v->cnt > VECTOR_MAX || !thread_room__read(tid, (uintptr_t)v->msg.msg_iov, v->parts,
						      v->cnt * sizeof(v->parts[0])))
		return false;
	for (size_t i = 0; i < v->cnt; i++)
		v->bytes += v->parts[i].iov_len;
	return true;
}

/* Without the first bytes, and what came with these. */
static bool write_vector(pid_t tid, struct user_regs_struct *regs, struct vector *v, uint64_t done)
{
	uint64_t at = thread_room__at(regs, sizeof(*v));
	struct iovec *part = v->parts;

	for (; part < v->parts + v->cnt && part->iov_len <= done; part++)
		done -= part->iov_len;
	if (part == v->parts + v->cnt)
		return false;
	part->iov_base = (char *)part->iov_base + done;
	part->iov_len -= done;
	v->msg.msg_iov = (struct iovec *)(uintptr_t)(at + ((uintptr_t)part - (uintptr_t)v));
	v->msg.msg_iovlen = (size_t)(v->parts + v->cnt - part);
	v->msg.msg_control = NULL;
	v->msg.msg_controllen = 0;
	regs->rsi = at;
	if (regs->orig_rax == SYS_writev) {
		regs->rsi = (uintptr_t)v->msg.msg_iov;
		regs->rdx = v->msg.msg_iovlen;
	}
	return thread_room__write(tid, at, v, sizeof(*v));
}

bool rest__has_parts(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct moves m;

	return find_moves(&copy, &m) || has_vector(regs);
}

/* How much it is to do. 0: it does nothing in parts */
static uint64_t bytes_of(pid_t tid, const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct vector v;
	struct moves m;

	if (find_moves(&copy, &m))
		return *m.left;
	return has_vector(regs) && read_vector(tid, regs, &v) ? v.bytes : 0;
}

/* Or in front of it, as nothing was done and the kernel has it made once more: then the one register that says how much was done has the
 * call's number, which can be what was done as well. */
static bool is_behind(pid_t tid, const struct user_regs_struct *regs)
{
	return regs->rax != regs->orig_rax || interrupted__is_call(tid, regs->rip - SYSCALL_LEN);
}

bool rest__is_left(pid_t tid, const struct user_regs_struct *regs)
{
	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax > 0 && rest__has_parts(regs) &&
	       regs->rax < bytes_of(tid, regs) && is_behind(tid, regs);
}

/* One message is all that there is to receive, unless it is a stream. */
static bool is_stream(pid_t tid, int fd)
{
	auto_close int own = proc_pid_take_fd(inline_process_of(tid), fd);
	socklen_t len = sizeof(int);
	int type;

	return own >= 0 && !getsockopt(own, SOL_SOCKET, SO_TYPE, &type, &len) &&
	       type == SOCK_STREAM;
}

/* From a call of which a part is done to one for what is left. */
static bool go_behind_part(pid_t tid, struct user_regs_struct *regs)
{
	struct vector v;
	struct moves m;

	if (has_vector(regs) &&
	    (!read_vector(tid, regs, &v) || !write_vector(tid, regs, &v, regs->rax)))
		return false;
	if (find_moves(regs, &m)) {
		if (m.at)
			*m.at += regs->rax;
		if (m.offset)
			*m.offset += regs->rax;
		*m.left -= regs->rax;
	}
	regs->rax = regs->orig_rax;
	regs->rip -= SYSCALL_LEN;
	return true;
}

bool rest__begin(struct rest *rest, pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) || !rest__is_left(tid, &regs) ||
	    interrupted__has_signal(tid) ||
	    (regs.orig_rax == SYS_recvfrom && !is_stream(tid, (int)regs.rdi)))
		return false;
	*rest = (struct rest){ tid, regs, bytes_of(tid, &regs) };
	return go_behind_part(tid, &regs) && !ptrace(PTRACE_SETREGS, tid, 0, &regs) &&
	       !ptrace(PTRACE_SYSCALL, tid, 0, 0);
}

/* Does it stand in front of that call, or behind it? Nobody has it go elsewhere; if so, its registers are none of ours. */
static bool is_in_place(const struct rest *rest, const struct user_regs_struct *regs)
{
	return regs->rsp == rest->whole.rsp &&
	       (regs->rip == rest->whole.rip - SYSCALL_LEN ||
		(regs->rip == rest->whole.rip && regs->orig_rax == rest->whole.orig_rax));
}

/* Its registers say all that was done by now. Was it interrupted once more, and not by a signal? */
static bool put_together(struct rest *rest)
{
	struct user_regs_struct regs;
	bool more = false;

	if (ptrace(PTRACE_GETREGS, rest->tid, 0, &regs) || !is_in_place(rest, &regs))
		return false;
	if (regs.rip == rest->whole.rip && regs.rax <= rest->bytes - rest->whole.rax) {
		rest->whole.rax += regs.rax;
		more = regs.rax && rest->whole.rax < rest->bytes;
	} else if (regs.rip == rest->whole.rip) { /* an error */
		more = interrupted__waits(&regs);
	}
	return !ptrace(PTRACE_SETREGS, rest->tid, 0, &rest->whole) && more;
}

bool rest__goes_on(struct rest *rest, int status, bool more)
{
	bool of_call = WSTOPSIG(status) == SYSCALL_STOP;

	if (of_call && interrupted__begins_call(rest->tid)) {
		ptrace(PTRACE_SYSCALL, rest->tid, 0, 0);
		return true;
	}
	more &= put_together(rest) && of_call;
	return more && rest__begin(rest, rest->tid);
}

bool rest__ask_on(struct rest *rest, int status, bool *over)
{
	*over = !rest__goes_on(rest, status, false);
	if (*over && WSTOPSIG(status) != SYSCALL_STOP)
		return false;
	ptrace(PTRACE_INTERRUPT, rest->tid, 0, 0);
	if (*over)
		ptrace(PTRACE_CONT, rest->tid, 0, 0);
	return true;
}

void rest__end(struct rest *rest)
{
	put_together(rest);
}
