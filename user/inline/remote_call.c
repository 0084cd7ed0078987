// SPDX-License-Identifier: Apache-2.0
/*
 * The injected calls: code in the padding behind the interpreter's code, a table of calls and the thread's
 * registers on its own stack below the red zone. Once the registers point there the tracer is not needed
 * any more: the code makes the calls, copies the results away and restores every register. (A thread that
 * is single-stepped instead dies with its tracer: the trap flag stays set.)
 */
#include "inline/engine.h"
#include "inline/remote_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inline/engine_priv.h"
#include "inline/interrupted.h"
#include "inline/late.h"
#include "inline/partial.h"
#include "inline/remote_call.h"
#include "inline/remote_stop.h"
#include "inline/sock_time_out.h"
#include "proc/maps.h"
#include "proc/threads.h"

#define CALL_NS	 10000000000ull /* nobody stands still for it, but a busy machine takes its time */
#define LEFT_NS	 1000000000ull /* until it is looked at where the thread is */
#define RED_ZONE 128
#define PARK_SHIFT \
	20 /* of the time stamp counter: how fine the time is by which a parked thread goes on */
#define BACK_LAPS     64u /* for one that waited in a call, until we put it back: 16 to 70 ms */
#define SET_BYTES     8ul /* of a set of signals */
#define OUTSIDE_TRIES 1000u
#define OUTSIDE_US    20u

/* rbx: table of calls {number, six arguments}, rbp: how many; behind the table 15 registers and the flags.
 * The first one that fails is the last. r13: where the results go when the first call has succeeded, which
 * may make room there; if it failed the thread stays for a while, so that it can be seen in the table.
 * r12: the table, r14: its size. */
__asm__(".pushsection .rodata\n"
	".globl pye_chain_start, pye_chain_spin, pye_chain_go, pye_chain_back, pye_chain_end\n"
	"pye_chain_start: cld\n"
	"rdtsc\n"
	"mov %eax, %r15d\n"
	"1: mov (%rbx), %rax\n"
	"mov 8(%rbx), %rdi\n"
	"mov 16(%rbx), %rsi\n"
	"mov 24(%rbx), %rdx\n"
	"mov 32(%rbx), %r10\n"
	"mov 40(%rbx), %r8\n"
	"mov 48(%rbx), %r9\n"
	"syscall\n"
	"mov %rax, (%rbx)\n"
	"cmp $-4096, %rax\n"
	"ja 3f\n"
	"add $56, %rbx\n"
	"dec %rbp\n"
	"jnz 1b\n"
	"3: test %r13, %r13\n"
	"jz 2f\n"
	"cmp %r12, %rbx\n"
	"je 6f\n"
	"mov %r12, %rsi\n"
	"mov %r13, %rdi\n"
	"mov %r14, %rcx\n"
	"rep movsb\n"
	"rdtsc\n"
	"sub %r15d, %eax\n"
	"mov %eax, 8(%rdi)\n"
	"movq $1, (%rdi)\n"
	"jmp 2f\n"
	"6: orb $8, -8(%r12)\n" /* laps: 2 to 8 ms */
	"2: mov -8(%r12), %ebx\n" /* how long the thread is parked; 0: it is not */
	"rdtsc\n"
	"shrd $20, %edx, %eax\n" /* PARK_SHIFT */
	"lea 1(%rbx), %ecx\n"
	"add %eax, %ebx\n"
	"shl $15, %ecx\n" /* at most: another processor's counter can be behind */
	"pye_chain_spin:\n"
	"4: dec %ecx\n"
	"jz 5f\n"
	"pause\n"
	"rdtsc\n"
	"shrd $20, %edx, %eax\n"
	"sub %ebx, %eax\n"
	"js 4b\n"
	"5:\n"
	"pye_chain_go:\n"
	"push $14\n" /* rt_sigprocmask: those that it blocks by itself */
	"pop %rax\n"
	"push $2\n"
	"pop %rdi\n"
	"lea -16(%r12), %rsi\n"
	"xor %edx, %edx\n"
	"lea 8(%rdx), %r10\n"
	"syscall\n"
	"lea (%r12,%r14), %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %r11; pop %r10; pop %r9; pop %r8\n"
	"pop %rdi; pop %rsi; pop %rbp; pop %rbx; pop %rdx; pop %rcx; pop %rax; popfq\n"
	"lea 128(%rsp), %rsp\n"
	"notrack jmp *pye_chain_back(%rip)\n" /* to anywhere: no place for indirect jumps */
	"pye_chain_back: .quad 0\n"
	"pye_chain_end:\n"
	".popsection\n");
