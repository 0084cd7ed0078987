// SPDX-License-Identifier: Apache-2.0
/*
 * What an event of the uprobe engine costs the traced program, against an empty BPF program at the
 * same instructions with the same kind of link: the kernel's trap is the floor.
 *
 *	probe_cost [-j] [-r ROUNDS] [-n CALLS/10000] [-e ENGINE] [-d] [-w WAY] -- PYTHON cost_target.py
 *
 * One Python process runs the same loop again and again while the probes change, so that noise and
 * the layout of memory are the same for all ways; each round has every way once. Time is the CPU time
 * of the thread (CLOCK_THREAD_CPUTIME_ID), which contains its traps and not what others run. The
 * Python runs on CPU 1, this program, which reads the rings meanwhile as `pyebpf trace` does, on CPU 0.
 *
 * The real programs work only together (an exit is known by its entry), so the share of each is
 * taken from the kernel's run-time statistics (BPF_STATS_RUN_TIME) in runs of their own: the
 * difference between real and empty programs, split as the statistics say.
 *
 * -d reads the rings after a run and not meanwhile; -w runs one way only (its number in way_names),
 * to be looked at with perf: perf record -e cpu-clock -C 1.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "capture/cap_bpf.h"
#include "empty_probes.h"

#define ROUNDS_MAX 200
#define CPU_TARGET 1
#define CPU_READER 0

enum way {
	WAY_NONE,
	WAY_EMPTY_ENTRY,
	WAY_EMPTY_EXIT,
	WAY_EMPTY,
	WAY_EMPTY_SLEEPABLE,
	WAY_REAL,
	WAY_EMPTY_STATS,
	WAY_REAL_STATS,
	WAY_CNT
};

static const char *const way_names[] = { "none",
					 "empty entry",
					 "empty exit",
					 "empty both",
					 "empty both, sleepable",
					 "real",
					 "empty both, statistics",
					 "real, statistics" };

struct target {
	pid_t pid;
	FILE *in, *out;
	struct interp interp;
};

/* ns and hits of the programs of one family, as the kernel's statistics have them */
struct prog_stats {
	uint64_t ns[2], hits[2]; /* entry, exit */
};

struct bench {
	struct target target;
	struct cap_bpf *cap;
	int empty[2], empty_sleepable; /* program per family, so that each has its statistics */
	unsigned int rounds, loops;
	bool json, drain_after;
	int only; /* one way, or -1 */
	double ns[WAY_CNT][ROUNDS_MAX]; /* per call */
	double stats[2][2][ROUNDS_MAX]; /* empty and real; entry and exit: ns per hit */
	uint64_t events;
};

