// SPDX-License-Identifier: Apache-2.0
#include "inline/time_out.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"

/* That a call can be on its way out; it was another one whose end was noted longer ago. */
#define OVERDUE_MS 1000
#define OVERDUE_NS (OVERDUE_MS * NS_PER_MS)
#define NS_PER_MS  1000000ull
#define NS_PER_S   1000000000u
#define MAX_S	   (1ll << 32)
#define BELOW_SP   2048 /* the red zone, and what our own calls need */
#define MAGIC	   0x54554f4d4954595eull

/* What the register leads to begins with what the kernel reads. */
struct kept {
	struct timespec left;
	uint64_t end_ns, magic;
};

static bool is_in_ms(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_epoll_wait || regs->orig_rax == SYS_epoll_pwait;
}

/* Which register leads to a struct timespec? A program's pointer, or 0: there is no time-out. NULL: none of them does. */
static unsigned long long *place_of(struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_semtimedop:
	case SYS_epoll_pwait2:
		return &regs->r10;
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return &regs->r8;
	case SYS_rt_sigtimedwait:
		return &regs->rdx;
	}
	return NULL;
}

static uint64_t our_place(const struct user_regs_struct *regs)
{
	return (regs->rsp - BELOW_SP - sizeof(struct kept)) & ~15ull;
}

bool time_out__is_kept(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;

	return is_in_ms(regs) || place_of(&copy);
}

bool time_out__is_new(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	const unsigned long long *place = place_of(&copy);

	if (is_in_ms(regs))
		return (int32_t)regs->r10 > 0 && !(regs->r10 >> 32);
	return place && *place && *place != our_place(regs);
}

/* When a call ends that may take so long; what would have ended long ago is not believed. */
static uint64_t end_of(uint64_t since_ns, uint64_t takes_ns, uint64_t now)
{
	if (since_ns > now || since_ns + takes_ns + OVERDUE_NS < now)
		since_ns = 0;
	return (since_ns ? since_ns : now) + takes_ns;
}

static void keep_ms(struct user_regs_struct *regs, uint64_t since_ns)
{
	uint64_t ns = now_ns();
	uint32_t now = (uint32_t)(ns / NS_PER_MS), end = (uint32_t)(regs->r10 >> 32);
	int32_t left = (int32_t)regs->r10, to_go = (int32_t)(end - now);

	if (left <= 0)
		return;
	if (!end || to_go < -OVERDUE_MS || to_go > (int64_t)left + 2) {
		/* never too early, nor 0 */
		ns = end_of(since_ns, NS_PER_MS * (uint32_t)left, ns);
		end = (uint32_t)(ns / NS_PER_MS + 1) | 1;
		to_go = (int32_t)(end - now);
	}
	/* 0 in a register that a program reuses would not wait */
	left = to_go > 1 ? to_go : 1;
	regs->r10 = (uint64_t)end << 32 | (uint32_t)left;
}

static bool copy(pid_t tid, uint64_t at, void *ours, size_t bytes, bool there)
{
	struct iovec here = { ours, bytes }, program = { (void *)(uintptr_t)at, bytes };
	ssize_t done = there ? process_vm_writev(tid, &here, 1, &program, 1, 0)
			     : process_vm_readv(tid, &here, 1, &program, 1, 0);

	return done == (ssize_t)bytes;
}

/* Of the program's. False: there is none. */
static bool find_end(pid_t tid, uint64_t at, uint64_t since_ns, uint64_t now, struct kept *k)
{
	uint64_t takes_ns;

	if (!copy(tid, at, &k->left, sizeof(k->left), false) || k->left.tv_sec < 0 ||
	    k->left.tv_sec > MAX_S || k->left.tv_nsec < 0 || k->left.tv_nsec >= NS_PER_S)
		return false;
	takes_ns = (uint64_t)k->left.tv_sec * NS_PER_S + (uint64_t)k->left.tv_nsec;
	k->end_ns = end_of(since_ns, takes_ns, now);
	k->magic = MAGIC;
	return true;
}

static void keep_at(pid_t tid, struct user_regs_struct *regs, unsigned long long *place,
		    uint64_t since_ns)
{
	uint64_t at = our_place(regs), now = now_ns();
	struct kept k;

	if (*place == at && (!copy(tid, at, &k, sizeof(k), false) || k.magic != MAGIC))
		return;
	if (*place != at && !find_end(tid, *place, since_ns, now, &k))
		return;
	k.left = timespec_of(k.end_ns > now ? k.end_ns - now : 0);
	if (copy(tid, at, &k, sizeof(k), true))
		*place = at;
}

void time_out__keep(pid_t tid, struct user_regs_struct *regs, uint64_t since_ns)
{
	unsigned long long *place = place_of(regs);

	if (is_in_ms(regs))
		keep_ms(regs, since_ns);
	else if (place && *place)
		keep_at(tid, regs, place, since_ns);
}
