// SPDX-License-Identifier: Apache-2.0
#include "assemble/native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"
#include "base/grow.h"
#include "base/idmap.h"
#include "symbol/symbols.h"

#define PLACES_MAX    (1u << 17) /* addresses of a process that are remembered */
#define FUNCTIONS_MAX (1u << 18) /* and functions */
#define LOOP_MAX      (sizeof(((struct assembler_loop *)0)->offsets) / sizeof(uint64_t))
#define CALL_BYTES    7 /* the longest call instruction */

struct asm_native_stack {
	uint32_t seq; /* of the sample that they belong to */
	uint32_t end; /* enum pye_native_end */
	uint32_t kernel_cnt, user_cnt;
	uint64_t addrs[];
};

enum place_kind {
	PLACE_CODE,
	PLACE_LOOP, /* the interpreter's loop */
	PLACE_SWITCH, /* where the kernel's scheduler begins */
	PLACE_NOTHING, /* no code, or a call does not return there */
};

struct place {
	uint32_t func; /* id */
	uint32_t kind; /* enum place_kind */
};

struct asm_natives {
	struct symbol_space *space;
	struct idmap by_address; /* -> index of places */
	struct idmap by_symbol; /* -> id of the function */
	bool loop_known;
	uint64_t loop[LOOP_MAX]; /* pieces of the interpreter's loop; 0: none */
	struct place *places;
	uint32_t cnt, size;
};

void assembler__native(struct assembler *a, struct symbols *symbols)
{
	a->symbols = symbols;
}

const struct assembler_natives *assembler__natives(const struct assembler *a)
{
	return &a->natives;
}

int asm_native(struct assembler *a, struct asm_thread *t, const struct pye_native_rec *rec,
	       uint32_t len)
{
	uint32_t cnt = (uint32_t)rec->kernel_cnt + rec->user_cnt;
	struct asm_native_stack *n;

	if (!t || !a->symbols || cnt > PYE_NATIVE_ADDRS ||
	    len < PYE_NATIVE_HEAD + cnt * sizeof(rec->addrs[0])) {
		a->odd.malformed++;
		return 0;
	}
	n = realloc(t->native, sizeof(*n) + cnt * sizeof(n->addrs[0]));
	if (!n)
		return -ENOMEM;
	n->seq = rec->head.seq;
	n->end = rec->head.sub;
	n->kernel_cnt = rec->kernel_cnt;
	n->user_cnt = rec->user_cnt;
	memcpy(n->addrs, rec->addrs, cnt * sizeof(n->addrs[0]));
	t->native = n;
	return 0;
}

void asm_natives_free(struct asm_process *p)
{
	struct asm_natives *n = p->natives;

	p->natives = NULL;
	if (!n)
		return;
	symbol_space__free(n->space);
	idmap__done(&n->by_address);
	idmap__done(&n->by_symbol);
	free(n->places);
	free(n);
}

static struct asm_natives *natives_of(struct asm_process *p)
{
	struct asm_natives *n = p->natives;

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->space = symbol_space__new(p->proc_pid);
	if (!n->space) {
		free(n);
		return NULL;
	}
	p->natives = n;
	return n;
}

/*
 * Code without frame pointers leaves words on the way that look like a frame. Does a call end before the
 * address? x86-64: e8 with four bytes; ff with 2 in its middle bits and up to five bytes behind.
 */
static bool follows_call(const struct asm_process *p, uint64_t addr)
{
	uint8_t code[CALL_BYTES];

	if (!p->mem_open || proc_mem__read(&p->mem, addr - CALL_BYTES, code, sizeof(code)))
		return true; /* it has ended, and is taken at its word */
	if (code[CALL_BYTES - 5] == 0xe8)
		return true;
	for (unsigned int at = 0; at + 1 < CALL_BYTES; at++)
		if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2)
			return true;
	return false;
}

/* In which pieces of its file the loop lies; that is read with its first address. */
static void find_loop(struct assembler *a, struct asm_process *p)
{
	const struct assembler_loop *loop = &p->loop;

	for (size_t i = 0; i < LOOP_MAX && loop->offsets[i]; i++) {
		p->natives->loop[i] =
			symbols__piece(a->symbols, loop->dev, loop->ino, loop->offsets[i]);
		p->natives->loop_known = p->natives->loop[i];
	}
}

