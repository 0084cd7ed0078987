/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by store.c and trim.c. */
#ifndef PYEBPF_STORE_STORE_PRIV_H
#define PYEBPF_STORE_STORE_PRIV_H

#include "store/store.h"

#define CATALOGUE "catalogue.sqlite"

struct store {
	char *dir;
	int dir_fd;
	int lock_fd; /* -1: only read */
	struct catalogue *catalogue;
	struct store_mended mended;
};

#endif
