// SPDX-License-Identifier: Apache-2.0
/*
 * -s with the inline engine. All that the target starts stays traced with ptrace. A forked child gets a ring of
 * its own where fork() returns; what executes an interpreter is attached to before that has started; what
 * shares its parent's memory (vfork) executes soon.
 */
#define LOG_DOMAIN "inline"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/run.h"
#include "cmd/session_inline_priv.h"
#include "inline/hold.h"
#include "inline/hurry.h"
#include "inline/remote_stop.h"
#include "proc/info.h"

#define WATCH_NS   20000000ull /* that others wait, at most */
#define ROUNDS_MAX 8 /* that descendants are looked for, which may fork meanwhile */

struct inline_kin {
	pid_t pid;
	struct hold hold;
	struct inline_member *member; /* NULL: it is not recorded */
	struct inline_kin *next;
};

/* A program that begins: is it Python? */
struct question {
	struct inline_run *run;
	struct inline_kin *kin;
	struct interp *in; /* on the heap */
	struct err e;
};

static struct inline_kin *kin_of(const struct inline_run *r, pid_t pid)
{
	struct inline_kin *k = r->kin;

	while (k && k->pid != pid)
		k = k->next;
	return k;
}

static struct hold new_hold(pid_t pid)
{
	return (struct hold){ .pid = pid, .mem = -1, .gently = true };
}

static struct inline_kin *kin_new(struct inline_run *r, pid_t pid)
{
	struct inline_kin *k = kin_of(r, pid);

	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->pid = pid;
	k->hold = new_hold(pid);
	k->next = r->kin;
	r->kin = k;
	return k;
}

static void kin_drop(struct inline_run *r, struct inline_kin *k)
{
	struct inline_kin **at = &r->kin;

	while (*at && *at != k)
		at = &(*at)->next;
	if (*at)
		*at = k->next;
	hold__done(&k->hold);
	free(k);
}

/* The run goes on without a child. */
static void miss(struct inline_run *r, pid_t pid, const struct err *e)
{
	r->missed++;
	log_warn("child %d is not traced: %s", pid, e->what[0] ? e->what : "it ended meanwhile");
}

void inline_family__attaching(void *ctx)
{
	const struct inline_member *m = ctx;
	struct inline_run *r = m->run;
	int cnt = proc_descendants(m->pid, r->before, PROC_DESCENDANTS_MAX);

	r->before_cnt = cnt > 0 ? (size_t)cnt : 0;
}

static bool was_before(const struct inline_run *r, pid_t pid)
{
	for (size_t i = 0; i < r->before_cnt; i++)
		if (r->before[i] == pid)
			return true;
	return false;
}

/* Traced, but not from its first call on. */
static void check_start(struct inline_run *r, const struct inline_member *m)
{
	if (!m->engine->remote.park.ran_on)
		return;
	r->missed++;
	log_warn("child %d ran on while pyebpf was not given the CPU: its first calls are missing",
		 m->pid);
}

/* @stands: it is known from its birth on; else it may have ended before it was looked at */
static void give_up(struct inline_run *r, struct inline_member *m, bool stands, const struct err *e)
{
	if (stands || !inline__is_ending(m->pid))
		miss(r, m->pid, e);
	assembler__process_end(r->as, m->pix, now_ns());
	inline_member__forget(m);
}

/* A copy of a process that is recorded; NULL: none such. */
static const struct inline_member *original_of(const struct inline_run *r, pid_t pid)
{
	const struct inline_member *m = r->members;

	while (m && !inline__is_copy(pid, m->engine))
		m = m->next;
	return m;
}

