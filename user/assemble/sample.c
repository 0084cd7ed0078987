// SPDX-License-Identifier: Apache-2.0
/*
 * Samples: their frames are addresses of code objects, which are named here, from outside. What was
 * read of a code object is kept by its address, and is compared with what is there now and then: the
 * address may have been given to another one since.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assemble/assemble_priv.h"
#include "assemble/native.h"
#include "assemble/sample.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cpython/code_read.h"
#include "cpython/linetable.h"
#include "cpython/lock_outside.h"

#define CODES_MAX   (1u << 18) /* of a process; past it all are read anew */
#define LINES_CACHE 8 /* a power of two */
/* What lies at an address is compared as often, where a code object that dies says so: there it is for those that could not. */
#define CHECK_NS	(60 * 1000000000ull)

#define MEMORY_STEP	(64u << 10)
#define MEMORY_EVERY_NS 10000000u

/* What tells a code object from one that took its place. */
struct asm_code_mark {
	uint64_t name, filename, linetable;
	uint32_t line, flags;
};

struct asm_code {
	uint64_t address;
	uint32_t func; /* id; 0: not defined yet */
	bool hidden;
	lock_role role;
	uint64_t read_ns; /* when it was read; of what lay there then */
	uint64_t died_ns; /* 0: lives, as far as known */
	uint32_t died_round;
	struct asm_code *older; /* that died at the same address before */
	char *text[PYE_STR_CNT]; /* of one that was dead when it was first heard of */
	uint64_t checked; /* number of the batch in which it was compared */
	uint64_t checked_ns,
		suspected; /* for a sample of that time; assembler__suspect() was called so often */
	struct asm_code_mark mark;
	struct linetable lines;
	struct {
		uint64_t instr;
		uint32_t line;
	} cache[LINES_CACHE];
	UT_hash_handle hh;
};

static void code_free(struct asm_code *c)
{
	for (int i = 0; i < PYE_STR_CNT; i++)
		free(c->text[i]);
	linetable__done(&c->lines);
	free(c);
}

static void forget_living(struct asm_codes *codes)
{
	struct asm_code *c, *next;

	HASH_ITER(hh, codes->by_address, c, next)
	{
		HASH_DEL(codes->by_address, c);
		code_free(c);
	}
}

/* Those of an address that died in @round or before; all with UINT32_MAX. */
static void forget_dead(struct assembler *a, struct asm_process *p, struct asm_codes *codes,
			bool all)
{
	struct asm_code *c, *next, **at;

	HASH_ITER(hh, codes->dead, c, next)
	{
		for (at = &c->older; *at;) {
			struct asm_code *old = *at;

			if (!all && !asm_settled(a, old->died_round)) {
				at = &old->older;
				continue;
			}
			*at = old->older;
			a->dead_cnt--;
			if (p && old->func)
				asm_retire(a, p->pix, old->func);
			code_free(old);
		}
		if (c->older || (!all && !asm_settled(a, c->died_round)))
			continue;
		HASH_DEL(codes->dead, c);
		a->dead_cnt--;
		if (p && c->func)
			asm_retire(a, p->pix, c->func);
		code_free(c);
	}
}

void asm_codes_free(struct assembler *a, struct asm_codes *codes)
{
	forget_living(codes);
	forget_dead(a, NULL, codes, true);
	free(codes->locks);
	codes->locks = NULL;
}

void asm_forget_dead(struct assembler *a)
{
	struct asm_process *p;

	for (p = a->dead_cnt ? a->processes : NULL; p; p = p->hh.next)
		forget_dead(a, p, &p->codes_sampled, false);
}

int asm_define(struct assembler *a, struct asm_process *p, struct trace_func *func)
{
	int err;

	func->id = ++a->next_func;
	func->process = p->pix;
	err = capw__func(a->w, func);
	if (err == -ENOMEM) {
		asm_retire_all(a);
		err = capw__func(a->w, func);
	}
	return err ? err : asm_process_code(p, func->id);
}

uint32_t asm_mark(struct assembler *a, struct asm_process *p, uint32_t which, const char *name)
{
	struct trace_func func = { .name = name, .qualname = name, .file = "" };

	if (!p->codes_sampled.marks[which] && !asm_define(a, p, &func))
		p->codes_sampled.marks[which] = func.id;
	return p->codes_sampled.marks[which];
}

