// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "select"
#include "cmd/select.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/limits.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/pod_target.h"
#include "cmd/run.h"
#include "cmd/session_priv.h"
#include "proc/cgroup.h"
#include "proc/info.h"

#define LOOKS_MAX      1024 /* processes that are looked at at once */
#define LOOKS_PER_PASS 16 /* the rings wait meanwhile */
#define LIST_ROUNDS    4
#define SAID_MAX       5 /* processes that are not traced: so many by name */

/* A process that executed something: when it is looked at, after the exec. The loader has mapped the
 * libraries of most programs after some milliseconds; a server may load Python with a plug-in, minutes later. */
static const uint32_t look_after_ms[] = { 0,	2,     4,     8,     30,     120,    500,   2000,
					  5000, 10000, 20000, 60000, 120000, 300000, 900000 };

#define LOOKS (sizeof(look_after_ms) / sizeof(look_after_ms[0]))
#define YOUNG 4u /* looks: who ends before them may have mapped nothing yet */
#define LATE  8u /* looks from here on make room for those at a process that is new */

struct look {
	pid_t pid; /* in our pid namespace */
	uint32_t tries;
	uint64_t executed_ns;
	bool taken; /* by the kernel side: its file has probes */
	bool late; /* its file has them, but since its exec */
	bool gone;
};

/* A file with an interpreter that has its probes, or was refused them. */
struct select_file {
	dev_t dev;
	ino_t ino;
	uint32_t number; /* 0: refused */
	uint64_t ready_ns; /* all probes are in place */
	struct interp in;
};

struct selection {
	struct cap_select rule;
	struct cgroup_key cgroups[PYE_CGROUPS_MAX];
	struct interp_cache *cache;
	struct select_file **files;
	size_t file_cnt;
	struct look looks[LOOKS_MAX];
	size_t look_cnt;
	unsigned int left_out; /* Python processes that are not traced */
};

static int add_container(void *ctx, const char *id, struct err *e)
{
	struct selection *sel = ctx;
	size_t room = PYE_CGROUPS_MAX - sel->rule.cgroup_cnt;
	int cnt = cgroup_by_container(id, sel->cgroups + sel->rule.cgroup_cnt, room, e);

	if (cnt > 0)
		sel->rule.cgroup_cnt += (size_t)cnt;
	return cnt < 0 ? cnt : 0;
}

int select_new(struct session *s, struct err *e)
{
	const struct select_args *args = s->opts.select;
	struct selection *sel = calloc(1, sizeof(*sel));
	int err;

	if (!sel)
		return -ENOMEM;
	s->selection = sel;
	sel->rule.all = args->all;
	sel->rule.follow = s->opts.subprocesses;
	sel->rule.own = budget_is_on(s);
	sel->rule.comms = args->comms.items;
	sel->rule.comm_cnt = args->comms.cnt;
	sel->rule.cgroups = sel->cgroups;
	for (size_t i = 0; i < args->cgroups.cnt; i++) {
		size_t room = PYE_CGROUPS_MAX - sel->rule.cgroup_cnt;
		int cnt = cgroup_by_path(args->cgroups.items[i],
					 sel->cgroups + sel->rule.cgroup_cnt, room, e);

		if (cnt < 0)
			return cnt;
		sel->rule.cgroup_cnt += (size_t)cnt;
	}
	err = pod_target_each(args, add_container, sel, e);
	return err ? err : interp_cache__new(&sel->cache);
}

void select_free(struct session *s)
{
	struct selection *sel = s->selection;

	if (!sel)
		return;
	for (size_t i = 0; i < sel->file_cnt; i++) {
		interp__done(&sel->files[i]->in);
		free(sel->files[i]);
	}
	free(sel->files);
	interp_cache__free(sel->cache);
	free(sel);
	s->selection = NULL;
}

uint32_t select_own_flags(const struct session *s, const struct target *t)
{
	if (!s->selection || !s->selection->rule.own)
		return 0;
	return PYE_PROC_SELECTED | PYE_PROC_FOLLOW |
	       (t->asked || s->selection->rule.follow ? PYE_PROC_STAYS : 0u);
}

bool select_is_open(const struct session *s)
{
	return s->selection && select_any(s->opts.select);
}

