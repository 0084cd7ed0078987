/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of `trace`: the targets, the kernel side, the capture file, and the loop that moves records
 * from the one to the other until something ends it.
 */
#ifndef PYEBPF_CMD_SESSION_H
#define PYEBPF_CMD_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cmd/filters.h"
#include "cmd/limits.h"
#include "profile/trace.h"

struct session;
struct select_args;

/* Hears of each process when it is taken in, by its id in the capture. */
struct session_seen {
	void *ctx;
	/* @pid: as /proc shows it; -1 when it has ended by now */
	void (*process)(void *ctx, const struct trace_process *process, pid_t pid);
	/* a child, or what a process has executed: so far it is like the other one */
	void (*forked)(void *ctx, uint32_t from, uint32_t process, pid_t pid);
};

/* Somebody who looks at a run while it goes on; with limits.keep_ns, which says how much he sees. */
struct session_view {
	void *ctx;
	int fd; /* of his input; -1: none */
	uint64_t every_ns;
	/* there is input. 0, or 1: the run ends */
	int (*input)(void *ctx);
	/* a look at what is kept; @w: NULL while there is nothing. 0, 1 as above, or an error */
	int (*show)(void *ctx, struct capw *w, uint64_t now_ns);
};

/* Somebody whose work goes on beside a run. */
struct session_side {
	void *ctx;
	int fd; /* the loop wakes up when it is readable; -1: none */
	bool (*signal)(void *ctx, int signo); /* true: it was meant for him, the run goes on */
	void (*tick)(void *ctx, uint64_t now_ns); /* after each look at the rings */
};

struct session_opts {
	const char *engine; /* "auto", "uprobe", "usdt", "inline" */
	const pid_t *pids; /* in our pid namespace */
	size_t pid_cnt;
	const struct select_args *select; /* processes that are not named; NULL = none */
	char *const *command; /* or this, NULL-terminated; NULL = none */
	bool as_root;
	bool subprocesses;
	uint64_t duration_ns; /* 0 = no end */
	struct limit_opts limits;
	struct filter_opts filter;
	const struct session_view *view; /* NULL: nobody looks */
	const struct session_side *side; /* or NULL */
	struct limit_files files; /* called where limits want more than one */
	struct session_seen seen; /* members may be NULL */
	size_t ring_bytes; /* 0 = the default */
	uint64_t sample_ns; /* samples, so long apart on each CPU; 0 = calls and returns */
	int poll_ms; /* between two looks at the rings, when samples are few; 0 = the default */
	bool on_cpu, off_cpu; /* of threads that run, of threads that wait */
	uint64_t wait_min_ns; /* off_cpu: shorter waits are counted and left out */
	uint32_t max_cpu_pct; /* of one CPU, for all of a sampling run; 0 = no limit */
	double keep_least; /* of all samples so many are taken in any case; 0 = the least there is */
	bool gil_only; /* of these those that hold the interpreter's lock */
	uint32_t native; /* with their native frames: PYE_TAKE_* of abi/sample.h */
	bool force_classic;
	uint64_t table_max; /* for tests, as in capture/cap_bpf.h */
	const char *record_rings; /* file for capture/replay.h, or NULL */
	bool wait_when_full; /* inline: a full ring makes the target wait, else events are lost */
	bool quiet;
	const char *arguments; /* our command line, for the capture */
};

/* What ended a run, and what came of it. */
struct session_result {
	struct trace_totals totals;
	uint64_t duration_ns;
	char comm[64]; /* of the first target, for the file's name */
	pid_t pid;
	int64_t start_unix_ns;
	int child_status; /* of waitpid(), with a command */
	unsigned int interrupts; /* how often it was asked to end: by Ctrl-C, say */
};

/* What a sampling run takes and does, so far. */
struct session_load {
	uint64_t bpf_ns; /* in the sampling programs; with max_cpu_pct only */
	uint64_t samples, skipped; /* taken, left out for max_cpu_pct */
	uint64_t unwanted; /* ticks in processes that session__want() leaves out */
	uint64_t short_waits, short_waits_ns; /* below wait_min_ns, and their time */
	uint64_t no_state, faults,
		deep; /* samples without a Python stack, cut ones, shortened ones */
	uint64_t lost[LOSS_CNT];
	double keep; /* of all samples so many are taken now, 0 to 1 */
	unsigned int backlog_pct; /* of the fullest ring */
};

void session__load(const struct session *s, struct session_load *out);

/* session__limit - max_cpu_pct from now on, where it was not 0; 0: nothing is sampled until it is called again. */
void session__limit(struct session *s, uint32_t max_cpu_pct);

/* session__wait_min - another wait_min_ns from now on. */
void session__wait_min(struct session *s, uint64_t ns);

/* session__want - is a process to be sampled, by its id in the capture and its pid? One that executes something is again. */
void session__want(struct session *s, uint32_t process, pid_t pid, bool wanted);

/* session__beside - CPU time so far of other processes that max_cpu_pct is for, too; it only grows. */
void session__beside(struct session *s, uint64_t cpu_ns);

/**
 * session__new - find the targets and load the kernel side; nothing is traced yet
 *
 * Return: 0, or a negative number with the sentence in @e.
 */
int session__new(struct session **out, const struct session_opts *opts, struct err *e);

/**
 * session__run - trace until the targets end, time or events are up, or a signal comes
 * @fd: where the capture is written; borrowed
 *
 * Return: 0 with @result filled, or a negative number; with a command the child has ended then or
 * goes on untraced.
 */
int session__run(struct session *s, int fd, struct session_result *result, struct err *e);
void session__free(struct session *s);

static inline void session__freep(struct session **s)
{
	session__free(*s);
}

#endif
