/* SPDX-License-Identifier: Apache-2.0 */
/* A hash for spreading and naming things: FNV-1a. Not for tables that a target can fill on purpose. */
#ifndef PYEBPF_BASE_HASH_H
#define PYEBPF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BEGIN 14695981039346656037ull

/* hash_text - goes on from @hash with the bytes of @s and its end, so that "ab", "c" is not "a", "bc". */
static inline uint64_t hash_text(uint64_t hash, const char *s)
{
	for (;; s++) {
		hash = (hash ^ (uint8_t)*s) * 1099511628211ull;
		if (!*s)
			return hash;
	}
}

static inline uint64_t hash_bytes(uint64_t hash, const void *from, size_t cnt)
{
	const uint8_t *bytes = from;

	for (size_t i = 0; i < cnt; i++)
		hash = (hash ^ bytes[i]) * 1099511628211ull;
	return hash;
}

#endif
