// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "capture"
#include "capture/cap_bpf_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/membarrier.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "capture/cap_waits.h"
#include "capture/iterate.h"
#include "capture/pause.h"
#include "trace.skel.h"

#define RING_BYTES_DEFAULT ((size_t)64 << 20)
#define BATCH_BYTES	   ((size_t)256 << 10)

/* The programs that are not uprobes: fork, exec, exit, and the ones that hold. */
static int attach_life(struct cap_bpf *c, bool launch)
{
	struct trace_bpf *s = c->bpf.skel;
	struct bpf_program *const life[] = { s->progs.on_fork,	    s->progs.on_exec,
					     s->progs.on_exit_task, s->progs.on_rename,
					     s->progs.select_exec,  s->progs.on_executed };
	struct bpf_program *const hold[] = { s->progs.hold_exec, s->progs.hold_map };

	for (size_t i = 0; i < sizeof(life) / sizeof(life[0]); i++) {
		if (!bpf_program__autoload(life[i]))
			continue;
		c->life[c->life_cnt] = bpf_program__attach(life[i]);
		if (!c->life[c->life_cnt])
			return -errno;
		c->life_cnt++;
	}
	for (size_t i = 0; launch && i < sizeof(hold) / sizeof(hold[0]); i++) {
		c->hold[i] = bpf_program__attach(hold[i]);
		if (!c->hold[i])
			return -errno;
		c->hold_cnt++;
	}
	return 0;
}

void cap_bpf__stop_holding(struct cap_bpf *c)
{
	while (c->hold_cnt)
		bpf_link__destroy(c->hold[--c->hold_cnt]);
	/* waits until those have ended that run just now */
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static int open_rings(struct cap_bpf *c)
{
	int err = ring__open(&c->control, bpf_map__fd(c->bpf.skel->maps.control),
			     c->bpf.control_size);

	if (!err)
		err = ring__open(&c->defs, bpf_map__fd(c->bpf.skel->maps.defs), c->bpf.defs_size);
	for (uint32_t i = 0; !err && i < c->bpf.ring_cnt; i++)
		err = ring__open(&c->rings[i], c->bpf.ring_fds[i], c->bpf.ring_size);
	return err;
}

uint32_t cap_bpf_families(const struct probe_plan *plan)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		enum probe_kind kind = plan->sites[i].kind;

		if (kind == PROBE_EVAL_ENTRY || kind == PROBE_EVAL_EXIT ||
		    kind == PROBE_EVAL_REFUSED)
			mask |= BPF_EVAL;
		if (kind == PROBE_USDT_ENTRY || kind == PROBE_USDT_RETURN)
			mask |= BPF_USDT;
		if (kind == PROBE_RETURN || kind == PROBE_UNWIND || kind == PROBE_YIELD)
			mask |= BPF_LEAVE;
		if (kind == PROBE_GEN_CLOSE || kind == PROBE_GEN_CLOSED)
			mask |= BPF_CLOSE;
	}
	return mask;
}

static bool finds_vma(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_find_vma, NULL) != 0;
}

int cap_bpf__new(struct cap_bpf **out, const struct cap_bpf_opts *opts, struct err *e)
{
	struct bpf_load_opts load = {
		.ring_bytes = opts->ring_bytes ? opts->ring_bytes : RING_BYTES_DEFAULT,
		.launch = opts->launch,
		.select = opts->select,
		.locate = !opts->select && !opts->sample_ns && finds_vma(),
		.force_classic = opts->force_classic,
		.table_max = opts->table_max,
		.families = opts->families,
		.sample_ns = opts->sample_ns,
		.off_cpu = opts->off_cpu,
		.gil_only = opts->gil_only,
		.native = opts->native,
		.budget = opts->max_cpu_pct != 0,
		.hits = opts->budget,
		.filter = opts->filter,
	};
	struct cap_bpf *c;
	int err;

	if (opts->select && !finds_vma())
		return err_set(e, -PYE_EKERNEL,
			       "to trace processes that are not named needs Linux 5.17 or later");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->select = opts->select;
	c->locate = load.locate;
	c->sample_ns = opts->sample_ns;
	c->on_cpu = opts->on_cpu;
	c->off_cpu = opts->off_cpu;
	c->budget.max_pct = opts->max_cpu_pct;
	c->budget.keep = 1;
	c->budget.least = opts->keep_least > BUDGET_LEAST ? opts->keep_least : BUDGET_LEAST;
	c->hits = opts->budget;
	err = bpf_load(&c->bpf, &load, e);
	if (!err)
		cap_bpf__wait_min(c, opts->wait_min_ns);
	if (err) {
		free(c);
		return err;
	}
	err = open_rings(c);
	if (!err)
		err = sweep__init(&c->sweep, bpf_map__fd(c->bpf.skel->maps.codes),
				  bpf_map__fd(c->bpf.skel->maps.code_slots));
	if (!err)
		err = attach_life(c, opts->launch);
	if (err) {
		cap_bpf__free(c);
		return bpf_refused(e, err, CAPS_BPF, "the BPF programs could not be started");
	}
	*out = c;
	return 0;
}

