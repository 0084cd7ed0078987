// SPDX-License-Identifier: Apache-2.0
/*
 * The stacks of the threads, from the events of the inline engine. Exits never go missing, so the frame on
 * top is known; what an entry says of its caller is compared with it. Where the two differ:
 *
 *   the same frame again          RESUME ran twice (monitoring was switched on or off): no event
 *   a shim right below the frame  `__init__` through the specialized call (3.13 on): all right
 *   a generator that is suspended something is thrown into what it delegates to: it shows no call
 *   a frame above the top one     3.11: a finalizer or a trace function runs before its RESUME; the target has told which
 *   the top of another stack      a greenlet switch; nothing below: a new greenlet
 *   the top of another thread's   what a thread state says of its thread was true when it was made
 *   anything else                 another stack, of which only this frame is known
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "capture/inline_priv.h"
#include "proc/file.h"

#define STACK_MAX   (1u << 20)
#define THREADS_MAX (1u << 20) /* that have not ended; a target can say anything */
#define NEAR	    64 /* frames that are looked through; exits do not go missing in rows */
#define SHIM_MIN    11 /* words of the frame of an `__init__` shim: 3.13; one more from 3.14 on */
#define SHIM_MAX    12
#define PAGE_BYTES  4096u
#define CHUNK_NEXT  24 /* where the first frame lies in a chunk that is not a stack's first one */
#define SHIM	    cap_inline_shim(0)

static struct pye_head head_of(const struct track *t, uint64_t ts, uint32_t kind, uint32_t sub,
			       uint64_t frame)
{
	return (struct pye_head){ .ts_ns = ts,
				  .frame = frame,
				  .kind = (uint8_t)kind,
				  .sub = (uint8_t)sub,
				  .tix = t->tix,
				  .seq = t->seq };
}

static bool read_comm(pid_t pid, const char *file, char name[PYE_COMM])
{
	auto_free char *text = NULL;
	size_t len;

	memset(name, 0, PYE_COMM);
	if (proc_file__read(pid, file, PYE_COMM - 1, &text, &len) < 0)
		return false;
	memcpy(name, text, strcspn(text, "\n"));
	return name[0];
}

void track_note_comm(struct cap_inline *c)
{
	read_comm(c->pid, "comm", c->comm);
}

/* One that has ended by now was called as its process, unless it has named itself. */
static void read_name(const struct cap_inline *c, uint64_t tid, char name[PYE_COMM])
{
	char file[48];

	snprintf(file, sizeof(file), "task/%llu/comm", (unsigned long long)tid);
	if (!read_comm(c->pid, file, name))
		memcpy(name, c->comm, PYE_COMM);
}

void track_announce(struct cap_inline *c, struct track *t, uint64_t ts)
{
	struct pye_thread_rec *rec = inline_put(c, sizeof(*rec));

	if (!rec)
		return;
	memset(rec, 0, sizeof(*rec));
	rec->head = head_of(t, ts, PYE_REC_THREAD, 0, 0);
	rec->pix = c->pix;
	rec->pid = (uint32_t)c->pid;
	rec->tid = (uint32_t)t->key.tid;
	rec->fsbase = t->key.self;
	read_name(c, t->key.tid, rec->comm);
	t->announced = true;
}

static void walk(struct cap_inline *c, struct track *t, uint64_t ts)
{
	const struct track_stack *s = &t->stack;
	uint32_t left = s->cnt, flags = PYE_WALK_FIRST;

	t->need_walk = false;
	do {
		struct pye_walk_rec *rec = inline_put(c, sizeof(*rec));
		uint32_t n = left < PYE_WALK_FRAMES ? left : PYE_WALK_FRAMES;

		if (!rec)
			return;
		memset(rec, 0, sizeof(*rec));
		for (uint32_t i = 0; i < n; i++, left--)
			rec->frames[i] =
				(struct pye_walk_frame){ .frame = s->frames[left - 1].frame,
							 .code = s->frames[left - 1].code };
		rec->cnt = n;
		rec->reason = t->reason;
		if (!left)
			flags |= s->cut ? PYE_WALK_CUT : PYE_WALK_ROOT;
		rec->head = head_of(t, ts, PYE_REC_WALK, flags, 0);
		flags = 0;
	} while (left);
}

