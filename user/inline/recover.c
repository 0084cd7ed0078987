// SPDX-License-Identifier: Apache-2.0
/*
 * Taking the stubs out again. The words first, with all threads stopped and only where they are still
 * ours. The page stays while any thread is in it or on its way: by its program counter, by a register (the
 * loop loads a handler's address before it jumps there), or by an address on its stack (a signal came inside
 * a stub, and its handler runs now).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inline/engine.h"
#include "proc/maps.h"

#define TRIES	     200
#define READER_US    20000 /* how often we look whether somebody reads */
#define READER_TRIES 100
#define STACK_BYTES  (64u << 10)

static bool is_inside(uint64_t at, uint64_t base)
{
	return at - base < IL_CODE_BYTES;
}

/* An address of the page on the stack of a thread? */
static bool stack_leads_inside(const struct remote *r, uint64_t sp, uint64_t base, uint64_t *words)
{
	ssize_t got;

	sp &= ~7ull;
	got = pread(r->mem, words, STACK_BYTES, (off_t)sp);
	for (ssize_t i = 0; i < got / 8; i++)
		if (is_inside(words[i], base))
			return true;
	return false;
}

/* A word of the table that was read before it was restored, and not jumped to yet? */
static bool register_leads_inside(const struct remote_thread *t, uint64_t base)
{
	for (size_t i = 0; i < sizeof(t->regs) / sizeof(t->regs[0]); i++)
		if (is_inside(t->regs[i], base))
			return true;
	return false;
}

static bool anybody_inside(const struct remote *r, uint64_t base, uint64_t *words)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (is_inside(r->threads[i].pc, base) ||
		    register_leads_inside(&r->threads[i], base) ||
		    stack_leads_inside(r, r->threads[i].sp, base, words))
			return true;
	return false;
}

static void restore(const struct remote *r, const struct il_header *h)
{
	for (uint32_t i = 0; i < h->patch_cnt && i < IL_PATCH_MAX; i++) {
		const struct il_patch *p = &h->patches[i];
		uint64_t now = 0;

		if ((p->size == 4 || p->size == 8) && !remote__read(r, p->at, &now, p->size) &&
		    now == p->new)
			remote__write(r, p->at, &p->old, p->size);
	}
}

static void stop_waiting(const struct remote *r, uint64_t base)
{
	uint64_t zero = 0;

	remote__write(r, base + IL_PRIVATE + offsetof(struct il_private, wait), &zero, 8);
	remote__write(r, base + IL_PRIVATE + offsetof(struct il_private, active), &zero, 8);
}

static int unmap(struct remote *r, uint64_t base, const struct il_header *h)
{
	struct remote_call call = { SYS_munmap, { base, h->region_bytes } };
	uint8_t byte, zeros[REMOTE_SCRATCH_BYTES] = { 0 };
	int err = remote__call(r, &call, 1, 0, NULL);

	for (int i = 0; !err && i < 20000 && !remote__read(r, base, &byte, 1); i++)
		usleep(50);
	if (!err && !remote__read(r, base, &byte, 1))
		err = -ETIMEDOUT;
	if (!err)
		err = remote__calls_done(r);
	if (!err)
		remote__write(r, r->scratch, zeros, sizeof(zeros));
	remote__resume(r);
	return err;
}

int inline_undo(struct remote *r, uint64_t base, const struct il_header *h, bool *left)
{
	auto_free uint64_t *words = malloc(STACK_BYTES);
	bool inside = true;
	int err = 0;

	*left = true;
	r->scratch = h->scratch;
	if (!r->cnt)
		err = remote__stop(r);
	if (err)
		return err;
	restore(r, h);
	stop_waiting(r, base);
	for (int i = 0; !err && words && i < TRIES; i++) {
		inside = anybody_inside(r, base, words);
		if (!inside)
			break;
		remote__resume(r);
		usleep(200);
		err = remote__stop(r);
	}
	if (!err && !inside)
		err = unmap(r, base, h);
	remote__resume(r);
	*left = err || inside;
	return err;
}

/* Is this page of ours? */
static bool read_header(const struct remote *r, uint64_t base, struct il_header *h)
{
	return !remote__read(r, base, h, sizeof(*h)) && h->magic == IL_MAGIC &&
	       h->patch_cnt <= IL_PATCH_MAX && h->region_bytes >= IL_RING &&
	       h->region_bytes <= 1ull << 36;
}

/* Whoever reads moves the deadline on all the time; a dead one's passes. */
static bool has_reader(const struct remote *r, uint64_t base)
{
	uint64_t at = base + IL_SHARED + offsetof(struct il_shared, deadline), first, now;

	if (remote__read(r, at, &first, 8))
		return false;
	for (int i = 0; i < READER_TRIES && first > tsc_now(); i++) {
		usleep(READER_US);
		if (!remote__read(r, at, &now, 8) && now != first)
			return true;
	}
	return false;
}

static int recover_at(struct remote *r, uint64_t base, const struct il_header *h)
{
	bool left;
	int err;

	if (has_reader(r, base))
		return -EBUSY;
	err = inline_undo(r, base, h, &left);
	return err ? err : 1;
}

int inline__recover(pid_t pid)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	struct remote r;
	struct maps maps;
	struct err e;
	int err = h ? remote__open(&r, pid, &e) : -ENOMEM;

	if (err)
		return err;
	err = maps__read(pid, &maps);
	for (size_t i = 0; !err && i < maps.cnt; i++) {
		const struct mapping *m = &maps.items[i];

		if (m->flags & MAPPING_EXEC && m->end - m->start == IL_CODE_BYTES && m->ino &&
		    read_header(&r, m->start, h)) {
			err = recover_at(&r, m->start, h);
			break;
		}
	}
	if (err != -ESRCH)
		maps__done(&maps);
	remote__close(&r);
	return err;
}