int select_nothing(const struct session *s, struct err *e)
{
	if (s->selection->left_out)
		err_set(e, 0, "no Python process that can be traced was seen, %u that cannot",
			s->selection->left_out);
	else if (s->selection->file_cnt)
		err_set(e, 0, "no process that was meant called Python code");
	else
		err_set(e, 0, "no Python process that was meant was seen");
	err_hint(e, "pyebpf list shows the Python processes of this machine");
	return -PYE_ENOTPYTHON;
}

static struct select_file *find_file(const struct selection *sel, dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < sel->file_cnt; i++)
		if (sel->files[i]->dev == dev && sel->files[i]->ino == ino)
			return sel->files[i];
	return NULL;
}

/* Processes of ours that run this file. */
static int own_users(const struct session *s, const struct interp *in)
{
	int cnt = 0;

	for (size_t i = 0; i < s->target_cnt; i++) {
		const struct target *t = s->targets[i];

		cnt += !t->ended && t->has_interp && t->in.dev == in->dev && t->in.ino == in->ino;
	}
	return cnt;
}

void select_say_users(struct session *s, const struct interp *in)
{
	char shown[512];
	int others;

	if (s->opts.sample_ns || (s->selection && s->selection->rule.all))
		return; /* nobody is a stranger, or pays but where code objects are freed */
	others = proc_file_users(in->dev, in->ino) - own_users(s, in);
	if (others > 0)
		log_info("%d other process%s of %s pay%s for its probes while this trace runs",
			 others, others == 1 ? "" : "es",
			 text_escape(shown, sizeof(shown), in->path, strlen(in->path)),
			 others == 1 ? "s" : "");
}

/* Probes for everybody in a file that has none. Takes @in over on success. */
static int probe_file(struct session *s, struct interp *in, pid_t pid, struct err *e)
{
	struct selection *sel = s->selection;
	struct select_file **more, *f = calloc(1, sizeof(*f));
	struct stat st;
	int err;

	more = f ? realloc(sel->files, (sel->file_cnt + 1) * sizeof(*more)) : NULL;
	if (!more) {
		free(f);
		return -ENOMEM;
	}
	sel->files = more;
	select_say_users(s, in);
	err = cap_bpf__probe_file(s->cap, in, pid, &f->number, e);
	/* not access(): that would ask whether the user may, without our capabilities */
	if (err == -PYE_ETARGET || (err && stat(in->open_path, &st))) {
		free(f); /* the next one that runs the file is looked at */
		return err_set(e, -PYE_ETARGET,
			       "the process has ended before its probes were placed");
	}
	f->dev = in->dev;
	f->ino = in->ino;
	f->number = err ? 0 : f->number;
	f->ready_ns = now_ns();
	f->in = *in;
	in->fd = -1;
	sel->files[sel->file_cnt++] = f;
	return err;
}

static int need_file(struct session *s, struct interp *in, pid_t pid, struct err *e)
{
	const struct select_file *f = find_file(s->selection, in->dev, in->ino);

	if (!f)
		return probe_file(s, in, pid, e);
	return f->number ? 0 : err_set(e, -PYE_EPLAN, "its file was refused its probes");
}

static void leave_out(struct selection *sel, pid_t pid, const struct err *e)
{
	if (sel->left_out++ < SAID_MAX)
		log_warn("process %d is not traced: %s", pid, e->what);
	else
		log_debug("process %d is not traced: %s", pid, e->what);
}

static struct look *room_for_look(struct selection *sel, uint32_t tries)
{
	struct look *last = &sel->looks[0];

	if (sel->look_cnt < LOOKS_MAX)
		return &sel->looks[sel->look_cnt++];
	for (size_t i = 1; i < LOOKS_MAX; i++)
		if (sel->looks[i].tries > last->tries)
			last = &sel->looks[i];
	return last->tries >= LATE && last->tries > tries ? last : NULL;
}

/* If its program has ended: can that have been a Python of which nothing is seen? */
static bool is_unseen(const struct look *look)
{
	return !look->taken && (look->tries < YOUNG || look->late);
}

static void add_look(struct session *s, pid_t pid, uint32_t tries, uint64_t executed_ns)
{
	struct look *look = room_for_look(s->selection, tries);

	if (look)
		*look = (struct look){ .pid = pid, .tries = tries, .executed_ns = executed_ns };
	else
		s->execs.missed += !tries;
}

