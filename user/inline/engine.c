// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "inline/engine.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memfile.h"
#include "cpython/gil_outside.h"
#include "cpython/inline_plan.h"
#include "inline/detour.h"
#include "inline/engine_priv.h"
#include "inline/greenlets.h"
#include "inline/interrupted.h"
#include "inline/region_count.h"
#include "inline/remote_call.h"
#include "inline/remote_stop.h"
#include "inline/scratch.h"
#include "inline/stub.h"
#include "inline/stub_clock.h"
#include "proc/maps.h"
#include "proc/mem.h"

#define PAGE_BYTES   4096ull
#define REACH	     (1ull << 30) /* from the interpreter to the stubs; a call reaches 2 GiB */
#define GUARD	     0x100000ull /* from what is mapped already */
#define HEAP_ROOM    (512ull << 20) /* from the end of the heap, which grows there */
#define DEADLINE_SEC 1
#define DETACH_TRIES 3
#define PLACE_TRIES  16
#define OPCODE_RING  (8ull << 20)
#define SECOND_NS    1000000000ull

int inline_refuse(struct err *e, pid_t pid, const char *why)
{
	err_set(e, -PYE_EPLAN, "the inline engine refuses process %d: %s", pid, why);
	err_hint(e, "--engine auto writes nothing into the target");
	return -PYE_EPLAN;
}

static int check_process(pid_t pid, bool held, struct err *e)
{
	const char *why;

	remote__await_thaw(pid); /* else it is refused */
	why = inline_unfit(pid, held);
	if (why && inline_is_busy(pid))
		return -EBUSY; /* it stands still for another pyebpf, not for long */
	if (kill(pid, 0) && errno == ESRCH)
		return err_set(e, -PYE_ETARGET, "process %d is gone", pid);
	return why ? inline_refuse(e, pid, why) : 0;
}

static bool can_have_own_gils(const struct inline_engine *e)
{
	const struct pye_pylayout *l = &e->in->layout;

	return e->in->interpreters && l->is_next != PYE_NO_FIELD && l->is_gil != PYE_NO_FIELD;
}

/* Do several interpreters with a GIL each run at once? */
static bool is_shared(struct inline_engine *e)
{
	const struct proc_mem mem = remote__memory(&e->remote);
	unsigned int none;
	uint64_t gil;

	return can_have_own_gils(e) && !gil__shared(&mem, e->in, &gil, &none);
}

/* Every word is what the file says, else somebody else was here. */
static int check_words(struct inline_engine *e, const struct inline_plan *plan)
{
	for (uint32_t i = 0; i < plan->word_cnt; i++) {
		uint64_t now;

		if (remote__read(&e->remote, plan->words[i].at + e->in->bias, &now, 8))
			return -EFAULT;
		if (now != plan->words[i].target + e->in->bias)
			return -EEXIST;
	}
	for (uint32_t i = 0; i < plan->call_cnt; i++) {
		const struct inline_call *c = &plan->calls[i];
		int32_t now;

		if (remote__read(&e->remote, c->at + e->in->bias + 1, &now, 4))
			return -EFAULT;
		if (c->at + 5 + (uint64_t)(int64_t)now != c->target)
			return -EEXIST;
	}
	for (uint32_t i = 0; i < plan->detour_cnt; i++) {
		const struct inline_detour *d = &plan->detours[i];
		uint8_t now[INLINE_DETOUR_BYTES];

		if (remote__read(&e->remote, d->at + e->in->bias, now, d->size))
			return -EFAULT;
		if (memcmp(now, d->code, d->size) != 0)
			return -EEXIST;
	}
	return 0;
}

uint64_t inline_empty_string(const struct maps *maps)
{
	const struct mapping *vdso = maps__vdso(maps);

	return vdso ? vdso->start + EI_OSABI : 0; /* ELFOSABI_NONE, a 0 */
}

