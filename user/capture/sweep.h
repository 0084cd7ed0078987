/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgetting the code objects of processes that have ended, in the kernel's tables: their keys hold 16
 * bits of the process's number, which come again after 65,536 processes. Looking through the tables
 * takes some 30 ms, so it is done for many processes at a time.
 */
#ifndef PYEBPF_CAPTURE_SWEEP_H
#define PYEBPF_CAPTURE_SWEEP_H

#include <stdint.h>

#define SWEEP_BATCH 64

struct sweep {
	int codes_fd; /* borrowed: hash table, key {address | number << 48} */
	struct sweep_slot *slots; /* the direct-mapped cache in front of it, mapped */
	uint32_t cnt;
	uint16_t ended[SWEEP_BATCH];
};

/* sweep__init - 0 or a negative errno; sweep__done - unmap. */
int sweep__init(struct sweep *s, int codes_fd, int slots_fd);
void sweep__done(struct sweep *s);

/* sweep__ended - note a process; every SWEEP_BATCHth call looks through the tables. */
void sweep__ended(struct sweep *s, uint32_t pix);

#endif
