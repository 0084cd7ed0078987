/* SPDX-License-Identifier: Apache-2.0 */
/* What engine.c lends to adopt.c, and both have of permit.c. */
#ifndef PYEBPF_INLINE_ENGINE_PRIV_H
#define PYEBPF_INLINE_ENGINE_PRIV_H

#include "inline/engine.h"

struct maps;

/* inline_refuse - -PYE_EPLAN with the reason. */
int inline_refuse(struct err *e, pid_t pid, const char *why);

/* inline_status_number - a line of /proc/PID/status; 0 also when there is none; -1: the file could not be read. */
long inline_status_number(pid_t pid, const char *field);

/* inline_is_traced - do we trace a thread, whether we have been told of it yet or not? */
bool inline_is_traced(pid_t tid);

/* inline_unfit - what a target must not have, before anything is written: a sentence about it, or NULL. @held: it is
 * stopped by us. Static text. */
const char *inline_unfit(pid_t pid, bool held);

/* inline_is_redirected - does any word of those that lead to stubs? */
bool inline_is_redirected(const struct remote *r, const struct il_header *h);

/* inline_memfd_at - the inode of a memfd that the target has open; 0: it is none. */
ino_t inline_memfd_at(const struct remote *r, uint64_t fd);

/* inline_is_elsewhere - has an interpreter that was found in a living process gone, since that executed something? */
bool inline_is_elsewhere(pid_t pid, const struct interp *in);

/* inline_empty_string - its address in a process; 0: none. */
uint64_t inline_empty_string(const struct maps *maps);

/* inline_open_fd - a descriptor of another process; ours, or a negative errno. */
int inline_open_fd(pid_t pid, int fd);

/* inline_map_ring - our own view of the memory that is shared with the target. 0 or a negative errno. */
int inline_map_ring(struct inline_engine *e, int fd);

/* inline_park_ticks - for remote.park_ticks */
uint64_t inline_park_ticks(const struct inline_engine *e);

/* inline_fill_private - what the stubs read; with that they begin to write. 0 or -EFAULT. */
int inline_fill_private(struct inline_engine *e, const struct inline_opts *opts);

#endif