/* Free addresses near the interpreter. */
static int find_place(struct inline_engine *e, uint64_t *empty)
{
	uint64_t low = 0x10000, here = e->in->start, best = 0, guard = GUARD;
	auto_fn(maps__done) struct maps maps = { 0 };
	int err = maps__read(e->remote.pid, &maps);

	if (!err && !maps.cnt)
		err = -ESRCH; /* it ends: its memory is gone already */
	if (err)
		return err;
	*empty = inline_empty_string(&maps);
	/* to 3.10 frames lie anywhere: the hash of a caller says too little of its stack. In 3.11 a trace function's caller can be a
	 * generator that has not shown itself. What is left out has to be on the stack that runs. */
	e->switches = !e->counted && (e->in->layout.minor <= 11 || e->quiet);
	for (size_t i = 0; i < maps.cnt; i++) {
		const struct mapping *m = &maps.items[i];
		uint64_t want = e->region_bytes + guard + GUARD, at;

		if (m->start > low && m->start - low >= want) {
			at = (m->start - e->region_bytes - GUARD) & ~(PAGE_BYTES - 1);
			if (at > here && at - here > REACH) /* its low end may still be near */
				at = low + guard;
			if ((at > here ? at - here : here - at) < REACH &&
			    (!best || (at > here ? at - here : here - at) <
					      (best > here ? best - here : here - best)))
				best = at;
		}
		low = m->end;
		guard = strcmp(m->path, "[heap]") ? GUARD : HEAP_ROOM;
		e->switches |= !e->counted && greenlets__are_here(m);
	}
	e->base = best;
	return best && *empty ? 0 : -ENOSPC;
}

static int first_calls(struct inline_engine *e, uint64_t empty, int *code_fd, int *ring_fd)
{
	const uint64_t anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	const uint64_t private_bytes = IL_SHARED - IL_PRIVATE;
	const struct remote_call calls[] = {
		[IL_MAKE_PRIVATE] = { SYS_mmap,
				      { e->base + IL_PRIVATE, private_bytes, PROT_READ | PROT_WRITE,
					anonymous, -1ull, 0 } },
		[IL_WIPE_ON_FORK] = { SYS_madvise,
				      { e->base + IL_PRIVATE, private_bytes, MADV_WIPEONFORK,
					[IL_SCRATCH_ARGUMENT] = e->remote.scratch } },
		[IL_RESERVE_CODE] = { SYS_mmap,
				      { e->base, IL_CODE_BYTES, PROT_NONE, anonymous, -1ull, 0 } },
		[IL_RESERVE_REST] = { SYS_mmap,
				      { e->base + IL_SHARED, e->region_bytes - IL_SHARED, PROT_NONE,
					anonymous | MAP_NORESERVE, -1ull, 0 } },
		[IL_MAKE_CODE_FD] = { SYS_memfd_create, { empty, e->memfd_flags } },
		[IL_MAKE_RING_FD] = { SYS_memfd_create, { empty, e->memfd_flags } },
	};
	int64_t values[REMOTE_CALLS_MAX];
	int err;

	e->reserved = true;
	err = remote__call(&e->remote, calls, sizeof(calls) / sizeof(*calls), e->base + IL_RESULTS,
			   values);
	if (err)
		return err;
	*code_fd = (int)values[IL_MAKE_CODE_FD];
	*ring_fd = (int)values[IL_MAKE_RING_FD];
	return 0;
}

/* Files of the target, which took the numbers between the question and the call. Nothing leads there yet. */
static int unmap_others(struct inline_engine *e)
{
	/* first what is waited for: a call that fails, as of what was just closed, is the last one */
	struct remote_call calls[3] = { { SYS_munmap, { e->base, e->region_bytes } } };
	unsigned int cnt = 1 + inline_close_memfds(&e->remote, e, calls + 1);

	e->reserved = remote__finish(&e->remote, calls, cnt, e->base) != 0;
	return -EBADF;
}

