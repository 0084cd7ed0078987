// SPDX-License-Identifier: Apache-2.0
/*
 * Taking the stubs out again. The words first, with all threads stopped and only where they are still
 * ours. The page stays while any thread is in it or on its way: by its program counter, by a register (the
 * loop loads a handler's address before it jumps there), or by an address on its stack (a signal came inside
 * a stub, and its handler runs now).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

		if ((p->size == 4 || p->size == 5 || p->size == 8) &&
		    !remote__read(r, p->at, &now, p->size) && now == p->new)
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

	return remote__finish(r, &call, 1, base);
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
	uint64_t active;

	/* a forked child has its parent's stubs, which pass through */
	if (remote__read(r, base + IL_PRIVATE + offsetof(struct il_private, active), &active, 8) ||
	    !active || remote__read(r, at, &first, 8))
		return false;
	for (int i = 0; i < READER_TRIES && first > tsc_now(); i++) {
		usleep(READER_US);
		if (!remote__read(r, at, &now, 8) && now != first)
			return true;
	}
	return false;
}

/* A mapping that begins with the stubs of an attach that came to its second stop? */
static bool is_region(const struct remote *r, const struct mapping *m, struct il_header *h)
{
	return m->flags & MAPPING_EXEC && m->end - m->start == IL_CODE_BYTES && m->ino &&
	       read_header(r, m->start, h);
}

/* A reservation of one that came to its first: the results of its calls lie in it. */
static bool is_reservation(const struct remote *r, const struct maps *maps, size_t i,
			   uint64_t *words)
{
	const struct mapping *m = &maps->items[i], *next = m + 1;

	return i + 1 < maps->cnt && !m->ino && m->end - m->start == IL_CODE_BYTES &&
	       !(m->flags & (MAPPING_READ | MAPPING_WRITE | MAPPING_EXEC)) &&
	       next->start == m->end && next->end - next->start == IL_SHARED - IL_PRIVATE &&
	       !remote__read(r, m->start + IL_RESULTS, words, IL_RESULTS_BYTES) &&
	       words[0] == m->start && words[1] == m->start && words[8] == m->start + IL_PRIVATE &&
	       words[2] >= IL_RING && words[2] <= 1ull << 36;
}

static bool is_memfd(pid_t pid, int fd)
{
	char path[48], link[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	n = readlink(path, link, sizeof(link));
	return n > 7 && !memcmp(link, "/memfd:", 7);
}

/* No word was replaced: the reservation goes, and two memfds. */
static int unreserve(struct remote *r, const struct maps *maps, uint64_t base,
		     const uint64_t *words)
{
	struct remote_call calls[3] = { { SYS_munmap, { base, words[2] } } };
	const struct mapping *code = maps__find(maps, words[IL_RESULT_SCRATCH]);
	unsigned int cnt = 1;

	if (!code || !(code->flags & MAPPING_EXEC))
		return 0;
	for (unsigned int i = IL_RESULT_MEMFD; i < IL_RESULT_MEMFD + 2; i++)
		if (is_memfd(r->pid, (int)words[7UL * i]))
			calls[cnt++] = (struct remote_call){ SYS_close, { words[7UL * i] } };
	r->scratch = words[IL_RESULT_SCRATCH];
	return remote__finish(r, calls, cnt, base + IL_PRIVATE);
}

static int recover_at(struct remote *r, const struct maps *maps, size_t i, struct il_header *h,
		      struct inline_found *found)
{
	uint64_t base = maps->items[i].start, words[IL_RESULTS_BYTES / 8];
	bool left = false;
	int err;

	if (is_region(r, &maps->items[i], h)) {
		if (has_reader(r, base))
			return -EBUSY;
		err = inline_undo(r, base, h, &left);
	} else if (is_reservation(r, maps, i, words)) {
		err = unreserve(r, maps, base, words);
	} else {
		return 0;
	}
	found->taken_out += !err;
	found->left_mapped += left;
	return err;
}

int inline_failed(pid_t pid, int err, struct err *e)
{
	if (err <= -PYE_ENOTPYTHON)
		return err;
	if (err == -EBUSY) {
		err_set(e, -PYE_EPLAN,
			"another pyebpf is at work on process %d with the inline engine", pid);
		err_hint(e, "end that one first");
		return -PYE_EPLAN;
	}
	if (err == -EPERM || err == -EACCES) {
		err_set(e, -PYE_EPRIV, "process %d may not be stopped: ptrace is not permitted",
			pid);
		err_hint(
			e,
			"the inline engine needs what ptrace needs: a process of your own, or root");
		return -PYE_EPRIV;
	}
	if (err == -ESRCH)
		return err_set(e, -PYE_ETARGET, "process %d has ended", pid);
	return err_set(e, -PYE_EPLAN, "process %d could not be changed by the inline engine: %s",
		       pid, strerror(-err));
}

int inline__recover(pid_t pid, struct inline_found *found, struct err *e)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	struct remote r;
	struct maps maps;
	int err = h ? remote__open(&r, pid, e) : -ENOMEM;

	memset(found, 0, sizeof(*found));
	if (err)
		return inline_failed(pid, err, e);
	err = maps__read(pid, &maps);
	if (!err) {
		for (size_t i = 0; !err && i < maps.cnt; i++)
			err = recover_at(&r, &maps, i, h, found);
		maps__done(&maps);
	}
	found->stops = r.stops;
	found->longest_us = r.longest_us;
	remote__close(&r);
	return err ? inline_failed(pid, err, e) : 0;
}

bool inline__is_left(pid_t pid, bool *has_a_reader)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	struct remote r = { .pid = pid };
	uint64_t words[IL_RESULTS_BYTES / 8];
	bool found = false;
	struct maps maps;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	r.mem = open(path, O_RDONLY | O_CLOEXEC);
	*has_a_reader = false;
	if (!h || r.mem < 0 || maps__read(pid, &maps)) {
		if (r.mem >= 0)
			close(r.mem);
		return false;
	}
	for (size_t i = 0; i < maps.cnt; i++) {
		if (is_region(&r, &maps.items[i], h))
			*has_a_reader |= has_reader(&r, maps.items[i].start);
		else if (!is_reservation(&r, &maps, i, words))
			continue;
		found = true;
	}
	maps__done(&maps);
	close(r.mem);
	return found;
}