/* By its place, or by its symbol: that names only one of the pieces that compilers make of it. */
static bool is_loop(struct assembler *a, struct asm_process *p, const struct symbol *symbol)
{
	static const char loop[] = "_PyEval_EvalFrameDefault", handler[] = "_TAIL_CALL_";
	size_t len = sizeof(loop) - 1;

	if (!p->natives->loop_known)
		find_loop(a, p);
	for (size_t i = 0; i < LOOP_MAX; i++)
		if (p->natives->loop[i] == symbol->piece)
			return true;
	if (!strncmp(symbol->name, loop, len))
		return !symbol->name[len] || symbol->name[len] == '.';
	return !strncmp(symbol->name, handler, sizeof(handler) - 1);
}

static uint32_t function_of(struct assembler *a, struct asm_process *p, const struct symbol *symbol,
			    enum trace_func_kind kind)
{
	struct asm_natives *n = p->natives;
	struct trace_func func = { .kind = (uint8_t)kind,
				   .name = symbol->name,
				   .qualname = symbol->name,
				   .file = symbol->file };
	uint32_t id = idmap__find(&n->by_symbol, symbol->key);

	if (id != IDMAP_NONE)
		return id;
	if (n->by_symbol.cnt >= FUNCTIONS_MAX)
		idmap__done(&n->by_symbol);
	if (asm_define(a, p, &func) || idmap__set(&n->by_symbol, symbol->key, func.id))
		return 0;
	return func.id;
}

/* @at: 0: where the thread is, not where it returns to. */
static struct place user_place(struct assembler *a, struct asm_process *p, uint64_t addr,
			       uint32_t at)
{
	struct place place = { .kind = PLACE_NOTHING };
	struct symbol symbol;

	if (symbols__user(a->symbols, p->natives->space, addr - (at != 0), !at, &symbol))
		return place;
	if (at && !follows_call(p, addr))
		return place;
	place.kind = is_loop(a, p, &symbol) ? PLACE_LOOP : PLACE_CODE;
	place.func = function_of(a, p, &symbol, FUNC_NATIVE);
	return place;
}

static struct place kernel_place(struct assembler *a, struct asm_process *p, uint64_t addr,
				 uint32_t at)
{
	struct symbol symbol;

	symbols__kernel(a->symbols, addr - (at != 0), &symbol);
	return (struct place){ .kind = strcmp(symbol.name, "__schedule") ? PLACE_CODE
									 : PLACE_SWITCH,
			       .func = function_of(a, p, &symbol, FUNC_KERNEL) };
}

/* Number @i of a stack. What is no code is looked at again: it can be loaded later. */
static struct place place_of(struct assembler *a, struct asm_process *p,
			     const struct asm_native_stack *stack, uint32_t i)
{
	struct asm_natives *n = p->natives;
	bool kernel = i < stack->kernel_cnt;
	uint32_t at = kernel ? i : i - stack->kernel_cnt, index;
	/* where a thread is and where it returns to can be one address, of two functions */
	uint64_t key = stack->addrs[i] << 1 | (at != 0);
	struct place place;

	index = idmap__find(&n->by_address, key);
	if (index != IDMAP_NONE)
		return n->places[index];
	place = kernel ? kernel_place(a, p, stack->addrs[i], at)
		       : user_place(a, p, stack->addrs[i], at);
	if (place.kind == PLACE_NOTHING)
		return place;
	if (n->cnt >= PLACES_MAX) {
		idmap__done(&n->by_address);
		n->cnt = 0;
	}
	if (GROW(n->places, n->size, n->cnt) || idmap__set(&n->by_address, key, n->cnt))
		return place;
	n->places[n->cnt++] = place;
	return place;
}

/* A stack that is being made, innermost frame first. */
struct weave {
	struct trace_frame out[TRACE_SAMPLE_FRAMES];
	uint32_t cnt;
	const struct trace_frame *frames; /* the Python frames not yet in it, outermost first */
	const bool *entries;
	uint32_t left;
};

static void put(struct weave *w, struct trace_frame frame)
{
	if (w->cnt < TRACE_SAMPLE_FRAMES)
		w->out[w->cnt++] = frame;
}

/* The Python frames of one call of the loop. */
static void put_python(struct weave *w)
{
	while (w->left) {
		w->left--;
		put(w, w->frames[w->left]);
		if (w->entries[w->left])
			return;
	}
}

/* How many native frames count: up to where the chain leads nowhere. */
static uint32_t resolve(struct assembler *a, struct asm_process *p, struct asm_native_stack *stack,
			struct place *places)
{
	uint32_t cnt = stack->kernel_cnt + stack->user_cnt;

