/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a thread's stack for what a call of its own is to read: below the red zone, and what our own calls (remote_call.c) need there. A
 * signal's frame can come there once the thread runs, as it can anywhere below.
 */
#ifndef PYEBPF_INLINE_THREAD_ROOM_H
#define PYEBPF_INLINE_THREAD_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* thread_room__at - its address, a multiple of 16, for so many bytes; @regs: of the thread, which stands still */
uint64_t thread_room__at(const struct user_regs_struct *regs, size_t bytes);

/* thread_room__read - of its process's memory, wherever. False: not all of it is there. thread_room__write - the same */
bool thread_room__read(pid_t tid, uint64_t at, void *to, size_t bytes);
bool thread_room__write(pid_t tid, uint64_t at, const void *from, size_t bytes);

#endif