extern const uint8_t pye_chain_start[], pye_chain_spin[], pye_chain_go[], pye_chain_back[],
	pye_chain_end[];

/* What the kernel would do for it when the thread goes on: it does not, once the registers were changed. */
static void restart_by_hand(struct user_regs_struct *regs)
{
	if (!interrupted__waits(regs))
		return;
	regs->rax = (int64_t)regs->rax == -ERESTART_RESTARTBLOCK ? SYS_restart_syscall
								 : regs->orig_rax;
	regs->rip -= SYSCALL_LEN;
}

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
#define RSEQ_CS 8 /* of struct rseq: the sequence it is in, or 0 */

/*
 * In a restartable sequence (rseq(2)) it would go on in the middle, on another CPU perhaps: the kernel, which would send it to where
 * the sequence is begun anew, sees it in our code and forgets about that. So it is sent there now.
 */
static void leave_sequence(const struct remote *r, pid_t tid, struct user_regs_struct *regs)
{
	struct {
		uint64_t at;
		uint32_t size, signature, flags, pad;
	} own = { 0 };
	struct {
		uint32_t version, flags;
		uint64_t start, bytes, abort;
	} sequence;
	uint64_t at = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(own), &own) <= 0 || !own.at ||
	    remote__read(r, own.at + RSEQ_CS, &at, sizeof(at)) || !at ||
	    remote__read(r, at, &sequence, sizeof(sequence)))
		return;
	if (regs->rip - sequence.start < sequence.bytes)
		regs->rip = sequence.abort;
}

/* The code, and on the stack of a thread that goes on with these registers the table, at r->caller.table. */
static int write_calls(struct remote *r, const struct user_regs_struct *regs,
		       const struct remote_call *calls, unsigned int cnt, uint64_t laps)
{
	size_t code_bytes = (size_t)(pye_chain_end - pye_chain_start), table_bytes = 56UL * cnt;
	const uint64_t kept[16] = { regs->r15, regs->r14, regs->r13, regs->r12,
				    regs->r11, regs->r10, regs->r9,  regs->r8,
				    regs->rdi, regs->rsi, regs->rbp, regs->rbx,
				    regs->rdx, regs->rcx, regs->rax, regs->eflags };
	uint8_t code[REMOTE_SCRATCH_BYTES];
	uint64_t words[7 * REMOTE_CALLS_MAX + 16];
	int err;

	if (code_bytes > sizeof(code))
		return -E2BIG;
	memcpy(code, pye_chain_start, code_bytes);
	memcpy(code + (pye_chain_back - pye_chain_start), &regs->rip, 8);
	memcpy(words, calls, table_bytes);
	memcpy(words + 7UL * cnt, kept, sizeof(kept));
	r->caller.table = regs->rsp - RED_ZONE - table_bytes - sizeof(kept);
	err = remote__write(r, r->scratch, code, code_bytes);
	if (!err)
		err = remote__write(r, r->caller.table, words, table_bytes + sizeof(kept));
	if (!err)
		err = remote__write(r, r->caller.table - 16,
				    (uint64_t[2]){ r->caller.back_mask, laps }, 16);
	return err;
}

