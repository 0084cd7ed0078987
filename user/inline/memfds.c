// SPDX-License-Identifier: Apache-2.0
/*
 * The two memfds that a thread of the target makes: what they hold, and which they are while they have a number there. A thread can
 * have descriptors of its own (unshare(2)), and any of them can close what it does not know, as a program does that becomes a daemon,
 * and open its own files: under the numbers that were ours. So nothing is written, mapped or closed by a number alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inline/engine_priv.h"
#include "inline/region.h"
#include "inline/remote_call.h"
#include "proc/maps.h"

/*
 * Of the thread that made it, unless that ends: its descriptors are gone some time before it is, then those of the leader tell, most
 * likely the same. It can end before the path is used, too: who uses it tries twice. False: it is no memfd.
 */
static bool memfd_path(const struct remote *r, uint64_t fd, char *path, size_t size)
{
	char link[32];

	for (pid_t tid = r->caller.tid;; tid = r->pid) {
		if (!tid || remote__is_ending(r->pid, tid))
			tid = r->pid;
		snprintf(path, size, "/proc/%d/task/%d/fd/%d", r->pid, tid, (int)fd);
		if (readlink(path, link, sizeof(link)) > 7)
			return !memcmp(link, "/memfd:", 7);
		if (tid == r->pid || !remote__is_ending(r->pid, tid))
			return false;
	}
}

ino_t inline_memfd_at(const struct remote *r, uint64_t fd)
{
	char path[64];
	struct stat st;

	for (int i = 0; i < 2 && memfd_path(r, fd, path, sizeof(path)); i++)
		if (!stat(path, &st))
			return st.st_ino;
	return 0;
}

/* It is empty, and nothing is sealed: not one that we have filled. */
static bool is_new(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && !(seals & F_SEAL_SEAL) && !fstat(fd, &st) && !st.st_size;
}

int inline_open_fd(const struct remote *r, int fd)
{
	auto_close int ours = -1;
	char path[64];

	for (int i = 0; i < 2 && ours < 0; i++) {
		if (!memfd_path(r, (uint64_t)fd, path, sizeof(path)))
			return -EBADF;
		ours = open(path, O_RDWR | O_CLOEXEC);
	}
	if (ours < 0) /* it was there a moment ago */
		return errno == ENOENT ? -EBADF : -errno;
	return is_new(ours) ? take_fd(&ours) : -EBADF;
}

void inline_note_memfds(struct inline_engine *e, int code, int ring)
{
	const int fds[] = { code, ring };

	for (int i = code == ring; i < 2; i++) {
		e->memfds[i].fd = (uint64_t)fds[i];
		e->memfds[i].ino = inline_memfd_at(&e->remote, e->memfds[i].fd);
	}
}

ino_t inline_inode_at(const struct maps *maps, uint64_t at)
{
	const struct mapping *m = maps__find(maps, at);

	return m ? m->ino : 0;
}

static bool is_other(const struct maps *maps, uint64_t at, uint64_t ours)
{
	ino_t ino = inline_inode_at(maps, at);

	return ino && ino != ours;
}

bool inline_maps_others(const struct inline_engine *e)
{
	auto_fn(maps__done) struct maps maps = { 0 };

	if (maps__read(e->remote.pid, &maps))
		return false;
	return is_other(&maps, e->base + IL_CODE, e->memfds[0].ino) ||
	       is_other(&maps, e->base + IL_SHARED, e->memfds[1].ino) ||
	       is_other(&maps, e->base + IL_RING + e->ring_bytes, e->memfds[1].ino);
}

unsigned int inline_close_memfds(const struct remote *r, const struct inline_engine *e,
				 struct remote_call *calls)
{
	unsigned int cnt = 0;

	for (int i = 0; i < 2; i++)
		if (e->memfds[i].ino && inline_memfd_at(r, e->memfds[i].fd) == e->memfds[i].ino)
			calls[cnt++] = (struct remote_call){ SYS_close, { e->memfds[i].fd } };
	return cnt;
}

int inline_check_memfds(void *engine)
{
	const struct inline_engine *e = engine;
	struct remote_call calls[2];

	return inline_close_memfds(&e->remote, e, calls) == 2 ? 0 : -EBADF;
}

int inline_fill_code(const struct inline_engine *e, int fd)
{
	if (ftruncate(fd, (off_t)IL_CODE_BYTES) ||
	    pwrite(fd, e->header, IL_CODE_BYTES, 0) != (ssize_t)IL_CODE_BYTES ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	return 0;
}

/* Our own view: head and threads, then the ring twice. */
int inline_map_ring(struct inline_engine *e, int fd)
{
	size_t all = IL_SHARED_HEAD + 2 * e->ring_bytes + e->table_bytes;
	off_t bytes = (off_t)(all - e->ring_bytes); /* the ring is mapped twice */
	struct stat st;
	uint8_t *at;

	if (ftruncate(fd, bytes) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) || fstat(fd, &st))
		return -errno;
	/* the target has it, too: it can have been made shorter in between */
	if (st.st_size != bytes)
		return -EBADF;
	at = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (mmap(at, IL_SHARED_HEAD + e->ring_bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | (e->lazy ? 0 : MAP_POPULATE), fd, 0) == MAP_FAILED ||
	    mmap(at + IL_SHARED_HEAD + e->ring_bytes, e->ring_bytes + e->table_bytes,
		 PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | (e->table_bytes || e->lazy ? 0 : MAP_POPULATE), fd,
		 (off_t)IL_SHARED_HEAD) == MAP_FAILED) {
		int err = -errno;

		munmap(at, all);
		return err;
	}
	e->shared = (void *)at;
	e->threads = (const void *)(at + (IL_THREADS - IL_SHARED));
	e->ring = at + IL_SHARED_HEAD;
	return 0;
}
