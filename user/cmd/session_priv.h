/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by session.c (set-up, loop, end) and targets.c (processes that come and go). */
#ifndef PYEBPF_CMD_SESSION_PRIV_H
#define PYEBPF_CMD_SESSION_PRIV_H

#include "assemble/assemble.h"
#include "base/clock.h"
#include "capture/cap_bpf.h"
#include "capture/launch.h"
#include "capture/replay.h"
#include "cmd/budget.h"
#include "cmd/session.h"
#include "cpython/interp.h"
#include "proc/pid.h"

struct exec_file;
struct idle_before;
struct proc_info;
struct selection;

/* A process that was asked for, or a child of one. */
struct target {
	struct proc_pid pid;
	uint32_t pix; /* 0: no interpreter found yet */
	bool asked; /* named by the user or launched: the run ends with the last of these */
	bool ran; /* with -s: descended from one of those, when the run began */
	bool launched; /* held by us */
	bool ended;
	bool settled; /* that is some time ago: all that it did before has been heard of */
	bool late; /* it ran before its probes were in place */
	uint64_t exec_ns; /* when it executed what it runs */
	uint64_t look_cpu_ns; /* CPU time that it had used then */
	uint64_t look_until_ns; /* it executed something: look for an interpreter until then; or 0 */
	bool awaited; /* that was found: its first recorded call will say so (PYE_REC_RUNS) */
	struct interp in; /* valid when pix is not 0, or before the start with -p */
	bool has_interp;
	bool jit_checked; /* again, after its start-up */
	bool waiters_shown; /* those that waited when it was first looked at */
	struct budget budget;
	uint64_t naming_ns; /* when its threads are looked at next for their names */
	uint64_t tell_ns; /* --thread: when the programs are told next which thread is whose */
	uint8_t told; /* so often */
	struct idle_before *before; /* as read at the attach; NULL: none or shown by now */
};

/* What is known of the interpreters that processes may execute (execs.c). */
struct execs {
	struct interp_cache *cache;
	struct exec_file **files;
	size_t file_cnt;
	unsigned int missed; /* programs that had ended before they could be seen */
};

struct session {
	struct session_opts opts;
	struct cap_bpf *cap;
	struct capw *capw; /* NULL until the first process is recorded */
	struct assembler *as;
	struct symbols *symbols; /* NULL: no native frames are wanted */
	struct target **targets;
	size_t target_cnt;
	struct execs execs;
	struct selection *selection; /* of processes that are not named; NULL: none */
	struct launch launch;
	int fd; /* of the capture */
	FILE *record; /* of the rings, or NULL */
	int signal_fd, epoll_fd;
	uint64_t control_cnt; /* records of processes so far */
	uint64_t names_ns; /* with poll_ms: when threads are looked at next for their names */
	uint64_t news, news_ns; /* samples: so much was new when, to tell whether more is */
	uint64_t start_ns;
	uint64_t detached_ns; /* when the probes were taken out */
	int64_t start_unix_ns;
	char comm[64]; /* of the first process recorded */
	unsigned int interrupts; /* INT, TERM or HUP seen */
	struct limits_run kept;
	uint64_t windows_cnt, off_ns; /* --max-overhead: probes switched off so often, so long */
	uint64_t look_next_ns; /* at the ends of processes that nobody named */
	uint64_t drained_cnt; /* --max-overhead: how often the rings were empty */
	uint64_t live_next; /* --latency: when it is shown again */
	unsigned int live_lines; /* that it takes now */
	bool child_reaped;
	bool released; /* nobody is held or taken in any more */
	int child_status;
	int refused; /* error that ends the run: the launched program cannot be traced */
	struct err refusal;
};

/* session_totals - the counters so far. session_flush - what was read by now is a chunk. */
void session_totals(const struct session *s, uint64_t now, struct trace_totals *out);
void session_flush(struct session *s, uint64_t now);

