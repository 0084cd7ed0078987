/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_BASE_ORDER_H
#define PYEBPF_BASE_ORDER_H

#include <stdint.h>
#include <sys/types.h>

/* order_u64 - for qsort() and bsearch(): of numbers, or of structs that begin with one; the least first */
static inline int order_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* order_pid - the same of numbers of processes and threads */
static inline int order_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

#endif