/* --- those that run at the start --- */

static int add_chosen(void *ctx, pid_t pid)
{
	struct session *s = ctx;
	struct err e = { 0 };
	struct target *t;
	int err;

	if (pid == getpid() || target_by_pid(s, pid) || cap_bpf__has(s->cap, pid))
		return 0;
	t = target_add(s, pid, &e);
	if (!t)
		return errno == ENOMEM ? -ENOMEM : 0; /* it has ended */
	err = interp__find_cached(t->pid.pid, s->opts.engine, s->selection->cache, &t->in, &e);
	t->has_interp = !err;
	if (!err)
		err = target_vet(s, t, &e);
	t->ended = t->settled = err != 0;
	if (err == -ENOMEM)
		return err;
	if (err == -PYE_ENOTPYTHON) /* it may load Python later */
		add_look(s, pid, LATE, now_ns());
	if (err && err != -PYE_ENOTPYTHON && (err != -PYE_ETARGET || t->has_interp))
		leave_out(s->selection, pid, &e);
	return 0;
}

/* What the process maps as the same file as another one's is as good as its own, which may end. */
static int start_one(struct session *s, struct target *t, struct err *e)
{
	struct interp copy;
	int err;

	if (s->selection->rule.own)
		return t->pix ? 0 : target_start(s, t, e);
	interp__copy(&copy, &t->in); /* the file's own descriptor, as the process can end */
	err = need_file(s, &copy, t->pid.given, e);
	interp__done(&copy);
	return err ? err : target_tell(s, t, e);
}

static int start_all(struct session *s, struct err *e)
{
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];
		int err;

		if (!t->has_interp || t->ended)
			continue;
		err = start_one(s, t, e);
		if (!err)
			continue;
		if (t->asked || err == -ENOMEM || err == -PYE_EPRIV || err == -PYE_EOUTPUT)
			return err;
		t->ended = true;
		if (err != -PYE_ETARGET)
			leave_out(s->selection, t->pid.given, e);
	}
	return 0;
}

/* What was forked before its parent was told of: later forks are. */
static int start_rest(struct session *s, struct err *e)
{
	size_t before;
	int err = 0;

	for (int round = 0; !err && round < LIST_ROUNDS; round++) {
		before = s->target_cnt;
		err = cap_bpf__chosen(s->cap, add_chosen, s, e);
		if (err || s->target_cnt == before)
			break;
		err = start_all(s, e);
	}
	return err;
}

int select_start(struct session *s, struct err *e)
{
	struct selection *sel = s->selection;
	int err;

	run_raise_files();
	err = cap_bpf__select(s->cap, &sel->rule);
	if (err)
		return err_set(e, err, "the selection was refused: %s", strerror(-err));
	err = cap_bpf__chosen(s->cap, add_chosen, s, e);
	if (!err)
		err = start_all(s, e);
	if (!err && sel->rule.own)
		err = start_rest(s, e);
	if (err)
		return err;
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (!t->pix || t->ended)
			continue;
		if (!sel->rule.own)
			cap_bpf__begin(s->cap, t->pid.given, t->asked || sel->rule.follow);
		if (!s->opts.sample_ns)
			idle_begin(t);
	}
	s->start_ns = now_ns();
	if (!sel->rule.own)
		cap_bpf__take_calls(s->cap);
	return 0;
}

/* --- those that come --- */

static const struct select_file *file_by_number(const struct selection *sel, uint32_t number)
{
	for (size_t i = 0; i < sel->file_cnt; i++)
		if (sel->files[i]->number == number)
			return sel->files[i];
	return NULL;
}

static void read_exe(pid_t pid, char *out, size_t size)
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, out, size - 1);
	if (n > 0)
		out[n] = '\0';
}

static void look_taken(struct selection *sel, pid_t pid)
{
	for (size_t i = 0; i < sel->look_cnt; i++)
		sel->looks[i].taken |= sel->looks[i].pid == pid;
}

