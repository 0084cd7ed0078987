/* SPDX-License-Identifier: Apache-2.0 */
/* What `dump` has read of a process, for people and for programs. Names are read while it is shown. */
#ifndef PYEBPF_CMD_DUMP_SHOW_H
#define PYEBPF_CMD_DUMP_SHOW_H

#include "cpython/thread_names.h"
#include "cpython/wait_outside.h"
#include "cpython/walk_outside.h"
#include "proc/info.h"
#include "proc/mem.h"

struct interp;
struct outbuf;
struct proc_pid;

struct dump_reading {
	struct outside_stacks stacks;
	struct outside_waits waits; /* of the threads of stacks */
};

struct dump_process {
	const struct proc_pid *pid;
	const struct interp *in;
	struct proc_mem mem;
	struct proc_info info; /* zero where it could not be read */
	struct dump_reading reading;
	struct thread_names
		names; /* what the program calls its threads; those of the first interpreter */
};

/* dump__text - a paragraph for each thread, innermost frame first */
void dump__text(const struct dump_process *p, struct outbuf *b);

/* dump__json - an object, without a newline; stacks from the root on */
void dump__json(const struct dump_process *p, struct outbuf *b);

#endif
