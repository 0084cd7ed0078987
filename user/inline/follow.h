/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that stay traced all the time, so that what they fork and execute is seen before it runs. A
 * thread of theirs stops for a moment at each fork, exec, start of a thread, and signal; what is born is
 * traced from its first instruction on. When pyebpf dies the kernel lets all of them go.
 */
#ifndef PYEBPF_INLINE_FOLLOW_H
#define PYEBPF_INLINE_FOLLOW_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct follow;
struct slept;

enum follow_what {
	FOLLOW_BORN, /* a process with memory of its own; its one thread stands still until follow__go() */
	FOLLOW_STOP, /* it executes something, or traps; the same */
	FOLLOW_ENDED, /* reaped; @status of waitpid(), -1: somebody else was told */
};

struct follow_event {
	enum follow_what what;
	pid_t pid;
	int status;
};

/* Whoever has threads do more than run on; a status of waitpid(). */
struct follow_keeper {
	void (*tell)(void *ctx, pid_t tid, int status);
	void *ctx;
};

int follow__new(struct follow **out); /* 0 or -ENOMEM */
void follow__free(struct follow *f); /* all are released first, if they were not */

/* follow__seize - a thread of a process; no more than that: it goes on. 0; -EEXIST: it is already; -errno */
int follow__seize(struct follow *f, pid_t tid, pid_t pid);

/* follow__has - is a process, by its first thread, followed? */
bool follow__has(const struct follow *f, pid_t pid);

/* follow__next - what has happened since; 1, or 0 when that is all. */
int follow__next(struct follow *f, struct follow_event *out);

/* follow__took - for those who wait for a stop of a thread themselves: another one came first, or its end. True
 * when the program that it ran is no more. */
bool follow__took(struct follow *f, pid_t tid, int status);

/* follow__serve_vforked - for those who wait for a stop: children of vfork() go on to what they execute, as no BORN is told of. Their
 * parents, which may be who is waited for, sleep until then. */
void follow__serve_vforked(struct follow *f);

/* follow__serve - for those who wait for something else: nobody is left standing meanwhile but what follow__next() tells of. False: the
 * program that a process ran is no more. */
bool follow__serve(struct follow *f, pid_t pid);

/* follow__runs - is it the one yet, as far as that was seen? */
bool follow__runs(const struct follow *f, pid_t pid);

/* follow__stood - for the same: it has stopped as asked, and goes on by follow__go(). */
void follow__stood(struct follow *f, pid_t tid);

/* follow__go - a thread that stands still goes on, with the rest of its call (rest.h) if it has done a part. @sig: delivered to it; 0: none */
void follow__go(struct follow *f, pid_t tid, int sig);

/* follow__finish - one that has done a part does the rest, and stands still behind it; others are served meanwhile. 0; -EAGAIN: it goes on, and
 * is asked to stop once more, since that takes long or a signal came; -ESRCH: the program that it ran is no more */
int follow__finish(struct follow *f, pid_t tid);

/* follow__is_in_rest - does it do so? Then it is not to be kept. follow__passes - as partial__passes() */
bool follow__is_in_rest(const struct follow *f, pid_t tid);
bool follow__passes(struct follow *f, pid_t tid, int status);

/* follow__watch - from now on each system call of the process's thread is a FOLLOW_STOP. */
void follow__watch(struct follow *f, pid_t pid, bool on);

/* follow__set_keeper - who is told from now on of what is kept; { 0 }: nobody, and nothing is. */
void follow__set_keeper(struct follow *f, const struct follow_keeper *keeper);

/* follow__set_slept - what was seen of threads before they are stopped next; borrowed until it is set anew. NULL: nothing was */
void follow__set_slept(struct follow *f, const struct slept *slept);

/* follow__keep - all that a thread does is told to the keeper, and waits for what that has it do; off: as any other from here on. */
void follow__keep(struct follow *f, pid_t tid, bool on);

/* follow__release - all are let go, with what is born meanwhile; follow__next() still tells of these. Those that do not stop in time are let go later, or
 * when pyebpf ends. For how long one stood still at most, us. */
uint32_t follow__release(struct follow *f);

/* follow__let_late_go - after that: those that did not stop in time, and have by now. False: some have not yet */
bool follow__let_late_go(struct follow *f);

#endif