void cap_bpf__detach(struct cap_bpf *c)
{
	c->bpf.skel->bss->stopped = 1;
	sampler__stop(&c->sampler);
	attach_close_all(c->attached, c->attached_cnt);
	c->attached_cnt = 0;
}

void cap_bpf__free(struct cap_bpf *c)
{
	if (!c)
		return;
	if (c->bpf.skel)
		cap_bpf__detach(c);
	while (c->hold_cnt)
		bpf_link__destroy(c->hold[--c->hold_cnt]);
	while (c->life_cnt)
		bpf_link__destroy(c->life[--c->life_cnt]);
	guard__stop(&c->guard);
	for (uint32_t i = 0; i < PYE_RINGS_MAX; i++)
		ring__close(&c->rings[i]);
	ring__close(&c->control);
	ring__close(&c->defs);
	sweep__done(&c->sweep);
	bpf_unload(&c->bpf);
	free(c->attached);
	free(c->files);
	free(c);
}

void cap_bpf__calibrate(struct cap_bpf *c)
{
	const uint8_t *data;
	int err;

	if (c->sample_ns)
		return;
	err = calibrate(&c->bpf, c->rings, PYE_LAYOUTS_MAX - 1, c->hits, &c->calibration);

	if (err)
		log_debug("the cost of an event could not be measured: %s", strerror(-err));
	while (ring__next(&c->defs, &data, BATCH_BYTES))
		;
}

void cap_bpf__cost(const struct cap_bpf *c, const struct probe_plan *plan, struct trace_cost *out)
{
	calibration_apply(&c->calibration, plan, out);
}

int cap_layout(struct cap_bpf *c, const struct pye_pylayout *layout, uint16_t *index)
{
	uint32_t i;

	for (i = 0; i < c->layout_cnt; i++)
		if (!memcmp(&c->layouts[i], layout, sizeof(*layout)))
			break;
	if (i == PYE_LAYOUTS_MAX - 1) /* the last one is for calibrating */
		return -E2BIG;
	if (i == c->layout_cnt) {
		if (bpf_map_update_elem(bpf_map__fd(c->bpf.skel->maps.layouts), &i, layout,
					BPF_ANY))
			return -errno;
		c->layouts[c->layout_cnt++] = *layout;
	}
	*index = (uint16_t)i;
	return 0;
}

static int procs_fd(const struct cap_bpf *c)
{
	return bpf_map__fd(c->bpf.skel->maps.procs);
}

int cap_bpf__trace(struct cap_bpf *c, pid_t pid, const struct interp *in, uint32_t flags,
		   uint32_t *pix)
{
	struct pye_proc proc = { .flags = flags };
	uint32_t key = (uint32_t)pid;
	int err;

	err = cap_layout(c, &in->layout, &proc.layout);
	if (err)
		return err;
	if (in->plan.tstate_current)
		proc.tstate_current = in->plan.tstate_current + in->bias;
	proc.interpreters = in->interpreters;
	proc.pix = __atomic_fetch_add(&c->bpf.skel->data->next_pix, 1, __ATOMIC_RELAXED);
	if (bpf_map_update_elem(procs_fd(c), &key, &proc, BPF_ANY))
		return -errno;
	*pix = proc.pix;
	return 0;
}

int cap_bpf__hold(struct cap_bpf *c, pid_t pid, struct err *e)
{
	struct pye_proc proc = { .flags = PYE_PROC_LAUNCHED | PYE_PROC_FOLLOW };
	uint32_t key = (uint32_t)pid;
	int err = guard__start(&c->guard, procs_fd(c), e);

	if (!err && bpf_map_update_elem(procs_fd(c), &key, &proc, BPF_ANY))
		err = err_set(e, -errno, "the command cannot be held: %s", strerror(errno));
	return err;
}

void cap_bpf__forget(struct cap_bpf *c, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	bpf_map_delete_elem(procs_fd(c), &key);
}