	for (uint32_t i = 0; i < cnt; i++) {
		places[i] = place_of(a, p, stack, i);
		if (places[i].kind != PLACE_NOTHING)
			continue;
		stack->end = PYE_NATIVE_BROKEN;
		return i;
	}
	return cnt;
}

/* A thread that loses the CPU: what lies above the scheduler is our own program. */
static uint32_t first_of(const struct pye_sample_rec *rec, const struct asm_native_stack *stack,
			 const struct place *places, uint32_t cnt)
{
	for (uint32_t i = 0; rec->state == PYE_SAMPLE_OFF && i < stack->kernel_cnt && i < cnt; i++)
		if (places[i].kind == PLACE_SWITCH)
			return i;
	return 0;
}

/* A handler that is a function, called by the loop: one call of it all the same. */
static bool goes_on(const struct place *places, uint32_t i, uint32_t cnt)
{
	return i + 1 < cnt && places[i + 1].kind == PLACE_LOOP;
}

/*
 * A thread that just enters the loop, or leaves it, is in it natively and has no Python frame for that.
 * Only where every call of the loop is on the stack can that be seen: there is one too many.
 */
static bool is_between(const struct weave *w, const struct asm_native_stack *stack,
		       const struct place *places, uint32_t cnt)
{
	uint32_t loops = 0, calls = 0, top = stack->kernel_cnt;

	if (top >= cnt || places[top].kind != PLACE_LOOP)
		return false;
	for (uint32_t i = top; i < cnt; i++)
		loops += places[i].kind == PLACE_LOOP && !goes_on(places, i, cnt);
	for (uint32_t i = 0; i < w->left; i++)
		calls += w->entries[i];
	return loops > calls;
}

/* Python frames are left where the chain of native ones ended too early. */
static void put_cut(struct assembler *a, struct asm_process *p, struct weave *w, uint32_t end)
{
	switch (end) {
	case PYE_NATIVE_ROOT: /* the register was 0 in code that uses it for something else */
	case PYE_NATIVE_BROKEN:
		a->natives.broken++;
		put(w, (struct trace_frame){ asm_mark(a, p, MARK_NATIVE_BROKEN,
						      "[native frames missing: no frame pointer]"),
					     0 });
		break;
	case PYE_NATIVE_FAULT:
		a->natives.unreadable++;
		put(w, (struct trace_frame){ asm_mark(a, p, MARK_NATIVE_FAULT,
						      "[native frames missing: page fault]"),
					     0 });
		break;
	case PYE_NATIVE_DEEP:
		a->natives.deep++;
		put(w, (struct trace_frame){
			       asm_mark(a, p, MARK_NATIVE_DEEP, "[truncated: native frames]"), 0 });
		break;
	default:
		break;
	}
}

static void weave(struct assembler *a, struct asm_process *p, struct asm_native_stack *stack,
		  const struct pye_sample_rec *rec, struct weave *w)
{
	struct place places[PYE_NATIVE_ADDRS];
	uint32_t cnt = resolve(a, p, stack, places);
	bool between = is_between(w, stack, places, cnt);

	for (uint32_t i = first_of(rec, stack, places, cnt); i < cnt; i++) {
		if (places[i].kind == PLACE_LOOP && goes_on(places, i, cnt))
			continue;
		if (places[i].kind == PLACE_LOOP && w->left && !(between && i == stack->kernel_cnt))
			put_python(w);
		else
			put(w, (struct trace_frame){ places[i].func, 0 });
	}
	a->natives.samples += stack->end != PYE_NATIVE_NONE;
	if (w->left && rec->head.sub != PYE_SAMPLE_NO_STATE &&
	    rec->head.sub != PYE_SAMPLE_NO_FRAMES)
		put_cut(a, p, w, stack->end);
	while (w->left)
		put_python(w);
}

uint32_t asm_native_weave(struct assembler *a, struct asm_thread *t,
			  const struct pye_sample_rec *rec, struct trace_frame *frames,
			  const bool *entries, uint32_t cnt)
{
	struct weave w = { .frames = frames, .entries = entries, .left = cnt };

	if (!t->native || t->native->seq != rec->head.seq || !natives_of(t->process))
		return cnt;
	weave(a, t->process, t->native, rec, &w);
	free(t->native);
	t->native = NULL;
	for (uint32_t i = 0; i < w.cnt; i++)
		frames[i] = w.out[w.cnt - 1 - i];
	return w.cnt;
}
