// SPDX-License-Identifier: Apache-2.0
#include "inline/time_out.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "inline/thread_room.h"

/* That a call can be on its way out; it was another one whose end was noted longer ago. */
#define OVERDUE_MS 1000
#define OVERDUE_NS (OVERDUE_MS * NS_PER_MS)
#define NS_PER_MS  1000000ull
#define NS_PER_S   1000000000u
#define MAX_S	   (1ll << 32)
#define MAGIC	   0x54554f4d4954595eull

/* Of io_uring_enter(): that its argument is a struct io_uring_getevents_arg, with a time, and not one of the day. */
#define URING_FLAGS ((1u << 3) | (1u << 5) | (1u << 6))
#define URING_EXT   (1u << 3)
#define URING_TIME  3 /* the last of its words leads to the time */

/* What the register leads to, or the last word of what it does. */
struct kept {
	struct timespec left;
	uint64_t end_ns, magic;
	uint64_t uring[URING_TIME];
};

static bool is_in_ms(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_epoll_wait || regs->orig_rax == SYS_epoll_pwait;
}

static bool is_uring(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_io_uring_enter && (regs->r10 & URING_FLAGS) == URING_EXT &&
	       regs->r9 == sizeof(((struct kept *)NULL)->uring);
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
	case SYS_io_uring_enter: /* by way of its argument */
		return is_uring(regs) ? &regs->r8 : NULL;
	}
	return NULL;
}

static uint64_t our_place(const struct user_regs_struct *regs)
{
	return thread_room__at(regs, sizeof(struct kept));
}

bool time_out__is_kept(const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;

	return is_in_ms(regs) || place_of(&copy);
}

/* Where the time is that the kernel reads. 0: there is none */
static uint64_t read_time_at(pid_t tid, const struct user_regs_struct *regs, uint64_t place,
			     struct kept *k)
{
	if (!place || !is_uring(regs))
		return place;
	return thread_room__read(tid, place, k->uring, sizeof(k->uring)) ? k->uring[URING_TIME - 1]
									 : 0;
}

/* When a call ends that may take so long; what would have ended long ago is not believed. */
static uint64_t end_of(uint64_t since_ns, uint64_t takes_ns, uint64_t now)
{
	if (since_ns > now || since_ns + takes_ns + OVERDUE_NS < now)
		since_ns = 0;
	return (since_ns ? since_ns : now) + takes_ns;
}

uint32_t time_out__left_ms(unsigned long long *reg, uint32_t whole_ms, uint64_t since_ns)
{
	uint64_t ns = now_ns();
	uint32_t now = (uint32_t)(ns / NS_PER_MS), end = (uint32_t)(*reg >> 32);
	int32_t to_go = (int32_t)(end - now);

	if (!end || to_go < -OVERDUE_MS || to_go > (int64_t)whole_ms + 2) {
		/* never too early */
		ns = end_of(since_ns, NS_PER_MS * whole_ms, ns);
		end = (uint32_t)(ns / NS_PER_MS + 1) | 1;
		to_go = (int32_t)(end - now);
	}
	*reg = (uint64_t)end << 32 | (uint32_t)*reg;
	return to_go > 0 ? (uint32_t)to_go : 0;
}

/* 0 in a register that a program reuses would not wait: 1 does. */
static void keep_ms(struct user_regs_struct *regs, uint64_t since_ns)
{
	uint32_t left = (uint32_t)regs->r10;

	if ((int32_t)left <= 0)
		return;
	left = time_out__left_ms(&regs->r10, left, since_ns);
	regs->r10 = (regs->r10 & ~(uint64_t)UINT32_MAX) | (left ?: 1);
}

/* The program's. False: there is none. */
static bool read_takes(pid_t tid, uint64_t at, uint64_t *takes_ns)
{
	struct timespec takes;

	if (!thread_room__read(tid, at, &takes, sizeof(takes)) || takes.tv_sec < 0 ||
	    takes.tv_sec > MAX_S || takes.tv_nsec < 0 || takes.tv_nsec >= NS_PER_S)
		return false;
	*takes_ns = (uint64_t)takes.tv_sec * NS_PER_S + (uint64_t)takes.tv_nsec;
	return true;
}

uint64_t time_out__takes(pid_t tid, const struct user_regs_struct *regs)
{
	struct user_regs_struct copy = *regs;
	const unsigned long long *place = place_of(&copy);
	uint64_t at, takes_ns;
	struct kept k;

	if (is_in_ms(regs))
		return (int32_t)regs->r10 > 0 && !(regs->r10 >> 32) ? NS_PER_MS * regs->r10 : 0;
	at = place ? read_time_at(tid, regs, *place, &k) : 0;
	return at && at != our_place(regs) && read_takes(tid, at, &takes_ns) ? takes_ns : 0;
}

static bool find_end(pid_t tid, uint64_t at, uint64_t since_ns, uint64_t now, struct kept *k)
{
	uint64_t takes_ns;

	if (!read_takes(tid, at, &takes_ns))
		return false;
	k->end_ns = end_of(since_ns, takes_ns, now);
	k->magic = MAGIC;
	return true;
}

static void keep_at(pid_t tid, struct user_regs_struct *regs, unsigned long long *place,
		    uint64_t since_ns)
{
	uint64_t ours = our_place(regs), now = now_ns(), at;
	struct kept k = { 0 };

	at = read_time_at(tid, regs, *place, &k);
	if (!at)
		return;
	if (at == ours && (!thread_room__read(tid, ours, &k, sizeof(k)) || k.magic != MAGIC))
		return;
	if (at != ours && !find_end(tid, at, since_ns, now, &k))
		return;
	k.left = timespec_of(k.end_ns > now ? k.end_ns - now : 0);
	k.uring[URING_TIME - 1] = ours;
	if (thread_room__write(tid, ours, &k, sizeof(k)))
		*place = is_uring(regs) ? ours + offsetof(struct kept, uring) : ours;
}

void time_out__keep(pid_t tid, struct user_regs_struct *regs, uint64_t since_ns)
{
	unsigned long long *place = place_of(regs);

	if (is_in_ms(regs))
		keep_ms(regs, since_ns);
	else if (place && *place)
		keep_at(tid, regs, place, since_ns);
}