void cap_bpf__ended(struct cap_bpf *c, uint32_t pix)
{
	sweep__ended(&c->sweep, pix);
	if (c->hits)
		bpf_map_delete_elem(bpf_map__fd(c->bpf.skel->maps.hits), &pix);
}

void cap_bpf__gone(struct cap_bpf *c, pid_t pid)
{
	for (size_t i = c->attached_cnt; i-- > 0;) {
		if (c->attached[i].pid != (uint32_t)pid)
			continue;
		pause_drop(c, &c->attached[i]);
		closing_leave(attach_closing(&c->attached[i]));
		c->attached[i] = c->attached[--c->attached_cnt];
	}
}

void cap_unstop(struct cap_bpf *c)
{
	enum {
		STOPPED_NONE = 0,
		STOPPED_SOME = 2 /* as in lib/core.bpf.h */
	};

	__atomic_store_n(&c->bpf.skel->bss->stopped, c->paused_cnt ? STOPPED_SOME : STOPPED_NONE,
			 __ATOMIC_RELEASE);
}

/* Without privilege no program can be run any more, but the table can be written. */
static void change_by_hand(struct cap_bpf *c, const struct pye_proc_change *what)
{
	struct pye_proc proc;

	if (bpf_map_lookup_elem(procs_fd(c), &what->pid, &proc) ||
	    (what->pix && proc.pix != what->pix))
		return;
	proc.flags = (proc.flags & ~what->clear) | what->set;
	if (what->moved) {
		proc.tstate_current = what->tstate_current;
		proc.interpreters = what->interpreters;
	}
	bpf_map_update_elem(procs_fd(c), &what->pid, &proc, BPF_EXIST);
}

static void change(struct cap_bpf *c, struct pye_proc_change *what)
{
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = what, .ctx_size_in = sizeof(*what));

	if (bpf_prog_test_run_opts(bpf_program__fd(c->bpf.skel->progs.change_proc), &run) == -EPERM)
		change_by_hand(c, what);
}

void cap_set_flags(struct cap_bpf *c, pid_t pid, uint32_t set, uint32_t clear)
{
	struct pye_proc_change what = { .pid = (uint32_t)pid, .set = set, .clear = clear };

	change(c, &what);
}

void cap_bpf__want(struct cap_bpf *c, pid_t pid, uint32_t pix, bool wanted)
{
	struct pye_proc_change what = { .pid = (uint32_t)pid,
					.pix = pix,
					.set = wanted ? 0 : PYE_PROC_UNWANTED,
					.clear = wanted ? PYE_PROC_UNWANTED : 0 };

	if (!wanted)
		__atomic_store_n(&c->bpf.skel->bss->unwanted_any, 1, __ATOMIC_RELAXED);
	change(c, &what);
}

bool cap_bpf__has(const struct cap_bpf *c, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	struct pye_proc proc;

	return !bpf_map_lookup_elem(procs_fd(c), &key, &proc);
}

uint32_t cap_bpf__pix(const struct cap_bpf *c, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	struct pye_proc proc;

	return bpf_map_lookup_elem(procs_fd(c), &key, &proc) ? 0 : proc.pix;
}

bool cap_bpf__knows(const struct cap_bpf *c, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	struct pye_proc proc;

	return !bpf_map_lookup_elem(procs_fd(c), &key, &proc) && proc.flags & PYE_PROC_TRACED;
}

void cap_bpf__moved(struct cap_bpf *c, pid_t pid, uint32_t pix, const struct interp *in)
{
	const struct probe_plan *plan = &in->plan;
	struct pye_proc_change what = {
		.pid = (uint32_t)pid,
		.pix = pix,
		.moved = 1,
		.tstate_current = plan->tstate_current ? plan->tstate_current + in->bias : 0,
		.interpreters = in->interpreters,
	};

	change(c, &what);
}

void cap_bpf__settle(struct cap_bpf *c, pid_t pid)
{
	cap_set_flags(c, pid, 0, PYE_PROC_WATCH_MAP);
}

uint64_t cap_bpf__needs(const struct cap_bpf *c)
{
	return attach_needs(&c->bpf);
}

bool cap_bpf__per_process(const struct cap_bpf *c)
{
	return c->bpf.multi && c->bpf.per_process;
}

bool cap_bpf__probed(const struct cap_bpf *c, const struct interp *in)
{
	for (size_t i = 0; i < c->attached_cnt; i++)
		if (c->attached[i].dev == in->dev && c->attached[i].ino == in->ino &&
		    !c->attached[i].pid)
			return true;
	return false;
}