/* What comes before some events. */
RARELY void prepare(struct cap_inline *c, struct track *t, uint64_t ts)
{
	if (t->unseen) {
		t->was_unseen = t->unseen;
		t->unseen_depth = t->stack.cnt;
		t->unseen = 0;
	}
	if (!t->announced)
		track_announce(c, t, ts);
	if (t->need_walk)
		walk(c, t, ts);
}

static inline uint64_t begin(struct cap_inline *c, struct track *t, uint64_t ts)
{
	if (ts < t->last_ns)
		ts = t->last_ns; /* the clock was adjusted */
	t->last_ns = ts;
	t->read_now = t->resynced = false;
	if (unlikely(t->unseen || !t->announced || t->need_walk))
		prepare(c, t, ts);
	return ts;
}

RARELY bool grow(struct track_stack *s)
{
	uint32_t size = s->size ? 2 * s->size : 16;
	struct cap_inline_frame *more =
		size > STACK_MAX ? NULL : reallocarray(s->frames, size, sizeof(*more));

	if (!more)
		return false;
	s->frames = more;
	s->size = size;
	return true;
}

static void push(struct cap_inline *c, struct track_stack *s, uint64_t frame, uint32_t code)
{
	if (unlikely(s->cnt == s->size) && !grow(s)) {
		c->failed = -ENOMEM;
		return;
	}
	s->frames[s->cnt++] = (struct cap_inline_frame){ .frame = frame, .code = code };
}

static void enter(struct cap_inline *c, struct track *t, uint64_t ts, uint64_t frame, uint32_t code,
		  uint32_t sub, uint32_t bits)
{
	const struct trace_step s = { .ts_ns = begin(c, t, ts),
				      .frame = frame,
				      .func = code,
				      .kind = (uint8_t)(TRACE_CALL + sub) };

	if (!inline_event(c, t, &s, bits))
		return;
	t->seq++;
	push(c, &t->stack, frame, code);
}

static void leave(struct cap_inline *c, struct track *t, uint64_t ts, uint64_t frame, uint32_t sub)
{
	const struct trace_step s = { .ts_ns = begin(c, t, ts),
				      .frame = frame,
				      .kind = (uint8_t)(TRACE_RETURN + sub) };

	if (!inline_event(c, t, &s, 0))
		return;
	t->seq++;
	t->stack.cnt--;
}

/* Frames up to the innermost that runs: those above it are being closed. */
static uint32_t running_cnt(const struct track_stack *s)
{
	return s->cnt && s->frames[s->cnt - 1].closing ? s->frames[s->cnt - 1].runs : s->cnt;
}

/* The innermost frame that runs. */
static uint64_t caller_of_next(const struct track_stack *s)
{
	uint32_t cnt = running_cnt(s);

	return cnt ? s->frames[cnt - 1].frame : 0;
}

static void unknown_now(struct track *t, uint32_t reason)
{
	if (!t->need_walk)
		t->reason = reason;
	t->need_walk = true;
}

uint32_t track_depth(const struct track *t, uint32_t bits)
{
	uint64_t at = track_top(&t->stack);

	return t->stack.cnt + (!at || il_frame_hash(at) != bits);
}

/* @frame is a whole address, or what an entry says of its caller. */
static bool is_frame(uint64_t at, uint64_t frame, bool whole)
{
	return at && (whole ? at : il_frame_hash(at)) == frame;
}

int track_park(struct track *t, const struct track_stack *stack)
{
	struct track_stack *other = stack->cnt ? parked_with(&t->parked, track_top(stack)) : NULL;
	int err;

	if (other) /* as it was read before */
		free(parked_take(&t->parked, other).frames);
	err = stack->cnt ? parked_add(&t->parked, stack) : 0;
	if (err || !stack->cnt)
		free(stack->frames);
	return err;
}

