// SPDX-License-Identifier: Apache-2.0
/* The processes of a run: found, started to be recorded, held while they start, forked, ended. */
#define LOG_DOMAIN "targets"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/naming.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session_priv.h"
#include "cpython/stack_check.h"
#include "proc/info.h"
#include "proc/mem.h"

#define ALIVE_NS (5 * 1000000000ull) /* between two looks at who has ended */
/* Processes of one file that get probes of their own: each hit of one looks through those of all others,
 * 30 ns each. Of more the probes are in the file, for everybody. */
#define OWN_PROBES_MAX 8

struct target *target_add(struct session *s, pid_t pid, struct err *e)
{
	struct target *t = calloc(1, sizeof(*t)), **more;
	int err;

	more = t ? realloc(s->targets, (s->target_cnt + 1) * sizeof(*more)) : NULL;
	if (!more) {
		free(t);
		err_set(e, -ENOMEM, "no memory");
		return NULL;
	}
	s->targets = more;
	err = proc_pid__open(pid, &t->pid, e);
	if (err) {
		free(t);
		errno = -err;
		return NULL;
	}
	s->targets[s->target_cnt++] = t;
	return t;
}

struct target *target_by_pid(struct session *s, pid_t pid)
{
	for (size_t i = s->target_cnt; i-- > 0;)
		if (s->targets[i]->pid.given == pid)
			return s->targets[i];
	return NULL;
}

void target_describe(struct session *s, const struct target *t, struct assembler_process *p,
		     struct proc_info *info, char *python, size_t size)
{
	if (proc_info__read(t->pid.pid, info))
		memset(info, 0, sizeof(*info));
	if (!s->comm[0])
		memcpy(s->comm, info->comm, sizeof(s->comm));
	snprintf(python, size, "3.%u%s", t->in.plan.minor, t->in.plan.free_threaded ? "t" : "");
	*p = (struct assembler_process){
		.trace = { .id = t->pix,
			   .pid = (uint32_t)t->pid.given,
			   .start_ns = now_ns(),
			   .comm = info->comm,
			   .exe = info->exe,
			   .python = python,
			   .prefix = "" },
		.layout = &t->in.layout,
		.proc_pid = t->pid.pid,
		.late = t->late,
		.deaths_told = cap_bpf__probed(s->cap, &t->in),
	};
	native_loop(&t->in, &p->loop);
}

int session_tell(struct session *s, const struct assembler_process *p)
{
	struct replay_process r = { .pix = p->trace.id,
				    .pid = p->trace.pid,
				    .start_ns = p->trace.start_ns,
				    .layout = *p->layout,
				    .late = p->late };

	snprintf(r.comm, sizeof(r.comm), "%s", p->trace.comm);
	snprintf(r.exe, sizeof(r.exe), "%s", p->trace.exe);
	snprintf(r.python, sizeof(r.python), "%s", p->trace.python);
	session_record(s, &(struct replay_item){ .kind = REPLAY_PROCESS, .len = sizeof(r) }, &r);
	if (s->opts.seen.process)
		s->opts.seen.process(s->opts.seen.ctx, &p->trace, p->proc_pid);
	return assembler__process(s->as, p);
}

void session_forked(struct session *s, const struct assembler_child *child)
{
	if (s->opts.seen.forked)
		s->opts.seen.forked(s->opts.seen.ctx, child->from, child->pix, child->pid);
	assembler__fork(s->as, child);
}

static bool tells_holder(const struct pye_pylayout *l)
{
	return !(l->flags & PYE_LAYOUT_FREE_THREADED) &&
	       (l->is_gil != PYE_NO_FIELD || l->rt_gil != PYE_NO_FIELD || l->gil_behind);
}

int target_tell(struct session *s, struct target *t, struct err *e)
{
	uint32_t flags = (s->opts.subprocesses ? PYE_PROC_FOLLOW : 0u) |
			 (t->launched ? PYE_PROC_LAUNCHED : 0u) | select_own_flags(s, t);
	struct assembler_process p;
	struct proc_info info;
	char python[16];
	int err;

	if (s->opts.gil_only && !tells_holder(&t->in.layout)) {
		err_set(e, 0, "process %d: free-threaded builds do not say who holds the lock",
			t->pid.given);
		err_hint(e, "use --mode wall");
		return -PYE_EVERSION;
	}
	err = s->capw ? 0 : session_open_capture(s, &t->in.plan);
	if (err)
		return err_set(e, err == -ENOMEM ? err : -PYE_EOUTPUT,
			       "the capture cannot be written: %s", strerror(-err));
	err = cap_bpf__trace(s->cap, t->pid.given, &t->in, flags, &t->pix);
	if (err)
		return err_set(e, err, "too many processes or Python versions are traced at once");
	target_describe(s, t, &p, &info, python, sizeof(python));
	err = session_tell(s, &p);
	if (err)
		cap_bpf__forget(s->cap, t->pid.given);
	else
		run_say_left_out(t->pid.given, &t->in);
	return err;
}

