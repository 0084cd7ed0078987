// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "bpf"
#include "capture/bpf_load.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/event.h"
#include "abi/filter.h"
#include "abi/limits.h"
#include "base/caps.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/where.h"
#include "capture/feature.h"
#include "trace.skel.h"

#define PIDNS_FIRST    0xeffffffcu /* PROC_PID_INIT_INO */
#define RING_BYTES_MIN ((size_t)256 * 1024)

/* A line at a time: what the verifier says of a program is one text of many lines, and the reason is in
 * the last ones. */
static int print_debug(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *text = NULL, *rest, *line;

	(void)level;
	if (vasprintf(&text, fmt, ap) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_debug("%s", line);
	free(text);
	return 0;
}

/* The programs number processes as our pid namespace does, whatever /proc shows. */
static void configure_pidns(struct trace_bpf *skel)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) == 0)
		skel->rodata->cfg_pidns_inum = (__u32)st.st_ino;
	skel->bss->pidns_first = skel->rodata->cfg_pidns_inum == PIDNS_FIRST;
}

static void configure_function(struct trace_bpf *skel, const char *text, size_t len)
{
	size_t n = len < PYE_FILTER_TAIL ? len : PYE_FILTER_TAIL;

	memcpy(skel->rodata->cfg_tail + PYE_FILTER_TAIL - n, text + len - n, n);
	skel->rodata->cfg_tail_of = (__u32)len;
	for (size_t i = 0; i < len; i++)
		skel->rodata->cfg_tail_any |= (unsigned char)text[i] >= 0x80;
}

static void configure_filter(struct trace_bpf *skel, const struct bpf_filter *filter)
{
	skel->rodata->cfg_filter = filter->by;
	skel->rodata->cfg_max_depth = filter->max_depth;
	if (filter->thread)
		snprintf(skel->bss->thread_glob, sizeof(skel->bss->thread_glob), "%s",
			 filter->thread);
	if (filter->function)
		configure_function(skel, filter->function, filter->function_len);
	bpf_program__set_autoload(skel->progs.decide_code, filter->by);
	bpf_program__set_autoload(skel->progs.on_rename, filter->by & PYE_FILTER_THREAD);
}

#define OF(name) offsetof(struct trace_bpf, progs.name)
static const struct {
	uint32_t family;
	size_t at;
} optional[] = {
	{ BPF_EVAL, OF(probe_eval_entry) },  { BPF_EVAL, OF(probe_eval_exit) },
	{ BPF_USDT, OF(probe_usdt_entry) },  { BPF_USDT, OF(probe_usdt_return) },
	{ BPF_LEAVE, OF(probe_leave) },	     { BPF_CLOSE, OF(probe_gen_close) },
	{ BPF_CLOSE, OF(probe_gen_closed) },
};
#undef OF
#define OPTIONAL (sizeof(optional) / sizeof(optional[0]))
_Static_assert(OPTIONAL == sizeof(((struct bpf_loaded *)0)->more) / sizeof(int),
	       "a descriptor for each");

static struct bpf_program *optional_of(struct trace_bpf *skel, size_t i)
{
	return *(struct bpf_program **)((char *)skel + optional[i].at);
}

static void choose_families(struct trace_bpf *skel, uint32_t families)
{
	for (size_t i = 0; i < OPTIONAL; i++)
		bpf_program__set_autoload(optional_of(skel, i), families & optional[i].family);
}

/* How the kernel is to run the probes. */
static void choose_way(struct trace_bpf *skel, const struct bpf_loaded *b)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, skel->obj)
	{
		if (strcmp(bpf_program__section_name(prog), "uprobe") != 0)
			continue;
		if (b->multi)
			bpf_program__set_expected_attach_type(prog, FEATURE_UPROBE_MULTI);
		if (b->sleepable)
			bpf_program__set_flags(prog, BPF_F_SLEEPABLE);
	}
}

static void configure(struct trace_bpf *skel, const struct bpf_load_opts *opts,
		      struct bpf_loaded *b)
{
	bool probes = !opts->sample_ns;
	struct bpf_program *prog;

