// SPDX-License-Identifier: Apache-2.0
/*
 * read_stacks PID: what walk_outside() and code_read() say of a process, for tests/e2e. A line per
 * thread: "thread ID NATIVE_ID STATUS"; below it a line per frame, innermost first: "frame LINE NAME
 * QUALNAME FILE", the texts in hex.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "cpython/walk_outside.h"
#include "proc/mem.h"

static void put_hex(const char *text)
{
	putchar(' ');
	if (!*text)
		putchar('-');
	for (; *text; text++)
		printf("%02x", (unsigned char)*text);
}

static int put_frame(const struct proc_mem *mem, const struct interp *in, uint64_t code)
{
	struct code_names names;
	int err = code_read(mem, &in->layout, code, &names);

	if (err)
		return err;
	printf("frame %d", names.firstlineno);
	put_hex(names.name);
	put_hex(names.qualname);
	put_hex(names.filename);
	putchar('\n');
	return 0;
}

static int put_stacks(const struct proc_mem *mem, const struct interp *in)
{
	struct outside_stacks stacks;
	int err = walk_outside(mem, in, &stacks);

	if (err)
		return err;
	for (size_t i = 0; i < stacks.cnt && !err; i++) {
		const struct outside_thread *t = &stacks.threads[i];

		printf("thread %llu %d %d\n", (unsigned long long)t->thread_id, t->native_id,
		       t->status);
		for (uint32_t f = 0; f < t->frame_cnt && !err; f++)
			err = put_frame(mem, in, t->frames[f].code);
	}
	outside_stacks__done(&stacks);
	return err;
}

int main(int argc, char **argv)
{
	struct interp *in = calloc(1, sizeof(*in));
	struct err e = { 0 };
	struct proc_mem mem;
	pid_t pid = argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	int err;

	if (!in || !pid)
		return 2;
	err = interp__find(pid, "auto", in, &e);
	if (!err) {
		err = proc_mem__open(pid, &mem);
		if (!err) {
			err = put_stacks(&mem, in);
			proc_mem__close(&mem);
		}
		interp__done(in);
	}
	free(in);
	if (err)
		fprintf(stderr, "read_stacks: %s: %s\n", err_str(err), e.what);
	return err ? 1 : 0;
}