/* The running stack goes aside, for this one. */
static void run_stack(struct cap_inline *c, struct track *t, struct track_stack stack)
{
	struct track_stack from = t->stack;

	from.stale = t->read_now;
	t->was_unseen = 0;
	t->thrown = (struct track_thrown){ 0 };
	t->stack = stack;
	c->failed = track_park(t, &from) ?: c->failed;
	unknown_now(t, PYE_WALK_SWITCH);
}

void track_switch(struct cap_inline *c, struct track *t, struct track_stack read)
{
	struct track_stack *known = read.cnt ? parked_rooted(&t->parked, read.frames[0].frame)
					     : NULL;

	if (known)
		free(parked_take(&t->parked, known).frames);
	run_stack(c, t, read);
}

/* It does for one of those that are parked, or an empty one. */
static void swap_stacks(struct cap_inline *c, struct track *t, struct track_stack *other)
{
	run_stack(c, t, other ? parked_take(&t->parked, other) : (struct track_stack){ 0 });
}

bool track_is_guest(const struct track_stack *s, uint64_t frame, bool whole)
{
	return s->guest && is_frame(track_top(s), frame, whole);
}

/* A stack of @from that may be another thread's, taken out of it; empty: it has none with this frame on top. */
static struct track_stack give_guest(struct track *from, uint64_t frame, bool whole)
{
	struct track_stack found = { 0 }, *parked;

	if (track_is_guest(&from->stack, frame, whole)) {
		found = from->stack;
		from->stack = (struct track_stack){ 0 };
		unknown_now(from, PYE_WALK_SWITCH);
		return found;
	}
	parked = parked_guest(&from->parked, frame, whole);
	return parked ? parked_take(&from->parked, parked) : found;
}

/*
 * The stack with this frame on top, if another thread is said to have it. A thread state names the thread that has made it: to 3.12
 * the one of an interpreter is made with it, and embedding programs can run any in another thread.
 */
static bool take_guest(struct cap_inline *c, struct track *t, uint64_t frame, bool whole)
{
	if (!c->guests)
		return false;
	for (struct track *other = c->threads; other; other = other->hh.next) {
		struct track_stack found = { 0 };

		if (other != t)
			found = give_guest(other, frame, whole);
		if (!found.cnt)
			continue;
		found.guest = false;
		c->failed = track_park(t, &found) ?: c->failed;
		return !c->failed;
	}
	return false;
}

/* The stack with this frame on top that is not the running one, brought to the front. */
static bool take_parked(struct cap_inline *c, struct track *t, uint64_t frame)
{
	struct track_stack *other = parked_with(&t->parked, frame);

	if (!other && take_guest(c, t, frame, true))
		other = parked_with(&t->parked, frame);
	if (other)
		swap_stacks(c, t, other);
	return other;
}

/* That which calls this frame, by the hash of its top. */
static bool take_caller(struct cap_inline *c, struct track *t, uint32_t bits, uint64_t frame)
{
	struct track_stack *other = parked_caller(&t->parked, bits, frame);

	if (!other && take_guest(c, t, bits, false))
		other = parked_caller(&t->parked, bits, frame);
	if (other)
		swap_stacks(c, t, other);
	return other;
}

/* What is above the first @cnt frames has ended unseen: a kernel probe of others can hide a replaced call, since what it
 * runs is the file's instruction. These events are missing, here. */
static void lose_ends(struct cap_inline *c, struct track *t, uint32_t cnt)
{
	uint32_t gone = t->stack.cnt - cnt;

	if (!gone)
		return;
	/* to 3.11 no call is replaced: what comes here ran, in a trace function, before its caller had shown itself */
	if (!t->read_now && c->e->in->layout.minor > 11) {
		c->unmatched += gone;
		t->seq += gone;
	}
	t->stack.cnt = cnt;
	unknown_now(t, PYE_WALK_UNKNOWN);
}