static int set_up(struct remote *r, pid_t tid, const struct remote_call *calls, unsigned int cnt,
		  uint64_t results)
{
	struct user_regs_struct regs, run;
	uint64_t laps = 0, none = ~0ull;
	int err;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) ||
	    ptrace(PTRACE_GETSIGMASK, tid, SET_BYTES, &r->caller.back_mask))
		return -errno;
	run = r->caller.back = regs;
	if (r->park.on) {
		regs = r->park.regs;
		laps = r->park.ticks >> PARK_SHIFT;
	} else if (interrupted__waits(&regs)) {
		laps = BACK_LAPS;
	}
	restart_by_hand(&regs);
	if (!r->park.on)
		leave_sequence(r, tid, &regs);
	err = write_calls(r, &regs, calls, cnt, laps);
	if (!err)
		err = remote__check_program(r, r->scratch);
	if (err)
		return err;
	run.rip = r->scratch;
	run.rsp = (r->caller.table - 64) & ~15ull;
	run.rbx = run.r12 = r->caller.table;
	run.rbp = cnt;
	run.r13 = results;
	run.r14 = 56UL * cnt;
	run.orig_rax = (unsigned long long)-1;
	run.eflags &= ~0x500ull; /* direction, trap */
	if (ptrace(PTRACE_SETREGS, tid, 0, &run))
		return -errno;
	/* a signal that comes now has to end the call that the thread waits in */
	r->caller.waits = !r->park.on && laps && !ptrace(PTRACE_SETSIGMASK, tid, SET_BYTES, &none);
	return 0;
}

/* Has it made its calls, and taken no signal since? */
static bool is_spinning(const struct remote *r, uint64_t pc)
{
	uint64_t at = pc - r->scratch + (uint64_t)(uintptr_t)pye_chain_start;

	return at >= (uint64_t)(uintptr_t)pye_chain_spin && at < (uint64_t)(uintptr_t)pye_chain_go;
}

/* Stopped where it spins, or where it went by itself. A call of ours that is on its way when it is stopped ends first. */
static bool stop_spinning(struct remote *r)
{
	for (unsigned int i = 0; i < OUTSIDE_TRIES && !remote_stop_thread(r, r->caller.tid); i++) {
		if (is_spinning(r, r->threads[0].pc))
			return true;
		if (r->threads[0].pc - r->scratch >= REMOTE_SCRATCH_BYTES)
			return false;
		remote__resume(r);
		remote_pause();
	}
	return false;
}

/* One that did not begin with its calls makes none: a freezer can have come before them. */
static void take_back(struct remote *r)
{
	if (r->park.on || r->child.held || r->follow || !r->caller.tid)
		return;
	/* in this order: killed in between we would leave it with all signals blocked */
	if (!remote_stop_thread(r, r->caller.tid) && r->threads[0].pc == r->scratch &&
	    !ptrace(PTRACE_SETSIGMASK, r->caller.tid, SET_BYTES, &r->caller.back_mask) &&
	    !ptrace(PTRACE_SETREGS, r->caller.tid, 0, &r->caller.back))
		r->caller.waits = false;
	remote__resume(r);
}

/* @ns: so long the calls are waited for. */
static bool give_up(struct remote *r, uint64_t ns)
{
	if (ns <= CALL_NS && (ns <= REMOTE_THAW_NS || !remote__is_frozen(r->pid, r->caller.tid, 0)))
		return false;
	take_back(r);
	return true;
}

/* It waits in its call again, as if there had been no others. Else it comes there by itself, or did so. */
static void put_back(struct remote *r)
{
	if (!r->caller.waits)
		return;
	r->caller.waits = false;
	if (stop_spinning(r) &&
	    !ptrace(PTRACE_SETSIGMASK, r->caller.tid, SET_BYTES, &r->caller.back_mask))
		ptrace(PTRACE_SETREGS, r->caller.tid, 0, &r->caller.back);
	remote__resume(r);
}

/* It is not in the calls any more, and has taken no results where there is no room for them. */
static bool has_left(struct remote *r, uint64_t results)
{
	uint8_t byte;
	bool left;

	if (r->child.held || r->park.on || r->follow)
		return false;
	if (remote_stop_thread(r, r->caller.tid)) {
		remote__resume(r);
		return false;
	}
	left = !remote__is_inside(r, &r->threads[0], r->scratch, REMOTE_SCRATCH_BYTES) &&
	       remote__read(r, results, &byte, 1);
	remote__resume(r);
	return left;
}

