/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the memory of another process, which runs on meanwhile. Reads go through /proc/PID/mem,
 * opened once: the kernel ties it to the address space of that moment, so neither a reused pid nor an
 * exec can turn it into another one's (reads end then). Where that file may not be opened
 * (CAP_SYS_PTRACE without CAP_DAC_READ_SEARCH) process_vm_readv() is used instead.
 */
#ifndef PYEBPF_PROC_MEM_H
#define PYEBPF_PROC_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_mem {
	int fd; /* -1: process_vm_readv() */
	pid_t pid;
};

/**
 * proc_mem__open - the memory of a process
 * @pid: as /proc shows it
 * @out: release with proc_mem__close(); written only on success
 *
 * Return: 0; -ESRCH; -EACCES or -EPERM; another negative errno.
 */
int proc_mem__open(pid_t pid, struct proc_mem *out);
void proc_mem__close(struct proc_mem *m);

/**
 * proc_mem__read - @size bytes at an address
 *
 * Return: 0 when all were read; -EFAULT when not all are readable; -ESRCH when the process is gone;
 * another negative errno. @buf is undefined then.
 */
int proc_mem__read(const struct proc_mem *m, uint64_t addr, void *buf, size_t size);

/* proc_mem__read_some - as many as can be read: the number (> 0), or a negative errno. */
ssize_t proc_mem__read_some(const struct proc_mem *m, uint64_t addr, void *buf, size_t size);

/*
 * proc_mem__read_held - the same of a process that we hold, so that it is still the one of the pid: many pages by one look,
 * which takes a fifth of the time
 */
ssize_t proc_mem__read_held(const struct proc_mem *m, uint64_t addr, void *buf, size_t size);

/* proc_mem__pieces_held - @cnt pieces of pages, up to PROC_PIECES of them, by one call: how many of the first ones were read */
#define PROC_PAGE_BYTES	 4096u
#define PROC_PIECES	 1024u
#define PROC_PIECE_BYTES 512u
size_t proc_mem__pieces_held(const struct proc_mem *m, const uint64_t *addrs, size_t cnt,
			     void *buf);

/* proc_mem__word - a pointer or another 8 bytes; as proc_mem__read(). */
int proc_mem__word(const struct proc_mem *m, uint64_t addr, uint64_t *out);

/* What lies at an address, as much of it as is read by one call. */
struct proc_near {
	const struct proc_mem *mem;
	uint64_t addr;
	size_t len;
	uint8_t bytes[256];
};

/* proc_near__look - nothing at all, where nothing can be read: then each read is one of its own. @mem is borrowed. */
void proc_near__look(struct proc_near *n, const struct proc_mem *mem, uint64_t addr);

/* proc_near__read - as proc_mem__read(), without a call for what is at hand. */
int proc_near__read(const struct proc_near *n, uint64_t addr, void *buf, size_t size);

#endif
