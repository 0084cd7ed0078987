// SPDX-License-Identifier: Apache-2.0
/*
 * Loads the BPF programs as `trace` does and prints a line for each: name, instructions, instructions
 * that the verifier went through, bytes of machine code. With --classic as on the oldest kernel.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "capture/bpf_load.h"
#include "trace.skel.h"

static int print_program(const struct bpf_program *prog)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_program__fd(prog) < 0 ||
	    bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len)) {
		fprintf(stderr, "%s is not loaded\n", bpf_program__name(prog));
		return 1;
	}
	printf("%s %zu %u %u\n", bpf_program__name(prog), bpf_program__insn_cnt(prog),
	       info.verified_insns, info.jited_prog_len);
	return 0;
}

int main(int argc, char **argv)
{
	struct bpf_load_opts opts = { .ring_bytes = 4 << 20,
				      .launch = true,
				      .force_classic = argc > 1 && !strcmp(argv[1], "--classic") };
	struct bpf_program *prog;
	struct bpf_loaded b;
	struct err e = { 0 };
	int failed = 0;

	if (bpf_load(&b, &opts, &e)) {
		fprintf(stderr, "%s\n", e.what);
		return 1;
	}
	printf("# multi %d per_process %d sleepable %d\n", b.multi, b.per_process, b.sleepable);
	bpf_object__for_each_program(prog, b.skel->obj) failed |= print_program(prog);
	bpf_unload(&b);
	return failed;
}