int cap_place(struct cap_bpf *c, const struct interp *in, uint32_t filter, uint32_t file,
	      struct err *e)
{
	struct attached *more;
	int err;

	for (size_t i = 0; i < c->attached_cnt; i++) {
		const struct attached *a = &c->attached[i];

		if (a->dev == in->dev && a->ino == in->ino && (!a->pid || a->pid == filter))
			return 0;
	}
	more = realloc(c->attached, (c->attached_cnt + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	c->attached = more;
	err = bpf_load_more(&c->bpf, cap_bpf_families(&in->plan), e);
	if (err)
		return err;
	err = attach_plan(&c->bpf, in, filter, file, &more[c->attached_cnt], e);
	if (!err)
		c->attached_cnt++;
	return err;
}

int cap_bpf__attach(struct cap_bpf *c, const struct interp *in, pid_t pid, bool shared,
		    struct err *e)
{
	uint32_t filter = !shared && cap_bpf__per_process(c) ? (uint32_t)pid : 0;
	int err;

	cap_unstop(c);
	if (c->sample_ns)
		return cap_sample(c, in, pid, filter, e);
	err = cap_place(c, in, filter, cap_bpf__file(c, in), e);
	/* only now: with a part of the probes there are exits without entries */
	if (err)
		return err;
	if (!filter || cap_bpf__probed(c, in))
		cap_set_flags(c, pid, PYE_PROC_TRACED | PYE_PROC_SHARED, 0);
	else
		cap_set_flags(c, pid, PYE_PROC_TRACED, PYE_PROC_SHARED);
	return 0;
}

/* Events first, but they wait in `ready`: a definition they use was written before them, so it is
 * there when the ring of definitions is read after them. */
static bool take_events(struct cap_bpf *c)
{
	for (uint32_t i = 0; i < c->bpf.ring_cnt; i++) {
		uint32_t ring = (c->turn + i) % c->bpf.ring_cnt;

		c->ready.len = ring__next(&c->rings[ring], &c->ready.data, BATCH_BYTES);
		c->ready.ring = ring;
		if (!c->ready.len)
			continue;
		c->turn = ring + 1;
		c->defs_end = ring__end(&c->defs);
		return true;
	}
	return false;
}

/* Nothing is handed out now: has everything been that was there when the round began? */
static void end_round(struct cap_bpf *c)
{
	if (ring__read(&c->defs) < c->round_defs_end)
		return;
	for (uint32_t i = 0; i < c->bpf.ring_cnt; i++)
		if (ring__read(&c->rings[i]) < c->round_end[i])
			return;
	c->round++;
	c->round_defs_end = ring__end(&c->defs);
	for (uint32_t i = 0; i < c->bpf.ring_cnt; i++)
		c->round_end[i] = ring__end(&c->rings[i]);
}

static int next_batch(void *self, struct capture_batch *batch)
{
	struct cap_bpf *c = self;

	if (!c->ready.len) {
		end_round(c);
		take_events(c);
	}
	batch->ring = UINT32_MAX;
	batch->round = c->ready.round = c->round;
	batch->len = ring__next(&c->defs, &batch->data, BATCH_BYTES);
	if (batch->len)
		return 1;
	if (!c->ready.len)
		return 0;
	/* a definition that is being written by a thread that the scheduler took away */
	if (ring__read(&c->defs) < c->defs_end)
		return 0;
	*batch = c->ready;
	c->ready.len = 0;
	return 1;
}

const struct capture_ops cap_bpf_ops = { .next = next_batch };

bool cap_bpf__deaths(void *cap, struct capture_batch *batch)
{
	struct cap_bpf *c = cap;

	*batch = (struct capture_batch){ .ring = UINT32_MAX, .round = c->round };
	batch->len = ring__next(&c->defs, &batch->data, BATCH_BYTES);
	return batch->len;
}

const struct pye_proc_rec *cap_bpf__control(struct cap_bpf *c)
{
	const struct pye_proc_rec *rec;
	uint32_t len;

	for (;;) {
		rec = capture_record(&c->control_batch, &c->control_at, &len);
		if (rec && len >= sizeof(*rec))
			return rec;
		if (rec)
			continue;
		c->control_at = 0;
		c->control_batch.len = ring__next(&c->control, &c->control_batch.data, BATCH_BYTES);
		if (!c->control_batch.len)
			return NULL;
	}
}

int cap_bpf__control_fd(const struct cap_bpf *c)
{
	return bpf_map__fd(c->bpf.skel->maps.control);
}

bool cap_bpf__crowded(const struct cap_bpf *c)
{
	return c->sample_ns && ring__used(&c->defs) > c->bpf.defs_size / 2;
}

unsigned int cap_bpf__backlog(const struct cap_bpf *c)
{
	unsigned int most = 0;

	for (uint32_t i = 0; i < c->bpf.ring_cnt; i++) {
		unsigned int used =
			(unsigned int)(ring__used(&c->rings[i]) * 100 / c->bpf.ring_size);

		if (used > most)
			most = used;
	}
	return most;
}

struct finals {
	void (*cb)(void *ctx, uint32_t tix, uint32_t seq);
	void *ctx;
};

static int final_one(void *ctx, const void *rec)
{
	const struct finals *f = ctx;
	const uint32_t *pair = rec;

	f->cb(f->ctx, pair[0], pair[1]);
	return 0;
}

uint32_t cap_bpf__new_thread(struct cap_bpf *c)
{
	return __atomic_fetch_add(&c->bpf.skel->data->next_tix, 1, __ATOMIC_RELAXED);
}

uint32_t cap_bpf__new_code(struct cap_bpf *c)
{
	return __atomic_fetch_add(&c->bpf.skel->data->next_code, 1, __ATOMIC_RELAXED) & PYE_CODE_ID;
}

int cap_bpf__finals(struct cap_bpf *c, void (*cb)(void *ctx, uint32_t tix, uint32_t seq), void *ctx)
{
	int fd = bpf_map__fd(c->bpf.skel->maps.ends);
	struct finals f = { cb, ctx };
	uint32_t *at = NULL, key, seq;

	while (!bpf_map_get_next_key(fd, at, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &seq))
			cb(ctx, key, seq);
		at = &key;
	}
	return bpf_iterate(c->bpf.skel->progs.list_threads, 2 * sizeof(uint32_t), final_one, &f);
}

uint64_t *cap_counter_cpus(const struct cap_bpf *c, unsigned int counter, size_t *cnt)
{
	int cpus = libbpf_num_possible_cpus();
	auto_free uint64_t *values = NULL;

	if (cpus <= 0)
		return NULL;
	values = calloc((size_t)cpus, sizeof(*values));
	if (!values ||
	    bpf_map_lookup_elem(bpf_map__fd(c->bpf.skel->maps.counters), &counter, values))
		return NULL;
	*cnt = (size_t)cpus;
	return take_ptr(values);
}

uint64_t cap_bpf__counter(const struct cap_bpf *c, unsigned int counter)
{
	size_t cnt = 0;
	auto_free uint64_t *values = cap_counter_cpus(c, counter, &cnt);
	uint64_t sum = 0;

	for (size_t i = 0; values && i < cnt; i++)
		sum += values[i];
	return sum;
}

int cap_bpf__decide(struct cap_bpf *c, const struct pye_verdict *verdict)
{
	struct pye_verdict v = *verdict;
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &v, .ctx_size_in = sizeof(v));

