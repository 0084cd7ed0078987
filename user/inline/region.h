/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the inline engine maps into a target, in one reservation near its interpreter:
 *
 *   IL_CODE     stubs and slow path; read and execute, a private mapping of a sealed memfd
 *   IL_PRIVATE  struct il_private, then the cache of known code objects, that of known stacks, and what filters need; wiped in a
 *               forked child
 *   IL_SHARED   struct il_shared, then the threads' counters: shared with pyebpf
 *   IL_RING     the ring, shared, mapped twice in a row so that no record wraps
 *   lanes       where threads run at once: for each of the first ones all of it anew, shared, behind the ring
 *
 * One thread at a time writes: the one that holds the GIL, that whose lane it is, or who has a lock in the private page. A record is
 * 16 bytes, or more where its kind says so; it is complete before `head` says that it is there. Whatever pyebpf reads here can be
 * scribbled on by the target.
 */
#ifndef PYEBPF_INLINE_REGION_H
#define PYEBPF_INLINE_REGION_H

#include <stdint.h>

#include "inline/record.h"

#define IL_MAGIC       0x31314c4e49455950ull /* "PYEINL11" */
#define IL_MAGIC_NAME  0xffffffffffffull /* of it: the version is the rest */
#define IL_CODE	       0x0ull
#define IL_CODE_BYTES  0x28000ull
#define IL_PRIVATE     0x28000ull
#define IL_CACHE       0x29000ull
#define IL_CACHE_CNT   65536u
#define IL_ROOTS       (IL_CACHE + 8ull * IL_CACHE_CNT)
#define IL_ROOT_CNT    4096u
#define IL_RETIRED     (IL_ROOTS + 8ull * IL_ROOT_CNT)
#define IL_RETIRED_CNT 512u
#define IL_QUIET       (IL_RETIRED + 8ull * IL_RETIRED_CNT)
#define IL_QUIET_WORDS 128u
#define IL_SHARED      (IL_QUIET + 0x1000)
#define IL_THREADS     (IL_SHARED + 0x1000)
#define IL_THREAD_CNT  4096u
#define IL_RING	       (IL_THREADS + 32ull * IL_THREAD_CNT)
#define IL_SHARED_HEAD (IL_RING - IL_SHARED) /* bytes of the shared memory before the ring */

/* Code objects that are not recorded (--include, --exclude): in the first page of the shared memory, behind struct il_shared.
 * Written by pyebpf, taken over by the slow path, so that no cache is written to by two. */
#define IL_VERDICTS    0x400ull
#define IL_VERDICT_CNT 128u
struct il_verdict {
	uint64_t code; /* its address */
	uint64_t read_to; /* in the ring: if it was freed before that, pyebpf knows */
};

/*
 * A lane: what a thread has for itself where several run at once, so that they need not wait for each other. It is never mapped
 * twice: a record that begins before the end of its ring may reach past it, and the next one begins as far behind its start.
 */
#define IL_LANE_CNT    32u
#define IL_LANE_SHARED 0x1400ull /* behind its struct il_private */
#define IL_LANE_THREAD 0x1c00ull /* the one struct il_thread */
#define IL_LANE_CACHE  0x2000ull
#define IL_LANE_RING   (IL_LANE_CACHE + 8ull * IL_CACHE_CNT)
/* bytes of one whose ring has so many */
#define IL_LANE_BYTES(ring) (IL_LANE_RING + (ring) + IL_SLACK)

/*
 * Of a lane's owner, by pyebpf: it has ended; then, that all it wrote is read. The first one alone gives the lane to nobody but
 * another thread with the same tid and pthread_self(), which says by that that it is another one. So nobody can be in the middle of an
 * event there when others may have the lane.
 */
#define IL_OWNER_ENDED (1ull << 32)
#define IL_OWNER_FREE  (1ull << 33)

/* In the private page, behind the struct: the calls that the target made, {result, six arguments} each; those
 * of the first stop stay there, so that whoever comes later knows what there is to take out. */
#define IL_RESULTS	 (IL_PRIVATE + 0x800)
#define IL_RESULTS_NEXT	 (IL_PRIVATE + 0xc00)
#define IL_RESULTS_BYTES (56ull * 6)

enum il_first_call {
	IL_MAKE_PRIVATE, /* has room for the results, so it is first */
	IL_WIPE_ON_FORK,
	IL_RESERVE_CODE,
	IL_RESERVE_REST,
	IL_MAKE_CODE_FD,
	IL_MAKE_RING_FD,
};

#define IL_RESULT(call)	       (7 * (size_t)(call)) /* word */
#define IL_ARGUMENT(call, arg) (7 * (size_t)(call) + 1 + (arg))
#define IL_SCRATCH_ARGUMENT    5 /* of IL_WIPE_ON_FORK: where the calls run; madvise() has three */

