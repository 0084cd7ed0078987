/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a trace: what a capture says, whatever engine and interpreter made it, and the
 * interface through which it is pushed. The decoder (decode/) calls a consumer; exporters and
 * aggregates (export/, profile/) are consumers. Times are CLOCK_MONOTONIC nanoseconds.
 *
 * Ids (process, thread, function) are small numbers of the capture, unique in it, never reused;
 * pid and tid are what the operating system calls them and can repeat in one capture.
 * Strings are UTF-8 as base/text.h says (lone surrogates kept as three bytes), NUL-terminated and
 * without a NUL inside: one in a name is kept as the two bytes C0 80.
 */
#ifndef PYEBPF_PROFILE_TRACE_H
#define PYEBPF_PROFILE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* Written to files: append only. */
enum trace_kind {
	TRACE_CALL = 0, /* a frame is entered for the first time */
	TRACE_RESUME = 1, /* a suspended frame goes on after a yield or an await */
	TRACE_THROW = 2, /* a suspended frame goes on because something was thrown into it */
	TRACE_OPEN = 3, /* a frame found on the stack (attach, after a gap); no call */
	TRACE_RETURN = 4,
	TRACE_YIELD = 5, /* suspended: yield or await */
	TRACE_UNWIND = 6, /* left by an exception */
	TRACE_KIND_CNT
};

static inline bool trace_is_leave(unsigned int kind)
{
	return kind >= TRACE_RETURN;
}

/* Why events are missing. Written to files: append only. */
/* clang-format off */
#define TRACE_LOSSES(X) \
	X(LOSS_RING,     0, "ring",     "the ring to user space was full")                       \
	X(LOSS_MAP,      1, "map",      "a table in the kernel was full")                        \
	X(LOSS_READ,     2, "read",     "the frame could not be read from the target's memory")  \
	X(LOSS_KERNEL,   3, "kernel",   "the kernel skipped the probe's program (recursion)")    \
	X(LOSS_USER,     4, "user",     "user space could not keep the event (memory, disk)")    \
	X(LOSS_THROTTLE, 5, "throttle", "held back on purpose to keep a budget")
/* clang-format on */
enum trace_loss {
#define X(id, number, name, text) id = (number),
	TRACE_LOSSES(X)
#undef X
	LOSS_CNT
};

/* Why a thread's stack is not known for a while. Written to files: append only. */
/* clang-format off */
#define TRACE_GAPS(X) \
	X(GAP_LOSS,   0, "lost",   "events were lost here")                                       \
	X(GAP_SWITCH, 1, "switch", "the thread went to another stack (greenlet, fiber)")         \
	X(GAP_WINDOW, 2, "window", "tracing was switched off")                                   \
	X(GAP_EXEC,   3, "exec",   "the process executed another program")                       \
	X(GAP_ATTACH, 4, "attach", "a child process was traced from here on only")           \
	X(GAP_END,    5, "end",    "the thread ended, or executed, with these frames open")
/* clang-format on */
enum trace_gap_reason {
#define X(id, number, name, text) id = (number),
	TRACE_GAPS(X)
#undef X
	GAP_CNT
};

/* Why a sampled thread had no CPU. Written to files: append only. */
/* clang-format off */
#define TRACE_REASONS(X) \
	X(REASON_NONE,      0, "",          "it had one")                                \
	X(REASON_OTHER,     1, "other",     "it waited in another system call")          \
	X(REASON_PREEMPTED, 2, "preempted", "it wanted one, and another thread had it")  \
	X(REASON_LOCK,      3, "lock",      "it waited for a lock (futex)")              \
	X(REASON_SLEEP,     4, "sleep",     "it slept for a time")                       \
	X(REASON_IO,        5, "io",        "it waited for a file, socket or pipe")      \
	X(REASON_FAULT,     6, "fault",     "it waited for memory (page fault)")         \
	X(REASON_GIL,       7, "gil",       "it waited for the interpreter's lock")
/* clang-format on */
enum trace_reason {
#define X(id, number, name, text) id = (number),
	TRACE_REASONS(X)
#undef X
	REASON_CNT
};

