/* SPDX-License-Identifier: Apache-2.0 */
/* What slow.c and slow_count.c share. It runs in the target: see slow.c. */
#ifndef PYEBPF_INLINE_SLOW_PARTS_H
#define PYEBPF_INLINE_SLOW_PARTS_H

#include "abi/event.h"
#include "abi/pylayout.h"
#include "inline/region.h"

#define STUB	   __attribute__((section("pye_inline"), used, noinline))
#define PART	   __attribute__((always_inline)) static inline
#define AT(T, a)   (*(T *)(uintptr_t)(a))
#define NR_yield   24
#define NR_gettid  186
#define CLOCK_ID   1 /* CLOCK_MONOTONIC */
#define CLOSE_OVER 3
#define SPINS	   64

/*
 * clock_gettime() of the vdso, on an even stack. The one call that leaves the code page: the kernel's code there
 * uses general registers only, too, and where it cannot read the clock it asks the kernel. Only with the lock held:
 * recover.c tells by it that a thread is there.
 */
PART uint64_t vdso_ns(uint64_t clock)
{
	struct {
		uint64_t sec, ns;
	} t = { 0 };
	uint64_t id = CLOCK_ID, to = (uint64_t)(uintptr_t)&t;

	__asm__ volatile("mov %%rsp, %%rbx\n"
			 "and $-16, %%rsp\n"
			 "notrack call *%%rax\n"
			 "mov %%rbx, %%rsp\n"
			 : "+a"(clock), "+D"(id), "+S"(to)
			 :
			 : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "cc", "memory");
	return t.sec * 1000000000u + t.ns;
}

PART uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* What the stubs' clock says. */
PART uint64_t now(const struct il_private *p)
{
	return p->clock ? vdso_ns(p->clock) : ticks();
}

/* Not before what this thread has seen of others. */
PART uint64_t now_behind(const struct il_private *p)
{
	__asm__ volatile("lfence" : : : "memory");
	return now(p);
}

/* pthread_self() */
PART uint64_t own_self(void)
{
	uint64_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
}

PART long call0(long nr)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(nr) : "rcx", "r11", "memory");
	return result;
}

/* Not memcpy(): there is none in the page. */
PART void copy(void *to, uint64_t from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

PART uint64_t *limit_of(struct il_private *p)
{
	return p->locked ? &p->room : &p->limit;
}

PART int has_room(struct il_private *p)
{
	return p->head - p->base < *limit_of(p);
}

/* Retired code objects went unseen. */
PART void wipe_cache(struct il_private *p)
{
	uint64_t to = p->cache, n = IL_CACHE_CNT;

	__asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0ull) : "memory");
	p->wipe = 0;
}

/* Is there room again? */
PART int refill(struct il_private *p, struct il_shared *h)
{
	uint64_t used = p->head - __atomic_load_n(&h->tail, __ATOMIC_ACQUIRE);

	if (used > p->size || used + 2 * (uint64_t)p->slack > p->size)
		return 0;
	if (p->wipe)
		wipe_cache(p);
	p->base = p->head & ~p->mask;
	*limit_of(p) = p->head - used + p->size - p->slack - p->base;
	return 1;
}

PART uint64_t code_of(const struct il_private *p, uint64_t frame)
{
	return AT(uint64_t, frame + p->f_code) & ~7ull;
}

/* Entered from C: no Python frame. To 3.10 there are none. */
PART int is_from_c(const struct il_private *p, uint64_t frame)
{
	return p->f_owner != PYE_NO_FIELD && AT(uint8_t, frame + p->f_owner) >= CLOSE_OVER;
}

/* This frame or the next one below that is no entry from C: two in a row where a frame that C has called is cleared, and
 * what it held has a finalizer. 0: there is none. */
PART uint64_t python_frame(const struct il_private *p, uint64_t frame)
{
	while (frame && is_from_c(p, frame))
		frame = AT(uint64_t, frame + p->f_previous);
	return frame;
}

/* That of a thread state. The one to be thrown into is not linked to it yet. */
PART uint64_t running_frame(const struct il_private *p, uint64_t tstate)
{
	uint64_t frame = AT(uint64_t, tstate + p->ts_frame);

	if (p->cframe_frame != PYE_NO_FIELD)
		frame = AT(uint64_t, frame + p->cframe_frame);
	return python_frame(p, frame);
}