static int second_calls(struct inline_engine *e, int code_fd, int ring_fd)
{
	const struct remote_call calls[] = {
		{ SYS_getpid, { 0 } }, /* never fails, as the first one must not */
		{ SYS_mmap,
		  { e->base + IL_CODE, IL_CODE_BYTES, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED, (uint64_t)code_fd, 0 } },
		{ SYS_mmap,
		  { e->base + IL_SHARED, IL_SHARED_HEAD + e->ring_bytes, PROT_NONE,
		    MAP_SHARED | MAP_FIXED, (uint64_t)ring_fd, 0 } },
		{ SYS_mmap,
		  { e->base + IL_RING + e->ring_bytes, e->ring_bytes + e->table_bytes, PROT_NONE,
		    MAP_SHARED | MAP_FIXED, (uint64_t)ring_fd, IL_SHARED_HEAD } },
		{ SYS_mprotect,
		  { e->base + IL_SHARED, e->region_bytes - IL_SHARED, PROT_READ | PROT_WRITE } },
		{ SYS_close, { (uint64_t)code_fd } },
		{ SYS_close, { (uint64_t)ring_fd } },
	};
	int64_t values[REMOTE_CALLS_MAX];
	int err;

	e->remote.caller.ready = inline_check_memfds;
	e->remote.caller.ready_ctx = e;
	err = remote__call(&e->remote, calls, sizeof(calls) / sizeof(*calls),
			   e->base + IL_RESULTS_NEXT, values);
	e->remote.caller.ready = NULL;
	return inline_maps_others(e) ? unmap_others(e) : err;
}

static int redirect(struct inline_engine *e)
{
	for (uint32_t i = 0; i < e->header->patch_cnt; i++) {
		const struct il_patch *p = &e->header->patches[i];
		int err = remote__write(&e->remote, p->at, &p->new, p->size);

		if (err)
			return err;
	}
	return 0;
}

/* All threads stand still, where the caller can use it. */
static int stop_all(struct inline_engine *e, const struct inline_plan *plan,
		    const struct inline_opts *opts)
{
	for (unsigned int i = 0;; i++) {
		int err = detour_stop(&e->remote, plan, e->in->bias);

		if (err)
			return err;
		err = check_words(e, plan);
		if (!err && opts->stopped)
			err = opts->stopped(opts->ctx, e);
		if (err != -EAGAIN)
			return err;
		remote__resume(&e->remote);
		remote__give_time(i);
	}
}

/* The stubs make some in any thread. */
static int check_calls(const struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (interrupted__is_diverted(r->threads[i].tid))
			return -ENOPROTOOPT;
	return 0;
}

static int third_stop(struct inline_engine *e, const struct inline_plan *plan,
		      const struct inline_opts *opts)
{
	int err;

	e->remote.how.before = opts->before;
	e->remote.how.ctx = opts->ctx;
	err = stop_all(e, plan, opts);
	e->remote.how.before = NULL;
	if (!err)
		err = check_calls(&e->remote);
	if (!err)
		err = redirect(e);
	if (!err && opts->held)
		err = remote__write(&e->remote, opts->held->entry, opts->held->code,
				    sizeof(opts->held->code));
	if (!err)
		err = remote__unpark(&e->remote);
	if (!err) {
		e->remote.child.held = 0;
		remote__resume(&e->remote);
	}
	return err;
}

/* Else the first event in each page would take a page fault: as long as 300 events. */
static void touch(struct inline_engine *e)
{
	volatile const uint8_t *tables = e->ring + 2 * e->ring_bytes;
	uint64_t used = e->counted ? IL_NODES - IL_FUNCS : 0;

	if (e->timed)
		used = IL_SPANS - IL_FUNCS;
	for (uint64_t i = 0; i < used; i += PAGE_BYTES)
		(void)tables[i]; /* they get memory now */
	remote__touch(&e->remote, e->base + IL_SHARED, IL_SHARED_HEAD + 2 * e->ring_bytes + used);
}

void inline__touch_lane(const struct inline_engine *e, uint32_t i)
{
	volatile const uint8_t *ring = inline__lane(e, i).ring;

	if (e->lazy || !e->mapped)
		return;
	for (uint64_t at = 0; at < e->lane_ring; at += PAGE_BYTES)
		(void)ring[at];
	remote__touch(&e->remote,
		      e->base + IL_RING + 2 * e->ring_bytes + i * IL_LANE_BYTES(e->lane_ring) +
			      IL_LANE_RING,
		      e->lane_ring);
}