static int read_mark(const struct asm_process *p, uint64_t address, struct asm_code_mark *mark)
{
	const struct pye_pylayout *l = &p->layout;
	uint8_t head[512];
	size_t size = (size_t)(l->co_linetable > l->co_name ? l->co_linetable : l->co_name) + 8;

	if (size > sizeof(head) || l->co_filename + 8u > size)
		return -EINVAL;
	if (proc_mem__read(&p->mem, address, head, size))
		return -EFAULT;
	memcpy(&mark->name, head + l->co_name, 8);
	memcpy(&mark->filename, head + l->co_filename, 8);
	memcpy(&mark->linetable, head + l->co_linetable, 8);
	memcpy(&mark->line, head + l->co_firstlineno, 4);
	memcpy(&mark->flags, head + l->co_flags, 4);
	return 0;
}

static bool same(const struct asm_code_mark *x, const struct asm_code_mark *y)
{
	return x->name == y->name && x->filename == y->filename && x->linetable == y->linetable &&
	       x->line == y->line && x->flags == y->flags;
}

/* @from: whose memory is read */
static struct asm_code *code_new(struct assembler *a, struct asm_process *p,
				 const struct asm_process *from, uint64_t address)
{
	auto_free struct code_names *names = malloc(sizeof(*names));
	struct asm_code *c = calloc(1, sizeof(*c));
	uint64_t began = now_ns();
	struct asm_code_mark after;
	struct trace_func func;

	if (!c || !names || read_mark(from, address, &c->mark) ||
	    code_read(&from->mem, &p->layout, address, names) || read_mark(from, address, &after) ||
	    !same(&c->mark, &after))
		goto unreadable;
	func = (struct trace_func){ .line = (uint32_t)names->firstlineno,
				    .name = names->name,
				    .qualname = names->qualname,
				    .file = names->filename };
	if (asm_define(a, p, &func))
		goto unreadable;
	c->address = address;
	c->read_ns = began;
	c->func = func.id;
	c->hidden = names->flags & p->layout.co_hidden;
	c->role = lock_role_of(names->filename, names->name);
	linetable__read(&c->lines, &from->mem, &p->layout, address);
	a->codes_read++;
	return c;
unreadable:
	free(c);
	return NULL;
}

uint64_t assembler__codes_read(const struct assembler *a)
{
	return a->codes_read;
}

/* The one that lay at an address at a time; NULL: it has not died since. */
static struct asm_code *dead_at(struct asm_codes *codes, uint64_t address, uint64_t ts_ns)
{
	struct asm_code *c, *best = NULL;

	if (!codes->dead)
		return NULL;
	HASH_FIND(hh, codes->dead, &address, sizeof(address), c);
	for (; c && c->died_ns > ts_ns; c = c->older)
		best = c;
	return best;
}

static int define_dead(struct assembler *a, struct asm_process *p, struct asm_code *c)
{
	const char *name = c->text[PYE_STR_NAME], *qualname = c->text[PYE_STR_QUALNAME];
	struct trace_func func = { .line = c->mark.line };
	int err;

	if (c->func)
		return 0;
	if (!name && !qualname)
		return -EFAULT;
	func.name = name ? name : qualname;
	func.qualname = qualname ? qualname : name;
	func.file = c->text[PYE_STR_FILE] ? c->text[PYE_STR_FILE] : "[unreadable]";
	err = asm_define(a, p, &func);
	if (!err)
		c->func = func.id;
	return err;
}

void asm_code_died(struct assembler *a, struct asm_process *p, const struct pye_def_rec *rec,
		   char *text[PYE_STR_CNT])
{
	struct asm_codes *codes = &p->codes_sampled;
	uint64_t address = rec->head.frame;
	struct asm_code *c, *older;

	HASH_FIND(hh, codes->by_address, &address, sizeof(address), c);
	if (c && c->read_ns < rec->head.ts_ns) {
		HASH_DEL(codes->by_address, c);
	} else { /* never sampled, or read too late: that was another one */
		c = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->address = address;
		c->mark.line = rec->line;
		c->hidden = rec->flags & p->layout.co_hidden;
		memcpy(c->text, text, sizeof(c->text));
		memset(text, 0, sizeof(c->text));
	}
	a->codes_read++;
	c->died_ns = rec->head.ts_ns;
	c->died_round = a->round;
	a->dead_cnt++;
	HASH_FIND(hh, codes->dead, &address, sizeof(address), older);
	if (older)
		HASH_DEL(codes->dead, older);
	c->older = older;
	HASH_ADD(hh, codes->dead, address, sizeof(c->address), c);
}

