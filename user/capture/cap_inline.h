/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline engine's source of records. Its ring says which frame was entered or left, in the order in
 * which the holder of the GIL changed; here that becomes the records of abi/event.h. The stacks of all
 * threads are known from the attach on, and every entry says who called it, so a frame that was thrown
 * into, a greenlet and a loss are told apart. Whatever is read from the ring is checked: the target can
 * write there.
 */
#ifndef PYEBPF_CAPTURE_CAP_INLINE_H
#define PYEBPF_CAPTURE_CAP_INLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/filter.h"
#include "abi/pylayout.h"
#include "capture/capture.h"
#include "capture/inline_clock.h"
#include "inline/engine.h"

struct cap_inline;

/* Numbers given so far, to threads and code objects of all processes of a capture. */
struct cap_inline_ids {
	uint32_t thread, code;
};

/* cap_inline__new - for the process number @pix of the capture; @pid as user space calls it. @ids: borrowed. @like: of
 * another process, which knows the clocks; NULL: that takes some ms. 0, -ENOMEM */
int cap_inline__new(struct cap_inline **out, uint32_t pix, pid_t pid, struct cap_inline_ids *ids,
		    const struct cap_inline *like);
void cap_inline__free(struct cap_inline *c);

/* cap_inline__use - read this engine's ring; borrowed. Before the first event can be there. */
void cap_inline__use(struct cap_inline *c, struct inline_engine *e);

/* cap_inline__hand_to - next() hands its records and events to @taker, and its batches are empty; borrowed. */
void cap_inline__hand_to(struct cap_inline *c, const struct capture_taker *taker);

/* An instruction that begins. */
struct cap_inline_opcode {
	uint64_t tsc, ts_ns;
	uint32_t tix, tid, pid, code;
	uint32_t depth; /* frames of its thread, its own included */
	uint32_t frame; /* 16 bits of its address */
	uint64_t at; /* bytes from the code object's address */
	uint8_t opcode;
};

/* Somebody who takes instructions (--opcodes); all is borrowed for the call. 0, or an error that ends the run. */
struct cap_inline_taker {
	void *ctx;
	int (*code)(void *ctx, uint32_t code, const struct il_def *def);
	int (*lines)(void *ctx, uint32_t code, const uint8_t *table, uint32_t len);
	int (*retired)(void *ctx, uint32_t code);
	int (*begin)(void *ctx, const struct cap_inline_opcode *o);
	int (*end)(void *ctx, uint32_t tix,
		   uint64_t tsc); /* of the thread's last one; @tsc 0: unseen */
	void (*lost)(void *ctx, uint64_t events); /* here and there, of any thread */
};

void cap_inline__take(struct cap_inline *c, const struct cap_inline_taker *taker);

/* cap_inline__code - number of a code object by its address; *is_new: it was not known, define it. 0: no
 * memory, or more of them than can be. */
uint32_t cap_inline__code(struct cap_inline *c, uint64_t address, bool *is_new);

struct cap_inline_frame {
	uint64_t frame;
	uint32_t code;
	uint32_t shim; /* cap_inline_shim() of a frame of the interpreter's own right above; 0: none is known */
	uint64_t closing; /* the stack pointer of whoever clears it without running it; 0: it runs */
	uint32_t runs; /* with closing: how many frames up to the innermost that runs, outermost first */
};

/* cap_inline_shim - what is kept of one: that of `__init__` shows no events but its end */
static inline uint32_t cap_inline_shim(uint64_t frame)
{
	return il_frame_hash(frame) | 1u << 16;
}

/**
 * cap_inline__stack - what a thread's stack is, while it is stopped
 * @self:   pthread_self()
 * @frames: outermost first
 * @cut:    there are more below, which are not known
 *
 * The first time it is what the capture shows already, but with cap_inline__forked(); later it is shown
 * before the thread's next event. 0 or -ENOMEM.
 */
int cap_inline__stack(struct cap_inline *c, uint64_t self, pid_t tid,
		      const struct cap_inline_frame *frames, uint32_t cnt, bool cut);

/* cap_inline__forked - the process has just been forked: what is known of its thread's stack is shown with its
 * first event. */
void cap_inline__forked(struct cap_inline *c);

/* cap_inline__new_thread - a number that no record has. */
uint32_t cap_inline__new_thread(struct cap_inline *c);

/* cap_inline__is_lossy - the target writes nothing until cap_inline__recount() and inline__restart(). */
bool cap_inline__is_lossy(const struct cap_inline *c);

/* cap_inline__recount - take over what each thread lost; all stopped, or at the end. The stack of a thread
 * that lost something is unknown until cap_inline__stack(). */
void cap_inline__recount(struct cap_inline *c);

/* cap_inline__end - the process has ended and its ring is read: so have its threads, in the next batch. */
void cap_inline__end(struct cap_inline *c);

/* cap_inline__finals - the final sequence number of every thread that has not ended in the records. */
void cap_inline__finals(struct cap_inline *c, void (*cb)(void *ctx, uint32_t tix, uint32_t seq),
			void *ctx);

/* cap_inline__reap - threads that have ended and whose events are read. Every second. */
void cap_inline__reap(struct cap_inline *c);

/* cap_inline__adjust - the clocks against each other, before what has come until then is read. Every few ms. */
void cap_inline__adjust(struct cap_inline *c, const struct clock_pair *now);

/* cap_inline__decide - a filter: what the target does with a code object from now on, if it can. */
void cap_inline__decide(struct cap_inline *c, const struct pye_verdict *verdict);

/* cap_inline__left_out - calls of such code that are in no record. */
uint64_t cap_inline__left_out(const struct cap_inline *c);

/* cap_inline__lost - events of threads that could not be told apart. */
uint64_t cap_inline__lost(const struct cap_inline *c);

/* cap_inline__unmatched - ends of frames that nothing was known of; each is a loss of its thread, too. */
uint64_t cap_inline__unmatched(const struct cap_inline *c);

/* cap_inline__is_at_end - was all read that was there when next() looked last? */
bool cap_inline__is_at_end(const struct cap_inline *c);

/* cap_inline__backlog - how full the ring is, 0 to 100. */
unsigned int cap_inline__backlog(const struct cap_inline *c);

/* cap_inline_ops - next() as capture.h says; -EILSEQ when the ring holds what no stub writes. */
extern const struct capture_ops cap_inline_ops;

#endif