	configure_pidns(skel);
	skel->rodata->cfg_sleepable = b->sleepable;
	skel->rodata->cfg_loop = b->loop;
	skel->rodata->cfg_ring_mask = b->ring_cnt - 1;
	skel->rodata->cfg_ring_free_min = b->ring_size / 8;
	skel->rodata->cfg_walk_records = b->ring_size / 2 / sizeof(struct pye_walk_rec);
	skel->rodata->cfg_select = opts->select;
	skel->rodata->cfg_locate = opts->locate;
	configure_filter(skel, &opts->filter);
	bpf_program__set_autoload(skel->progs.select_exec, opts->select);
	bpf_program__set_autoload(skel->progs.on_executed, opts->select && !probes);
	bpf_program__set_autoload(skel->progs.find_inode, opts->select && !probes);
	bpf_program__set_autoload(skel->progs.meet_switch, opts->select && opts->off_cpu);
	bpf_program__set_autoload(skel->progs.list_chosen, opts->select);
	bpf_program__set_autoload(skel->progs.hold_exec, opts->launch);
	bpf_program__set_autoload(skel->progs.hold_map, opts->launch);
	choose_families(skel, b->families);
	bpf_program__set_autoload(skel->progs.on_clock, !probes);
	bpf_program__set_autoload(skel->progs.on_switch, opts->off_cpu);
	bpf_program__set_autoload(skel->progs.list_waiting, opts->off_cpu);
	bpf_program__set_autoload(skel->progs.send_kept, opts->off_cpu);
	bpf_map__set_max_entries(skel->maps.defs, (__u32)b->defs_size);
	bpf_map__set_max_entries(skel->maps.control, (__u32)b->control_size);
	skel->rodata->cfg_sample_ns = opts->sample_ns;
	skel->rodata->cfg_gil_only = opts->gil_only;
	skel->rodata->cfg_native = opts->native;
	skel->rodata->cfg_budget = opts->budget;
	skel->rodata->cfg_hits = opts->hits;
	skel->rodata->cfg_off_every_ns = opts->sample_ns ? opts->sample_ns / 4 + 1 : 1;
	bpf_object__for_each_program(prog, skel->obj)
	{
		if (strcmp(bpf_program__section_name(prog), "uprobe") != 0)
			continue;
		bpf_program__set_autoload(
			prog, bpf_program__autoload(prog) &&
				      probes == (prog != skel->progs.sample_code_dealloc));
	}
	choose_way(skel, b);
}

static uint32_t ring_count(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t n = 1;

	while (n < PYE_RINGS_MAX && n < cpus)
		n *= 2;
	return n;
}

static void ring_sizes(struct bpf_loaded *b, size_t total, bool samples)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), small, rest;

	b->defs_size = samples ? PYE_DEATHS_BYTES : PYE_DEFS_BYTES;
	b->control_size = samples ? PYE_SEEN_BYTES : PYE_CONTROL_BYTES;
	/* the small rings are part of the sum */
	small = b->defs_size + b->control_size;
	rest = total > small ? total - small : 0;
	total = rest >= (samples ? RING_BYTES_MIN : total / 2) ? rest : total / 2;
	b->ring_cnt = ring_count();
	/* a small total goes to few rings: a ring must hold some walks */
	while (b->ring_cnt > 1 && total / b->ring_cnt < RING_BYTES_MIN)
		b->ring_cnt /= 2;
	b->ring_size = page;
	while (b->ring_size * 2 * b->ring_cnt <= total)
		b->ring_size *= 2;
}

static int make_rings(struct bpf_loaded *b)
{
	int map = bpf_map__fd(b->skel->maps.rings);

	for (uint32_t i = 0; i < b->ring_cnt; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "pye_ring", 0, 0, (__u32)b->ring_size,
					NULL);

		if (fd < 0)
			return -errno;
		b->ring_fds[i] = fd;
		if (bpf_map_update_elem(map, &i, &fd, BPF_ANY))
			return -errno;
	}
	return 0;
}