/* Not to us: the target may not do what it should have done. */
static int denied(const struct inline_engine *e, int ret, struct err *err)
{
	if (e->remote.caller.failed && ret == -EAGAIN) /* of mmap() */
		return inline_refuse(
			err, e->remote.pid,
			"it locks all memory that it maps (mlockall()), and may not lock as "
			"much more (RLIMIT_MEMLOCK)");
	if (!e->remote.caller.failed || (ret != -EACCES && ret != -EPERM))
		return ret;
	return inline_refuse(err, e->remote.pid,
			     "it may not map memory that others write, or code: a security "
			     "policy of the system");
}

/* -EEXIST: since the look another thread has mapped something at the place that was free. */
static int map_at_once(struct inline_engine *e, const struct inline_plan *plan,
		       const struct inline_opts *opts, struct err *err)
{
	struct stub_how how = { .count = e->counted,
				.time = e->timed,
				.locked = e->locked,
				.turns = e->turns,
				.interpreters = e->in->interpreters,
				.versions = e->versions,
				.quiet = e->quiet,
				.opcodes = opts->opcodes };
	auto_close int code = -1, ring = -1;
	uint64_t empty = 0;
	int code_fd, ring_fd, ret = find_place(e, &empty);

	/* it may load it later */
	if (!e->switches && !e->counted)
		e->switches = greenlets__may_come(&e->remote, &e->in->layout);
	how.switches = e->switches;
	if (!ret)
		ret = stub_image(plan, &e->in->layout, e->in->bias, e->base, &how,
				 (void *)e->header, err);
	if (ret)
		return ret;
	e->header->magic = IL_MAGIC;
	e->header->region_bytes = e->region_bytes;
	e->header->scratch = e->remote.scratch;
	ret = remote__follow(&e->remote);
	if (ret)
		return ret;
	if (opts->begins)
		opts->begins(opts->ctx);
	ret = first_calls(e, empty, &code_fd, &ring_fd);
	if (ret)
		return denied(e, ret, err);
	inline_note_memfds(e, code_fd, ring_fd);
	code = inline_open_fd(&e->remote, code_fd);
	ring = inline_open_fd(&e->remote, ring_fd);
	ret = code < 0 ? code : ring < 0 ? ring : 0;
	if (!ret && code_fd == ring_fd) /* the first one was closed before there was the second */
		ret = -EBADF;
	if (!ret)
		ret = inline_fill_code(e, code);
	if (!ret)
		ret = inline_map_ring(e, ring);
	if (!ret)
		ret = second_calls(e, code_fd, ring_fd);
	e->mapped = !ret;
	if (!ret && !e->lazy)
		touch(e);
	return denied(e, ret, err);
}

static int map_all(struct inline_engine *e, const struct inline_plan *plan,
		   const struct inline_opts *opts, struct err *err)
{
	int ret = map_at_once(e, plan, opts, err);

	for (int i = 1; ret == -EEXIST && i < PLACE_TRIES; i++) {
		ret = inline_unreserve(&e->remote, e->base, &e->left_mapped);
		e->reserved = ret != 0;
		if (!ret)
			ret = map_at_once(e, plan, opts, err);
	}
	return ret;
}

/* Can instructions be recorded, and does the table hold what the file says? */
static int check_opcodes(struct inline_engine *e, const struct inline_plan *plan,
			 const uint8_t *opcodes, struct err *err)
{
	uint64_t now[256];
	bool all = true;

	if (!plan->table)
		return err_set(err, -PYE_EPLAN,
			       "the inline engine cannot see each instruction of CPython 3.%u: the "
			       "first one of a frame, and those behind an interruption, are "
			       "dispatched past the table (to 3.10)",
			       plan->minor);
	if (remote__read(&e->remote, plan->table + e->in->bias, now, sizeof(now)))
		return -EFAULT;
	for (unsigned int i = 0; i < 256; i++) {
		all &= opcodes[i] != STUB_OPCODE_END;
		if (opcodes[i] && plan->handlers[i] && now[i] != plan->handlers[i] + e->in->bias)
			return inline_refuse(
				err, e->remote.pid,
				"its dispatch table is not as its file says: something else "
				"has changed it");
	}
	return stub_opcode_cost(plan, &e->in->layout, all, e->locked, e->clock != 0,
				&e->opcode_cost, err);
}