void assembler__sampling(struct assembler *a,
			 bool (*deaths)(void *ctx, struct capture_batch *batch), void *ctx)
{
	a->sampling = true;
	a->deaths = deaths;
	a->deaths_ctx = ctx;
}

/* What has died until now, while this batch of samples was looked at. */
static void hear_of_deaths(struct assembler *a)
{
	struct capture_batch batch;
	const void *rec;
	uint32_t len;
	size_t at;

	while (a->deaths && a->deaths(a->deaths_ctx, &batch))
		for (at = 0; (rec = capture_record(&batch, &at, &len));)
			asm_dispatch(a, rec, len);
}

void assembler__suspect(struct assembler *a)
{
	a->suspected++;
}

static bool is_checked(const struct assembler *a, const struct asm_process *p,
		       const struct asm_code *c, uint64_t ts_ns)
{
	return c->checked == a->batches ||
	       (p->deaths_told && c->suspected == a->suspected && ts_ns < c->checked_ns + CHECK_NS);
}

static void set_checked(const struct assembler *a, struct asm_code *c, uint64_t ts_ns)
{
	c->checked = a->batches;
	c->checked_ns = ts_ns;
	c->suspected = a->suspected;
}

static void drop(struct assembler *a, struct asm_process *p, struct asm_code *c)
{
	asm_retire(a, p->pix, c->func);
	code_free(c);
}

/* The code object that lies at an address of a process, by what that one shows; NULL: not readable. */
static struct asm_code *code_of(struct assembler *a, struct asm_process *p, uint64_t address,
				uint64_t ts_ns)
{
	struct asm_codes *codes = &p->codes_sampled;
	struct asm_code *c, *now, *dead;
	struct asm_code_mark mark;

	c = dead_at(codes, address, ts_ns);
	if (c)
		return define_dead(a, p, c) ? NULL : c;
	HASH_FIND(hh, codes->by_address, &address, sizeof(address), c);
	if (c && (!p->mem_open || is_checked(a, p, c, ts_ns)))
		return c;
	if (c) {
		set_checked(a, c, ts_ns);
		if (read_mark(p, address, &mark) || same(&mark, &c->mark))
			return c;
	}
	if (!c && HASH_COUNT(codes->by_address) >= CODES_MAX)
		forget_living(codes);
	now = p->mem_open ? code_new(a, p, p, address) : NULL;
	/* what was read may have come there after the sample */
	hear_of_deaths(a);
	dead = dead_at(codes, address, ts_ns);
	if (dead) {
		if (now)
			drop(a, p, now);
		return define_dead(a, p, dead) ? NULL : dead;
	}
	HASH_FIND(hh, codes->by_address, &address, sizeof(address), c);
	/* gone meanwhile, and nothing in its place: the sample is from before */
	if (!now)
		return c;
	if (c) {
		HASH_DEL(codes->by_address, c);
		drop(a, p, c);
	}
	HASH_ADD(hh, codes->by_address, address, sizeof(now->address), now);
	set_checked(a, now, ts_ns);
	return now;
}

/*
 * Of a process that ended before it could be read: what it was forked with, if its maker has it still. When that came
 * to be there is not known, so it has to have been read before the fork; what was not is read for those that are
 * forked from now on.
 */
static struct asm_code *code_inherited(struct assembler *a, struct asm_process *p, uint64_t address)
{
	struct asm_process *from = asm_process_find(a, p->forked_from);
	struct asm_code *c, *theirs = NULL, *dead = NULL;

	if (!from || !from->mem_open || !from->deaths_told || p->forked_suspected != a->suspected)
		return NULL;
	if (p->codes_sampled.dead)
		HASH_FIND(hh, p->codes_sampled.dead, &address, sizeof(address), dead);
	if (dead) /* and another one came to lie there */
		return NULL;
	theirs = code_of(a, from, address, now_ns());
	if (!theirs || theirs->read_ns >= p->forked_ns)
		return NULL;
	c = code_new(a, p, from, address);
	hear_of_deaths(a);
	HASH_FIND(hh, from->codes_sampled.by_address, &address, sizeof(address), theirs);
	if (c && theirs && theirs->read_ns < p->forked_ns && same(&c->mark, &theirs->mark)) {
		HASH_ADD(hh, p->codes_sampled.by_address, address, sizeof(c->address), c);
		return c;
	}
	if (c)
		drop(a, p, c);
	return NULL;
}

