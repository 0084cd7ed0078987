/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of processes that are not named: all of the machine, those of a name, a cgroup or a container,
 * and whoever comes later. The probes are for everybody in a file; the programs take a chosen process
 * in by its first call (bpf/select.bpf.c). Here the files are found: those that chosen processes use
 * at the start, and those that they execute later.
 */
#ifndef PYEBPF_CMD_SELECT_H
#define PYEBPF_CMD_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/event.h"
#include "base/err.h"
#include "cmd/options.h"

#define SELECT_ARGS_MAX 16

struct interp;
struct session;
struct target;

struct select_list {
	const char *items[SELECT_ARGS_MAX]; /* borrowed from argv */
	size_t cnt;
};

/* The options, a group of their own. */
struct select_args {
	bool all, host_wide;
	struct select_list comms, cgroups, containers,
		pods; /* with pods, containers are names in these */
};

extern const struct opt_row select_rows[];
extern const struct opt_row select_container_rows[]; /* --container and --pod only */

/* select_any - does it choose anybody who is not named? */
bool select_any(const struct select_args *args);

/**
 * select_container_pids - the processes that containers and pods have now, by those two options
 * @out: ascending, each once; owned (free)
 *
 * Return: 0; -PYE_EUSAGE, -PYE_ETARGET, -PYE_EKERNEL with a sentence; -ENOMEM.
 */
int select_container_pids(const struct select_args *args, pid_t **out, size_t *cnt, struct err *e);

/* select_check - can these go together, and with these? 0, or the refusal, which is said. */
int select_check(const struct select_args *args, bool pids, const struct opt_rest *rest,
		 const struct opt_command *command);

/* select_new - what the options mean; 0, or a negative number with the sentence in @e. */
int select_new(struct session *s, struct err *e);
void select_free(struct session *s);

/* select_start - trace those that run, named or chosen, and from here on those that come. */
int select_start(struct session *s, struct err *e);

/* Records of the kernel: a process was taken in, executed a program, forked. */
void select_taken(struct session *s, const struct pye_proc_rec *rec);
void select_executed(struct session *s, const struct pye_proc_rec *rec);
void select_forked(struct session *s, const struct pye_proc_rec *rec);

/* select_unlooked - how many have ended that were still to be looked at; to be asked at the end. */
unsigned int select_unlooked(const struct session *s);

/* select_look - have processes mapped an interpreter by now that they did not have at their exec? */
void select_look(struct session *s);

/* select_own_flags - with a budget, of a target of a selection: PYE_PROC_*; else 0. */
uint32_t select_own_flags(const struct session *s, const struct target *t);

/* select_is_open - the run does not end with the processes that it began with. */
bool select_is_open(const struct session *s);

/* select_nothing - the end of a run that saw no Python process: the refusal. */
int select_nothing(const struct session *s, struct err *e);

/* select_say_users - say how many other processes run a file, before it gets probes for everybody. */
void select_say_users(struct session *s, const struct interp *in);

#endif
