// SPDX-License-Identifier: Apache-2.0
/*
 * What traced processes execute. A process keeps the probes that it has in files, so what it executes of those is
 * recorded from its first call on: the kernel side finds out by itself which of them it is (PYE_REC_RUNS). A file
 * that is new is looked for in the process, which goes on meanwhile, since we do not stop what we did not start.
 */
#define LOG_DOMAIN "targets"
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "cmd/select.h"
#include "cmd/session_priv.h"
#include "proc/info.h"

#define LOOK_NS \
	1000000000ull /* how long a process that executed something is looked at, at least */
#define LOOK_CPU_NS 1000000000ull /* and while it does not wait, until it had so much CPU time */

/* An interpreter's file that has a number for the kernel side. */
struct exec_file {
	uint32_t number;
	struct interp in;
};

static const struct exec_file *find(const struct execs *x, uint32_t number)
{
	for (size_t i = 0; i < x->file_cnt; i++)
		if (x->files[i]->number == number)
			return x->files[i];
	return NULL;
}

int execs_know(struct session *s, const struct interp *in)
{
	struct execs *x = &s->execs;
	uint32_t number = cap_bpf__file(s->cap, in);
	struct exec_file **more, *f;

	if (!number || find(x, number))
		return 0;
	f = calloc(1, sizeof(*f));
	more = f ? realloc(x->files, (x->file_cnt + 1) * sizeof(*more)) : NULL;
	if (!more) {
		free(f);
		return -ENOMEM;
	}
	f->number = number;
	interp__copy(&f->in, in);
	x->files = more;
	x->files[x->file_cnt++] = f;
	return 0;
}

void execs_free(struct session *s)
{
	struct execs *x = &s->execs;

	for (size_t i = 0; i < x->file_cnt; i++) {
		interp__done(&x->files[i]->in);
		free(x->files[i]);
	}
	free(x->files);
	interp_cache__free(x->cache);
}

void execs_ended(struct session *s, struct target *t)
{
	s->execs.missed += t->look_until_ns || t->awaited;
	t->look_until_ns = 0;
	t->awaited = false;
}

void execs_report(const struct session *s)
{
	unsigned int missed = s->execs.missed + select_unlooked(s);

	if (missed && select_is_open(s)) /* most were no Python: on a whole machine this is usual */
		log_info(
			"%u programs had ended before they were looked at: of those that ran a Python "
			"without probes nothing is seen",
			missed);
	else if (missed)
		log_warn(
			"%u programs that traced processes executed had ended before their probes were in place: "
			"of those that were Python nothing is seen",
			missed);
}

bool execs_same_file(struct session *s, struct target *t, const struct interp *in)
{
	bool same_file = t->has_interp && t->in.dev == in->dev && t->in.ino == in->ino;

	if (!same_file && (budget_is_on(s) || !cap_bpf__file(s->cap, in))) {
		cap_bpf__gone(s->cap, t->pid.given);
		t->budget = (struct budget){ 0 };
	}
	t->late |= t->budget.off_ns != 0;
	return same_file;
}

void execs_look_from(struct target *t, uint64_t ts_ns)
{
	t->exec_ns = ts_ns;
	t->look_until_ns = now_ns() + LOOK_NS;
	t->look_cpu_ns = proc_cpu_ns(t->pid.given);
}

/* Nothing of the new program is mapped yet. */
void execs_executed(struct session *s, const struct pye_proc_rec *rec)
{
	struct target *t = target_by_pid(s, (pid_t)rec->pid);

	if (!s->as)
		return; /* nothing is recorded yet */
	assembler__process_end(s->as, rec->old_pix, rec->head.ts_ns);
	cap_bpf__ended(s->cap, rec->old_pix);
	session_forked(s, &(struct assembler_child){ .from = rec->old_pix,
						     .pix = rec->pix,
						     .pid = (pid_t)rec->pid,
						     .ts_ns = rec->head.ts_ns,
						     .late = false });
	if (!t || t->ended || t->launched)
		return; /* held: looked at from there */
	execs_ended(s, t);
	t->pix = rec->pix;
	execs_look_from(t, rec->head.ts_ns);
}

