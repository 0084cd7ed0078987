/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow, of which there can be many: large ones are pages of their own. malloc() would keep each
 * smaller one that they outgrew, and what is at the end and not used yet takes no memory this way.
 */
#ifndef PYEBPF_BASE_PAGES_H
#define PYEBPF_BASE_PAGES_H

#include <stddef.h>

/**
 * pages_resize - as realloc()
 * @old:  of pages_resize(); NULL: none
 * @from: bytes that it has, as asked for then; 0 with NULL
 * @to:   more than 0
 *
 * Return: to be given to pages_free(). NULL: no memory, @old is as before.
 */
void *pages_resize(void *old, size_t from, size_t to);

/* pages_free - @bytes: as asked for; NULL is fine. */
void pages_free(void *array, size_t bytes);

/**
 * pages_forget_linking - give back what the dynamic linker has read
 *
 * To look up symbols it reads through the constant parts of each library, which stay resident and are hardly read again. They are
 * those of files, so what is read all the same comes back. Code stays: another program may have breakpoints in it, which would not
 * come back, nor what has been written to once.
 */
void pages_forget_linking(void);

#endif
