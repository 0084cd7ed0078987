/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cap_inline.c (the ring, code objects, records), inline_steps.c (what is handed on), inline_lanes.c (several rings),
 * inline_quiet.c (what is left out) and inline_track.c (threads and stacks); inline_count.c and inline_opcodes.c have its ring and its stacks. */
#ifndef PYEBPF_CAPTURE_INLINE_PRIV_H
#define PYEBPF_CAPTURE_INLINE_PRIV_H

#include <string.h>
#include <uthash.h>

#include "abi/event.h"
#include "base/likely.h"
#include "capture/cap_inline.h"
#include "capture/inline_parked.h"
#include "capture/inline_suspended.h"

struct track {
	struct {
		uint64_t self;
		uint64_t tid;
	} key;
	uint32_t tix, seq;
	bool announced;
	bool need_walk; /* the capture does not know the stack: it goes before the next event */
	bool read_now; /* its stack was read, perhaps in the middle of an event, and none has come since */
	bool resynced; /* so it was, and the capture does not know it */
	uint32_t reason; /* enum pye_walk_reason */
	uint32_t read_at; /* the last stop at which its stack was read, counted from 1 */
	uint64_t last_ns;
	uint64_t unseen; /* 3.11: what calls next, and is on no stack: it has not shown itself; 0: the target has not told one */
	bool unseen_waits; /* nor will it: it is a generator that is linked and does not run */
	uint64_t was_unseen; /* the last one of these, */
	uint32_t unseen_depth; /* on a stack of so many: it can call again, and is not told again */
	/* 3.11: the frame at this depth was thrown into for a suspended one that delegates to it, with this hash. When it has returned (ns)
	 * that one goes on, unseen. Depth 0: there is none */
	struct track_thrown {
		uint32_t depth, by;
		uint64_t ns;
	} thrown;
	struct track_stack stack;
	struct parked parked; /* of greenlets that do not run */
	struct track_stack told; /* of the target, innermost first, as far as it has come */
	uint64_t ended_at; /* position in the ring, or with lanes tsc, when it was seen to be gone; 0: alive */
	uint64_t ended_ns; /* then: no event before that is another one's that has its tid by now, and none behind it its own */
	UT_hash_handle hh;
};

struct code_of {
	uint64_t address;
	uint32_t id;
	bool quiet; /* it is left out */
	bool is_function; /* it was defined, and is no generator: its frames begin with a call and end once */
	uint64_t text; /* where threads run at once: hash of its names and line; 0: only seen on a stack so far */
	UT_hash_handle hh;
};

/* What is to be said to the target of code that is left out. */
struct verdicts {
	struct il_verdict *v; /* owned; those for which there was no room yet */
	uint32_t cnt, size;
};

#define STEPS_MAX 256 /* 6 KB, which stay in the first cache */

/* Events that are not handed on yet, all of one thread. */
struct steps {
	struct trace_step v[STEPS_MAX];
	uint32_t cnt;
	uint32_t tix, seq; /* seq: of the first one */
};

struct cap_inline {
	struct inline_engine *e;
	struct inline_clock clock;
	uint32_t pix, round;
	struct cap_inline_ids *ids;
	pid_t pid;
	char comm[PYE_COMM]; /* the process's name as it began */
	uint64_t tail, last_tsc;
	bool at_end; /* tail is where the head was when it was last looked at */
	struct track *threads, *now; /* now: that of the events to come; NULL at first */
	struct code_of *codes;
	struct verdicts verdicts;
	uint32_t *slots; /* id of the code object in each slot of the target's cache; that of the lane at hand, or common[] */
	uint32_t common[IL_CACHE_CNT];
	struct lanes *lanes; /* owned; NULL: there are none, or none is read yet */
	uint64_t settled; /* tsc: what came before it is read in all lanes */
	struct suspended_table suspended;
	bool suspended_before; /* what is in it is of before a loss */
	uint8_t *out; /* records of the batch at hand */
	size_t out_len, out_size;
	bool guests; /* there was a stack that is one */
	int failed; /* of memory, for the batch at hand */
	uint64_t unmatched; /* ends of frames that are on no stack, and had to be; or that went unseen */
	const struct cap_inline_taker *taker; /* NULL: none */
	const struct capture_taker *records; /* who takes them; NULL: they stay in the batch */
	struct steps steps; /* for them */
};

/* inline_record - take one; its size, 0: it is none. @room: bytes from it on that can be read */
uint32_t inline_record(struct cap_inline *c, const struct il_rec *r, uint64_t room);

/* lanes_read - some of what the lanes hold, in the order in which one can depend on another. 0; -EILSEQ; -ENOMEM */
int lanes_read(struct cap_inline *c);
unsigned int lanes_backlog(const struct cap_inline *c); /* of the fullest one, 0 to 100 */
void lanes_recounted(
	struct cap_inline *c); /* whose events come is to be said anew where some were lost */
/* lanes_ended - its thread has ended; lanes_gone - and all that it wrote is read: another one may have its lane. */
void lanes_ended(struct cap_inline *c, const struct track *t);
void lanes_gone(struct cap_inline *c, const struct track *t);
void lanes_forget(struct cap_inline *c, const struct track *t); /* it is freed */
void lanes_free(struct cap_inline *c);

/* quiet_defined - the target has just defined this code object; quiet_tell - say what there is to be said, if there is room. */
void quiet_defined(struct cap_inline *c, struct code_of *code, uint32_t flags);
void quiet_tell(struct cap_inline *c);

