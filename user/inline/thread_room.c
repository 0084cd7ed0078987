// SPDX-License-Identifier: Apache-2.0
#include "inline/thread_room.h"

#include <sys/uio.h>

#define BELOW_SP 2048

uint64_t thread_room__at(const struct user_regs_struct *regs, size_t bytes)
{
	return (regs->rsp - BELOW_SP - bytes) & ~15ull;
}

bool thread_room__read(pid_t tid, uint64_t at, void *to, size_t bytes)
{
	const struct iovec here = { to, bytes }, there = { (void *)(uintptr_t)at, bytes };

	return process_vm_readv(tid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool thread_room__write(pid_t tid, uint64_t at, const void *from, size_t bytes)
{
	const struct iovec here = { (void *)(uintptr_t)from, bytes },
			   there = { (void *)(uintptr_t)at, bytes };

	return process_vm_writev(tid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}