/* With a dead pyebpf it goes on within a second, as with a full ring. */
uint64_t inline_park_ticks(const struct inline_engine *e)
{
	return e->tsc_hz / 10 * 8;
}

static void plan_region(struct inline_engine *e, const struct inline_opts *opts)
{
	size_t ring = IL_RING_MIN;

	while (ring < (opts->count ? IL_COUNT_RING : opts->ring_bytes) ||
	       (opts->opcodes && ring < OPCODE_RING))
		ring *= 2;
	e->counted = opts->count;
	e->timed = opts->time;
	e->quiet = opts->quiet && !opts->count && !opts->opcodes && !e->locked;
	/* the instructions of all threads are numbered in their order: they share one ring; and lanes are put in order by
	 * their time stamps, for which the kernel's clock may be too coarse */
	if (e->locked && !opts->count && !opts->opcodes && !e->clock) {
		ring = ring / 2 > IL_RING_MIN ? ring / 2 : IL_RING_MIN;
		e->lane_ring = ring;
		e->table_bytes = IL_LANE_CNT * IL_LANE_BYTES(ring);
	}
	if (opts->count)
		e->table_bytes = (IL_COUNT_BYTES + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	e->ring_bytes = ring;
	e->region_bytes = IL_RING + 2 * ring + e->table_bytes;
}

int inline_check_shift(pid_t pid, struct err *e)
{
	if (!stub_clock_is_shifted(pid))
		return 0;
	return inline_refuse(e, pid,
			     "it lives in another time namespace, and the processor's time "
			     "stamp counter is not steady");
}

/* Where the stubs get the time from. Calls that are counted without their durations need none. */
static int find_clock(struct inline_engine *e, const struct inline_opts *opts, struct err *err)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	int ret;

	if (tsc_is_steady() || (opts->count && !opts->time))
		return 0;
	ret = inline_check_shift(e->remote.pid, err);
	if (!ret)
		ret = maps__read(e->remote.pid, &maps);
	if (ret)
		return ret;
	ret = stub_clock_find(e->remote.pid, &maps, &e->clock);
	if (ret)
		return inline_refuse(err, e->remote.pid,
				     "the processor's time stamp counter is not steady, and the "
				     "kernel's clock was not found in its memory");
	e->hz = SECOND_NS;
	return 0;
}

/* How events get into the ring: that depends on the clock, and on how many locks the interpreters have. */
static int choose_way(struct inline_engine *e, const struct inline_plan *plan,
		      const struct inline_opts *opts, struct err *err)
{
	int ret = find_clock(e, opts, err);

	if (ret)
		return ret;
	e->locked = e->clock || e->in->layout.flags & PYE_LAYOUT_FREE_THREADED || is_shared(e);
	e->turns = !e->locked && can_have_own_gils(e);
	plan_region(e, opts);
	e->tstate_tls = plan->tstate_tls;
	if (!e->locked)
		e->remote.lock = (struct remote_lock){ .in = e->in,
						       .tstate_tls = plan->tstate_tls,
						       .loop = plan->loop + e->in->bias,
						       .loop_bytes = plan->loop_bytes };
	e->eval_frame = plan->eval_frame;
	e->versions = e->counted && !e->timed && e->in->interpreters && (e->turns || e->tstate_tls);
	return 0;
}

static int prepare(struct inline_engine *e, pid_t pid, const struct inline_opts *opts,
		   struct inline_plan *plan, struct err *err)
{
	int ret = check_process(pid, opts->held || opts->parked, err);