/* What a sampled thread waits for with REASON_LOCK. Written to files: append only. */
/* clang-format off */
#define TRACE_LOCKS(X) \
	X(LOCK_UNKNOWN,      0, "",                          "it is not known, or no lock of Python") \
	X(LOCK_LOCK,         1, "threading.Lock",            "a lock")                                \
	X(LOCK_RLOCK,        2, "threading.RLock",           "a lock that one thread can take twice") \
	X(LOCK_CONDITION,    3, "threading.Condition",       "a condition, or its lock")              \
	X(LOCK_SEMAPHORE,    4, "threading.Semaphore",       "a semaphore")                           \
	X(LOCK_EVENT,        5, "threading.Event",           "an event")                              \
	X(LOCK_BARRIER,      6, "threading.Barrier",         "a barrier")                             \
	X(LOCK_THREAD,       7, "threading.Thread",          "the end of a thread (join)")            \
	X(LOCK_QUEUE,        8, "queue.Queue",               "a queue, or its lock")                  \
	X(LOCK_SIMPLE_QUEUE, 9, "queue.SimpleQueue",         "a queue written in C")                  \
	X(LOCK_FUTURE,      10, "concurrent.futures.Future", "a result")                              \
	X(LOCK_SEMLOCK,     11, "multiprocessing.SemLock",   "a lock that processes share")           \
	X(LOCK_IMPORT,      12, "import lock",               "a module that another thread imports")
/* clang-format on */
enum trace_lock {
#define X(id, number, name, text) id = (number),
	TRACE_LOCKS(X)
#undef X
	LOCK_CNT
};

/* trace_loss_name, trace_gap_name, trace_reason_name, trace_lock_name - the short name, static; "unknown" out
 * of range. */
const char *trace_loss_name(unsigned int loss);
const char *trace_gap_name(unsigned int reason);
const char *trace_reason_name(unsigned int reason);
const char *trace_lock_name(unsigned int lock);

/* What one event costs the target, measured at start; ns. Zero: not measured. */
struct trace_cost {
	/* between the event's time stamp and the target going on: spent inside the frame that an
	 * entry enters, or in the caller of one that an exit leaves */
	uint32_t entry_after_ns, exit_after_ns;
	/* between the target's trap and the time stamp: spent in the caller of a frame that an
	 * entry enters, or inside the frame that an exit leaves */
	uint32_t entry_before_ns, exit_before_ns;
};

/* trace_cost_by_kind - the cost before and after the time stamp of an event of each kind. */
void trace_cost_by_kind(const struct trace_cost *cost, uint32_t *before_ns, uint32_t *after_ns);

/* What came before a capture that begins in the middle of a run: one part of several, or what a flight
 * recorder kept. All zero: the capture is the whole run. */
struct trace_before {
	uint32_t part; /* number of the part, from 1 */
	uint64_t keep_ns; /* of a flight recorder: what it was asked to keep */
	uint64_t start_ns; /* of the run */
	uint64_t events; /* generated before, in other parts or forgotten */
	uint64_t chunks; /* pieces that the flight recorder forgot */
};

/* The capture as a whole; strings borrowed until begin() returns. */
struct trace_info {
	uint64_t start_ns; /* monotonic time at which the capture began */
	int64_t start_unix_ns; /* the same moment on the wall clock, ns since 1970 */
	const char *engine; /* "uprobe", "usdt", "inline" */
	const char *version; /* of the pyebpf that captured */
	const char *hostname, *kernel, *cpu;
	uint32_t cpu_cnt;
	const char *arguments; /* command line of pyebpf, shell-quoted */
	struct trace_cost cost;
	struct trace_before before;
	uint64_t sample_ns; /* samples, so long apart on a CPU; 0: calls and returns, or sums of them */
};

struct trace_process {
	uint32_t id;
	uint32_t pid;
	uint64_t start_ns; /* when it was first seen */
	uint64_t end_ns; /* 0 while it runs */
	const char *comm; /* short name */
	const char *exe; /* path of the executable, "" if unknown */
	const char *python; /* "3.12", "3.13t", "" if unknown */
	const char *const
		*import_roots; /* NULL-terminated: sys.path-like folders, longest first; or NULL */
	const char *prefix; /* folder of the standard library, "" if unknown */
};

struct trace_thread {
	uint32_t id;
	uint32_t process; /* id */
	uint32_t tid;
	bool is_main;
	uint64_t start_ns; /* start, or when it was first seen */
	uint64_t end_ns; /* 0 while it runs */
	const char *
		name; /* as the program calls it, where that is known, or as the operating system does */
};

