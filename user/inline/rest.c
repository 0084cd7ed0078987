// SPDX-License-Identifier: Apache-2.0
#include "inline/rest.h"

#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "inline/follow.h"
#include "inline/interrupted.h"

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
	case SYS_sendto:
		return true;
	case SYS_recvfrom:
		return regs->r10 & MSG_WAITALL;
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

bool rest__has_parts(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct moves m;

	return find_moves(&copy, &m);
}

bool rest__is_left(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	struct moves m;

	return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax > 0 && find_moves(&copy, &m) &&
	       regs->rax < *m.left;
}

bool rest__begin(struct rest *rest, pid_t tid)
{
	struct user_regs_struct regs;
	struct moves m;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) || !rest__is_left(&regs) ||
	    interrupted__has_signal(tid))
		return false;
	*rest = (struct rest){ tid, regs };
	find_moves(&regs, &m);
	if (m.at)
		*m.at += regs.rax;
	if (m.offset)
		*m.offset += regs.rax;
	*m.left -= regs.rax;
	regs.rax = regs.orig_rax;
	regs.rip -= SYSCALL_LEN;
	return !ptrace(PTRACE_SETREGS, tid, 0, &regs) && !ptrace(PTRACE_SYSCALL, tid, 0, 0);
}

/* What it has done by now. Was it interrupted once more, and not by a signal? */
static bool add_more(struct rest *rest)
{
	struct user_regs_struct regs;
	struct moves m;

	find_moves(&rest->whole, &m);
	if (ptrace(PTRACE_GETREGS, rest->tid, 0, &regs) || regs.rip != rest->whole.rip ||
	    regs.orig_rax != rest->whole.orig_rax)
		return false;
	if (regs.rax > *m.left - rest->whole.rax) /* an error */
		return interrupted__waits(&regs);
	rest->whole.rax += regs.rax;
	return regs.rax && rest->whole.rax < *m.left;
}

bool rest__goes_on(struct rest *rest, int status, bool more)
{
	bool of_call = WSTOPSIG(status) == SYSCALL_STOP;

	if (of_call && interrupted__begins_call(rest->tid)) {
		ptrace(PTRACE_SYSCALL, rest->tid, 0, 0);
		return true;
	}
	more &= add_more(rest) && of_call;
	if (ptrace(PTRACE_SETREGS, rest->tid, 0, &rest->whole))
		return true;
	return more && rest__begin(rest, rest->tid);
}

void rest__end(struct rest *rest)
{
	add_more(rest);
	ptrace(PTRACE_SETREGS, rest->tid, 0, &rest->whole);
}