	if (!ret)
		ret = inline_plan_load_cached(opts->cache, e->in->open_path, plan, err);
	if (!ret)
		ret = remote__open(&e->remote, pid, err);
	if (ret)
		return ret;
	e->remote.child.held = opts->held ? pid : 0;
	e->remote.follow = opts->follow;
	e->remote.park.ticks = inline_park_ticks(e);
	e->lazy = opts->parked;
	e->memfd_flags = memfile_flags();
	if (opts->parked) {
		ret = remote__park(&e->remote);
		if (ret)
			return ret;
	}
	e->header = calloc(1, IL_CODE_BYTES);
	if (!e->header)
		return -ENOMEM;
	ret = choose_way(e, plan, opts, err);
	if (!ret && opts->opcodes)
		ret = check_opcodes(e, plan, opts->opcodes, err);
	if (!ret)
		ret = check_words(e, plan); /* -EFAULT: it ends */
	if (ret == -EEXIST)
		ret = inline_refuse(
			err, pid,
			"its interpreter is not as its file says: something else has changed it");
	if (!ret)
		ret = inline_find_scratch(&e->remote, e->in->start);
	if (ret == -ENOENT)
		ret = inline_refuse(
			err, pid,
			"there is no unused room at the end of its interpreter's code, nor of "
			"its executable's or its loader's");
	return ret;
}

/* What was made so far is taken out, or it is said that it was not; a command of ours ends anyway. */
static int give_up(struct inline_engine *e, int ret, const struct inline_opts *opts,
		   struct err *err)
{
	pid_t pid = e->remote.pid;
	int left;

	if (ret > -PYE_ENOTPYTHON && remote__has_executed(&e->remote, e->remote.scratch))
		ret = -ESRCH;
	ret = inline_failed(pid, ret, err);
	if (opts->held || opts->parked)
		return ret;
	left = inline__detach(e);
	if (e->left_mapped || (left && left != -ESRCH))
		err_hint(err,
			 "a part of it is still there, and does nothing; later: pyebpf detach %d",
			 pid);
	return ret;
}

int inline__attach(struct inline_engine *e, pid_t pid, const struct interp *in,
		   const struct inline_opts *opts, struct err *err)
{
	struct inline_plan plan;
	int ret;

	memset(e, 0, sizeof(*e));
	e->remote.mem = -1;
	e->in = in;
	e->tsc_hz = e->hz = tsc_per_second();
	ret = prepare(e, pid, opts, &plan, err);
	if (ret && opts->parked && !opts->stays && !e->remote.cnt)
		follow__go(opts->follow, pid, 0);
	if (ret && inline_is_elsewhere(pid, in))
		ret = -ESRCH;
	if (ret)
		return inline_failed(pid, ret, err);
	ret = map_all(e, &plan, opts, err);
	if (!ret)
		ret = inline_fill_private(e, opts);
	if (!ret)
		ret = third_stop(e, &plan, opts);
	if (!ret)
		log_debug("probes in %u places of pid %d", e->header->patch_cnt, pid);
	return ret ? give_up(e, ret, opts, err) : 0;
}

void inline__alive(struct inline_engine *e)
{
	uint64_t until = inline__now(e) + DEADLINE_SEC * __atomic_load_n(&e->hz, __ATOMIC_RELAXED);

	if (!e->shared)
		return;
	__atomic_store_n(&e->shared->deadline, until, __ATOMIC_RELAXED);
	for (uint32_t i = 0; e->lane_ring && i < IL_LANE_CNT; i++)
		__atomic_store_n(&inline__lane(e, i).shared->deadline, until, __ATOMIC_RELAXED);
}

int inline__stop_outside(struct inline_engine *e)
{
	for (unsigned int i = 0;; i++) {
		size_t inside = 0;
		int err = remote__stop_python(&e->remote);

		if (err)
			return err;
		err = remote__check_program(&e->remote, e->base);
		if (err) {
			remote__resume(&e->remote);
			return err;
		}
		for (size_t k = 0; k < e->remote.cnt; k++)
			inside += e->remote.threads[k].pc - e->base < IL_CODE_BYTES;
		if (!inside || i == REMOTE_TRIES)
			return 0; /* at worst one loss is counted where the next one is */
		remote__resume(&e->remote);
		remote__give_time(i);
	}
}

/*
 * Those that lost something, as all of it; the others write all the time, perhaps in the middle of an event. What a cache
 * holds is wiped when there is room again, by whose it is.
 */
