// SPDX-License-Identifier: Apache-2.0
/*
 * Taking the stubs out again. The words first, while nobody runs Python code, and only where they are still
 * ours. The page stays while any thread is in it or on its way: by its program counter, by a register (the
 * loop loads a handler's address before it jumps there), or by one of these on its stack (a signal came, and
 * its handler runs now). Where the stubs read the kernel's clock a thread can be in the vdso, and has on its stack alone
 * where it comes back to: whoever calls that holds the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inline/engine.h"
#include "inline/engine_priv.h"
#include "inline/permit.h"
#include "inline/remote_call.h"
#include "inline/remote_priv.h"
#include "inline/remote_stop.h"
#include "inline/stub_clock.h"
#include "proc/mapped_file.h"
#include "proc/maps.h"

#define TRIES	     200
#define READER_US    20000 /* how often we look whether somebody reads */
#define READER_TRIES 100

static bool is_inside(uint64_t at, uint64_t base)
{
	return at - base < IL_CODE_BYTES;
}

/* A word of the table that was read before it was restored, and not jumped to yet? */
static bool register_leads_inside(const struct remote_thread *t, uint64_t base)
{
	for (size_t i = 0; i < sizeof(t->regs) / sizeof(t->regs[0]); i++)
		if (is_inside(t->regs[i], base))
			return true;
	return false;
}

/* A wiped page says no: the thread that forked was not there, and it is the only one. */
static bool may_read_clock(const struct remote *r, uint64_t base)
{
	struct il_private p;

	return remote__read(r, base + IL_PRIVATE, &p, sizeof(p)) || (p.clock && p.lock);
}

/* One of those who may be inside: one in an uninterruptible sleep can be anywhere. 0: nobody is */
static pid_t who_is_inside(const struct remote *r, uint64_t base)
{
	if (may_read_clock(r, base))
		return r->pid;
	for (size_t i = 0; i < r->cnt; i++) {
		const struct remote_thread *t = &r->threads[i];

		if (t->is == REMOTE_ASKED || remote__is_inside(r, t, base, IL_CODE_BYTES) ||
		    register_leads_inside(t, base))
			return t->tid;
	}
	return 0;
}

/* Whatever is not put back leads to the stubs: then they have to stay. */
static int restore(const struct remote *r, const struct il_header *h)
{
	int err = 0;

	for (uint32_t i = 0; i < h->patch_cnt && i < IL_PATCH_MAX; i++) {
		const struct il_patch *p = &h->patches[i];
		uint64_t now = 0;

		if (p->size != 4 && p->size != 5 && p->size != 8)
			continue;
		if (remote__read(r, p->at, &now, p->size))
			err = -EFAULT;
		if (now == p->new)
			err = remote__write(r, p->at, &p->old, p->size) ? -EFAULT : err;
	}
	return err;
}

static void end_deadline(const struct remote *r, uint64_t shared)
{
	uint64_t zero = 0;

	remote__write(r, shared + offsetof(struct il_shared, deadline), &zero, 8);
}

/* Who waits for room goes on at once. In a page that is wiped it is nobody, and what is shared is the parent's, who is at work. */
static void stop_waiting(const struct remote *r, uint64_t base)
{
	struct il_private p = { 0 };

	if (remote__read(r, base + IL_PRIVATE, &p, sizeof(p)) || !p.active)
		return;
	p.wait = p.active = 0;
	remote__write(r, base + IL_PRIVATE + offsetof(struct il_private, wait), &p.wait, 8);
	end_deadline(r, base + IL_SHARED);
	for (uint64_t i = 0; p.lanes && i < IL_LANE_CNT; i++)
		end_deadline(r, p.lanes + i * IL_LANE_BYTES(p.lane_ring) + IL_LANE_SHARED);
	remote__write(r, base + IL_PRIVATE + offsetof(struct il_private, active), &p.active, 8);
}

