// SPDX-License-Identifier: Apache-2.0
/*
 * A forked child has its parent's stubs, and its private page is empty: they pass through. What it lacks is a
 * ring that is not its parent's. It stands still where fork() returns until it has one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "inline/engine_priv.h"
#include "inline/region_count.h"
#include "inline/remote_call.h"
#include "inline/remote_stop.h"
#include "proc/maps.h"

_Static_assert(1 + INLINE_PIECES_MAX + 2 <= REMOTE_CALLS_MAX,
	       "all that can be left is taken out at once");
#define CHILD_RING (4ul << 20)
_Static_assert(CHILD_RING >= IL_COUNT_RING, "the tables lie where the stubs expect them");

/* One that shares its parent's memory is no copy: the private page is in use. One that was forked while its parent was attached to can
 * have the stubs, and no word that leads to them. */
bool inline__is_copy(pid_t pid, const struct inline_engine *from)
{
	auto_free struct il_header *h = malloc(sizeof(*h));
	auto_close int mem = inline_open_memory(pid, O_RDONLY);
	const struct remote r = { .pid = pid, .mem = mem };
	struct il_private private;

	return h && from->header && mem >= 0 && !remote__read(&r, from->base, h, sizeof(*h)) &&
	       !memcmp(h, from->header, sizeof(*h)) &&
	       !remote__read(&r, from->base + IL_PRIVATE, &private, sizeof(private)) &&
	       !private.active && !private.head && inline_is_redirected(&r, h);
}

/* Its thread stands still, so whatever is there was its parent's. */
static int find_pieces(pid_t pid, const struct inline_engine *from, struct inline_early *out)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	int err = maps__read(pid, &maps);

	if (err)
		return err;
	for (size_t i = 0; i < maps.cnt && out->cnt < INLINE_PIECES_MAX; i++)
		if (maps.items[i].start - from->base < from->region_bytes)
			out->pieces[out->cnt++] =
				(struct inline_piece){ maps.items[i].start,
						       maps.items[i].end - maps.items[i].start };
	return 0;
}

bool inline__is_early_copy(pid_t pid, const struct inline_engine *from, struct inline_early *out)
{
	auto_close int mem = inline_open_memory(pid, O_RDONLY);
	const struct remote r = { .pid = pid, .mem = mem };
	struct il_private private = { 0 };
	bool early;

	*out = (struct inline_early){ 0 };
	if (!from->mapped || mem < 0 || inline_is_elsewhere(pid, from->in))
		return false;
	early = remote__read(&r, from->base + IL_PRIVATE, &private, sizeof(private)) ||
		(!private.active && !inline_is_redirected(&r, from->header));
	return early && !find_pieces(pid, from, out);
}

int inline__clear_early(struct inline_engine *e, const struct inline_engine *from,
			const struct inline_early *early)
{
	struct remote_call calls[REMOTE_CALLS_MAX] = { { SYS_getpid, { 0 } } }; /* never fails */
	int64_t values[REMOTE_CALLS_MAX];
	unsigned int cnt = 1;

	for (unsigned int i = 0; i < early->cnt; i++)
		calls[cnt++] =
			(struct remote_call){ SYS_munmap,
					      { early->pieces[i].start, early->pieces[i].bytes } };
	cnt += inline_close_memfds(&e->remote, from, calls + cnt);
	return cnt > 1 ? remote__call(&e->remote, calls, cnt, e->base + IL_RESULTS_NEXT, values)
		       : 0;
}

static int make_fd(struct inline_engine *e, int *fd)
{
	struct remote_call calls[] = { { SYS_getpid, { 0 } }, /* never fails */
				       { SYS_memfd_create, { 0, e->memfd_flags } } };
	int64_t values[REMOTE_CALLS_MAX];
	auto_fn(maps__done) struct maps maps = { 0 };
	int err = maps__read(e->remote.pid, &maps);

	if (err)
		return err;
	calls[1].args[0] = inline_empty_string(&maps);
	err = calls[1].args[0]
		      ? remote__call(&e->remote, calls, 2, e->base + IL_RESULTS_NEXT, values)
		      : -ENOSPC;
	*fd = err ? -1 : (int)values[1];
	return err;
}