static bool restart_lanes(struct inline_engine *e)
{
	bool retired = e->shared->retire_lost;

	for (uint32_t i = 0; e->lane_ring && i < IL_LANE_CNT; i++)
		retired |= inline__lane(e, i).shared->retire_lost != 0;
	for (uint32_t i = 0; e->lane_ring && i < IL_LANE_CNT; i++) {
		struct inline_lane lane = inline__lane(e, i);

		if (lane.state->lost_mode)
			lane.state->thread = lane.state->limit = 0;
		if (retired) {
			lane.state->wipe = 1;
			lane.state->limit = 0;
		}
		lane.shared->retire_lost = lane.shared->lost_mode = lane.state->lost_mode = 0;
	}
	return retired;
}

static int wipe(struct inline_engine *e, uint64_t at, uint32_t words)
{
	auto_free uint64_t *empty = calloc(words, sizeof(*empty));

	return empty ? remote__write(&e->remote, e->base + at, empty, words * sizeof(*empty))
		     : -ENOMEM;
}

int inline__restart(struct inline_engine *e)
{
	uint64_t at = e->base + IL_PRIVATE, zero = 0,
		 head = __atomic_load_n(&e->shared->head, __ATOMIC_RELAXED),
		 base = head & ~(e->ring_bytes - 1), limit = head + e->ring_bytes - e->slack - base;
	size_t where = e->locked ? offsetof(struct il_private, room)
				 : offsetof(struct il_private, limit);
	int err = remote__write(&e->remote, at + offsetof(struct il_private, base), &base, 8);

	if (restart_lanes(e) && !err) {
		err = wipe(e, IL_CACHE, IL_CACHE_CNT);
		e->shared->retire_lost = 0;
	}
	if (e->switches && !err) /* which stacks go on where is not known any more */
		err = wipe(e, IL_ROOTS, IL_ROOT_CNT);
	e->shared->lost_mode = 0;
	if (!err)
		err = remote__write(&e->remote, at + offsetof(struct il_private, thread), &zero, 8);
	if (!err)
		err = remote__write(&e->remote, at + offsetof(struct il_private, lost_mode), &zero,
				    8);
	return err ? err : remote__write(&e->remote, at + where, &limit, 8);
}

bool inline_is_redirected(const struct remote *r, const struct il_header *h)
{
	for (uint32_t i = 0; i < h->patch_cnt; i++) {
		const struct il_patch *p = &h->patches[i];
		uint64_t now = 0;

		if (!remote__read(r, p->at, &now, p->size) && now == p->new)
			return true;
	}
	return false;
}

int inline__detach(struct inline_engine *e)
{
	int err = 0;

	if (!e->reserved) {
		if (!remote__unpark(&e->remote))
			remote__resume(&e->remote);
		return 0;
	}
	if (e->remote.park.on && !remote__unpark(&e->remote))
		remote__resume(&e->remote);
	for (int i = 0; i < DETACH_TRIES; i++) {
		err = e->mapped ? inline_undo(&e->remote, e->base, e->header, &e->left_mapped)
				: inline_unreserve(&e->remote, e->base, &e->left_mapped);
		if (!err || err == -ESRCH)
			break;
	}
	e->left_mapped &= err != -ESRCH;
	e->left_in = err && err != -ESRCH && e->mapped &&
		     inline_is_redirected(&e->remote, e->header);
	e->reserved = false;
	return err;
}

bool inline__has_executed(const struct inline_engine *e)
{
	return e->mapped && remote__has_executed(&e->remote, e->base);
}

void inline__gone(struct inline_engine *e)
{
	e->reserved = e->mapped = false;
	e->remote.cnt = 0;
	e->remote.park.on = false;
	remote__close(&e->remote); /* what comes after it may be attached to */
}

void inline__done(struct inline_engine *e)
{
	if (e->remote.pid)
		inline__detach(e);
	if (e->shared)
		munmap(e->shared, IL_SHARED_HEAD + 2 * e->ring_bytes + e->table_bytes);
	free(e->header);
	if (e->remote.pid)
		remote__close(&e->remote);
	memset(e, 0, sizeof(*e));
}