/* No call of the slow path writes more than this. */
#define IL_SLACK     32768u
#define IL_LINES_MAX (1u << 20) /* bytes of a table of lines that travel, with --opcodes */
#define IL_STR_MAX   4096u /* bytes of one text that travel */
#define IL_RING_MIN  (1u << 18)

/*
 * Of a code object, for tables with a power of two of places, 65536 at most. Objects of one size lie at the same places of each
 * 2 MB of a heap: without the second part, which turns each 2 MB to another place, many of them would meet.
 */
#define IL_CODE_SHIFT	   5
#define IL_CODE_STEP	   0x1fffu
#define IL_CODE_HASH(code) (((code) >> IL_CODE_SHIFT) + ((code) >> 21) * IL_CODE_STEP)
#define IL_CODE_SLOT(code) (IL_CODE_HASH(code) & (IL_CACHE_CNT - 1))

/* In the cache: it is not recorded. */
#define IL_CODE_QUIET 1ull
#define IL_FRAME_MASK 0xffffffffffffull

/* An interpreter with a lock of its own has been seen. */
#define IL_APART       (~0ull)

#define IL_ROOT(frame) (il_frame_hash(frame) & (IL_ROOT_CNT - 1))

struct il_private {
	/* read by the stubs */
	/* the position where the ring begins; for how many bytes from there on that holds, and there is room */
	uint64_t base, limit;
	uint64_t thread, ring;
	uint64_t top; /* where `roots` is: innermost frame after the last event; 0: another thread's, or none */
	uint64_t run,
		quiet_at; /* where `quiet` is: innermost frame, of those in IL_QUIET, too; words that these take */
	/* read by the slow path */
	uint64_t head; /* so far: an event can have more than one record, and that of struct il_shared comes behind the last one */
	uint64_t mask;
	uint64_t active; /* 0 in a wiped page */
	uint64_t size, wait, lost_mode;
	uint64_t shared, threads, cache;
	uint64_t slot; /* address of the running thread's struct il_thread, with slot_self */
	uint64_t slot_self;
	uint32_t f_code, f_previous, f_owner, f_instr;
	uint32_t co_filename, co_name, co_qualname, co_firstlineno, co_flags, co_hidden;
	uint32_t str_length, str_state, str_ascii_data, str_data;
	uint32_t str_kind_mask, str_kind_shift, str_compact_mask, str_ascii_mask;
	uint32_t resume_mask, resume_depth1;
	/* <= 3.11 */
	uint64_t tstate_current; /* address of the pointer to the running thread's state */
	uint32_t ts_exception, f_state;
	uint32_t state_is_byte; /* f_state, not f_stacktop */
	uint32_t ts_frame, cframe_frame; /* >= 3.11; the latter PYE_NO_FIELD from 3.13 on */
	uint32_t f_locals, f_stackpointer;
	uint8_t idle_ops[4], begin_ops[4]; /* 3.11, where `roots` is; else 0: struct pye_pylayout */
	uint32_t f_stack, f_entry; /* f_entry: of pyebpf's layouts; 0: there is none */
	uint64_t clock; /* the vdso's clock_gettime(); 0: the time stamp counter. Then `locked` is set, too */
	/* free-threaded, or several GILs: limit stays 0, so that every event takes the slow path, under the lock */
	uint64_t locked, lock, room;
	/* --count */
	uint64_t funcs; /* address of the table; 0 in a forked child */
	uint64_t nodes, active_frames, spans; /* 0: calls alone */
	uint32_t func_last, span_last; /* numbers given so far */
	uint64_t unplaced; /* frames that run, but have no place in `active_frames` */
	/* --opcodes */
	uint64_t turn; /* the thread that `slot` is of, if no lock is needed; else 0 */
	uint32_t slack; /* IL_SLACK, and what a table of lines needs */
	uint32_t co_linetable, bytes_size, bytes_data; /* co_linetable 0: lines are not wanted */
	/* threads that run at once */
	uint64_t lanes, lane_ring; /* address of the first one, or 0; bytes of each one's ring */
	uint64_t thread_mask; /* of their numbers, for their place in `threads` */
	uint64_t tid_at; /* where a thread has its tid behind pthread_self(); 0: not looked for */
	uint64_t own_tid_at; /* the same, for whoever has no lane; 0: the kernel is asked */
	uint64_t freed; /* il_shared.freed when a lane was last looked for */
	uint64_t owner; /* tid of whose lane it is, with IL_OWNER_*, or of who wrote last; 0: nobody's yet */
	/* where stacks are exchanged under the interpreter: outermost frames of those that pyebpf knows, by IL_ROOT(); else 0 */
	uint64_t roots;
	uint64_t unseen, below; /* the last such frame; the one below it that events are of */
	uint64_t wipe; /* in a lane: its cache is to be emptied, when there is room again */
	/*
	 * Calls of code that is not recorded. Their frames are kept in IL_QUIET and not in the ring, until one of them calls what
	 * is recorded: most end before that.
	 *
	 * Two words each, outermost first: the record's second one; `run` before it, and from bit 48 on the hash of the caller if that
	 * is another one, the shim of an `__init__`.
	 */
	uint64_t quiet; /* its address; 0: no filter */
	uint64_t retired; /* address of IL_RETIRED: where in the ring code objects with this hash were freed last */
	uint64_t entered; /* with --time: the frame whose begin was the last event; else 0 */
	/*
	 * Where an interpreter that begins later can have a lock of its own, 3.12 on: address of a struct il_interpreters; 0: it
	 * cannot. All with a number below `with_main` have the main one's lock; while there are more, all events take the slow
	 * path, and `lock`.
	 */
	uint64_t interpreters, with_main;
	uint64_t begins; /* address of a byte whose lowest bit is set while one gets its number, 3.13 on; 0: that has the main one's lock */
	/* --count without --time, where code can change at its RESUME (struct layout_monitoring), else 0 */
	uint64_t version_at; /* what code is compared with: the version of the only interpreter there is, or one of these: */
	uint64_t no_version; /* 0: while it is not known; of code that was never changed */
	uint64_t unlike_any; /* where there are several: the slow path looks for the right one */
	uint64_t monitored; /* address of a struct il_interpreters; 3.14 on where `roots` is, too, and so the next one, is_gil, gil_holder and ts_thread_id */
	int64_t tstate_tls; /* where a thread has its state, from its fs register; 0: who holds the main one's lock is looked at */
	uint32_t co_version, is_version, is_gil, is_next, gil_holder, ts_interp, ts_thread_id,
		ts_tracing;
	uint64_t selves[IL_LANE_CNT]; /* pthread_self() of who has a lane; by hash, or behind that */
};