static int fail(const char *what, int err)
{
	fprintf(stderr, "probe_cost: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

/* This process on one CPU, before whatever else runs on a shared machine. */
static void pin(int cpu)
{
	FILE *group;
	cpu_set_t set;

	setsid(); /* so that its scheduling group is its own */
	setpriority(PRIO_PROCESS, 0, -20);
	group = fopen("/proc/self/autogroup", "we");
	if (group) {
		fputs("-20", group);
		fclose(group);
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* on one CPU: as it is */
}

static int start_target(struct target *t, char **argv)
{
	int to[2], from[2];
	char line[64];

	if (pipe(to) || pipe(from))
		return -errno;
	t->pid = fork();
	if (t->pid < 0)
		return -errno;
	if (!t->pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[0]), close(to[1]), close(from[0]), close(from[1]);
		pin(CPU_TARGET);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	t->in = fdopen(to[1], "w");
	t->out = fdopen(from[0], "r");
	if (!t->in || !t->out)
		return -ENOMEM;
	setvbuf(t->out, NULL, _IONBF, 0);
	return fgets(line, sizeof(line), t->out) && !strcmp(line, "ready\n") ? 0 : -EPROTO;
}

static uint64_t drain(struct cap_bpf *cap)
{
	struct capture_batch batch;
	uint64_t events = 0;
	uint32_t len;

	while (cap_bpf_ops.next(cap, &batch) > 0) {
		const struct pye_head *head;
		size_t at = 0;

		while ((head = capture_record(&batch, &at, &len)))
			events += head->kind == PYE_REC_ENTRY || head->kind == PYE_REC_EXIT;
	}
	return events;
}

/* CPU time of one run, in ns; 0 when the target is gone. */
static uint64_t run_target(struct bench *b, unsigned int loops, bool read_rings)
{
	struct pollfd fd = { .fd = fileno(b->target.out), .events = POLLIN };
	char line[64];

	fprintf(b->target.in, "%u\n", loops);
	fflush(b->target.in);
	while (read_rings && !b->drain_after && !poll(&fd, 1, 5))
		b->events += drain(b->cap);
	if (!fgets(line, sizeof(line), b->target.out))
		return 0;
	if (read_rings)
		b->events += drain(b->cap);
	return strtoull(line, NULL, 10);
}

/* The statistics of our own programs: found among our descriptors, since other users of BPF have
 * programs of the same names. */
static void read_stats(struct prog_stats *out, bool real)
{
	static const char *const entries[] = { "probe_resume", "probe_eval_ent", "probe_usdt_ent",
					       "bench_entry" };
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;

	memset(out, 0, sizeof(*out));
	while (dir && (d = readdir(dir))) {
		struct bpf_prog_info info = { 0 };
		__u32 len = sizeof(info);
		char link[64], path[300];
		bool is_entry = false;
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", d->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n < 0 || (link[n] = '\0', !strstr(link, "bpf-prog")))
			continue;
		if (bpf_obj_get_info_by_fd((int)strtol(d->d_name, NULL, 10), &info, &len))
			continue;
		if (strncmp(info.name, real ? "probe_" : "bench_", 6) != 0 ||
		    !strncmp(info.name, "probe_code", 10))
			continue;
		for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
			is_entry |= !strncmp(info.name, entries[i], strlen(entries[i]));
		out->ns[!is_entry] += info.run_time_ns;
		out->hits[!is_entry] += info.run_cnt;
	}
	if (dir)
		closedir(dir);
}

static int attach_way(struct bench *b, enum way way, int fds[2], struct err *e)
{
	const struct interp *in = &b->target.interp;
	enum probe_family first = FAMILY_BOTH;

	fds[0] = fds[1] = -1;
	switch (way) {
	case WAY_REAL:
	case WAY_REAL_STATS:
		return cap_bpf__attach(b->cap, in, b->target.pid, false, e);
	case WAY_EMPTY_ENTRY:
		first = FAMILY_ENTRY;
		break;
	case WAY_EMPTY_EXIT:
		first = FAMILY_EXIT;
		break;
	case WAY_EMPTY_STATS:
	case WAY_EMPTY:
		fds[1] = empty_attach(b->empty[1], &in->plan, in->open_path, FAMILY_EXIT,
				      b->target.pid);
		first = FAMILY_ENTRY;
		break;
	case WAY_EMPTY_SLEEPABLE:
		fds[0] = empty_attach(b->empty_sleepable, &in->plan, in->open_path, FAMILY_BOTH,
				      b->target.pid);
		return fds[0] < 0 ? fds[0] : 0;
	default:
		return 0;
	}
	fds[0] = empty_attach(b->empty[first == FAMILY_EXIT], &in->plan, in->open_path, first,
			      b->target.pid);
	return fds[0] < 0 ? fds[0] : 0;
}

static int measure(struct bench *b, enum way way, unsigned int round)
{
	bool stats = way == WAY_EMPTY_STATS || way == WAY_REAL_STATS;
	bool real = way == WAY_REAL || way == WAY_REAL_STATS;
	int fds[2], stats_fd = -1, err;
	struct prog_stats before, after;
	struct err e = { 0 };
	uint64_t ns;

	err = attach_way(b, way, fds, &e);
	if (err)
		return fail(e.what[0] ? e.what : way_names[way], err);
	if (stats)
		stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	run_target(b, 2, real); /* names, first walk, page faults */
	read_stats(&before, real);
	ns = run_target(b, b->loops, real);
	read_stats(&after, real);
	if (stats_fd >= 0)
		close(stats_fd);
	if (real)
		cap_bpf__detach(b->cap);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (!ns)
		return fail("the target ended", EPIPE);
	b->ns[way][round] = (double)ns / (b->loops * 10000.0);
	for (int i = 0; stats && i < 2; i++)
		b->stats[real][i][round] = (double)(after.ns[i] - before.ns[i]) /
					   (double)(after.hits[i] - before.hits[i] ?: 1);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *values, unsigned int cnt, double q)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, cnt * sizeof(*values));
	qsort(sorted, cnt, sizeof(*sorted), by_value);
	return sorted[(unsigned int)(q * (cnt - 1) + 0.5)];
}

/* Floors and costs come from differences inside a round; the median is taken last. */
static void report(struct bench *b, const char *version)
{
	static const char *const families[] = { "entry", "exit" };
	double floor[2][ROUNDS_MAX], extra[2][ROUNDS_MAX], ratio[3][ROUNDS_MAX];
	unsigned int n = b->rounds;
	double median_floor[2], median_extra[2];

	for (unsigned int i = 0; i < n; i++) {
		double more = b->ns[WAY_REAL][i] - b->ns[WAY_EMPTY][i];
		double of_entry = b->stats[1][0][i] - b->stats[0][0][i];
		double of_exit = b->stats[1][1][i] - b->stats[0][1][i];
		double share = of_entry / (of_entry + of_exit);
		double both = b->ns[WAY_EMPTY][i] - b->ns[WAY_NONE][i];

		floor[0][i] = b->ns[WAY_EMPTY_ENTRY][i] - b->ns[WAY_NONE][i];
		floor[1][i] = b->ns[WAY_EMPTY_EXIT][i] - b->ns[WAY_NONE][i];
		extra[0][i] = more * share;
		extra[1][i] = more * (1 - share);
		ratio[0][i] = (floor[0][i] + extra[0][i]) / floor[0][i];
		ratio[1][i] = (floor[1][i] + extra[1][i]) / floor[1][i];
		ratio[2][i] = (both + more) / both;
	}
	for (int f = 0; f < 2; f++) {
		median_floor[f] = quantile(floor[f], n, 0.5);
		median_extra[f] = quantile(extra[f], n, 0.5);
	}
	if (b->json) {
		printf("{\"python\": \"%s\", \"rounds\": %u", version, n);
		for (int f = 0; f < 2; f++)
			printf(", \"%s\": {\"empty_ns\": %.0f, \"empty_p10_ns\": %.0f, \"added_ns\": %.0f, "
			       "\"ratio\": %.3f, \"ratio_p10\": %.3f, \"ratio_p90\": %.3f, "
			       "\"program_ns\": %.0f}",
			       families[f], median_floor[f], quantile(floor[f], n, 0.1),
			       median_extra[f], quantile(ratio[f], n, 0.5),
			       quantile(ratio[f], n, 0.1), quantile(ratio[f], n, 0.9),
			       quantile(b->stats[1][f], n, 0.5) - quantile(b->stats[0][f], n, 0.5));
		printf(", \"both_ratio\": %.3f}\n", quantile(ratio[2], n, 0.5));
		return;
	}
	printf("%s, %u rounds of %u calls, ns per call (median, p10):\n", version, n,
	       b->loops * 10000);
	for (int w = 0; w < WAY_CNT; w++)
		printf("  %-24s %8.1f %8.1f\n", way_names[w], quantile(b->ns[w], n, 0.5),
		       quantile(b->ns[w], n, 0.1));
	for (int f = 0; f < 2; f++)
		printf("  %-6s empty %5.0f ns, adds %4.0f ns, ratio %.2f (p10 %.2f, p90 %.2f); "
		       "programs alone: empty %.0f, real %.0f ns\n",
		       families[f], median_floor[f], median_extra[f], quantile(ratio[f], n, 0.5),
		       quantile(ratio[f], n, 0.1), quantile(ratio[f], n, 0.9),
		       quantile(b->stats[0][f], n, 0.5), quantile(b->stats[1][f], n, 0.5));
	printf("  both   ratio %.2f; %llu events read\n", quantile(ratio[2], n, 0.5),
	       (unsigned long long)b->events);
}

static int set_up(struct bench *b, char **argv, const char *engine)
{
	struct cap_bpf_opts opts = { .families = BPF_ALL };
	struct err e = { 0 };
	uint32_t pix;
	int err = start_target(&b->target, argv);

	if (err)
		return fail("the target did not start", err);
	pin(CPU_READER);
	err = interp__find(b->target.pid, engine, &b->target.interp, &e);
	if (!err)
		err = cap_bpf__new(&b->cap, &opts, &e);
	if (err)
		return fail(e.what, err);
	if (!cap_bpf__per_process(b->cap))
		return fail("no uprobe_multi links for one process", ENOTSUP);
	b->empty[0] = empty_program("bench_entry", false);
	b->empty[1] = empty_program("bench_exit", false);
	b->empty_sleepable = empty_program("benchs", true);
	if (b->empty[0] < 0 || b->empty[1] < 0 || b->empty_sleepable < 0)
		return fail("an empty program", EINVAL);
	err = cap_bpf__trace(b->cap, b->target.pid, &b->target.interp, 0, &pix);
	return err ? fail("the process", err) : 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: probe_cost [-j] [-d] [-r ROUNDS] [-n CALLS/10000] [-e ENGINE] [-w WAY] "
		"-- PYTHON cost_target.py\n");
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench b = { .rounds = 9, .loops = 15, .only = -1 };
	const char *engine = "auto";
	int c, err;

	while ((c = getopt(argc, argv, "+jdr:n:e:w:")) != -1) {
		if (c == 'j')
			b.json = true;
		else if (c == 'd')
			b.drain_after = true;
		else if (c == 'r')
			b.rounds = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'n')
			b.loops = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'e')
			engine = optarg;
		else if (c == 'w')
			b.only = (int)strtol(optarg, NULL, 10);
		else
			return usage();
	}
	if (optind == argc || !b.rounds || b.rounds > ROUNDS_MAX || !b.loops)
		return usage();
	err = set_up(&b, argv + optind, engine);
	for (unsigned int round = 0; !err && round < b.rounds; round++)
		for (int way = 0; !err && way < WAY_CNT; way++)
			if (b.only < 0 || b.only == (int)((way + round) % WAY_CNT))
				err = measure(&b, (enum way)((way + round) % WAY_CNT), round);
	if (!err && b.only < 0)
		report(&b, b.target.interp.version);
	cap_bpf__free(b.cap);
	interp__done(&b.target.interp);
	if (b.target.pid > 0) {
		kill(b.target.pid, SIGTERM);
		waitpid(b.target.pid, NULL, 0);
	}
	return err;
}
