/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a store, in SQLite. Only store.c and trim.c use it. */
#ifndef PYEBPF_STORE_CATALOGUE_H
#define PYEBPF_STORE_CATALOGUE_H

#include "store/store.h"

struct catalogue;

/**
 * catalogue__open - open the catalogue, or an empty one
 * @path: NULL: one in memory
 *
 * Return: 0; -PYE_EFORMAT: it is damaged or of another kind; -PYE_EOUTPUT: it cannot be written; -ENOMEM.
 */
int catalogue__open(struct catalogue **out, const char *path, struct err *e);
void catalogue__free(struct catalogue *c);

/* catalogue__copy - into an empty one what one on disk holds, if it can be used. 0 or -ENOMEM. */
int catalogue__copy(struct catalogue *c, const char *path);

/* catalogue__begin, catalogue__commit - many changes as one. 0 or an error with a sentence. */
int catalogue__begin(struct catalogue *c, struct err *e);
int catalogue__commit(struct catalogue *c, struct err *e);

/* catalogue__add - a window; its id does not matter. One of the same file is replaced. */
int catalogue__add(struct catalogue *c, const struct store_window *window, struct err *e);

/* catalogue__remove - forget a window; none of that name is fine. */
int catalogue__remove(struct catalogue *c, const char *file, struct err *e);

/* catalogue__has - 1, 0 or an error. */
int catalogue__has(struct catalogue *c, const char *file, struct err *e);

typedef int (*catalogue_fn)(void *ctx, const struct store_window *window);

/* catalogue__each - windows that overlap [@since_ns, @until_ns), oldest first; as store__each(). */
int catalogue__each(struct catalogue *c, int64_t since_ns, int64_t until_ns, catalogue_fn fn,
		    void *ctx, struct err *e);

/* catalogue__bytes - of all windows; or an error. */
int catalogue__bytes(struct catalogue *c, uint64_t *out, struct err *e);

#endif