/* Is a frame near the top of the stack? Then what was above it has ended unseen. */
static bool go_down_to(struct cap_inline *c, struct track *t, uint64_t frame, bool whole)
{
	const struct track_stack *s = &t->stack;

	for (uint32_t i = s->cnt; i-- > 0 && s->cnt - i <= NEAR;) {
		if (!is_frame(s->frames[i].frame, frame, whole))
			continue;
		lose_ends(c, t, i + 1);
		return true;
	}
	return false;
}

/* Where a shim of `__init__` is that may be right below a frame, by what this says of its caller; 0: none can be. */
static uint64_t shim_below(uint64_t frame, uint32_t bits)
{
	for (uint32_t words = SHIM_MIN; words <= SHIM_MAX; words++)
		if (il_frame_hash(frame - 8ull * words) == bits)
			return frame - 8ull * words;
	return 0;
}

/* Is the caller of a frame a shim? That lies behind the frames of its stack, or is the first one of their next chunk; else
 * it is of another stack, which goes on with it, or a frame as small as a shim. */
static bool take_shim(struct cap_inline *c, struct track *t, uint64_t frame, uint32_t bits)
{
	uint64_t shim = c->e->in->layout.minor < 13 ? 0 : shim_below(frame, bits);
	struct track_stack *other;

	if (!shim || parked_with(&t->parked, shim))
		return false;
	if (shim % PAGE_BYTES != CHUNK_NEXT && !track_is_on(&t->stack, shim)) {
		other = parked_on(&t->parked, shim);
		if (!other)
			return false;
		swap_stacks(c, t, other);
	}
	if (t->stack.cnt)
		t->stack.frames[t->stack.cnt - 1].shim = bits | SHIM;
	return t->stack.cnt;
}

/* The shim above the top of the stack. */
static bool is_known_shim(const struct track *t, uint32_t hash)
{
	const struct track_stack *s = &t->stack;

	return s->cnt && s->frames[s->cnt - 1].shim == (hash | SHIM);
}

/* Does the innermost frame that runs call this one? A parked one can have the same hash; then the memory tells, if the
 * target does not. */
static bool is_caller(const struct cap_inline *c, const struct track *t, uint64_t frame,
		      uint32_t bits)
{
	uint64_t caller = caller_of_next(&t->stack);
	const struct track_stack *other;

	if (!caller || il_frame_hash(caller) != bits)
		return false;
	if (c->e->switches || !t->parked.cnt || track_is_behind(frame, caller))
		return true;
	other = parked_caller(&t->parked, bits, frame);
	return !other || !track_is_behind(frame, track_top(other));
}

/*
 * Is a caller that nobody knows one that was suspended at the attach, or in a loss? It is linked to the caller while something
 * is thrown into what it delegates to: a generator, or what lies behind the stack. Else it is of another stack: that is told,
 * or there are some.
 */
static bool may_be_suspended(const struct cap_inline *c, const struct track *t, uint64_t frame,
			     bool thrown)
{
	if (!t->stack.cnt)
		return false;
	return c->e->switches ||
	       (!t->parked.cnt && (thrown || track_is_behind(frame, track_top(&t->stack))));
}

/* All of its frames that are known have ended. */
static bool is_nothing_known(const struct track_stack *s)
{
	return !s->cnt && s->cut;
}

/* Make the stack that of a frame whose caller has this hash, and is not on top. */
RARELY void look_for_caller(struct cap_inline *c, struct track *t, uint64_t frame, uint32_t bits,
			    bool thrown)
{
	if (is_known_shim(t, bits))
		return; /* what `__init__` held is freed, and has a finalizer */
	if (bits && take_shim(c, t, frame, bits))
		return;
	if (bits && take_caller(c, t, bits, frame))
		return;
	if (suspended_any(&c->suspended, bits))
		return; /* linked to the caller, not running */
	if (bits && go_down_to(c, t, bits, false))
		return;
	if (bits && may_be_suspended(c, t, frame, thrown))
		return;
	if (bits && is_nothing_known(&t->stack))
		return; /* another one of those that nobody knows calls: what Nuitka has compiled does that all the time */
	swap_stacks(c, t, NULL);
	t->stack.cut = bits != 0;
}