static struct asm_code *code_get(struct assembler *a, struct asm_process *p, uint64_t address,
				 uint64_t ts_ns)
{
	struct asm_code *c = code_of(a, p, address, ts_ns);

	return c ? c : code_inherited(a, p, address);
}

static uint32_t line_of(struct asm_code *c, const struct pye_pylayout *l, uint64_t instr)
{
	unsigned int slot = (unsigned int)(instr >> 1) % LINES_CACHE;

	if (c->cache[slot].instr != instr || !c->cache[slot].line) {
		c->cache[slot].instr = instr;
		c->cache[slot].line = linetable__line(&c->lines, l, c->address, instr);
	}
	return c->cache[slot].line;
}

/* Frame number @n of a walk, as the kernel side puts it. */
static const struct pye_sample_frame *frame_of(const struct pye_sample_rec *rec, uint32_t n)
{
	uint32_t half = PYE_SAMPLE_FRAMES / 2;

	return &rec->frames[n < half ? n : half + n % half];
}

/* The stack of a thread that lost the CPU. */
struct asm_off {
	uint64_t ts_ns;
	uint64_t shown_ns; /* of the time since then, by asm_waiting_so_far() */
	uint8_t reason, lock_type;
	uint64_t lock;
	struct trace_frame holder;
	uint32_t cnt;
	struct trace_frame frames[];
};

struct stack {
	struct assembler *a;
	struct asm_process *p;
	uint32_t cnt;
	bool entered; /* the last one that was left out was an entry: the next one stands for it */
	struct trace_frame frames[TRACE_SAMPLE_FRAMES]; /* outermost first */
	bool entries[PYE_SAMPLE_FRAMES + 4]; /* of the Python frames: C called it */
};

static void add(struct stack *s, uint32_t func, uint32_t line)
{
	s->entries[s->cnt] = s->entered;
	s->entered = false;
	s->frames[s->cnt++] = (struct trace_frame){ func, line };
}

static void add_frame(struct stack *s, const struct pye_sample_frame *frame, uint64_t ts_ns)
{
	uint64_t code = frame->code & ~PYE_FRAME_ENTRY;
	struct asm_code *c = code ? code_get(s->a, s->p, code, ts_ns) : NULL;

	s->entered = s->entered || frame->code & PYE_FRAME_ENTRY ||
		     s->p->layout.flags & PYE_LAYOUT_FRAME_OBJECT;
	if (!c) {
		s->a->odd.unnamed++;
		add(s, asm_mark(s->a, s->p, MARK_UNREADABLE, "[unreadable code object]"), 0);
	} else if (!c->hidden) {
		add(s, c->func, line_of(c, &s->p->layout, frame->instr));
	}
}

/* Why the outermost frame is not the root. */
static const char *ended(unsigned int status)
{
	switch (status) {
	case PYE_SAMPLE_NO_STATE:
		return "[no Python]";
	case PYE_SAMPLE_NO_FRAMES:
		return "[no Python frame]";
	case PYE_SAMPLE_FAULT:
		return "[unreadable: page fault]";
	case PYE_SAMPLE_DEEP:
		return "[truncated: too deep]";
	default:
		return NULL;
	}
}

static struct asm_code *code_of_frame(struct assembler *a, struct asm_process *p,
				      const struct pye_sample_rec *rec, uint32_t n)
{
	uint64_t code = frame_of(rec, n)->code & ~PYE_FRAME_ENTRY;

	return code ? code_get(a, p, code, rec->head.ts_ns) : NULL;
}

#define GENERATOR_FLAGS \
	(0x20 | 0x80 | 0x200) /* of co_flags: generator, coroutine, asynchronous generator */

/* A generator that yields forgets its caller some instructions before, as compilers order them, the thread
 * does: a generator at the root has lost its caller. Frame objects are not treated so. */
static bool is_torn(struct stack *s, const struct pye_sample_rec *rec)
{
	const struct asm_code *c;

	if (rec->head.sub != PYE_SAMPLE_OK || !rec->cnt ||
	    s->p->layout.flags & PYE_LAYOUT_FRAME_OBJECT)
		return false;
	c = code_of_frame(s->a, s->p, rec, rec->cnt - 1);
	return c && c->mark.flags & GENERATOR_FLAGS;
}

