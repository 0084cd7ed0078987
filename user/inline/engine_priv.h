/* SPDX-License-Identifier: Apache-2.0 */
/* What engine.c lends to adopt.c, and both have of permit.c and memfds.c. */
#ifndef PYEBPF_INLINE_ENGINE_PRIV_H
#define PYEBPF_INLINE_ENGINE_PRIV_H

#include "inline/engine.h"
#include "inline/remote_call.h"

struct maps;

/* inline_refuse - -PYE_EPLAN with the reason. */
int inline_refuse(struct err *e, pid_t pid, const char *why);

/* inline_status_number - a line of /proc/PID/status; 0 also when there is none; -1: the file could not be read. */
long inline_status_number(pid_t pid, const char *field);

/* inline_process_of - the process that a thread is of; 0: it is gone */
pid_t inline_process_of(pid_t tid);

/* inline_open_memory - /proc/PID/mem, as open() with O_CLOEXEC does */
int inline_open_memory(pid_t pid, int flags);

/* inline_is_busy - is another pyebpf at work on it with this engine? */
bool inline_is_busy(pid_t pid);

/* inline_is_traced - do we trace a thread, whether we have been told of it yet or not? */
bool inline_is_traced(pid_t tid);

/* inline_unfit - what a target must not have, before anything is written: a sentence about it, or NULL. @held: it is
 * stopped by us. Static text. */
const char *inline_unfit(pid_t pid, bool held);

/* inline_check_shift - 0; refused: it sees another clock of the kernel than we do, and the stubs would read that */
int inline_check_shift(pid_t pid, struct err *e);

/* inline_is_redirected - does any word of those that lead to stubs? */
bool inline_is_redirected(const struct remote *r, const struct il_header *h);

/* inline_memfd_at - the inode of a memfd that the target has open; 0: it is none. */
ino_t inline_memfd_at(const struct remote *r, uint64_t fd);

/* inline_inode_at - of the file that is mapped there; 0: none is */
ino_t inline_inode_at(const struct maps *maps, uint64_t at);

/* inline_is_elsewhere - has an interpreter that was found in a living process gone, since that executed something? */
bool inline_is_elsewhere(pid_t pid, const struct interp *in);

/* inline_empty_string - its address in a process; 0: none. */
uint64_t inline_empty_string(const struct maps *maps);

/* inline_open_fd - the memfd that its caller has just made; ours. -EBADF: that is not what it has under this number any more; or another
 * negative errno. */
int inline_open_fd(const struct remote *r, int fd);

/* inline_note_memfds - what its caller has just made, by number and inode */
void inline_note_memfds(struct inline_engine *e, int code, int ring);

/* inline_check_memfds - for remote.caller.ready, @engine: are these the ones that have the numbers? 0 or -EBADF */
int inline_check_memfds(void *engine);

/* inline_maps_others - is another file mapped where they should be? */
bool inline_maps_others(const struct inline_engine *e);

/* inline_close_memfds - calls that close those of @e that a process, its own or a child of that, still has open; how many: up to two */
unsigned int inline_close_memfds(const struct remote *r, const struct inline_engine *e,
				 struct remote_call *calls);

/* inline_fill_code - what that of the code holds, for ever: the image of @e->header. 0 or a negative errno. */
int inline_fill_code(const struct inline_engine *e, int fd);

/* inline_map_ring - our own view of the memory that is shared with the target. 0 or a negative errno. */
int inline_map_ring(struct inline_engine *e, int fd);

/* inline_park_ticks - for remote.park.ticks */
uint64_t inline_park_ticks(const struct inline_engine *e);

/* inline_fill_private - what the stubs read; with that they begin to write. 0 or -EFAULT. */
int inline_fill_private(struct inline_engine *e, const struct inline_opts *opts);

#endif
