/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that are taken out. The kernel takes a probe's instruction out at once, but lets whoever closes the
 * link wait, some 50 ms, until nobody can be in it; those who wait at the same time wait together. So each
 * link is closed in a thread of its own, up to a number of threads, and there apart (apart.h).
 */
#ifndef PYEBPF_CAPTURE_CLOSING_H
#define PYEBPF_CAPTURE_CLOSING_H

#include <stdbool.h>
#include <stddef.h>

struct closing;

/**
 * closing_begin - close descriptors
 * @fds: copied; they are the closing's from here on, whatever happens
 *
 * Return: to be given to closing_end(). NULL: they are closed.
 */
struct closing *closing_begin(const int *fds, size_t cnt);

/* closing_done - are all closed? closing_end() will not wait. */
bool closing_done(struct closing *c);

/* closing_end - wait until all are; NULL is fine. */
void closing_end(struct closing *c);

/* closing_leave - let it go on by itself; NULL is fine. */
void closing_leave(struct closing *c);

#endif
