// SPDX-License-Identifier: Apache-2.0
/*
 * Loads the BPF programs as `trace` does and prints a line for each: name, instructions, instructions
 * that the verifier went through, bytes of stack as the oldest kernels count them. With --classic as on
 * the oldest kernel.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "capture/bpf_load.h"
#include "trace.skel.h"

#define FUNCTIONS_MAX 64
#define ROUND	      32 /* what a function's stack counts for, to Linux 6.7 */

struct functions {
	size_t cnt;
	int start[FUNCTIONS_MAX]; /* first instruction, ascending */
	int used[FUNCTIONS_MAX], deepest[FUNCTIONS_MAX];
};

/* The instruction that a call, or a pointer to a function, leads to; -1: it is neither. */
static int target_of(const struct bpf_insn *insns, int at)
{
	const struct bpf_insn *i = &insns[at];

	if ((i->code == (BPF_JMP | BPF_CALL) && i->src_reg == BPF_PSEUDO_CALL) ||
	    (i->code == (BPF_LD | BPF_DW | BPF_IMM) && i->src_reg == BPF_PSEUDO_FUNC))
		return at + i->imm + 1;
	return -1;
}

static void add_function(struct functions *f, int start)
{
	size_t at = 0;

	while (at < f->cnt && f->start[at] < start)
		at++;
	if ((at < f->cnt && f->start[at] == start) || f->cnt == FUNCTIONS_MAX)
		return;
	memmove(&f->start[at + 1], &f->start[at], (f->cnt - at) * sizeof(f->start[0]));
	f->start[at] = start;
	f->cnt++;
}

/* How far below the frame pointer an instruction reaches: it reads or writes there, or takes an address. */
static int reach(const struct bpf_insn *insns, int at)
{
	const struct bpf_insn *i = &insns[at];
	int kind = BPF_CLASS(i->code);

	if (((kind == BPF_ST || kind == BPF_STX) && i->dst_reg == BPF_REG_10) ||
	    (kind == BPF_LDX && i->src_reg == BPF_REG_10))
		return -i->off;
	if (at && i->code == (BPF_ALU64 | BPF_ADD | BPF_K) &&
	    insns[at - 1].code == (BPF_ALU64 | BPF_MOV | BPF_X) &&
	    insns[at - 1].src_reg == BPF_REG_10 && insns[at - 1].dst_reg == i->dst_reg)
		return -i->imm;
	return 0;
}

static int end_of(const struct functions *f, size_t which, int cnt)
{
	return which + 1 < f->cnt ? f->start[which + 1] : cnt;
}

static int deepest(struct functions *f, const struct bpf_insn *insns, int cnt, size_t which)
{
	int most = 0;

	if (f->deepest[which])
		return f->deepest[which];
	for (int i = f->start[which]; i < end_of(f, which, cnt); i++) {
		int to = target_of(insns, i), depth = 0;

		for (size_t k = 0; to >= 0 && k < f->cnt; k++)
			if (f->start[k] == to)
				depth = deepest(f, insns, cnt, k);
		most = depth > most ? depth : most;
	}
	f->deepest[which] =
		most + (f->used[which] ? (f->used[which] + ROUND - 1) / ROUND * ROUND : ROUND);
	return f->deepest[which];
}

/* Bytes of stack in the deepest chain of calls. */
static int stack_of(const struct bpf_program *prog)
{
	const struct bpf_insn *insns = bpf_program__insns(prog);
	int cnt = (int)bpf_program__insn_cnt(prog);
	struct functions f = { .cnt = 1 };

	for (int i = 0; i < cnt; i++)
		if (target_of(insns, i) >= 0)
			add_function(&f, target_of(insns, i));
	for (size_t k = 0; k < f.cnt; k++)
		for (int i = f.start[k]; i < end_of(&f, k, cnt); i++)
			if (reach(insns, i) > f.used[k])
				f.used[k] = reach(insns, i);
	return deepest(&f, insns, cnt, 0);
}

/* Those that this way of loading has. */
static int print_program(const struct bpf_program *prog)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len)) {
		fprintf(stderr, "%s is not loaded\n", bpf_program__name(prog));
		return 1;
	}
	printf("%s %zu %u %d\n", bpf_program__name(prog), bpf_program__insn_cnt(prog),
	       info.verified_insns, stack_of(prog));
	return 0;
}

/* The probes, or what samples without what both have. */
static int load(struct bpf_load_opts *opts, bool sampling)
{
	struct bpf_program *prog;
	struct bpf_loaded b;
	struct err e = { 0 };
	int failed = 0;

	opts->sample_ns = sampling ? 1000000 : 0;
	opts->off_cpu = sampling;
	if (bpf_load(&b, opts, &e)) {
		fprintf(stderr, "%s\n", e.what);
		return 1;
	}
	if (!sampling)
		printf("# multi %d per_process %d sleepable %d\n", b.multi, b.per_process,
		       b.sleepable);
	bpf_object__for_each_program(prog, b.skel->obj)
	{
		const char *section = bpf_program__section_name(prog);
		const char *name = bpf_program__name(prog);
		bool samples = !strcmp(name, "list_waiting") || !strcmp(name, "send_kept") ||
			       !strcmp(name, "find_inode") ||
			       !strcmp(name, "sample_code_dealloc") ||
			       !strcmp(name, "on_executed") || !strcmp(section, "perf_event") ||
			       !strcmp(section, "tp_btf/sched_switch");

		if (samples == sampling) /* those of both ways are with the probes */
			failed |= print_program(prog);
	}
	bpf_unload(&b);
	return failed;
}

/* Each in a process of its own: libbpf before 1.3 cannot take in handlers of programs twice. */
int main(int argc, char **argv)
{
	struct bpf_load_opts opts = {
		.ring_bytes = 4 << 20,
		.families = BPF_ALL,
		.launch = true,
		.select = true,
		.filter = { .by = UINT32_MAX,
			    .thread = "pool-a name of more than *fifteen* bytes?",
			    .function = "f",
			    .function_len = 1 },
		.force_classic = argc > 1 && !strcmp(argv[1], "--classic")
	};
	int failed = 0, status;

	for (int sampling = 0; sampling <= 1; sampling++) {
		pid_t pid = fork();

		if (!pid) {
			failed = load(&opts, sampling);
			fflush(stdout);
			_exit(failed);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			failed = 1;
	}
	return failed;
}