static unsigned int first_of_file(const struct session *s, const struct interp *in)
{
	unsigned int cnt = 0;

	for (size_t i = 0; i < s->target_cnt; i++) {
		const struct target *t = s->targets[i];

		cnt += (t->asked || t->ran) && t->has_interp && !t->ended && t->in.dev == in->dev &&
		       t->in.ino == in->ino;
	}
	return cnt;
}

int target_attach(struct session *s, struct target *t, struct err *e)
{
	bool shared = !budget_is_on(s) && ((s->opts.subprocesses && t->launched) ||
					   first_of_file(s, &t->in) > OWN_PROBES_MAX);
	int err;

	if (shared && !cap_bpf__probed(s->cap, &t->in))
		select_say_users(s, &t->in);
	if (!t->launched)
		naming_tell(s, t);
	err = cap_bpf__attach(s->cap, &t->in, t->pid.given, shared, e);
	return err ? err : execs_know(s, &t->in);
}

int target_start(struct session *s, struct target *t, struct err *e)
{
	int err = target_tell(s, t, e);

	if (err)
		return err;
	err = target_attach(s, t, e);
	if (err)
		cap_bpf__forget(s->cap, t->pid.given);
	return err;
}

int target_vet(const struct session *s, const struct target *t, struct err *e)
{
	struct proc_mem mem;
	struct err why = { 0 };
	int err;

	if (!s->opts.sample_ns || proc_mem__open(t->pid.pid, &mem))
		return 0; /* who may not read it is told so elsewhere */
	err = stack_check(&mem, &t->in, &why);
	proc_mem__close(&mem);
	if (err != -PYE_ETARGET)
		return err == -ENOMEM ? err : 0;
	err_set(e, err, "PID %d: %s", t->pid.given, why.what);
	err_hint(e, "%s", why.hint);
	return err;
}

/* A held process: does what it has mapped by now hold an interpreter? */
static void look(struct session *s, struct target *t)
{
	struct interp in;
	struct err e = { 0 };
	int err = interp__find(t->pid.pid, s->opts.engine, &in, &e);

	if (!err)
		execs_same_file(s, t, &in);
	if (t->has_interp)
		interp__done(&t->in);
	t->has_interp = !err;
	if (err == -PYE_ENOTPYTHON || err == -PYE_ETARGET)
		return;
	if (!err) {
		t->in = in;
		err = target_start(s, t, &e);
	}
	cap_bpf__settle(s->cap, t->pid.given);
	if (err && t->asked) {
		s->refused = err;
		s->refusal = e;
	} else if (err) {
		log_warn("process %d is not traced: %s", t->pid.given, e.what);
	}
}

static void let_go(pid_t pid)
{
	kill(pid, SIGCONT);
}

static void on_held(struct session *s, const struct pye_proc_rec *rec)
{
	struct target *t = s->released ? NULL : target_by_pid(s, (pid_t)rec->pid);
	struct err e;

	if ((!t || t->ended) && !s->released && s->opts.subprocesses) {
		t = target_add(s, (pid_t)rec->pid, &e);
		if (t)
			t->launched = true;
	}
	if (t && !t->ended)
		look(s, t);
	let_go((pid_t)rec->pid);
}

/*
 * A child runs the parent's interpreter, so the parent's plan serves. Once it has executed a program the probes stay
 * where the kernel side finds out by itself what it runs: it may have told so already (execs_runs()), from these very
 * probes. Elsewhere they do not fit, which EXEC then repairs.
 */
static void attach_child(struct session *s, struct target *t, const struct target *parent)
{
	struct err e = { 0 };
	bool fits;

	interp__copy(&t->in, &parent->in);
	t->has_interp = true;
	if (cap_bpf__pix(s->cap, t->pid.given) != t->pix)
		err_set(&e, 0, "it has executed a program");
	else if (!cap_bpf__attach(s->cap, &t->in, t->pid.given, false, &e)) {
		fits = cap_bpf__pix(s->cap, t->pid.given) == t->pix;
		if (fits || (!s->opts.sample_ns && cap_bpf__file(s->cap, &t->in)))
			return;
		err_set(&e, 0, "it has executed a program meanwhile");
	}
	log_debug("child %d: %s", t->pid.given, e.what);
	/* what the program is that it has executed is looked up anew: its first calls were before its probes */
	cap_bpf__gone(s->cap, t->pid.given);
	interp__done(&t->in);
	t->has_interp = false;
}

/*
 * A child: with probes for the whole file it is recorded already, else it gets its own now. Its parent may have ended
 * before anybody looked at it; then it is not known here what runs in it.
 */