static int adopt(struct inline_run *r, struct inline_kin *k, const struct inline_member *from)
{
	struct inline_member *m = inline_member__new(r, k->pid, false);
	struct inline_opts opts;
	struct err e = { 0 };
	int err;

	if (!m) {
		follow__go(r->follow, k->pid, 0);
		return -ENOMEM;
	}
	m->own_in = *from->in;
	m->own_in.fd = -1;
	m->forked = true;
	err = inline_member__open(m);
	if (!err) {
		inline_member__opts(m, &opts);
		err = inline__adopt(m->engine, m->pid, from->engine, &opts, &e);
		m->engine->in = m->in;
		if (!err)
			err = inline_stacks__tell(m);
	} else {
		follow__go(r->follow, k->pid, 0);
	}
	if (err) {
		give_up(r, m, true, &e);
		return 0;
	}
	if (m->cap)
		cap_inline__forked(m->cap);
	check_start(r, m);
	inline_member__attached(m);
	k->member = m;
	return 0;
}

static int find_interpreter(void *ctx)
{
	struct question *q = ctx;
	int err;

	q->in = calloc(1, sizeof(*q->in));
	err = q->in ? interp__find_cached(q->kin->pid, "uprobe", q->run->t.cache, q->in, &q->e)
		    : -ENOMEM;
	if (err) {
		free(q->in);
		q->in = NULL;
	}
	if (err == -PYE_ENOTPYTHON && q->kin->hold.loader)
		inline_others__add(&q->run->others, q->kin->pid);
	/* a shell, or env, on its way to Python */
	return err == -PYE_ETARGET ? -PYE_ENOTPYTHON : err;
}

static void question_done(struct question *q)
{
	if (q->in)
		interp__done(q->in);
	free(q->in);
}

/* The process that was asked for, and no Python so far. */
static bool is_first(const struct inline_run *r, const struct inline_kin *k)
{
	return k->pid == r->t.pid.pid && !r->t.engine.base && !r->t.in.path[0];
}

/* A command that cannot be traced must not run, unless it has for long: it is ended where it stands still, before anything is let go. */
static int refuse(struct inline_run *r, int err)
{
	if (err > -PYE_ENOTPYTHON || r->t.loaded || r->t.launch.pid <= 0)
		return err;
	r->refused = true;
	kill(r->t.launch.pid, SIGKILL);
	return err;
}

/* Python, not started yet, which stands still; or one that runs. */
static int attach(struct inline_run *r, struct inline_kin *k, struct question *q, bool stands)
{
	bool first = is_first(r, k);
	struct inline_member *m = inline_member__new(r, k->pid, first);
	struct inline_opts opts;
	int err;

	if (!m)
		return -ENOMEM;
	*m->in = *q->in;
	*q->in = (struct interp){ .fd = -1 }; /* the member closes it */
	err = inline_member__open(m);
	if (err == -PYE_EVERSION)
		err_set(&q->e, err,
			"--opcodes shows one version of Python, and this is another one");
	if (err && !first) {
		if (stands)
			follow__go(r->follow, k->pid, 0);
	} else if (!err) {
		inline_member__opts(m, &opts);
		opts.parked = stands;
		opts.stays = first;
		err = inline__attach(m->engine, m->pid, m->in, &opts, &q->e);
		if (!err)
			err = inline_stacks__tell(m);
	}
	if (!err && r->instructions)
		inline_opcodes__measured(r->instructions, m->engine);
	if (!err) {
		check_start(r, m);
		inline_member__attached(m);
		k->member = m;
		return 0;
	}
	if (first) {
		if (q->e.what[0]) /* else it is said there */
			*r->t.e = q->e;
		inline_member__forget(m);
		return refuse(r, err);
	}
	give_up(r, m, stands, &q->e);
	return 0;
}

/* It was forked while that one was attached to, and has no stubs: it gets its own, where fork() returns. */
static int attach_early(struct inline_run *r, struct inline_kin *k,
			const struct inline_member *from, const struct inline_early *early)
{
	struct question q = { .run = r, .kin = k, .in = malloc(sizeof(*q.in)) };
	int err;

	if (!q.in) {
		follow__go(r->follow, k->pid, 0);
		return -ENOMEM;
	}
	*q.in = *from->in;
	q.in->fd = -1;
	err = attach(r, k, &q, true);
	free(q.in);
	if (!err && k->member && inline__clear_early(k->member->engine, from->engine, early))
		log_debug("child %d keeps parts of its parent's attach", k->pid);
	return err;
}

