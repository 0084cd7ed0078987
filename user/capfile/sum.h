/* SPDX-License-Identifier: Apache-2.0 */
/* XXH64, compiled in from the header of libxxhash: no library is needed where pyebpf runs. */
#ifndef PYEBPF_CAPFILE_SUM_H
#define PYEBPF_CAPFILE_SUM_H

#include <stddef.h>
#include <stdint.h>

/* cap_sum - XXH64 of @len bytes. */
uint64_t cap_sum(const void *data, size_t len, uint64_t seed) __attribute__((nonnull));

#endif
