// SPDX-License-Identifier: Apache-2.0
#include "base/siphash.h"

static uint64_t rotate(uint64_t v, unsigned int by)
{
	return v << by | v >> (64 - by);
}

static void turn(uint64_t v[4], unsigned int times)
{
	while (times--) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

/* Up to eight bytes, the first one lowest. */
static uint64_t word(const uint8_t *at, size_t len)
{
	uint64_t w = 0;

	for (size_t i = 0; i < len; i++)
		w |= (uint64_t)at[i] << 8 * i;
	return w;
}

static void take(uint64_t v[4], uint64_t w)
{
	v[3] ^= w;
	turn(v, 2);
	v[0] ^= w;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
	uint64_t v[4] = { key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d,
			  key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573 };
	const uint8_t *at = data;
	size_t left = len;

	for (; left >= 8; at += 8, left -= 8)
		take(v, word(at, 8));
	take(v, (uint64_t)len << 56 | word(at, left));
	v[2] ^= 0xff;
	turn(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