/* What a function is. Written to files: append only. */
enum trace_func_kind {
	FUNC_PYTHON = 0,
	FUNC_NATIVE =
		1, /* of the process: its name is a symbol, its file an executable or library */
	FUNC_KERNEL = 2, /* its file is "[kernel]" or a module: "[ext4]" */
	FUNC_KIND_CNT
};

/* A code object, or native code. */
struct trace_func {
	uint32_t id;
	uint32_t process; /* id */
	uint32_t line; /* co_firstlineno */
	uint8_t kind; /* enum trace_func_kind */
	const char *qualname; /* co_qualname; co_name before 3.11 */
	const char *name; /* co_name */
	const char *file; /* co_filename */
};

/* trace_kind_name - "python", "native", "kernel"; static. trace_native_file - a library's file without its
 * folder; "" for NULL. */
const char *trace_kind_name(unsigned int kind);
const char *trace_native_file(const char *file);

struct trace_event {
	uint64_t ts_ns;
	uint32_t thread; /* id */
	uint32_t func; /* id: the frame entered, found or left */
	uint32_t depth; /* frames below it */
	uint8_t kind; /* enum trace_kind */
};

/* A frame of a sample. */
struct trace_frame {
	uint32_t func; /* id */
	uint32_t line; /* that it is at, 0 if not known */
};

/* The stack of a thread at ts_ns; it stands for the weight_ns up to then. What could not be read of it
 * is a function, too, whose name says so in brackets. */
struct trace_sample {
	uint64_t ts_ns, weight_ns;
	uint64_t count; /* samples that this one stands for, or calls of its innermost frame; of our own
			 * captures always 1 */
	const struct trace_frame *frames; /* outermost first */
	uint32_t frame_cnt;
	uint32_t thread; /* id */
	bool off_cpu;
	uint8_t reason; /* enum trace_reason, if off_cpu */
	uint8_t lock_type; /* enum trace_lock, if it waits for one */
	uint64_t lock; /* address of the lock's object, or of its word; 0: none or not known */
	struct trace_frame
		holder; /* what the GIL's holder ran when the wait began; func 0: not known */
};

/* The memory that the process of a sampled thread has, from ts_ns on. */
struct trace_memory {
	uint64_t ts_ns;
	uint64_t rss_bytes;
	uint32_t thread; /* id: one of its threads */
};

#define TRACE_SAMPLE_FRAMES 2048u /* no sample has more */

/* From ts_ns on the thread's stack is unknown; the frames open then are shown again (TRACE_OPEN)
 * at until_ns. */
struct trace_gap {
	uint64_t ts_ns, until_ns;
	uint64_t lost; /* events of this thread known to be missing here */
	uint32_t thread;
	uint8_t reason; /* enum trace_gap_reason */
};

struct trace_totals {
	uint64_t end_ns;
	uint64_t generated; /* events that happened in traced threads: written + all lost */
	uint64_t written; /* calls, returns and so on in the capture; TRACE_OPEN is none */
	uint64_t lost[LOSS_CNT];
	bool complete; /* false: the capture ends before its proper end (killed, disk full) */
};

/**
 * struct trace_consumer - takes a trace, pushed in this order
 * @begin:   once, first
 * @process, @thread, @func: a definition, before the first event that uses it; the same id comes
 *           again when something about it changed (a thread ended, a process executed)
 * @event:   in time order over all threads; frames of one thread nest
 * @sample:  in time order, too; a trace has events or samples
 * @memory:  likewise, of sampled processes
 * @gap:     after it the thread has no open frames
 * @end:     once, last
 *
 * Every pointer handed over is borrowed until the call returns. A member may be NULL: not wanted.
 * Return of each: 0, or a negative number, which ends the decoding with that number.
 */
struct trace_consumer {
	int (*begin)(void *self, const struct trace_info *info);
	int (*process)(void *self, const struct trace_process *process);
	int (*thread)(void *self, const struct trace_thread *thread);
	int (*func)(void *self, const struct trace_func *func);
	int (*event)(void *self, const struct trace_event *event);
	int (*sample)(void *self, const struct trace_sample *sample);
	int (*memory)(void *self, const struct trace_memory *memory);
	int (*gap)(void *self, const struct trace_gap *gap);
	int (*end)(void *self, const struct trace_totals *totals);
};

#endif