static int on_born(struct inline_run *r, pid_t pid)
{
	const struct inline_member *from = original_of(r, pid);
	struct inline_kin *k = kin_new(r, pid);
	struct inline_early early;

	if (k && from)
		return adopt(r, k, from);
	for (from = k ? r->members : NULL; from; from = from->next)
		if (inline__is_early_copy(pid, from->engine, &early))
			return attach_early(r, k, from, &early);
	if (k)
		hold__runs(&k->hold);
	follow__go(r->follow, pid, 0);
	return k ? 0 : -ENOMEM;
}

static int on_stop(struct inline_run *r, pid_t pid, int status)
{
	struct inline_kin *k = kin_new(r, pid);
	struct question q = { .run = r, .kin = k };
	int sig, err, ret = 0;

	if (!k) {
		follow__go(r->follow, pid, 0);
		return -ENOMEM;
	}
	if (status >> 16 == PTRACE_EVENT_EXEC && k->member) {
		inline_member__end(k->member, now_ns());
		k->member = NULL;
	}
	if (status >> 16 == PTRACE_EVENT_EXEC && inline_others__has(&r->others, pid)) {
		hold__done(&k->hold);
		k->hold = new_hold(pid);
		hold__runs(&k->hold);
		follow__watch(r->follow, pid, false);
		follow__go(r->follow, pid, 0);
		return 0;
	}
	err = hold__on_stop(&k->hold, status, find_interpreter, &q, &sig);
	if (err != HOLD_GO_ON)
		k->hold.watch = false;
	follow__watch(r->follow, pid, k->hold.watch);
	if (!err) {
		ret = attach(r, k, &q, true);
	} else if (err != HOLD_GO_ON && is_first(r, k)) {
		*r->t.e = q.e;
		ret = refuse(r, inline_failed(pid, err, r->t.e));
	} else if (err != HOLD_GO_ON) {
		if (!q.e.what[0] && err != -ESRCH) /* it could not be held */
			inline_failed(pid, err, &q.e);
		miss(r, pid, &q.e);
	}
	question_done(&q);
	if (err && !ret)
		follow__go(r->follow, pid, sig);
	return ret;
}

static void on_ended(struct inline_run *r, const struct follow_event *event)
{
	struct inline_kin *k = kin_of(r, event->pid);

	if (event->pid == r->t.pid.pid) {
		r->t.ended = true;
		r->t.child_reaped = true;
		r->t.child_status = event->status < 0 ? 0 : event->status;
	} else if (k && k->member) {
		inline_member__end(k->member, now_ns());
	}
	if (k)
		kin_drop(r, k);
}

void inline_family__lost(struct inline_run *r, const struct inline_member *m)
{
	for (struct inline_kin *k = r->kin; k; k = k->next)
		if (k->member == m)
			k->member = NULL;
}

static int take_events(struct inline_run *r)
{
	struct hurry hurry = { 0 };
	struct follow_event event;
	int err = 0;

	while (!err && follow__next(r->follow, &event)) {
		hurry__begin(&hurry); /* it stands still until then */
		switch (event.what) {
		case FOLLOW_BORN:
			err = on_born(r, event.pid);
			break;
		case FOLLOW_STOP:
			err = on_stop(r, event.pid, event.status);
			break;
		case FOLLOW_ENDED:
			on_ended(r, &event);
			break;
		}
	}
	hurry__end(&hurry, true);
	return err;
}