static void take(struct target *t, const struct interp *in)
{
	if (t->has_interp)
		interp__done(&t->in);
	t->in = *in;
	t->has_interp = true;
}

static int tell(struct session *s, const struct target *t)
{
	struct assembler_process p;
	struct proc_info info;
	char python[16];

	target_describe(s, t, &p, &info, python, sizeof(python));
	return session_tell(s, &p);
}

void execs_runs(struct session *s, const struct pye_proc_rec *rec)
{
	const struct exec_file *f = find(&s->execs, rec->old_pix);
	struct target *t = target_by_pid(s, (pid_t)rec->pid);
	struct interp in;

	if (!f || !s->as || !t || t->ended || t->pix != rec->pix)
		return;
	interp__copy(&in, &f->in);
	take(t, &in);
	t->look_until_ns = 0;
	t->awaited = false;
	t->late = cap_bpf__placed(s->cap, t->pid.given, f->number) > t->exec_ns;
	if (tell(s, t))
		log_debug("process %d executed a file that could not be noted", t->pid.given);
}

/* It executed the file it ran before: its probes never stopped to fire. */
static int go_on(struct session *s, struct target *t)
{
	struct err e = { 0 };

	cap_bpf__moved(s->cap, t->pid.given, t->pix, &t->in);
	if (s->opts.sample_ns)
		cap_bpf__attach(s->cap, &t->in, t->pid.given, t->launched, &e);
	return tell(s, t);
}

static int start_late(struct session *s, struct target *t, struct err *e)
{
	t->late = !s->opts.sample_ns;
	return target_start(s, t, e);
}

/* Its interpreter is found: @in, which is taken over. */
static int found(struct session *s, struct target *t, const struct interp *in, struct err *e)
{
	bool same_file = execs_same_file(s, t, in);

	take(t, in);
	if (cap_bpf__file(s->cap, in)) { /* it says by itself what it runs when it makes a call */
		t->awaited = !s->opts.sample_ns;
		return target_attach(s, t, e);
	}
	return same_file ? go_on(s, t) : start_late(s, t, e);
}

/* Is what was found out that of the program that it runs? Else it has executed one more, whose record comes. */
static bool is_current(const struct session *s, const struct target *t)
{
	return cap_bpf__pix(s->cap, t->pid.given) == t->pix;
}

/* On a machine that is busy it can take long until a process gets to map anything. */
static bool may_map_more(const struct target *t, uint64_t now)
{
	struct proc_info info;

	if (now < t->look_until_ns)
		return true;
	if (proc_info__read(t->pid.pid, &info) || (info.state != 'R' && info.state != 'D'))
		return false;
	return proc_cpu_ns(t->pid.given) - t->look_cpu_ns < LOOK_CPU_NS;
}

/* A process that executed a program: has it mapped its interpreter by now? */
static void look_again(struct session *s, struct target *t, uint64_t now)
{
	struct err e = { 0 };
	struct interp in;
	int err;

	if (!is_current(s, t) || (!s->execs.cache && interp_cache__new(&s->execs.cache)))
		return;
	err = interp__find_cached(t->pid.pid, s->opts.engine, s->execs.cache, &in, &e);
	if (!is_current(s, t)) {
		if (!err)
			interp__done(&in);
		return;
	}
	if ((err == -PYE_ENOTPYTHON || err == -PYE_ETARGET) && may_map_more(t, now))
		return; /* it is in the middle of its exec */
	t->look_until_ns = 0;
	err = err ? err : found(s, t, &in, &e);
	if (!err || !is_current(s, t))
		return;
	if (!t->ended && err != -PYE_ETARGET)
		log_info("process %d executed a program that is not traced: %s", t->pid.given,
			 e.what);
	cap_bpf__forget(s->cap, t->pid.given);
	cap_bpf__gone(s->cap, t->pid.given);
	t->ended = true;
}

void execs_look(struct session *s)
{
	uint64_t now = 0;

	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (!t->look_until_ns || t->ended)
			continue;
		now = now ? now : now_ns();
		look_again(s, t, now);
	}
}
