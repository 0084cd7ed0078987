/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by store.c, trim.c and purge.c. */
#ifndef PYEBPF_STORE_STORE_PRIV_H
#define PYEBPF_STORE_STORE_PRIV_H

#include "store/store.h"

#define CATALOGUE "catalogue.sqlite"

struct store {
	char *dir;
	int dir_fd;
	int lock_fd; /* -1: only read */
	struct catalogue *catalogue;
	bool together; /* changes of the catalogue wait for store__together_end() */
	bool off_disk; /* of a writer: the disk has no room for the catalogue, it is in memory */
	struct store_mended mended;
};

/* store_lock - nobody else writes to @s->dir from here on: @s->lock_fd. 0 or -PYE_EOUTPUT with a sentence. */
int store_lock(struct store *s, struct err *e);

/**
 * store_leave_disk - the catalogue goes on in memory, since the disk is full; it knows all windows that are there
 *
 * Return: 0; -PYE_EFORMAT with a sentence; -ENOMEM.
 */
int store_leave_disk(struct store *s, struct err *e);

/* store_back_to_disk - if there is room for it again. */
void store_back_to_disk(struct store *s);

bool store_is_window(const char *name);
/* store_is_left_over - a file that was being written when its writer was killed */
bool store_is_left_over(const char *name);

#endif