/* The first call was to make room for the results. What it said, if it failed; 0: it may not have been made yet. */
static int first_failure(struct remote *r, uint64_t results, uint64_t ns)
{
	int64_t said = 0;

	if (remote__read(r, r->caller.table, &said, sizeof(said)) || said >= 0 || said < -4095)
		said = ns > LEFT_NS && has_left(r, results) ? -ENOMEM : 0;
	r->caller.failed |= said < 0;
	return (int)said;
}

/* Where we run before others it does. We may have to wait for a lock that it has, and lend nothing meanwhile. */
static void pause_for_caller(struct remote *r)
{
	if (!r->park.on && !r->child.held)
		hurry__lend_call(&r->hurry, r->caller.tid);
	if (r->late.cnt)
		late__look(r);
	else
		partial__look(r);
	sock_time_outs__give_back_seen(r->slept.socks);
	remote_pause();
}

/* @us: how long the calls took, by the clock of the thread that made them. */
static int wait_for_results(struct remote *r, unsigned int cnt, uint64_t results, int64_t *values,
			    uint64_t *us)
{
	uint64_t words[7 * REMOTE_CALLS_MAX + 2], start = now_ns(), tsc = tsc_now(), zero = 0;
	uint64_t flag = 7ull * cnt, ns;
	int err, failed;

	do {
		pause_for_caller(r);
		ns = now_ns() - start;
		if (give_up(r, ns))
			return -ETIMEDOUT;
		if (r->follow && !follow__serve(r->follow, r->pid))
			return -ESRCH;
		err = remote__read(r, results, words, 56UL * cnt + 16);
		if (err &&
		    (remote__is_dead(r->pid, r->caller.tid) || remote__has_executed(r, r->scratch)))
			return -ESRCH;
		failed = err ? first_failure(r, results, ns) : 0;
		if (failed)
			return failed;
	} while (err || words[flag] != 1);
	*us += (words[flag + 1] & UINT32_MAX) * (ns / 1000) / (tsc_now() - tsc ?: 1);
	for (unsigned int i = 0; i < cnt; i++) {
		values[i] = (int64_t)words[7UL * i];
		if (values[i] < 0 && values[i] >= -4095) {
			r->caller.failed = true;
			return (int)values[i];
		}
	}
	return remote__write(r, results + 8 * flag, &zero, 8);
}

/* A parked one is there since we want it there, unless it went on by itself. */
static bool in_scratch(struct remote *r)
{
	if (r->park.on && r->cnt == 1) {
		r->park.on = r->threads[0].pc - r->scratch < REMOTE_SCRATCH_BYTES ||
			     !r->threads[0].pc;
		r->park.ran_on = !r->park.on;
		return false;
	}
	for (size_t i = 0; i < r->cnt; i++)
		if (remote__is_inside(r, &r->threads[i], r->scratch, REMOTE_SCRATCH_BYTES))
			return true;
	return false;
}

/* A filter can be one thread's. */
static bool may_call(pid_t tid)
{
	return !inline_status_number(tid, "Seccomp");
}

/* After SIGSTOP it would make them when it goes on. */
static bool can_call(const struct remote *r, pid_t tid)
{
	char state = remote__state(r->pid, tid);

	return state != 'T' && state != 'Z' && state != 'X' && may_call(tid);
}

/* Who has the lock for longer has a CPU, too, for which others would have to wait. */
static pid_t lasting_holder(struct remote *r)
{
	pid_t holder = remote__holder(r);

	if (!holder)
		return 0;
	remote_pause();
	return remote__holder(r) == holder ? holder : 0;
}

/*
 * While the leader takes no signal, one for the process goes to another thread: then it ends no call of the leader's, where
 * Python's handlers run. Whoever did it last is the only one that can still be on its way out. 0: nobody may, or would now.
 */