static void fill(struct stack *s, struct asm_thread *t, const struct pye_sample_rec *rec)
{
	uint32_t half = PYE_SAMPLE_FRAMES / 2, cut = rec->cnt;
	const char *why = ended(rec->head.sub);

	if (why)
		add(s, asm_mark(s->a, s->p, rec->head.sub, why), 0);
	else if (is_torn(s, rec))
		add(s, asm_mark(s->a, s->p, MARK_TORN, "[unreadable: caller of a generator]"), 0);
	for (uint32_t n = rec->cnt; n-- > 0;) {
		/* the outer half ends where the slots repeat; what they held before is the middle */
		if (rec->cnt > PYE_SAMPLE_FRAMES && n >= half && n < rec->cnt - half) {
			if (cut == rec->cnt)
				add(s,
				    asm_mark(s->a, s->p, MARK_CUT,
					     "[truncated: frames in between]"),
				    0);
			cut = n;
			n = half;
			continue;
		}
		add_frame(s, frame_of(rec, n), rec->head.ts_ns);
	}
	if (t->native)
		s->cnt = asm_native_weave(s->a, t, rec, s->frames, s->entries, s->cnt);
}

static int put(struct assembler *a, struct asm_thread *t, const struct trace_frame *frames,
	       uint32_t cnt, struct trace_sample *sample)
{
	int err;

	sample->thread = t->id;
	sample->frames = frames;
	sample->frame_cnt = cnt;
	err = capw__sample(a->w, sample);
	if (err == -EINVAL || err == -ENOMEM)
		a->unusable++;
	return err == -EINVAL ? 0 : err;
}

/* The memory of the process, where it changed by more than the kernel knows it to. */
static int put_memory(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec)
{
	struct asm_process *p = t->process;
	struct trace_memory memory = { .ts_ns = rec->head.ts_ns,
				       .rss_bytes =
					       (uint64_t)rec->rss_pages * (uint64_t)getpagesize(),
				       .thread = t->id };
	uint64_t more = memory.rss_bytes > p->rss_bytes ? memory.rss_bytes - p->rss_bytes
							: p->rss_bytes - memory.rss_bytes;

	if (!rec->rss_pages || more < MEMORY_STEP ||
	    (p->rss_ns && memory.ts_ns < p->rss_ns + MEMORY_EVERY_NS))
		return 0;
	p->rss_bytes = memory.rss_bytes;
	p->rss_ns = memory.ts_ns;
	return capw__memory(a->w, &memory);
}

int asm_sample(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec)
{
	struct stack s = { .a = a, .p = t->process };
	struct trace_sample sample = { .ts_ns = rec->head.ts_ns, .weight_ns = rec->weight_ns };
	int err;

	fill(&s, t, rec);
	err = put(a, t, s.frames, s.cnt, &sample);
	return asm_first(err, put_memory(a, t, rec));
}

/* The frame of another thread; nothing, if that was not one any more when it was read. */
static struct trace_frame holder_of(struct assembler *a, struct asm_process *p,
				    const struct pye_sample_rec *rec)
{
	const struct pye_sample_frame *frame = &rec->holder;
	struct asm_code *c = frame->code ? code_get(a, p, frame->code, rec->head.ts_ns) : NULL;

	if (!c || c->hidden)
		return (struct trace_frame){ 0 };
	return (struct trace_frame){ c->func, line_of(c, &p->layout, frame->instr) };
}

_Static_assert((int)PYE_LOCK_IMPORT == (int)LOCK_IMPORT && LOCK_CNT == PYE_LOCK_IMPORT + 1,
	       "the same numbers");

/* By the functions of the standard library that wait, else by the object. */
static void tell_lock(struct assembler *a, struct asm_process *p, const struct pye_sample_rec *rec,
		      struct asm_off *off)
{
	lock_role roles[LOCK_ROLES];
	struct lock_found found;
	size_t cnt = 0;

	for (uint32_t n = 0; n < rec->cnt && n < PYE_SAMPLE_FRAMES / 2 && cnt < LOCK_ROLES; n++) {
		const struct asm_code *c = code_of_frame(a, p, rec, n);

		if (c && !c->hidden)
			roles[cnt++] = c->role;
	}
	off->lock_type = (uint8_t)lock_type_by_roles(roles, cnt);
	if (!p->codes_sampled.locks)
		p->codes_sampled.locks = calloc(1, sizeof(*p->codes_sampled.locks));
	if (!p->codes_sampled.locks || !p->mem_open)
		return;
	found = lock_find(&p->mem, &p->layout, p->codes_sampled.locks, rec->futex, &rec->lock,
			  rec->head.ts_ns);
	if (found.object)
		off->lock = found.object;
	if (!off->lock_type)
		off->lock_type = (uint8_t)found.type;
}