/* What CPython has of its interpreters: the `interpreters` of its _PyRuntimeState, 3.12 to 3.15. */
struct il_interpreters {
	uint64_t newest, main; /* addresses */
	uint64_t next; /* number of the one that will begin next */
};

#define IL_INTERPRETERS_MUTEX \
	(-8) /* where from that, 3.13 on: a byte whose lowest bit is set while it is changed */

struct il_shared {
	uint64_t head; /* written by the target */
	uint64_t quiet; /* by the target: calls that were left out */
	uint64_t pad0[6];
	uint64_t tail, deadline; /* by pyebpf; deadline by the stubs' clock */
	uint64_t freed; /* how often a lane was said to be free */
	uint64_t verdict_head; /* of IL_VERDICTS, by pyebpf; it counts on */
	uint64_t pad1[4];
	uint64_t lost_mode, retire_lost, lost_other, slow, waits; /* by the target, rarely */
	uint64_t verdict_tail; /* by the target */
	uint64_t pad2[2];
};

/* A thread's losses since its stack was last known, with IL_LOST_FRAMES; timed: an instruction's end is waited for. */
struct il_thread {
	uint64_t self, tid, lost, timed;
};
#define IL_LOST_FRAMES	  (1ull << 63) /* --opcodes: and what shows the stack, which is none */
#define IL_LOST_CNT(lost) ((lost) & ~IL_LOST_FRAMES)

/* A word that was replaced. At the beginning of the code, so that whoever finds the stubs can undo it. */
struct il_patch {
	uint64_t at, old, new; /* run-time address; values in the low `size` bytes */
	uint32_t size, pad;
};

#define IL_PATCH_MAX	352
#define IL_ORIGINAL_MAX 352 /* a word may lead through two stubs */

struct il_header {
	uint64_t magic;
	uint64_t region_bytes;
	uint32_t patch_cnt, pad;
	uint64_t scratch; /* where the injected calls ran */
	struct il_patch patches[IL_PATCH_MAX];
	uint64_t originals[IL_ORIGINAL_MAX]; /* where each stub goes on */
};

_Static_assert(sizeof(struct il_private) <= IL_RESULTS - IL_PRIVATE, "layout");
_Static_assert(sizeof(struct il_shared) <= IL_VERDICTS, "layout");
_Static_assert(IL_VERDICTS + sizeof(struct il_verdict) * IL_VERDICT_CNT <= 0x1000, "layout");
_Static_assert(8 * IL_QUIET_WORDS <= 0x1000, "layout");
_Static_assert(sizeof(struct il_shared) <= IL_LANE_THREAD - IL_LANE_SHARED, "layout");
_Static_assert(sizeof(struct il_thread) == 32, "layout");
_Static_assert(sizeof(struct il_def) + 3UL * IL_STR_MAX + 256 < IL_SLACK, "fits");

#endif