static void find_caller(struct cap_inline *c, struct track *t, uint64_t frame, uint32_t bits,
			bool thrown)
{
	const struct track_stack *s = &t->stack;

	if (s->cnt ? !is_caller(c, t, frame, bits) : bits || s->cut)
		look_for_caller(c, t, frame, bits, thrown);
}

/* Bring the stack of a frame that is left, or goes on, to the front; false: there is none. */
static bool find_frame(struct cap_inline *c, struct track *t, uint64_t frame)
{
	return track_top(&t->stack) == frame || take_parked(c, t, frame) ||
	       go_down_to(c, t, frame, true);
}

/* 3.11: what was thrown into its delegate came back as a value, and the delegate is over. */
static void note_thrown(struct cap_inline *c, struct track *t, uint32_t by)
{
	t->thrown = (struct track_thrown){ 0 };
	if (c->e->in->layout.minor == 11 && suspended_any(&c->suspended, by))
		t->thrown = (struct track_thrown){ .depth = t->stack.cnt, .by = by };
}

/* The one that delegates goes on if it is what calls next, or ends: with @bits; not if it is thrown into itself, as by close(). */
static void go_on_unseen(struct cap_inline *c, struct track *t, uint32_t bits)
{
	const struct track_thrown thrown = t->thrown;
	struct suspended *f;
	uint32_t by;

	if (!thrown.ns)
		return;
	t->thrown = (struct track_thrown){ 0 };
	f = thrown.by == bits ? suspended_only(&c->suspended, bits) : NULL;
	if (!f)
		return;
	by = f->by;
	enter(c, t, thrown.ns, f->frame, f->code, PYE_ENTRY_RESUME,
	      il_frame_hash(track_top(&t->stack)));
	f->frame = 0;
	note_thrown(c, t, by);
}

/* @sub: enum pye_exit of the frame on top, which has been left. */
static void note_left(struct track *t, uint32_t sub)
{
	if (!t->thrown.depth || t->thrown.depth <= t->stack.cnt)
		return;
	if (sub == PYE_EXIT_RETURN && t->thrown.depth == t->stack.cnt + 1)
		t->thrown.ns = t->last_ns;
	else
		t->thrown = (struct track_thrown){ 0 };
}

/*
 * 3.11: the function of sys.settrace() is called before the RESUME. And when what a generator delegates to ends a
 * throw by StopIteration, the generator goes on with that value behind the RESUME; what it does next shows it. What
 * is thrown into the generator itself shows at once.
 */
static bool runs_unseen(struct cap_inline *c, uint64_t ts, uint64_t frame)
{
	struct suspended *f = c->e->in->layout.minor == 11 ? suspended_find(&c->suspended, frame)
							   : NULL;

	if (!f)
		return false;
	enter(c, c->now, ts, f->frame, f->code, PYE_ENTRY_RESUME,
	      il_frame_hash(track_top(&c->now->stack)));
	f->frame = 0;
	return true;
}

/* 3.11: what has called a trace function before it has shown itself, or after its end; 0: nothing has. The target tells that once: a
 * profile function can be called next, and then what has the same address. */
static uint64_t unseen_caller(const struct track *t)
{
	if (t->unseen)
		return t->unseen;
	return t->unseen_depth == t->stack.cnt ? t->was_unseen : 0;
}

static bool is_unseen(const struct track *t, uint32_t bits)
{
	uint64_t caller = unseen_caller(t);

	return caller && il_frame_hash(caller) == bits;
}

void track_throw(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t bits)
{
	if (c->now->thrown.by != il_frame_hash(frame))
		go_on_unseen(c, c->now, bits);
	if (!is_unseen(c->now, bits))
		find_caller(c, c->now, frame, bits, true);
	suspended_forget(&c->suspended, frame);
	enter(c, c->now, ts, frame, code, PYE_ENTRY_THROW, bits);
	note_thrown(c, c->now, bits);
}