	return bpf_prog_test_run_opts(bpf_program__fd(c->bpf.skel->progs.decide_code), &run);
}

uint64_t cap_bpf__filtered(const struct cap_bpf *c)
{
	return cap_bpf__counter(c, CNT_FILTERED);
}

/* Runs of our probes that the kernel skipped (a probe inside a probe). */
static uint64_t kernel_misses(const struct cap_bpf *c)
{
	struct bpf_program *prog;
	uint64_t sum = 0;

	bpf_object__for_each_program(prog, c->bpf.skel->obj)
	{
		struct bpf_prog_info info = { 0 };
		__u32 len = sizeof(info);
		int fd = bpf_probe_fd(&c->bpf, prog);

		if (bpf_program__type(prog) != BPF_PROG_TYPE_KPROBE || fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &len))
			sum += info.recursion_misses;
	}
	return sum;
}

void cap_bpf__losses(const struct cap_bpf *c, uint64_t lost[LOSS_CNT])
{
	memset(lost, 0, LOSS_CNT * sizeof(*lost));
	lost[LOSS_RING] = cap_bpf__counter(c, CNT_LOST_RING);
	lost[LOSS_READ] = cap_bpf__counter(c, CNT_LOST_READ);
	lost[LOSS_MAP] = cap_bpf__counter(c, CNT_LOST_THREAD);
	lost[LOSS_KERNEL] = kernel_misses(c);
}