/* Named now: by the end of its wait the process may have ended, too. */
static int keep(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec,
		uint64_t ts_ns)
{
	struct stack s = { .a = a, .p = t->process };
	struct asm_off *off;

	fill(&s, t, rec);
	off = realloc(t->off, sizeof(*off) + s.cnt * sizeof(s.frames[0]));
	if (!off)
		return -ENOMEM;
	off->ts_ns = ts_ns;
	off->shown_ns = 0;
	off->reason = rec->reason;
	off->lock = rec->futex;
	off->lock_type = LOCK_UNKNOWN;
	off->holder = (struct trace_frame){ 0 };
	if (rec->reason == PYE_OFF_GIL)
		off->holder = holder_of(a, t->process, rec);
	else if (off->reason == PYE_OFF_LOCK)
		tell_lock(a, t->process, rec, off);
	off->cnt = s.cnt;
	memcpy(off->frames, s.frames, s.cnt * sizeof(s.frames[0]));
	t->off = off;
	return 0;
}

int asm_sample_keep(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec)
{
	int err = put_memory(a, t, rec);

	a->inferred--; /* it is half of an event */
	return asm_first(err, keep(a, t, rec, rec->head.ts_ns));
}

int asm_waiting_since(struct assembler *a, struct asm_thread *t, const struct pye_sample_rec *rec)
{
	return keep(a, t, rec, t->trace.start_ns);
}

/* A stack that was taken when the thread lost the CPU, for the time until now. */
static int put_off(struct assembler *a, struct asm_thread *t, uint64_t ts_ns, uint64_t weight_ns)
{
	auto_free struct asm_off *off = t->off;
	struct trace_sample sample = { .ts_ns = ts_ns,
				       .weight_ns = weight_ns > off->shown_ns
							    ? weight_ns - off->shown_ns
							    : 0,
				       .off_cpu = true,
				       .reason = off->reason,
				       .lock = off->lock,
				       .lock_type = off->lock_type,
				       .holder = off->holder };

	t->off = NULL;
	return put(a, t, off->frames, off->cnt, &sample);
}

int asm_wait(struct assembler *a, struct asm_thread *t, const struct pye_wait_rec *rec)
{
	struct stack s = { .a = a, .p = t->process };
	struct trace_sample sample = { .ts_ns = rec->head.ts_ns,
				       .weight_ns = rec->weight_ns,
				       .off_cpu = true,
				       .reason = (uint8_t)rec->reason };

	if (rec->head.sub && t->off)
		return put_off(a, t, rec->head.ts_ns, rec->weight_ns);
	free(t->off);
	t->off = NULL;
	add(&s, asm_mark(a, t->process, MARK_NOT_TAKEN, "[not sampled: waits too often]"), 0);
	return put(a, t, s.frames, s.cnt, &sample);
}

int asm_still_waiting(struct assembler *a, struct asm_thread *t, uint64_t now_ns)
{
	if (!t->off || now_ns <= t->off->ts_ns)
		return 0;
	a->inferred++;
	return put_off(a, t, now_ns, now_ns - t->off->ts_ns);
}

int asm_waiting_so_far(struct assembler *a, struct asm_thread *t, uint64_t now_ns)
{
	struct asm_off *off = t->off;
	struct trace_sample sample = { .ts_ns = now_ns, .off_cpu = true };

	if (!off || now_ns <= off->ts_ns + off->shown_ns)
		return 0;
	sample.weight_ns = now_ns - off->ts_ns - off->shown_ns;
	sample.reason = off->reason;
	sample.lock = off->lock;
	sample.lock_type = off->lock_type;
	sample.holder = off->holder;
	off->shown_ns += sample.weight_ns;
	a->inferred++;
	return put(a, t, off->frames, off->cnt, &sample);
}

static int each_thread(struct assembler *a, uint64_t now_ns,
		       int (*fn)(struct assembler *a, struct asm_thread *t, uint64_t now_ns))
{
	struct asm_thread *t, *next;
	int err = 0;

	HASH_ITER(hh, a->threads, t, next)
	err = asm_first(err, fn(a, t, now_ns));
	return err;
}

int assembler__still_waiting(struct assembler *a, uint64_t now_ns)
{
	return each_thread(a, now_ns, asm_still_waiting);
}

int assembler__waiting_so_far(struct assembler *a, uint64_t now_ns)
{
	return each_thread(a, now_ns, asm_waiting_so_far);
}