/* An entry of the frame on top: is it a new one? Else RESUME ran twice. */
static bool is_entered_anew(struct cap_inline *c, struct track *t, uint32_t code)
{
	const struct cap_inline_frame *f = &t->stack.frames[t->stack.cnt - 1];

	if (t->resynced)
		t->stack.cnt--; /* it was on the stack already, its entry comes now */
	else if (code && f->code && f->code != code)
		lose_ends(c, t, t->stack.cnt - 1); /* another one's was there, and has ended */
	else
		return false;
	return true;
}

void track_entry(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t sub,
		 uint32_t bits)
{
	struct track *t = c->now;

	go_on_unseen(c, t, bits);
	if (track_top(&t->stack) == frame && !is_entered_anew(c, t, code))
		return;
	if (sub == PYE_ENTRY_RESUME)
		suspended_forget(&c->suspended, frame);
	if (!is_unseen(t, bits))
		find_caller(c, t, frame, bits, false);
	else if (!t->unseen_waits)
		runs_unseen(c, ts, t->unseen);
	enter(c, t, ts, frame, code, sub, bits);
}

/*
 * A frame that is not on its stack ends. It was not any more when that was read, in the middle of its end; or
 * something went wrong here. What it shows is that the stack is not known: one event is missing, here.
 */
static void lose_end(struct cap_inline *c, struct track *t)
{
	c->unmatched += !t->read_now;
	t->seq++;
	t->read_now = t->resynced = false;
	unknown_now(t, PYE_WALK_UNKNOWN);
}

/* No recursion is left: it was cleared before it ran. */
static bool never_began(const struct cap_inline *c, uint64_t instr)
{
	const struct pye_pylayout *l = &c->e->in->layout;

	/* to 3.12 it says which instruction was the last one, then which is next */
	return instr && instr + (l->minor <= 12 ? 2 : 0) == l->co_code_adaptive;
}

void track_exit(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t sub)
{
	struct track *t = c->now;

	go_on_unseen(c, t, il_frame_hash(frame));
	if (is_known_shim(t, il_frame_hash(frame)) && track_top(&t->stack) != frame) {
		t->stack.frames[t->stack.cnt - 1].shim = 0;
		return;
	}
	if (!find_frame(c, t, frame) && !runs_unseen(c, ts, frame)) {
		if (!is_nothing_known(&t->stack))
			lose_end(c, t); /* else it is one of those below, which are not known */
		return;
	}
	if (sub == PYE_EXIT_YIELD)
		suspended_add(&c->suspended,
			      &(struct suspended){ frame, t->stack.frames[t->stack.cnt - 1].code,
						   track_below(&t->stack) });
	leave(c, t, ts, frame, sub);
	note_left(t, sub);
}

void track_caught(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint32_t bits)
{
	go_on_unseen(c, c->now, il_frame_hash(frame));
	if (!find_frame(c, c->now, frame))
		track_throw(c, ts, frame, code, bits);
}

void track_unwind(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t bits,
		  const struct track_end_of *of)
{
	struct track *t = c->now;

	go_on_unseen(c, t, il_frame_hash(frame));
	if (!find_frame(c, t, frame)) {
		if (never_began(c, of->instr))
			return;
		if (!of->generator) {
			if (frame != unseen_caller(t)) /* else its trace function has raised */
				lose_end(c, t);
			return;
		}
		track_throw(c, ts, frame, of->code, bits);
		if (c->failed || !t->stack.cnt)
			return;
	}
	leave(c, t, ts, frame, PYE_EXIT_UNWIND);
	note_left(t, PYE_EXIT_UNWIND);
}

void track_close(struct cap_inline *c, uint64_t ts, uint64_t frame, uint32_t code, uint64_t sp)
{
	struct track_stack *s = &c->now->stack;
	uint32_t runs = running_cnt(s);

	suspended_forget(&c->suspended, frame);
	enter(c, c->now, ts, frame, code, PYE_ENTRY_THROW, il_frame_hash(track_top(s)));
	if (c->failed || !s->cnt)
		return;
	if (!sp) {
		leave(c, c->now, ts, frame, PYE_EXIT_UNWIND);
		return;
	}
	s->frames[s->cnt - 1].closing = sp;
	s->frames[s->cnt - 1].runs = runs;
}

