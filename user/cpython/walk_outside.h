/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python stacks of a live process, read from outside while it runs on. A thread that runs changes
 * its stack meanwhile, so each stack is read twice and only counts when both reads say the same: then
 * it is that of a thread that waits, or at least one that really was. Everything read is checked and
 * bounded: the memory may be torn or hostile.
 */
#ifndef PYEBPF_CPYTHON_WALK_OUTSIDE_H
#define PYEBPF_CPYTHON_WALK_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTSIDE_FRAMES_MAX  65536u /* per thread */
#define OUTSIDE_FRAMES_ALL  (1u << 20) /* of all threads together, both reads counted */
#define OUTSIDE_THREADS_MAX 65536u
#define OUTSIDE_KNOWN_MIN \
	64u /* frames: below that to ask whether it slept takes as long as to read them */

struct interp;
struct outside_pages;
struct proc_mem;

struct outside_frame {
	uint64_t frame; /* address of the PyFrameObject (to 3.10) or _PyInterpreterFrame */
	uint64_t code; /* address of the code object */
};

enum outside_status {
	OUTSIDE_AGREED, /* both reads were the same */
	OUTSIDE_MOVED, /* they differ, or a frame is being linked: the thread runs. No frames */
	OUTSIDE_BROKEN, /* unreadable, or a cycle: torn or damaged. No frames */
	OUTSIDE_TOO_MUCH, /* OUTSIDE_FRAMES_ALL was used up before. No frames */
};

struct outside_thread {
	uint64_t interp, tstate; /* addresses of its PyInterpreterState and PyThreadState */
	uint64_t thread_id; /* pthread_self(): on x86-64 the thread's fs base */
	/* by walk_outside_held(), when it knows nothing: the word of its state that leads to the innermost frame, UINT64_MAX if that could not
	 * be read, and where that frame is in its code; 0: it has none */
	uint64_t top, at;
	pid_t native_id; /* gettid() as the thread sees it; 0 to 3.10, where it is not kept */
	pid_t tid; /* for whoever has read it, who may know it by another number: 0 */
	enum outside_status status;
	bool truncated; /* the outermost are missing: deeper than OUTSIDE_FRAMES_MAX, or 3.9 does not link them */
	bool known; /* nothing of it was read but before the stop */
	struct outside_frame *frames; /* innermost first; entries from C are left out */
	uint32_t frame_cnt;
};

struct outside_stacks {
	struct outside_thread *threads; /* one per PyThreadState, also those without a frame */
	size_t cnt;
	bool truncated; /* more threads than OUTSIDE_THREADS_MAX, or the list was torn */
};

/**
 * walk_outside - read the stacks of all threads
 * @mem: of the process
 * @in:  its interpreter, as interp__find() gave it
 * @out: release with outside_stacks__done(); written only on success
 *
 * A process before its start-up or after its end has no threads.
 *
 * Return: 0; -ESRCH when the process is gone; -EFAULT when the list of interpreters cannot be read or
 * is not known; -ENOMEM.
 */
int walk_outside(const struct proc_mem *mem, const struct interp *in, struct outside_stacks *out);

/*
 * What was read before the threads were stopped, by walk_outside_held(), too. It holds for all threads but one, where only that one has
 * run Python code since: their states are not even looked at, and their frames are taken out of here. Else for those that slept
 * all the while, where the innermost frames are the same; that counts for stacks of OUTSIDE_KNOWN_MIN frames and more. Of those that were
 * kept from running since before it was read, or have had no CPU since, only the innermost frame is looked at (another thread may run with their states), and all are
 * taken out of here; not where there are several interpreters, whose states are run by whoever comes to 3.11.
 */
struct outside_known {
	struct outside_stacks stacks;
	uint64_t only; /* the state of the one; 0: others may have run */
	bool (*slept)(void *ctx, const struct outside_thread *t); /* one of these */
	bool (*kept)(void *ctx, const struct outside_thread *t); /* NULL: none is */
	bool rehearsed; /* the walk only tells @pages what it needs: no frames are given of those that are kept, or taken */
	void *ctx;
};

/* walk_outside_held - of a process whose threads we keep from running: one read is enough, in large pieces. What is linked into a stack and
 * does not run is left out: a generator that delegates to one that something is thrown into. As above.
 * @known: NULL: nothing
 * @pages: what the last walk has needed, which comes first; then what this one has. NULL: nothing */
int walk_outside_held(const struct proc_mem *mem, const struct interp *in,
		      struct outside_known *known, struct outside_pages *pages,
		      struct outside_stacks *out);

/**
 * walk_outside_one - read one stack that stands still
 * @out: one thread, OUTSIDE_AGREED and with frames, or none: nobody stood still, or runs Python. As above
 *
 * Looks at a few threads and thousands of frames at most, so that it costs the same in every process.
 */
int walk_outside_one(const struct proc_mem *mem, const struct interp *in,
		     struct outside_stacks *out);
void outside_stacks__done(struct outside_stacks *s);

/* outside_stacks__find - the thread of a state; NULL: none. @next: where it should be, if it is asked in the order of the list; 0 at
 * first, then as it was left */
struct outside_thread *outside_stacks__find(const struct outside_stacks *s, uint64_t tstate,
					    size_t *next);

/* Both were read, of the same thread, with the same frames: it stood still between the two. */
bool outside_thread__same(const struct outside_thread *a, const struct outside_thread *b);

#endif