static void on_fork(struct session *s, const struct pye_proc_rec *rec)
{
	struct target *parent = target_by_pid(s, (pid_t)rec->parent), *t;
	bool late = !(rec->head.sub & PYE_FORK_SHARED) && !s->opts.sample_ns;
	struct err e = { 0 };

	if (s->selection && !budget_is_on(s)) {
		select_forked(s, rec);
		return;
	}
	if (s->as) /* who has ended, too, had children: they are of it */
		session_forked(s, &(struct assembler_child){ .from = rec->old_pix,
							     .pix = rec->pix,
							     .pid = (pid_t)rec->pid,
							     .ts_ns = rec->head.ts_ns,
							     .late = late });
	t = s->released ? NULL : target_add(s, (pid_t)rec->pid, &e);
	if (!t)
		return; /* it has ended */
	t->pix = rec->pix;
	t->launched = parent ? parent->launched : s->launch.pid > 0;
	if (t->launched && !budget_is_on(s))
		return;
	if (parent && parent->has_interp)
		attach_child(s, t, parent);
	else if (!parent && late)
		execs_look_from(t, rec->head.ts_ns);
}

static void on_end(struct session *s, const struct pye_proc_rec *rec)
{
	struct target *t = target_by_pid(s, (pid_t)rec->pid);

	if (!s->as)
		return;
	assembler__process_end(s->as, rec->pix, rec->head.ts_ns);
	cap_bpf__ended(s->cap, rec->pix);
	cap_bpf__gone(s->cap, (pid_t)rec->pid);
	if (t)
		execs_ended(s, t);
	if (t && t->pix == rec->pix)
		t->pix = 0; /* of a selection: it has executed something, and is looked at anew */
}

int targets_control(struct session *s)
{
	const struct pye_proc_rec *rec;

	while ((rec = cap_bpf__control(s->cap))) {
		s->control_cnt++;
		session_record(s,
			       &(struct replay_item){ .kind = REPLAY_CONTROL, .len = sizeof(*rec) },
			       rec);
		switch (rec->head.kind) {
		case PYE_REC_HELD:
			on_held(s, rec);
			break;
		case PYE_REC_FORK:
			on_fork(s, rec);
			break;
		case PYE_REC_EXEC:
			execs_executed(s, rec);
			break;
		case PYE_REC_PROC_END:
			on_end(s, rec);
			break;
		case PYE_REC_RUNS:
			execs_runs(s, rec);
			break;
		case PYE_REC_TAKEN:
			select_taken(s, rec);
			break;
		case PYE_REC_EXECUTED:
			select_executed(s, rec);
			break;
		}
	}
	for (size_t i = 0; i < s->target_cnt; i++)
		s->targets[i]->settled = s->targets[i]->ended;
	if (!s->released) {
		execs_look(s);
		select_look(s);
	}
	return s->refused;
}

int targets_check_jit(struct session *s)
{
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];
		struct err e = { 0 };
		int err;

		if (!t->launched || !t->has_interp || t->jit_checked || t->ended)
			continue;
		t->jit_checked = true;
		err = interp__check_jit(t->pid.pid, &t->in, &e);
		if (err != -PYE_EPLAN)
			continue;
		s->refused = err;
		s->refusal = e;
		return err;
	}
	return 0;
}

void targets_release(struct session *s)
{
	s->released = true;
	cap_bpf__stop_holding(s->cap);
	targets_control(s);
}

static void target_free(struct target *t)
{
	if (t->has_interp)
		interp__done(&t->in);
	idle_free(t);
	proc_pid__close(&t->pid);
	free(t);
}

/* Children that have ended leave nothing behind, however many there are. */
static void forget_ended(struct session *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (t->settled && !t->asked)
			target_free(t);
		else
			s->targets[kept++] = t;
	}
	s->target_cnt = kept;
}

/* Where the run does not end with them, now and then does. */
static bool is_time_to_look(struct session *s)
{
	uint64_t now;

	if (!select_is_open(s))
		return true;
	now = now_ns();
	if (now < s->look_next_ns)
		return false;
	s->look_next_ns = now + ALIVE_NS;
	return true;
}

/* All in one call: asked one by one, hundreds of them cost more than their samples. */
static void look_who_ended(struct session *s)
{
	auto_free struct pollfd *ended = calloc(s->target_cnt, sizeof(*ended));

	for (size_t i = 0; ended && i < s->target_cnt; i++)
		ended[i] = (struct pollfd){ .fd = s->targets[i]->pid.fd, .events = POLLIN };
	if (!ended || poll(ended, s->target_cnt, 0) <= 0)
		return;
	for (size_t i = 0; i < s->target_cnt; i++)
		if (ended[i].revents)
			s->targets[i]->ended = true;
}

bool targets_alive(struct session *s)
{
	bool alive = select_is_open(s);

	forget_ended(s);
	if (is_time_to_look(s))
		look_who_ended(s);
	for (size_t i = 0; !alive && i < s->target_cnt; i++) {
		const struct target *t = s->targets[i];

		if (t->asked && !t->ended)
			alive = true;
		if (s->opts.subprocesses && !t->ended)
			alive = true;
	}
	return alive;
}

void targets_free(struct session *s)
{
	for (size_t i = 0; i < s->target_cnt; i++)
		target_free(s->targets[i]);
	free(s->targets);
	execs_free(s);
}
