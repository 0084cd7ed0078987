// SPDX-License-Identifier: Apache-2.0
#include "proc/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proc/file.h"
#include "proc/pid.h"

static ssize_t read_by_pid(pid_t pid, uint64_t addr, void *buf, size_t size)
{
	struct iovec here = { .iov_base = buf, .iov_len = size };
	struct iovec there = { .iov_base = (void *)(uintptr_t)addr, .iov_len = size };

	return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

/* A process that may not be read says so at the first byte; an address that is not mapped is fine. */
static int try_by_pid(pid_t pid)
{
	char byte;

	if (!proc_pid_is_ours())
		return -EACCES;
	return read_by_pid(pid, 0, &byte, 1) < 0 && errno != EFAULT ? -errno : 0;
}

int proc_mem__open(pid_t pid, struct proc_mem *out)
{
	char path[32];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err = proc_gone(-errno);
		if (err == -EACCES || err == -EPERM)
			err = try_by_pid(pid);
		if (err)
			return err;
	}
	*out = (struct proc_mem){ .fd = fd, .pid = pid };
	return 0;
}

void proc_mem__close(struct proc_mem *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

ssize_t proc_mem__read_some(const struct proc_mem *m, uint64_t addr, void *buf, size_t size)
{
	ssize_t n;

	/* pread() takes a signed offset; there is nothing of a process up there anyway. */
	if (addr > INT64_MAX - size)
		return -EFAULT;
	do {
		n = m->fd >= 0 ? pread(m->fd, buf, size, (off_t)addr)
			       : read_by_pid(m->pid, addr, buf, size);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n == 0)
		return size ? -ESRCH : 0; /* the address space is gone */
	return errno == EIO ? -EFAULT : -errno;
}

ssize_t proc_mem__read_held(const struct proc_mem *m, uint64_t addr, void *buf, size_t size)
{
	ssize_t n = read_by_pid(m->pid, addr, buf, size);

	return n > 0 ? n : proc_mem__read_some(m, addr, buf, size);
}

size_t proc_mem__pieces_held(const struct proc_mem *m, const uint64_t *addrs, size_t cnt, void *buf)
{
	struct iovec here = { .iov_base = buf, .iov_len = cnt * PROC_PIECE_BYTES };
	struct iovec there[PROC_PIECES];
	size_t used = 0;
	ssize_t n;

	for (size_t i = 0; i < cnt; i++) {
		if (i && addrs[i] == addrs[i - 1] + PROC_PIECE_BYTES)
			there[used - 1].iov_len += PROC_PIECE_BYTES;
		else
			there[used++] =
				(struct iovec){ (void *)(uintptr_t)addrs[i], PROC_PIECE_BYTES };
	}
	n = process_vm_readv(m->pid, &here, 1, there, used, 0);
	return n > 0 ? (size_t)n / PROC_PIECE_BYTES : 0;
}

int proc_mem__read(const struct proc_mem *m, uint64_t addr, void *buf, size_t size)
{
	size_t at = 0;

	while (at < size) {
		ssize_t n = proc_mem__read_some(m, addr + at, (char *)buf + at, size - at);

		if (n < 0)
			return (int)n;
		at += (size_t)n;
	}
	return 0;
}

int proc_mem__word(const struct proc_mem *m, uint64_t addr, uint64_t *out)
{
	return proc_mem__read(m, addr, out, sizeof(*out));
}

void proc_near__look(struct proc_near *n, const struct proc_mem *mem, uint64_t addr)
{
	ssize_t len = proc_mem__read_some(mem, addr, n->bytes, sizeof(n->bytes));

	n->mem = mem;
	n->addr = addr;
	n->len = len > 0 ? (size_t)len : 0;
}

int proc_near__read(const struct proc_near *n, uint64_t addr, void *buf, size_t size)
{
	uint64_t at = addr - n->addr;

	if (addr < n->addr || at > n->len || n->len - at < size)
		return proc_mem__read(n->mem, addr, buf, size);
	memcpy(buf, n->bytes + at, size);
	return 0;
}