/*
 * Called when a program is complete, just before the kernel sees it. Programs that may not sleep never
 * reach bpf_copy_from_user(), but newer verifiers refuse it in a global function all the same: they look
 * before dead code is gone. The helper that takes its place has the same arguments.
 */
static int never_sleep(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	size_t cnt = bpf_program__insn_cnt(prog);
	auto_free struct bpf_insn *insns = malloc(cnt * sizeof(*insns));

	(void)opts;
	(void)cookie;
	if (!insns)
		return -ENOMEM;
	memcpy(insns, bpf_program__insns(prog), cnt * sizeof(*insns));
	for (size_t i = 0; i < cnt; i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && !insns[i].src_reg &&
		    insns[i].imm == BPF_FUNC_copy_from_user)
			insns[i].imm = BPF_FUNC_probe_read_user;
	return bpf_program__set_insns(prog, insns, cnt);
}

/* Tests: so small that they are full. */
static void shrink_tables(struct trace_bpf *skel, uint32_t entries)
{
	struct bpf_map *const tables[] = { skel->maps.procs, skel->maps.codes, skel->maps.ends };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		bpf_map__set_max_entries(tables[i], entries);
}

static int try_load(struct bpf_loaded *b, const struct bpf_load_opts *opts)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, handler, .prog_prepare_load_fn = never_sleep);
	int err, id = -1;

	/* libbpf before 1.3 cannot take in a handler twice: nothing can be loaded later */
	b->families = b->sleepable ? opts->families : BPF_ALL;
	if (!b->sleepable)
		id = libbpf_register_prog_handler("uprobe", BPF_PROG_TYPE_KPROBE, 0, &handler);
	b->skel = trace_bpf__open();
	err = b->skel ? 0 : -errno;
	if (!err) {
		configure(b->skel, opts, b);
		if (opts->table_max)
			shrink_tables(b->skel, opts->table_max);
		err = trace_bpf__load(b->skel);
	}
	if (id >= 0)
		libbpf_unregister_prog_handler(id);
	if (err && b->skel) {
		trace_bpf__destroy(b->skel);
		b->skel = NULL;
	}
	return err;
}

static void hint_filter(struct err *e)
{
	if (where_are_we() == WHERE_KUBERNETES)
		err_hint(e, "in the pod: securityContext: {seccompProfile: {type: Unconfined}}");
	else
		err_hint(e, "in a container: start it with --security-opt seccomp=unconfined");
}

/* No capability is missing, and still it is EPERM. */
static int refuse_forbidden(struct err *e, const char *what)
{
	int filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);

	err_set(e, 0, "%s: no capability is missing, so %s forbids it", what,
		filter == 2 ? "the seccomp filter of this process"
			    : "a security module or the kernel's lockdown");
	if (filter == 2)
		hint_filter(e);
	else
		err_hint(
			e,
			"see /sys/kernel/security/lsm, /sys/kernel/security/lockdown and the kernel's log");
	return -PYE_EPRIV;
}

int bpf_refused(struct err *e, int err, uint64_t needs, const char *what)
{
	uint64_t missing = caps_missing(needs);
	char caps[160];

	switch (err) {
	case -EPERM:
		if (!missing)
			return refuse_forbidden(e, what);
		break;
	case -EACCES:
		break;
	case -ENOMEM:
		return err_set(e, err, "%s: no memory; try a smaller --ring", what);
	default:
		missing = 0;
	}
	if (!missing) { /* EACCES is what the verifier says, too */
		err_set(e, 0, "%s: %s", what, err == -EACCES ? "its verifier" : strerror(-err));
		err_hint(e, "pyebpf needs Linux 5.15 or later with BTF (/sys/kernel/btf/vmlinux); "
			    "-v shows what it said");
		return -PYE_EKERNEL;
	}
	err_set(e, 0, "%s: %s", what, caps_text(caps, sizeof(caps), missing));
	caps_advise(e, missing);
	return -PYE_EPRIV;
}

void bpf_be_quiet(void)
{
	libbpf_set_print(print_debug);
}