static pid_t choose_caller(struct remote *r)
{
	auto_fn(threads__closep) DIR *threads = NULL;
	pid_t found, tid, holder;

	if (r->child.held || r->park.on)
		return may_call(r->pid) ? r->pid : 0;
	if (r->caller.tid && can_call(r, r->caller.tid))
		return r->caller.tid;
	holder = lasting_holder(r);
	if (holder && can_call(r, holder))
		return holder;
	found = can_call(r, r->pid) ? r->pid : 0;
	threads = threads__open(r->pid);
	while ((tid = threads__next(threads))) {
		if (tid == r->pid || !can_call(r, tid))
			continue;
		if (!partial__waits_in_parts(
			    r->pid, tid)) /* else it may have the rest of a call to do first */
			return tid;
		found = found ? found : tid;
	}
	return found;
}

/* The kernel's own, as those of io_uring, run no code that we could give them. */
static bool is_of_kernel(const struct remote *r, const struct remote_thread *t)
{
	return t->tid != r->pid && !t->pc;
}

/* Of those that stand still, of whom nobody is on its way out. 0: as above. Who has the rest of a call to do makes ours if there is no
 * other, and is told of the part; one whose calls are diverted is refused then. */
static pid_t choose_stopped(const struct remote *r)
{
	pid_t found = 0, partial = 0, diverted = 0;

	for (size_t i = 0; i < r->cnt && (!found || found == r->pid); i++) {
		const struct remote_thread *t = &r->threads[i];

		if (t->is != REMOTE_STANDS || t->as_group || is_of_kernel(r, t) ||
		    !may_call(t->tid))
			continue;
		if (interrupted__is_diverted(t->tid))
			diverted = t->tid;
		else if (t->partial)
			partial = t->tid;
		else
			found = t->tid;
	}
	return found ? found : partial ? partial : diverted;
}

/* Nobody can: it has ended, or may not; or we have no descriptor left to see whether anybody may. */
static int why_nobody(const struct remote *r)
{
	if (inline_status_number(r->pid, "Seccomp") < 0 && (errno == EMFILE || errno == ENFILE))
		return -errno;
	return remote__is_dead(r->pid, r->pid) ? -ESRCH : -EOPNOTSUPP;
}

/* Stop one thread, which is not (nor is any other) still on its way out of the calls before. */
static int stop_outside(struct remote *r)
{
	int thawed = remote__await_thaw(r->pid);
	pid_t tid = choose_caller(r);

	if (thawed)
		return thawed;
	for (unsigned int i = 0; i < OUTSIDE_TRIES; i++) {
		int err = tid ? remote__stop_one(r, tid) : why_nobody(r);

		if (err == -ESRCH && tid && tid != r->pid) {
			remote_pause(); /* it may need a moment to end */
			tid = choose_caller(r);
			continue;
		}
		if (err)
			return err;
		if (is_of_kernel(r, &r->threads[0]))
			tid = r->pid;
		else if (!in_scratch(r))
			return 0;
		remote__resume(r);
		/* the busier the machine, the later it gets a CPU */
		remote_let_out(r, tid, i, OUTSIDE_US + i);
	}
	return -EAGAIN;
}

/* @us: how long that took */
static int begin_calls(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		       uint64_t results, uint64_t *us)
{
	int err = r->cnt ? 0 : stop_outside(r);

	*us = 0;
	if (err)
		return err;
	if (in_scratch(r))
		err = -EAGAIN;
	r->caller.other |= r->caller.tid && r->cnt == 1 && r->threads[0].tid != r->caller.tid;
	if (!err) /* else the last one is in there yet */
		r->caller.tid = choose_stopped(r);
	if (!err && !r->caller.tid)
		err = why_nobody(r);
	if (!err && interrupted__is_diverted(r->caller.tid))
		err = -ENOPROTOOPT;
	if (!err && r->caller.ready)
		err = r->caller.ready(r->caller.ready_ctx);
	if (!err)
		err = set_up(r, r->caller.tid, calls, cnt, results);
	r->caller.at_work = true;
	remote__resume(r);
	*us = (now_ns() - r->stopped_at) / 1000;
	return err;
}

/* @us: without what is done here */
static void end_calls(struct remote *r, uint64_t us)
{
	uint64_t since = now_ns();

	put_back(r);
	r->caller.at_work = false;
	remote_end_stop(r, us + (now_ns() - since) / 1000);
	remote__let_late_go(r);
	remote_settle(r);
}