/* What was no Python when it began, and has loaded it since. */
static int look_for_loaded(struct inline_run *r)
{
	int err = 0;

	for (struct inline_kin *k = r->kin; k && !err; k = k->next) {
		struct question q = { .run = r, .kin = k };
		int found;

		if (k->member || k->hold.watch || !hold__is_due(&k->hold))
			continue;
		found = find_interpreter(&q);
		if (found != -PYE_ENOTPYTHON && hold__has_executed(&k->hold))
			found = -PYE_ENOTPYTHON; /* it has not begun: its stop comes */
		k->hold.runs = found == -PYE_ENOTPYTHON;
		if (!found) {
			inline_target__say_loaded(k->pid);
			r->t.loaded |= is_first(r, k);
			err = attach(r, k, &q, false);
		} else if (found != -PYE_ENOTPYTHON) {
			miss(r, k->pid, &q.e);
		}
		question_done(&q);
	}
	return err;
}

/* Has it stubs of its parent, or parts of an attach, which came there unseen? */
static bool has_parts(const struct inline_run *r, pid_t pid)
{
	struct inline_early early;

	for (const struct inline_member *m = r->members; m; m = m->next)
		if (inline__is_copy(pid, m->engine) ||
		    (inline__is_early_copy(pid, m->engine, &early) && early.cnt))
			return true;
	return false;
}

/* No Python, so far: what it starts is seen. */
static void follow_running(struct inline_run *r, struct inline_kin *k)
{
	struct remote threads = { .pid = k->pid, .mem = -1, .follow = r->follow };
	int err = remote__follow(&threads);
	struct err why = { 0 };

	hold__runs(&k->hold);
	if (!err || inline__is_ending(k->pid))
		return;
	err_set(&why, err, "what it starts is not seen: %s", strerror(-err));
	miss(r, k->pid, &why);
}

/* It began before it was followed: it is recorded from here on. */
static int take_running(struct inline_run *r, struct inline_kin *k)
{
	struct question q = { .run = r, .kin = k };
	int found = inline_target__recover(k->pid, k->pid, &q.e), err = 0;

	if (!found)
		found = find_interpreter(&q);
	if (!found)
		err = attach(r, k, &q, false);
	else if (found == -PYE_ENOTPYTHON)
		follow_running(r, k);
	else if (!inline__is_ending(k->pid))
		miss(r, k->pid, &q.e);
	question_done(&q);
	if (k->member && !was_before(r, k->pid)) {
		r->missed++;
		log_warn(
			"child %d was forked while its parent was attached to: its first calls are missing",
			k->pid);
	}
	return err;
}

static int take_unseen(struct inline_run *r, pid_t pid)
{
	static const struct err why = { .what = "it was forked while its parent was attached to" };
	struct inline_kin *k = kin_new(r, pid);

	if (!k)
		return -ENOMEM;
	if (was_before(r, pid) || !has_parts(r, pid))
		return take_running(r, k);
	miss(r, pid, &why);
	return 0;
}

/*
 * The target's descendants that are not followed yet: that were there before, and those of a thread that was in the middle of a fork()
 * when it began to be followed, of which the kernel tells none.
 */
static int take_all_unseen(struct inline_run *r, bool first)
{
	pid_t all[PROC_DESCENDANTS_MAX];
	int cnt = run_descendants(r->t.pid.pid, all, first), taken = 0, err = 0;

	for (int i = 0; i < cnt && !err; i++) {
		pid_t pid = all[i];

		if (kin_of(r, pid) || follow__has(r->follow, pid) || inline__is_ending(pid))
			continue;
		taken++;
		err = take_unseen(r, pid);
		if (!err)
			err = take_events(r);
		inline_run__read(r);
	}
	return err ? err : taken;
}

/* Of those the kernel would not tell that they have ended, and their numbers are given again. */
static void drop_unfollowed(struct inline_run *r)
{
	struct inline_kin *next;

	for (struct inline_kin *k = r->kin; k; k = next) {
		next = k->next;
		if (k->pid != r->t.pid.pid && !follow__has(r->follow, k->pid))
			kin_drop(r, k);
	}
}

