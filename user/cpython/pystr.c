// SPDX-License-Identifier: Apache-2.0
#include "cpython/pystr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define MARK_SIZE (sizeof("...#0123456789abcdef") - 1)

unsigned int pystr_kind(const struct pye_pylayout *l, uint32_t state)
{
	uint32_t lowest = l->str_kind_mask & -l->str_kind_mask;
	uint32_t kind = lowest ? (state & l->str_kind_mask) / lowest : 0;

	return kind == 1 || kind == 2 || kind == 4 ? kind : 0;
}

enum pystr_place pystr_place(const struct pye_pylayout *l, uint32_t state)
{
	if (!(state & l->str_compact_mask))
		return PYSTR_POINTER;
	return state & l->str_ascii_mask ? PYSTR_ASCII : PYSTR_COMPACT;
}

static uint32_t character(const unsigned char *data, size_t idx, unsigned int kind)
{
	uint32_t cp = 0;

	memcpy(&cp, data + idx * kind, kind);
	return cp;
}

/* FNV-1a with the finish of MurmurHash3, since FNV alone leaves the last bytes in the low bits. */
static uint64_t hash(uint64_t length, const unsigned char *data, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u ^ length;

	for (size_t i = 0; i < len; i++)
		h = (h ^ data[i]) * 0x100000001b3u;
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 33;
}

static size_t put(char *out, uint32_t cp)
{
	if (cp)
		return text_put_code_point(out, cp);
	out[0] = (char)0xc0;
	out[1] = (char)0x80;
	return 2;
}

size_t pystr_decode(const struct pye_pylayout *l, uint32_t state, uint64_t length, const void *data,
		    size_t len, char *out, size_t size)
{
	unsigned int kind = pystr_kind(l, state);
	size_t have = kind ? len / kind : 0;
	size_t at = 0, cut = 0; /* cut: the longest prefix that leaves room for the mark */
	bool whole = length <= have;
	char piece[4];

	out[0] = '\0';
	if (!kind)
		return 0;
	if (whole)
		have = (size_t)length;
	for (size_t i = 0; i < have; i++) {
		size_t n = put(piece, character(data, i, kind));

		if (at + n >= size) {
			whole = false;
			break;
		}
		memcpy(out + at, piece, n);
		at += n;
		if (at + MARK_SIZE < size)
			cut = at;
	}
	if (!whole)
		at = cut + (size_t)snprintf(out + cut, size - cut, "...#%016" PRIx64,
					    hash(length, data, have * kind));
	out[at] = '\0';
	return at;
}