PART int is_hidden(const struct il_private *p, uint64_t frame)
{
	if (is_from_c(p, frame))
		return 1;
	return p->co_hidden && AT(uint32_t, code_of(p, frame) + p->co_flags) & p->co_hidden;
}

/* >= 3.11: a generator's function before it has made that. In 3.15 a generator expression gets its iterator there, which can fail:
 * an end of what has had no begin. */
PART int has_not_begun(const struct il_private *p, uint64_t frame)
{
	return !AT(uint8_t, frame + p->f_owner) &&
	       AT(uint32_t, code_of(p, frame) + p->co_flags) & IL_CO_GENERATORS;
}

PART uint64_t put_text(const struct il_private *p, uint64_t str, struct il_str *out, uint8_t *data)
{
	uint32_t state = AT(uint32_t, str + p->str_state);
	uint64_t length = AT(uint64_t, str + p->str_length), from, bytes;
	uint64_t kind = (state & p->str_kind_mask) >> p->str_kind_shift;

	if (state & p->str_compact_mask)
		from = str + (state & p->str_ascii_mask ? p->str_ascii_data : p->str_data);
	else
		from = AT(uint64_t, str + p->str_data);
	bytes = length * kind;
	out->addr = str;
	out->length = length;
	out->state = state;
	out->status = PYE_STR_OK;
	if (length > IL_STR_MAX || bytes > IL_STR_MAX) {
		/* head and tail, half each */
		out->status = PYE_STR_CUT;
		copy(data, from, IL_STR_MAX / 2);
		copy(data + IL_STR_MAX / 2, from + bytes - IL_STR_MAX / 2, IL_STR_MAX / 2);
		bytes = IL_STR_MAX;
	} else {
		copy(data, from, bytes);
	}
	out->bytes = (uint32_t)bytes;
	return bytes;
}

PART void put_definition(struct il_private *p, uint64_t code, uint64_t slot, uint64_t time)
{
	struct il_def *d = (void *)(uintptr_t)(p->ring + (p->head & p->mask));
	uint8_t *data = d->data;

	d->head.time = time;
	d->head.what = IL_MORE | (uint64_t)IL_DEF << 48;
	d->code = code;
	d->slot = (uint32_t)slot;
	d->line = AT(uint32_t, code + p->co_firstlineno);
	d->flags = AT(uint32_t, code + p->co_flags);
	data += put_text(p, AT(uint64_t, code + p->co_filename), &d->str[PYE_STR_FILE], data);
	data += put_text(p, AT(uint64_t, code + p->co_name), &d->str[PYE_STR_NAME], data);
	if (p->co_qualname == PYE_NO_FIELD)
		d->str[PYE_STR_QUALNAME] = (struct il_str){ 0 };
	else
		data += put_text(p, AT(uint64_t, code + p->co_qualname), &d->str[PYE_STR_QUALNAME],
				 data);
	d->total = (uint32_t)((uint64_t)(data - (uint8_t *)d) + 15) & ~15u;
	p->head += d->total;
}

PART void put_more(struct il_private *p, uint64_t time, uint64_t what, uint64_t w2, uint64_t w3)
{
	struct il_more_rec *r = (void *)(uintptr_t)(p->ring + (p->head & p->mask));

	r->head.time = time;
	r->head.what = what;
	r->w2 = w2;
	r->w3 = w3;
	p->head += sizeof(*r);
}

/* Is an exception on its way? */
PART int is_raising(const struct il_private *p)
{
	return AT(uint64_t, AT(uint64_t, p->tstate_current) + p->ts_exception) != 0;
}

/* To 3.10: is it thrown into a frame that begins? What has not begun, and is no generator's, C code calls while an exception is on
 * its way. */
PART int is_thrown(const struct il_private *p, uint64_t frame)
{
	return is_raising(p) && (AT(int32_t, frame + p->f_instr) >= 0 ||
				 AT(uint32_t, code_of(p, frame) + p->co_flags) & IL_CO_GENERATORS);
}

#endif