int bpf_load(struct bpf_loaded *out, const struct bpf_load_opts *opts, struct err *e)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct bpf_loaded b = { 0 };
	int err;

	bpf_be_quiet();
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* before 5.11 maps count against it */
	for (size_t i = 0; i < PYE_RINGS_MAX; i++)
		b.ring_fds[i] = -1;
	ring_sizes(&b, opts->ring_bytes, opts->sample_ns != 0);
	b.multi = !opts->force_classic && feature_uprobe_multi(&b.per_process);
	b.sleepable = !opts->force_classic;
	b.loop = !opts->force_classic && opts->sample_ns &&
		 libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL) == 1;
	err = try_load(&b, opts);
	/* EACCES can be the verifier's word on programs that may sleep */
	if (err && b.sleepable && err != -EPERM && !caps_missing(CAPS_BPF)) {
		b.sleepable = false;
		err = try_load(&b, opts);
	}
	if (!err)
		err = make_rings(&b);
	if (err) {
		bpf_unload(&b);
		return bpf_refused(e, err, CAPS_BPF, "the kernel refused the BPF programs");
	}
	log_debug("uprobe_multi %d, per process %d, sleepable %d, %u rings of %zu bytes", b.multi,
		  b.per_process, b.sleepable, b.ring_cnt, b.ring_size);
	*out = b;
	return 0;
}

/* Those of the first skeleton, all of them: they have the same order. */
static int share_maps(struct trace_bpf *more, const struct trace_bpf *first)
{
	const struct bpf_map *map = NULL;
	struct bpf_map *own;
	int err = 0;

	bpf_object__for_each_map(own, more->obj)
	{
		map = bpf_object__next_map(first->obj, map);
		err = err ? err : bpf_map__reuse_fd(own, bpf_map__fd(map));
	}
	return err;
}

/* Only the programs are kept. */
static int keep_programs(struct bpf_loaded *b, struct trace_bpf *more)
{
	for (size_t i = 0; i < OPTIONAL; i++) {
		int fd = bpf_program__fd(optional_of(more, i));

		if (fd < 0)
			continue;
		b->more[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (b->more[i] < 0)
			return -errno;
	}
	return 0;
}

static int load_families(struct bpf_loaded *b, uint32_t families)
{
	struct trace_bpf *more = trace_bpf__open();
	struct bpf_program *prog;
	int err;

	if (!more)
		return -errno;
	/* part of the programs for the verifier; the kernel's copy is frozen */
	memcpy(more->rodata, b->skel->rodata, sizeof(*more->rodata));
	bpf_object__for_each_program(prog, more->obj) bpf_program__set_autoload(prog, false);
	choose_families(more, families);
	choose_way(more, b);
	err = share_maps(more, b->skel);
	err = err ? err : trace_bpf__load(more);
	err = err ? err : keep_programs(b, more);
	trace_bpf__destroy(more);
	return err;
}

int bpf_load_more(struct bpf_loaded *b, uint32_t families, struct err *e)
{
	uint32_t missing = families & ~b->families;
	int err = missing ? load_families(b, missing) : 0;

	if (err)
		return bpf_refused(e, err, CAPS_BPF, "the kernel refused the BPF programs");
	b->families |= missing;
	return 0;
}

int bpf_probe_fd(const struct bpf_loaded *b, const struct bpf_program *prog)
{
	for (size_t i = 0; i < OPTIONAL; i++)
		if (b->more[i] > 0 && optional_of(b->skel, i) == prog)
			return b->more[i];
	return bpf_program__fd(prog);
}

void bpf_unload(struct bpf_loaded *b)
{
	for (size_t i = 0; i < OPTIONAL; i++)
		if (b->more[i] > 0)
			close(b->more[i]);
	for (size_t i = 0; i < PYE_RINGS_MAX; i++)
		if (b->ring_fds[i] > 0)
			close(b->ring_fds[i]);
	if (b->skel)
		trace_bpf__destroy(b->skel);
	memset(b, 0, sizeof(*b));
}