int inline_family__begin(struct inline_run *r, struct inline_member *m)
{
	struct inline_kin *k = kin_new(r, r->t.pid.pid);
	int taken = m && m->attached;

	if (!k)
		return -ENOMEM;
	k->member = m;
	if (!taken) /* a command */
		return 0;
	for (int i = 0; i < ROUNDS_MAX && taken > 0; i++)
		taken = take_all_unseen(r, !i);
	drop_unfollowed(r);
	return taken < 0 ? taken : 0;
}

/* Does one start, which stops at each system call until its program is there? */
static bool is_watching(const struct inline_run *r)
{
	for (const struct inline_kin *k = r->kin; k; k = k->next)
		if (k->hold.watch)
			return true;
	return false;
}

int inline_family__look(struct inline_run *r)
{
	uint64_t deadline = now_ns() + WATCH_NS;
	struct hurry hurry = { 0 };
	int err = r->follow ? take_events(r) : 0;

	if (!err && r->follow)
		err = look_for_loaded(r);
	if (err || !r->follow || !is_watching(r))
		return err;
	hurry__begin(&hurry);
	do {
		remote_pause();
		err = take_events(r);
	} while (!err && is_watching(r) && now_ns() < deadline);
	hurry__end(&hurry, true);
	return err;
}

/* A capture ends with the process that was asked for. @left: those that had only just been born */
static void say_who_goes_on(const struct inline_run *r, unsigned int left)
{
	for (const struct inline_kin *k = r->kin; k; k = k->next)
		left += k->pid != r->t.pid.pid && !remote__is_dead(k->pid, k->pid);
	if (left && r->t.ended)
		log_info(
			"%u process%s that it started go%s on, untraced from here on, as process %d has ended",
			left, left == 1 ? "" : "es", left == 1 ? "es" : "", r->t.pid.given);
}

/*
 * Beside many signals, each of which stopped it while it was followed, a thread can have been on its way through the stubs all the time; one that
 * slept where nothing wakes it can have woken up.
 */
static void unmap_left(struct inline_run *r)
{
	struct inline_found found;
	struct err e;

	for (struct inline_member *m = r->members; m; m = m->next) {
		if (!m->engine->left_mapped)
			continue;
		remote__close(&m->engine->remote); /* who has it open keeps out others, us too */
		if (!inline__recover(m->pid, &found, &e))
			m->engine->left_mapped = found.left_mapped;
		inline_target__add_stops(&r->t, found.stops, found.longest_us);
	}
}

void inline_family__release(struct inline_run *r)
{
	struct inline_found found;
	struct hurry hurry = { 0 };
	struct follow_event event;
	unsigned int born = 0;
	uint32_t stood_us;
	struct err e;

	if (!r->follow)
		return;
	hurry__begin(&hurry);
	stood_us = follow__release(r->follow);
	hurry__end(&hurry, true);
	inline_target__add_stops(&r->t, stood_us != 0, stood_us);
	while (follow__next(r->follow, &event)) {
		if (event.what == FOLLOW_BORN) { /* with its parent's stubs */
			inline__recover(event.pid, &found, &e);
			born += !kin_of(r, event.pid) && !remote__is_dead(event.pid, event.pid);
		} else if (event.what == FOLLOW_ENDED && event.pid == r->t.pid.pid) {
			on_ended(r, &event);
		}
	}
	unmap_left(r);
	say_who_goes_on(r, born);
	for (struct inline_member *m = r->members; m; m = m->next)
		m->engine->remote.follow = NULL; /* each had borrowed it, and is closed later */
	if (follow__let_late_go(r->follow))
		inline_target__unfollow(&r->t);
	r->follow = NULL;
	if (r->missed)
		log_warn("%u children were not traced, or not from their first call on", r->missed);
}

void inline_family__free(struct inline_run *r)
{
	inline_others__done(&r->others);
	while (r->kin)
		kin_drop(r, r->kin);
}
