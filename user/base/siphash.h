/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 (Aumasson, Bernstein): a hash from which nobody without the key can tell what was hashed. */
#ifndef PYEBPF_BASE_SIPHASH_H
#define PYEBPF_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k0, k1;
};

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len);

#endif