void select_taken(struct session *s, const struct pye_proc_rec *rec)
{
	const struct select_file *f =
		s->selection && rec->old_pix ? file_by_number(s->selection, rec->old_pix) : NULL;
	auto_fn(proc_pid__close) struct proc_pid pid = { .pid = -1, .fd = -1 };
	char comm[PYE_COMM + 1] = { 0 }, exe[4096], python[16];
	struct assembler_process p = { 0 };
	int err;

	if (!f)
		return;
	look_taken(s->selection, (pid_t)rec->pid);
	err = s->capw ? 0 : session_open_capture(s, &f->in.plan);
	if (err) {
		s->refused = err_set(&s->refusal, err == -ENOMEM ? err : -PYE_EOUTPUT,
				     "the capture cannot be written: %s", strerror(-err));
		return;
	}
	memcpy(comm, rec->comm, PYE_COMM);
	snprintf(exe, sizeof(exe), "%s", f->in.path);
	snprintf(python, sizeof(python), "3.%u%s", f->in.plan.minor,
		 f->in.plan.free_threaded ? "t" : "");
	/* it may have ended by now: then what the file is called has to do */
	if (!proc_pid__open((pid_t)rec->pid, &pid, NULL))
		read_exe(pid.pid, exe, sizeof(exe));
	p.trace = (struct trace_process){ .id = rec->pix,
					  .pid = rec->pid,
					  .start_ns = rec->head.ts_ns,
					  .comm = comm,
					  .exe = exe,
					  .python = python,
					  .prefix = "" };
	p.layout = &f->in.layout;
	p.proc_pid = pid.pid;
	p.late = rec->head.sub & PYE_TAKEN_LATE && !s->opts.sample_ns;
	p.deaths_told = cap_bpf__probed(s->cap, &f->in);
	native_loop(&f->in, &p.loop);
	if (!s->comm[0])
		memcpy(s->comm, comm, sizeof(comm));
	session_tell(s, &p);
}

/* A child of a process that is followed: it has its probes. */
void select_forked(struct session *s, const struct pye_proc_rec *rec)
{
	struct err e = { 0 };
	struct target *t;

	if (s->as)
		session_forked(s, &(struct assembler_child){ .from = rec->old_pix,
							     .pix = rec->pix,
							     .pid = (pid_t)rec->pid,
							     .ts_ns = rec->head.ts_ns,
							     .late = false });
	/* the run ends with the last one of them */
	t = s->released || select_is_open(s) ? NULL : target_add(s, (pid_t)rec->pid, &e);
	if (t)
		t->pix = rec->pix;
}

void select_executed(struct session *s, const struct pye_proc_rec *rec)
{
	struct selection *sel = s->selection;

	if (!sel || s->released)
		return;
	for (size_t i = 0; i < sel->look_cnt; i++) {
		struct look *look = &sel->looks[i];

		if (look->pid != (pid_t)rec->pid)
			continue;
		s->execs.missed += is_unseen(look); /* it is over */
		*look = sel->looks[--sel->look_cnt];
		break;
	}
	add_look(s, (pid_t)rec->pid, 0, rec->head.ts_ns);
}

/* The usual case, without a look at the mappings: the executable is an interpreter that has its probes,
 * and none that could run a JIT. */
static const struct select_file *known_file(const struct selection *sel, pid_t pid)
{
	const struct select_file *f;
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st))
		return NULL;
	f = find_file(sel, st.st_dev, st.st_ino);
	return f && f->number && !f->in.has_jit ? f : NULL;
}

/* @in: of a process that is refused for itself and not for its file, its file is known. */
static void refuse_look(struct selection *sel, pid_t pid, const struct interp *in,
			const struct err *e)
{
	if (in->version[0] && find_file(sel, in->dev, in->ino))
		log_warn("not all calls of process %d are seen: %s", pid, e->what);
	else
		leave_out(sel, pid, e);
}

/* It mapped its interpreter before the file was known, or without us seeing it. True. */
static bool take_sampled(struct session *s, pid_t pid, struct interp *in)
{
	struct err e = { 0 };
	struct target *t = cap_bpf__knows(s->cap, pid) ? NULL : target_add(s, pid, &e);

	if (!t) {
		interp__done(in);
		return true;
	}
	t->in = *in;
	t->has_interp = true;
	if (target_tell(s, t, &e))
		log_debug("process %d: %s", pid, e.what);
	else
		cap_bpf__begin(s->cap, pid, s->selection->rule.follow);
	return true;
}