/* The calls end with the first that fails: was this one of the two made, and did it succeed? */
static bool made_fd(const uint64_t *words, unsigned int call)
{
	return words[IL_RESULT(IL_RESERVE_REST)] == words[IL_ARGUMENT(IL_RESERVE_REST, 0)] &&
	       words[IL_RESULT(IL_MAKE_CODE_FD)] <= INT32_MAX &&
	       words[IL_RESULT(call)] <= INT32_MAX;
}

/* The memfds, where the target still has them open. @code, @ring: inodes that are mapped; 0: not yet */
static unsigned int close_calls(const struct remote *r, const uint64_t *words, ino_t code,
				ino_t ring, struct remote_call *calls)
{
	unsigned int cnt = 0;

	for (unsigned int i = IL_MAKE_CODE_FD; i <= IL_MAKE_RING_FD; i++) {
		ino_t mapped = i == IL_MAKE_CODE_FD ? code : ring;
		ino_t open = made_fd(words, i) ? inline_memfd_at(r, words[IL_RESULT(i)]) : 0;

		if (open && (!mapped || open == mapped))
			calls[cnt++] = (struct remote_call){ SYS_close, { words[IL_RESULT(i)] } };
	}
	return cnt;
}

static bool has_memfds(const struct remote *r, const uint64_t *words)
{
	for (unsigned int i = IL_MAKE_CODE_FD; i <= IL_MAKE_RING_FD; i++)
		if (made_fd(words, i) && inline_memfd_at(r, words[IL_RESULT(i)]))
			return true;
	return false;
}

static int unmap(struct remote *r, uint64_t base, const struct il_header *h)
{
	uint64_t words[IL_RESULTS_BYTES / 8];
	/* first what is waited for: a call that fails, as of what was just closed, is the last one */
	struct remote_call calls[3] = { { SYS_munmap, { base, h->region_bytes } } };
	auto_fn(maps__done) struct maps maps = { 0 };
	unsigned int cnt = 1;

	/* of an attach that was killed in the middle of its second stop. Somebody stands still for it: the maps, which can be many,
	 * are read only then */
	if (!remote__read(r, base + IL_RESULTS, words, sizeof(words)) &&
	    words[IL_RESULT(IL_MAKE_PRIVATE)] == base + IL_PRIVATE && has_memfds(r, words) &&
	    !maps__read(r->pid, &maps)) {
		ino_t code = inline_inode_at(&maps, base),
		      ring = inline_inode_at(&maps, base + IL_SHARED);

		cnt += close_calls(r, words, code, ring, calls + 1);
	}
	return remote__finish(r, calls, cnt, base);
}

/*
 * That it was unmapped is not always known: the last call is made, and who made it does not come to an end then. What the target has mapped
 * there since is its own. (A header that it has written over is still there as long as words lead to it.)
 */
static bool is_unmapped(const struct remote *r, uint64_t base, const struct il_header *h)
{
	const size_t bytes = offsetof(struct il_header, patches);
	uint8_t now[offsetof(struct il_header, patches)];

	return (remote__read(r, base, now, bytes) || memcmp(now, h, bytes) != 0) &&
	       !inline_is_redirected(r, h);
}

int inline_undo(struct remote *r, uint64_t base, const struct il_header *h, bool *left)
{
	pid_t inside = r->pid;
	int err = 0;

	*left = true;
	r->scratch = h->scratch;
	if (!r->cnt &&
	    remote__stop_holder(r)) /* nothing is to be recorded any more: that comes first */
		err = remote__stop_past_blocked(r);
	if (err)
		return err;
	if (remote__check_program(r, base) == -ESRCH)
		err = -ESRCH;
	else
		*left = !is_unmapped(r, base, h);
	if (err || !*left) {
		remote__resume(r);
		return err;
	}
	err = restore(r, h);
	r->put_back_ns = now_ns();
	r->put_back_tsc = tsc_now();
	stop_waiting(r, base);
	for (unsigned int i = 0; !err && i < TRIES; i++) {
		inside = who_is_inside(r, base);
		/* nobody gets in any more; who made the last calls may be in these */
		if (!inside && r->rest_runs)
			remote__resume(r);
		if (!inside)
			err = unmap(r, base, h);
		if (err == -EAGAIN) /* a thread still comes out of the calls before */
			inside = r->caller.tid ?: r->pid;
		if (!inside)
			break;
		remote__resume(r);
		remote_let_out(r, inside, i, 200 + 10 * i);
		err = remote__stop_python(r);
	}
	if (err == -EOPNOTSUPP ||
	    (err == -ETIMEDOUT && (remote__blocked_one(r->pid) ||
				   remote__is_frozen(r->pid, r->pid, REMOTE_FREEZES_MS)))) {
		inside = r->pid; /* all words are put back */
		err = 0;
	}
	remote__resume(r);
	*left = err || inside;
	return err;
}