void track_closed(struct cap_inline *c, uint64_t ts, uint64_t sp)
{
	struct track_stack *s = &c->now->stack;

	if (sp && s->cnt && s->frames[s->cnt - 1].closing == sp)
		leave(c, c->now, ts, track_top(s), PYE_EXIT_UNWIND);
}

/* All of its frames have come. What is known of a stack is better, as it has those that are in the middle of an event; but
 * not what was read in the middle of one whose end was never seen. */
static void take_told(struct cap_inline *c, struct track *t)
{
	struct track_stack told = t->told, *known;
	uint64_t root = told.frames[told.cnt - 1].frame;

	if (track_is_rooted(&t->stack, root))
		return;
	known = parked_with(&t->parked, told.frames[0].frame);
	if (!known || !track_is_rooted(known, root))
		known = parked_rooted(&t->parked, root);
	/* the target has a small table of those that it has told */
	if (known && !known->stale) {
		swap_stacks(c, t, known);
		return;
	}
	if (known)
		free(parked_take(&t->parked, known).frames);
	for (uint32_t i = 0, k = told.cnt - 1; i < k; i++, k--) {
		struct cap_inline_frame f = told.frames[i];

		told.frames[i] = told.frames[k];
		told.frames[k] = f;
	}
	t->told = (struct track_stack){ 0 };
	run_stack(c, t, told);
}

/* The stack with this frame on top goes on; it can have frames above that the target does not count. 0: a new one. */
static void go_on(struct cap_inline *c, struct track *t, uint64_t frame, bool waits)
{
	struct track_stack *other = parked_with(&t->parked, frame);

	for (uint32_t i = t->stack.cnt; i-- > 0 && t->stack.cnt - i <= NEAR;)
		if (t->stack.frames[i].frame == frame)
			return;
	if (other || (!frame && t->stack.cnt))
		swap_stacks(c, t, other);
	else if (c->e->in->layout.minor == 11) {
		t->unseen = frame;
		t->unseen_waits = waits;
	}
}

void track_frame(struct cap_inline *c, uint64_t frame, uint32_t code, uint64_t flags)
{
	struct track *t = c->now;

	if (flags & IL_FRAME_KNOWN) {
		if (flags & IL_FRAME_BEGINS)
			suspended_forget(&c->suspended, frame);
		go_on(c, t, frame, flags & IL_FRAME_WAITS);
		return;
	}
	if (flags & IL_FRAME_FIRST)
		t->told.cnt = 0;
	push(c, &t->told, frame, code);
	if (flags & IL_FRAME_LAST && !c->failed)
		take_told(c, t);
}

struct track *track_get(struct cap_inline *c, uint64_t self, uint64_t tid)
{
	struct track key = { .key = { self, tid } }, *t;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): uthash reads the key by bytes */
	HASH_FIND(hh, c->threads, &key.key, sizeof(key.key), t);
	if (t)
		return t;
	t = HASH_COUNT(c->threads) < THREADS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	t->key = key.key;
	t->tix = ++c->ids->thread;
	HASH_ADD(hh, c->threads, key, sizeof(t->key), t);
	return t;
}

void track_end(struct cap_inline *c, struct track *t, uint64_t ts)
{
	struct pye_thread_end_rec *rec;

	if (!t->announced)
		return; /* the capture knows it from outside only, and ends it with the process */
	rec = inline_put(c, sizeof(*rec));
	if (!rec)
		return;
	memset(rec, 0, sizeof(*rec));
	rec->head = head_of(t, ts > t->last_ns ? ts : t->last_ns, PYE_REC_THREAD_END, 0, 0);
	rec->pix = c->pix;
	read_name(c, t->key.tid, rec->comm);
}

void track_free(struct cap_inline *c, struct track *t)
{
	if (c->now == t)
		c->now = NULL;
	lanes_forget(c, t);
	HASH_DEL(c->threads, t);
	free(t->stack.frames);
	free(t->told.frames);
	parked_clear(&t->parked);
	free(t);
}