/* With a budget: what it did before it has its probes is a gap. */
static int start_own(struct session *s, pid_t pid, struct interp *in, struct err *e)
{
	struct target *t = target_by_pid(s, pid);

	if (cap_bpf__knows(s->cap, pid)) /* looked at once more for its JIT */
		return 0;
	if (!t || t->ended)
		t = target_add(s, pid, e);
	if (!t)
		return -PYE_ETARGET;
	if (t->has_interp)
		interp__done(&t->in);
	t->in = *in;
	in->fd = -1;
	t->has_interp = true;
	t->late = true;
	return target_start(s, t, e);
}

/* Is a process met at a call into a file that has probes for everybody? */
static bool by_calls(const struct session *s)
{
	return !s->opts.sample_ns && !s->selection->rule.own;
}

/* Is there nothing more to be found out of it? */
static bool is_known(struct session *s, pid_t given)
{
	const struct target *t;

	if (s->opts.sample_ns)
		return cap_bpf__knows(s->cap, given);
	if (s->selection->rule.own) {
		t = target_by_pid(s, given);
		return t && !t->in.has_jit && cap_bpf__knows(s->cap, given);
	}
	return false;
}

/* That it was taken can be said in a record that is read before the next look. */
static bool ended(struct session *s, struct look *look)
{
	bool again = !look->gone && is_unseen(look);

	s->execs.missed += look->gone && !look->taken;
	look->gone = true;
	return !again;
}

/* It runs this file: the kernel side takes it at its next call, if there is one. */
static bool is_settled(struct look *look, const struct select_file *f)
{
	look->late = f && f->number && look->executed_ns < f->ready_ns;
	return look->taken || !look->late || look->tries + 1 == LOOKS;
}

/* True: that was the last look at it. */
static bool look_at(struct session *s, struct look *look)
{
	auto_fn(proc_pid__close) struct proc_pid pid = { .fd = -1 };
	struct selection *sel = s->selection;
	const struct select_file *f;
	struct err e = { 0 };
	dev_t dev;
	ino_t ino;
	bool jit, settled = true;
	struct interp in;
	int err;

	if (proc_pid__open(look->pid, &pid, NULL))
		return ended(s, look);
	if (is_known(s, look->pid))
		return true;
	f = by_calls(s) ? known_file(sel, pid.pid) : NULL;
	if (f)
		return is_settled(look, f);
	err = interp__find_cached(pid.pid, s->opts.engine, sel->cache, &in, &e);
	if (err == -PYE_ENOTPYTHON)
		return look->tries + 1 == LOOKS;
	if (err == -PYE_ETARGET)
		return ended(s, look);
	if (err) {
		refuse_look(sel, look->pid, &in, &e);
		return true;
	}
	/* whether it will use its JIT is known some time after its start */
	jit = in.has_jit;
	dev = in.dev;
	ino = in.ino;
	err = sel->rule.own ? start_own(s, look->pid, &in, &e) : need_file(s, &in, look->pid, &e);
	if (!err && s->opts.sample_ns)
		return take_sampled(s, look->pid, &in);
	if (!err && by_calls(s))
		settled = is_settled(look, find_file(sel, dev, ino));
	interp__done(&in);
	if (err == -PYE_ETARGET)
		return ended(s, look);
	if (err)
		leave_out(sel, look->pid, &e);
	return err || (!jit && settled) || look->tries + 1 == LOOKS;
}

unsigned int select_unlooked(const struct session *s)
{
	const struct selection *sel = s->selection;
	unsigned int cnt = 0;

	for (size_t i = 0; sel && i < sel->look_cnt; i++)
		cnt += is_unseen(&sel->looks[i]) && kill(sel->looks[i].pid, 0) && errno == ESRCH;
	return cnt;
}

void select_look(struct session *s)
{
	struct selection *sel = s->selection;
	size_t kept = 0, done = 0;
	uint64_t now;

	if (!sel || !sel->look_cnt)
		return;
	now = now_ns();
	for (size_t i = 0; i < sel->look_cnt; i++) {
		struct look *look = &sel->looks[i];
		uint64_t due = look->executed_ns + look_after_ms[look->tries] * 1000000ull;
		bool last = false;

		if (now >= due && done < LOOKS_PER_PASS) {
			done++;
			last = look_at(s, look);
			look->tries++;
		}
		if (!last)
			sel->looks[kept++] = *look;
	}
	sel->look_cnt = kept;
}