/* Is this page of ours? */
static bool read_header(const struct remote *r, uint64_t base, struct il_header *h)
{
	return !remote__read(r, base, h, sizeof(*h)) && h->magic == IL_MAGIC &&
	       h->patch_cnt <= IL_PATCH_MAX && h->region_bytes >= IL_RING &&
	       h->region_bytes <= 1ull << 36;
}

/* By the clock that it was set by. Where that is a counter that differs between processors it is not known to. */
static bool has_passed(uint64_t deadline, uint64_t clock)
{
	if (clock)
		return deadline <= now_ns();
	return tsc_is_steady() ? deadline <= tsc_now() : !deadline;
}

/* Whoever reads moves the deadline on all the time; a dead one's passes. */
static bool has_reader(const struct remote *r, uint64_t base)
{
	uint64_t at = base + IL_SHARED + offsetof(struct il_shared, deadline), first, now;
	uint64_t active, clock;

	/* a forked child has its parent's stubs, which pass through */
	if (remote__read(r, base + IL_PRIVATE + offsetof(struct il_private, active), &active, 8) ||
	    !active ||
	    remote__read(r, base + IL_PRIVATE + offsetof(struct il_private, clock), &clock, 8) ||
	    remote__read(r, at, &first, 8))
		return false;
	for (int i = 0; i < READER_TRIES && !has_passed(first, clock); i++) {
		usleep(READER_US);
		if (!remote__read(r, at, &now, 8) && now != first)
			return true;
	}
	return false;
}

/* A mapping that begins with the stubs of an attach that came to its second stop? */
static bool is_region(const struct remote *r, const struct mapping *m, struct il_header *h)
{
	return m->flags & MAPPING_EXEC && m->end - m->start == IL_CODE_BYTES && m->ino &&
	       read_header(r, m->start, h);
}

/* The same of a pyebpf with another layout of it. */
static bool is_of_another_version(const struct remote *r, const struct mapping *m)
{
	uint64_t magic;

	return m->flags & MAPPING_EXEC && m->ino && !remote__read(r, m->start, &magic, 8) &&
	       magic != IL_MAGIC && !((magic ^ IL_MAGIC) & IL_MAGIC_NAME);
}

/* The private page of one that came to its first: the results of its calls lie in it. */
static bool is_reservation(const struct remote *r, const struct maps *maps, const struct mapping *m,
			   uint64_t *words)
{
	const struct mapping *code = maps__find(maps, m->start - IL_PRIVATE);

	return !m->ino && m->end - m->start == IL_SHARED - IL_PRIVATE && m->start > IL_PRIVATE &&
	       !(code && code->flags & MAPPING_EXEC) &&
	       !remote__read(r, m->start - IL_PRIVATE + IL_RESULTS, words, IL_RESULTS_BYTES) &&
	       words[IL_RESULT(IL_MAKE_PRIVATE)] == m->start &&
	       words[IL_ARGUMENT(IL_MAKE_PRIVATE, 0)] == m->start &&
	       words[IL_ARGUMENT(IL_WIPE_ON_FORK, 0)] == m->start &&
	       words[IL_ARGUMENT(IL_RESERVE_CODE, 0)] == m->start - IL_PRIVATE;
}

/* The pieces that are there, the page with the results last; and two memfds, whose end is not waited for: a call that fails, as of
 * what was just closed, is the last one. */