struct inline_def_copy {
	_Alignas(8) uint8_t bytes[sizeof(struct il_def) + 3UL * IL_STR_MAX + 16];
};

/* inline_def_copy - a definition out of the ring, where it can change under us; NULL: it is none. @room: bytes up to
 * the ring's head */
const struct il_def *inline_def_copy(const struct il_def *in, uint64_t room,
				     struct inline_def_copy *copy);

/* Of the memory of a thread's frames, from 3.11 on; more for a frame that needs it. */
#define CHUNK_BYTES (16u << 10)

/* inline_hand_steps - hand on the events so far: before anything else that comes behind them. */
void inline_hand_steps(struct cap_inline *c);

/* inline_take_usual - from the tail on, as far as events are what they usually are: calls by the frame on top, and its return. */
void inline_take_usual(struct cap_inline *c, uint64_t end);

/* inline_put - room for a record of the batch; NULL: no memory. The events so far go before it. */
void *inline_put(struct cap_inline *c, uint32_t bytes);

/* inline_hand_out - all that there is, to who takes records: events, or what is in the batch, never both. */
void inline_hand_out(struct cap_inline *c);

/* inline_event - one of a thread, with its next number; false: no memory. @caller: hash of its frame, if it is known */
bool inline_event(struct cap_inline *c, const struct track *t, const struct trace_step *s,
		  uint32_t caller);

/* inline_tsc - of a record: its upper 16 bits are as those of @near, or follow on that. */
static inline uint64_t inline_tsc(uint64_t near, uint64_t time)
{
	return near + (uint64_t)((int64_t)((time & ~0xffffull) - (near << 16)) >> 16);
}

/* inline_time - of a record, in ns; @tsc: of the one before, then its own */
static inline uint64_t inline_time(struct cap_inline *c, uint64_t *tsc, uint64_t time)
{
	*tsc = inline_tsc(*tsc, time);
	return inline_clock__ns(&c->clock, *tsc);
}

/* track_get - a thread by what the target says of it, made if it is new; NULL: no memory. */
struct track *track_get(struct cap_inline *c, uint64_t self, uint64_t tid);

/* track_note_comm - what threads are called that have ended before their first event is read */
void track_note_comm(struct cap_inline *c);

/* track_announce - its first record; of one that only lost events, too, or its losses would have no place. */
void track_announce(struct cap_inline *c, struct track *t, uint64_t ts);

/* track_depth - how deep the frame with this hash is: on top, or about to be. */
uint32_t track_depth(const struct track *t, uint32_t bits);

/* track_top - the innermost frame; 0: there is none. */
static inline uint64_t track_top(const struct track_stack *s)
{
	return s->cnt ? s->frames[s->cnt - 1].frame : 0;
}

/* track_below - the hash of the frame that has called the innermost one; 0: not known */
static inline uint32_t track_below(const struct track_stack *s)
{
	return s->cnt > 1 ? il_frame_hash(s->frames[s->cnt - 2].frame) : 0;
}

/* track_is_behind - can a frame lie in the chunk of another one, behind it? Calls do, but for those of generators, and
 * the first one of a chunk. */
static inline bool track_is_behind(uint64_t frame, uint64_t other)
{
	return frame - other < CHUNK_BYTES;
}

/* track_is_on - can a frame have been put behind those of a stack, generators' left out? */
static inline bool track_is_on(const struct track_stack *s, uint64_t frame)
{
	for (uint32_t i = s->cnt; i-- > 0;)
		if (track_is_behind(frame, s->frames[i].frame))
			return true;
	return false;
}

/* track_is_rooted - is this its outermost frame? Not where there are more below that are not known. */
static inline bool track_is_rooted(const struct track_stack *s, uint64_t root)
{
	return s->cnt && !s->cut && s->frames[0].frame == root;
}

/* track_is_guest - one that may be another thread's, with this innermost frame, or whole: false: one with this hash. */
bool track_is_guest(const struct track_stack *s, uint64_t frame, bool whole);

/* track_park - one more stack of a thread that does not run now; owned from here on. 0 or -ENOMEM. */
int track_park(struct track *t, const struct track_stack *stack);

/* track_switch - what was read is not the running stack, which goes aside. @read: owned from here on */
void track_switch(struct cap_inline *c, struct track *t, struct track_stack read);

/* track_entry and so on - one event of the running thread. @bits: hash of the caller's frame. */
void track_entry(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t sub,
		 uint32_t bits);
void track_exit(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t sub);
void track_caught(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t bits);
struct track_end_of {
	uint32_t code;
	bool generator;
	uint64_t instr; /* bytes from the code object to where it was; 0: not known */
};
void track_unwind(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t bits,
		  const struct track_end_of *of);
void track_throw(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t bits);
/* track_frame - one of the running stack, innermost first, which the target tells since it may not be known here. @flags: IL_FRAME_* */
void track_frame(struct cap_inline *c, uint64_t frame, uint32_t code, uint64_t flags);
/* track_close - a frame is cleared without being run. @sp: the stack pointer there, until track_closed() says the same; 0: what
 * the frame holds does not matter */
void track_close(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint64_t sp);
void track_closed(struct cap_inline *c, uint64_t ts, uint64_t sp);
void track_end(struct cap_inline *c, struct track *t, uint64_t ts);
void track_free(struct cap_inline *c, struct track *t);

#endif
