/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clean-up by scope: a local with one of these attributes is released on every return path;
 * take_ptr() moves it out. Destructors used here accept NULL.
 */
#ifndef PYEBPF_BASE_CLEANUP_H
#define PYEBPF_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_fn(fn) __attribute__((cleanup(fn)))
#define auto_free   auto_fn(cleanup_freep)
#define auto_close  auto_fn(cleanup_closep)
#define auto_fclose auto_fn(cleanup_fclosep)

#define take_ptr(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#endif