static int unreserve(struct remote *r, const struct maps *maps, const uint64_t *words)
{
	static const uint8_t pieces[] = { IL_RESERVE_CODE, IL_RESERVE_REST, IL_MAKE_PRIVATE };
	const struct mapping *code =
		maps__find(maps, words[IL_ARGUMENT(IL_WIPE_ON_FORK, IL_SCRATCH_ARGUMENT)]);
	struct remote_call calls[REMOTE_CALLS_MAX];
	unsigned int cnt = 0;

	if (!code || !(code->flags & MAPPING_EXEC))
		return 0;
	for (size_t i = 0; i < sizeof(pieces); i++) {
		uint64_t at = words[IL_ARGUMENT(pieces[i], 0)];

		if (words[IL_RESULT(pieces[i])] == at)
			calls[cnt++] =
				(struct remote_call){ SYS_munmap,
						      { at, words[IL_ARGUMENT(pieces[i], 1)] } };
	}
	cnt += close_calls(r, words, 0, 0, calls + cnt);
	r->scratch = words[IL_ARGUMENT(IL_WIPE_ON_FORK, IL_SCRATCH_ARGUMENT)];
	return remote__finish(r, calls, cnt, words[IL_RESULT(IL_MAKE_PRIVATE)]);
}

int inline_unreserve(struct remote *r, uint64_t base, bool *left)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	uint64_t words[IL_RESULTS_BYTES / 8];
	auto_fn(maps__done) struct maps maps = { 0 };
	const struct mapping *code, *private;
	int err = h ? maps__read(r->pid, &maps) : -ENOMEM;

	if (err)
		return err;
	code = maps__find(&maps, base);
	private = maps__find(&maps, base + IL_PRIVATE);
	if (code && is_region(r, code, h))
		err = inline_undo(r, base, h, left);
	else if (private && is_reservation(r, &maps, private, words))
		err = unreserve(r, &maps, words);
	else if (r->caller.tid) /* not even the first call did something */
		err = remote__clear(r);
	return err;
}

/*
 * Whoever is the last to have the ring frees its memory, which takes milliseconds: with its pyebpf gone that would be the target's thread
 * that unmaps it, unless we have it meanwhile, where that is permitted.
 */
static int undo_killed(struct remote *r, const struct maps *maps, uint64_t base,
		       const struct il_header *h, bool *left)
{
	const struct mapping *ring = maps__find(maps, base + IL_SHARED);
	struct mapped_file file = { .fd = -1 };
	int err;

	if (ring)
		(void)mapped_file__open(r->pid, ring, &file);
	err = inline_undo(r, base, h, left);
	mapped_file__close(&file);
	return err;
}

static int recover_at(struct remote *r, const struct maps *maps, size_t i, struct il_header *h,
		      struct inline_found *found)
{
	uint64_t base = maps->items[i].start, words[IL_RESULTS_BYTES / 8];
	bool left = false;
	int err;

	if (is_region(r, &maps->items[i], h)) {
		if (has_reader(r, base))
			return -EBUSY;
		err = undo_killed(r, maps, base, h, &left);
	} else if (is_reservation(r, maps, &maps->items[i], words)) {
		err = unreserve(r, maps, words);
	} else {
		return is_of_another_version(r, &maps->items[i]) ? -EPROTO : 0;
	}
	found->taken_out += !err;
	found->left_mapped += left;
	return err;
}

bool inline__is_ending(pid_t pid)
{
	return remote__is_dead(pid, pid) || !inline_status_number(pid, "VmSize");
}