int remote__call(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		 uint64_t results, int64_t *values)
{
	uint64_t us;
	int err = begin_calls(r, calls, cnt, results, &us);

	if (!err)
		err = wait_for_results(r, cnt, results, values, &us);
	end_calls(r, us);
	return err;
}

int remote__park(struct remote *r)
{
	if (!r->size) {
		r->threads = calloc(1, sizeof(r->threads[0]));
		if (!r->threads)
			return -ENOMEM;
		r->size = 1;
	}
	if (ptrace(PTRACE_GETREGS, r->pid, 0, &r->park.regs))
		return -errno;
	restart_by_hand(&r->park.regs);
	r->park.regs.orig_rax = (unsigned long long)-1;
	r->threads[0] = (struct remote_thread){ .tid = r->pid, .is = REMOTE_STANDS };
	r->cnt = 1;
	r->stopped_at = now_ns();
	r->park.on = true;
	return 0;
}

int remote__unpark(struct remote *r)
{
	int err = r->park.on && !r->cnt ? remote__stop(r) : 0;

	if (!r->park.on || err)
		return err;
	in_scratch(r);
	if (r->park.on && ptrace(PTRACE_SETREGS, r->threads[0].tid, 0, &r->park.regs))
		err = -errno;
	r->park.on = false;
	return err;
}

/* Who can be in the calls: those that another pyebpf had make them can be anybody. */
static int stop_callers(struct remote *r)
{
	int err = -ESRCH;

	if (r->caller.tid && !r->caller.other && !r->child.held && !r->park.on)
		err = remote__stop_one(r, r->caller.tid);
	return err == -ESRCH ? remote__stop(r) : err;
}

/* Until nobody is; those who could be stand still. */
static int stop_outside_calls(struct remote *r)
{
	for (unsigned int i = 0; i < OUTSIDE_TRIES; i++) {
		bool in;
		int err = stop_callers(r);

		if (err)
			return err;
		in = in_scratch(r);
		if (!in)
			return 0;
		remote__resume(r);
		remote_let_out(r, r->caller.tid ?: r->pid, i, OUTSIDE_US + i);
	}
	return -ETIMEDOUT;
}

int remote__clear(struct remote *r)
{
	static const uint8_t zeros[REMOTE_SCRATCH_BYTES];
	int err = stop_outside_calls(r);

	if (err)
		return err;
	remote__write(r, r->scratch, zeros, sizeof(zeros));
	remote__resume(r);
	return 0;
}

/* The code of calls in the last page of some code; 0: none. */
static uint64_t find_chain(const struct remote *r, const struct maps *maps)
{
	uint8_t page[4096];

	for (size_t i = 0; i < maps->cnt; i++) {
		const struct mapping *m = &maps->items[i];
		uint64_t at = m->end - sizeof(page);
		const uint8_t *found;

		if (!(m->flags & MAPPING_EXEC) || !m->ino ||
		    remote__read(r, at, page, sizeof(page)))
			continue;
		found = memmem(page, sizeof(page), pye_chain_start,
			       (size_t)(pye_chain_back - pye_chain_start));
		if (found)
			return at + (uint64_t)(found - page);
	}
	return 0;
}

int remote__await_calls(struct remote *r, const struct maps *maps)
{
	int err;

	r->scratch = find_chain(r, maps);
	if (!r->scratch)
		return 0;
	err = remote__clear(r);
	return err ? err : 1;
}

int remote__finish(struct remote *r, const struct remote_call *calls, unsigned int cnt,
		   uint64_t gone)
{
	uint64_t before = 0, now, us, start = now_ns();
	bool there = !remote__read(r, gone, &before, sizeof(before));
	int err = begin_calls(r, calls, cnt, 0, &us);

	/* what differs has been mapped there since */
	while (!err && there && !remote__read(r, gone, &now, sizeof(now)) && now == before) {
		if (give_up(r, now_ns() - start))
			err = -ETIMEDOUT;
		else if (r->follow && !follow__serve(r->follow, r->pid))
			err = -ESRCH;
		pause_for_caller(r);
	}
	end_calls(r, us);
	return err ? err : remote__clear(r);
}