/* session_open_capture - begin the capture file; @plan: of the first process. */
int session_open_capture(struct session *s, const struct probe_plan *plan);

/* session_record - keep an item for a replay, where that was asked for. */
void session_record(struct session *s, const struct replay_item *item, const void *data);

/* target_add - a process by its pid; NULL with the sentence in @e. Owned by the session. */
struct target *target_add(struct session *s, pid_t pid, struct err *e);

/* target_by_pid - the latest of that number, also when it has ended; NULL: none */
struct target *target_by_pid(struct session *s, pid_t pid);

/* target_tell - tell the kernel side and the assembler of it; it has no probes yet. */
int target_tell(struct session *s, struct target *t, struct err *e);

/* session_tell - a process for the assembler, and for a replay. */
int session_tell(struct session *s, const struct assembler_process *p);

/* session_forked - a child of a process that is recorded, or what it has executed. */
void session_forked(struct session *s, const struct assembler_child *child);

/* target_vet - for samples: does a stack of it look as its interpreter is known? The reason is in @e. */
int target_vet(const struct session *s, const struct target *t, struct err *e);

/* target_start - record it: its interpreter is in t->in. target_attach - its probes, where it is known by now. */
int target_start(struct session *s, struct target *t, struct err *e);
int target_attach(struct session *s, struct target *t, struct err *e);

/* target_describe - what the assembler is told of it; @info and @python hold the text. */

void target_describe(struct session *s, const struct target *t, struct assembler_process *p,
		     struct proc_info *info, char *python, size_t size);

/* execs_executed, execs_runs - what the kernel side says of a process. execs_look - at those whose program is not
 * known yet. execs_ended - the program has, or the process. */
void execs_executed(struct session *s, const struct pye_proc_rec *rec);
/* execs_look_from - look for the interpreter of a process that runs what it runs since then. */
void execs_look_from(struct target *t, uint64_t ts_ns);
void execs_runs(struct session *s, const struct pye_proc_rec *rec);
void execs_look(struct session *s);
void execs_ended(struct session *s, struct target *t);

/* execs_know - this file has probes now; 0 or -ENOMEM. execs_same_file - a process runs it: is it the one that it ran
 * before? Else what does not fit any more is forgotten. */
int execs_know(struct session *s, const struct interp *in);
bool execs_same_file(struct session *s, struct target *t, const struct interp *in);

/* execs_report - on stderr, what was executed and not seen. */
void execs_report(const struct session *s);
void execs_free(struct session *s);

/* targets_control - handle what the kernel said about processes; 0 or a negative number. */
int targets_control(struct session *s);

/* targets_release - nobody is held or stopped from here on, whatever the session ends with. */
void targets_release(struct session *s);

/* targets_check_jit - a launched interpreter has started: does a JIT run past the probes? 0 or the
 * refusal, which is left in the session. */
int targets_check_jit(struct session *s);

/* targets_alive - any of those that were asked for? Looks at their pidfds. */
bool targets_alive(struct session *s);
void targets_free(struct session *s);

/* session_drop - give up what is not needed once the probes are in place; 0 or a negative errno. */
int session_drop(const struct session *s, struct err *e);

/* idle_begin - read the stacks at the attach; idle_show - a second later, show those of threads that
 * have not moved; idle_free - forget them. */
void idle_begin(struct target *t);
void idle_show(struct session *s);
void idle_free(struct target *t);

/* native_begin - samples: read what native frames need, while there are privileges. 0 or an error with its
 * sentence. native_report - how many native stacks were cut, on stderr. */
int native_begin(struct session *s, struct err *e);
void native_report(const struct session *s);

/* native_loop - where an interpreter's loop lies, by its probe plan. */
void native_loop(const struct interp *in, struct assembler_loop *out);

/* waiting_show - samples: show the threads that have waited all the time. waiting_look - those of targets
 * that were not looked at yet. */
void waiting_show(struct session *s);
void waiting_look(struct session *s);

#endif