static const char *why_unchanged(pid_t pid, int err, char *buf, size_t size)
{
	pid_t tid = err == -ETIMEDOUT ? remote__blocked_one(pid) : 0;

	if (err == -EOPNOTSUPP)
		return "none of its threads may make system calls for it (a filter), or it is stopped "
		       "(SIGSTOP)";
	if (err == -ENOPROTOOPT)
		return "its system calls go to a handler of its own "
		       "(prctl(PR_SET_SYSCALL_USER_DISPATCH)), which would get those of the probes";
	if (err == -EEXIST)
		return "it maps memory all the time where there was room for them";
	if (err == -ETIMEDOUT && remote__is_frozen(pid, pid, REMOTE_FREEZES_MS))
		return "it is frozen (by the freezer of its cgroup)";
	if (err == -ETIMEDOUT && !tid)
		return "not all of its threads stood still within a second";
	if (!tid)
		return strerror(-err);
	snprintf(
		buf, size,
		"its thread %d is in an uninterruptible sleep and does not stop before it wakes up",
		tid);
	return buf;
}

int inline_failed(pid_t pid, int err, struct err *e)
{
	char why[128];

	if (err <= -PYE_ENOTPYTHON)
		return err;
	if (err == -EBUSY) {
		err_set(e, -PYE_EPLAN,
			"another pyebpf is at work on process %d with the inline engine", pid);
		err_hint(e, "end that one first");
		return -PYE_EPLAN;
	}
	if (err == -EPROTO) {
		err_set(e, -PYE_EPLAN,
			"another version of pyebpf has left its probes in process %d", pid);
		err_hint(e, "take them out with that one: pyebpf detach %d", pid);
		return -PYE_EPLAN;
	}
	if ((err == -EPERM || err == -EACCES || err == -EFAULT || err == -EBADF) &&
	    inline__is_ending(pid))
		err = -ESRCH;
	if (err == -EPERM || err == -EACCES)
		return inline_bar(e, pid, "stopped");
	if (err == -ESRCH)
		return err_set(e, -PYE_ETARGET, "process %d has %s", pid,
			       inline__is_ending(pid) ? "ended"
						      : "executed another program meanwhile");
	if (err == -EBADF) {
		err_set(e, -PYE_ETARGET,
			"process %d closed what it was just given for the probes, as a program does that becomes "
			"a daemon",
			pid);
		err_hint(e, "try it again");
		return -PYE_ETARGET;
	}
	return err_set(e, -PYE_EPLAN, "process %d could not be changed by the inline engine: %s",
		       pid, why_unchanged(pid, err, why, sizeof(why)));
}

/* The mappings, when no thread makes calls any more that change them. @calls: the code of some was taken out */
static int read_settled(struct remote *r, struct maps *maps, bool *calls)
{
	int err = maps__read(r->pid, maps);

	if (err)
		return err;
	err = remote__await_calls(r, maps);
	*calls = err > 0;
	if (!err)
		return 0;
	maps__done(maps);
	return err > 0 ? maps__read(r->pid, maps) : err;
}

int inline__recover(pid_t pid, struct inline_found *found, struct err *e)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	auto_fn(maps__done) struct maps maps = { 0 };
	struct remote r;
	bool calls = false;
	int err = h ? remote__open(&r, pid, e) : -ENOMEM;

	memset(found, 0, sizeof(*found));
	if (err)
		return inline_failed(pid, err, e);
	err = read_settled(&r, &maps, &calls);
	for (size_t i = 0; !err && i < maps.cnt; i++)
		err = recover_at(&r, &maps, i, h, found);
	found->taken_out += calls && !found->taken_out;
	found->stops = r.stops;
	found->longest_us = r.longest_us;
	remote__close(&r);
	return err ? inline_failed(pid, err, e) : 0;
}

bool inline__is_left(pid_t pid, bool *has_a_reader)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	auto_close int mem = inline_open_memory(pid, O_RDONLY);
	const struct remote r = { .pid = pid, .mem = mem };
	uint64_t words[IL_RESULTS_BYTES / 8];
	auto_fn(maps__done) struct maps maps = { 0 };
	bool found = false;

	*has_a_reader = false;
	if (!h || mem < 0 || maps__read(pid, &maps))
		return false;
	for (size_t i = 0; i < maps.cnt; i++) {
		if (is_region(&r, &maps.items[i], h))
			*has_a_reader |= has_reader(&r, maps.items[i].start);
		else if (!is_reservation(&r, &maps, &maps.items[i], words))
			continue;
		found = true;
	}
	return found;
}
