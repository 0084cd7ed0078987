// SPDX-License-Identifier: Apache-2.0
#include "capfile/sum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t cap_sum(const void *data, size_t len, uint64_t seed)
{
	return XXH64(data, len, seed);
}