static int map_ring(struct inline_engine *e, int fd)
{
	const struct remote_call calls[] = {
		{ SYS_getpid, { 0 } },
		{ SYS_mmap,
		  { e->base + IL_SHARED, IL_SHARED_HEAD + e->ring_bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED, (uint64_t)fd, 0 } },
		{ SYS_mmap,
		  { e->base + IL_RING + e->ring_bytes, e->ring_bytes + e->table_bytes,
		    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (uint64_t)fd,
		    IL_SHARED_HEAD } },
		{ SYS_close, { (uint64_t)fd } },
	};
	int64_t values[REMOTE_CALLS_MAX];

	return remote__call(&e->remote, calls, 4, e->base + IL_RESULTS_NEXT, values);
}

/* The child goes on without a ring, and has no more open than it would have. */
static void close_fd(struct inline_engine *e, int fd)
{
	const struct remote_call call = { SYS_close, { (uint64_t)fd } };
	int64_t value;

	remote__call(&e->remote, &call, 1, e->base + IL_RESULTS_NEXT, &value);
}

static int give_ring(struct inline_engine *e)
{
	auto_close int ours = -1;
	int theirs, err = make_fd(e, &theirs);
	ino_t made;

	if (err)
		return err;
	made = inline_memfd_at(&e->remote, (uint64_t)theirs);
	ours = inline_open_fd(&e->remote, theirs);
	err = ours < 0 ? ours : inline_map_ring(e, ours);
	err = err ? err : map_ring(e, theirs);
	if (err && err != -ESRCH && made && inline_memfd_at(&e->remote, (uint64_t)theirs) == made)
		close_fd(e, theirs);
	return err;
}

static int begin(struct inline_engine *e, const struct inline_opts *opts)
{
	int err = remote__stop(&e->remote);

	if (!err && opts->stopped)
		err = opts->stopped(opts->ctx, e);
	if (!err)
		err = inline_fill_private(e, opts);
	if (!err)
		err = remote__unpark(&e->remote);
	if (!err)
		remote__resume(&e->remote);
	return err;
}

/* What was found out at its parent's attach, and made there; nothing that is of one process alone. */
static void inherit(struct inline_engine *e, const struct inline_engine *from)
{
	*e = *from;
	e->remote = (struct remote){ .mem = -1 };
	e->header = NULL;
	e->shared = NULL;
	e->threads = NULL;
	e->ring = NULL;
	memset(e->memfds, 0, sizeof(e->memfds));
	e->reserved = e->mapped = e->left_mapped = e->left_in = false;
	e->lazy = true;
	if (e->ring_bytes > CHILD_RING) /* where there are tables it is IL_COUNT_RING long */
		e->ring_bytes = CHILD_RING;
	if (e->lane_ring) {
		e->lane_ring = e->ring_bytes;
		e->table_bytes = IL_LANE_CNT * IL_LANE_BYTES(e->lane_ring);
	}
}

/* All up to where it is parked. */
static int prepare(struct inline_engine *e, pid_t pid, const struct inline_engine *from,
		   const struct inline_opts *opts, struct err *err)
{
	const char *why = inline_unfit(pid, true); /* its parent may have changed that since */
	int ret = why ? inline_refuse(err, pid, why) : remote__open(&e->remote, pid, err);

	if (!ret && e->clock) /* unshare() puts the children there */
		ret = inline_check_shift(pid, err);
	if (ret)
		return ret;
	e->remote.scratch = from->header->scratch;
	e->remote.follow = opts->follow;
	e->remote.park.ticks = inline_park_ticks(e);
	e->header = malloc(IL_CODE_BYTES);
	if (!e->header)
		return -ENOMEM;
	memcpy(e->header, from->header, IL_CODE_BYTES);
	e->reserved = e->mapped = true;
	return remote__park(&e->remote);
}

int inline__adopt(struct inline_engine *e, pid_t pid, const struct inline_engine *from,
		  const struct inline_opts *opts, struct err *err)
{
	int ret;

	inherit(e, from);
	ret = prepare(e, pid, from, opts, err);
	if (ret)
		follow__go(opts->follow, pid, 0);
	ret = ret ? ret : give_ring(e);
	ret = ret ? ret : begin(e, opts);
	return ret ? inline_failed(pid, ret, err) : 0;
}
