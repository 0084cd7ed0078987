/* SPDX-License-Identifier: Apache-2.0 */
/* ClickHouse's RowBinary: values one after the other, numbers little-endian, the length of a string or an array as a
 * varint before it. */
#ifndef PYEBPF_SINK_ROWBINARY_H
#define PYEBPF_SINK_ROWBINARY_H

#include <endian.h>
#include <string.h>

#include "base/outbuf.h"

static inline void row_u32(struct outbuf *b, uint32_t value)
{
	value = htole32(value);
	outbuf__put(b, &value, sizeof(value));
}

static inline void row_u64(struct outbuf *b, uint64_t value)
{
	value = htole64(value);
	outbuf__put(b, &value, sizeof(value));
}

/* row_count - a length. */
static inline void row_count(struct outbuf *b, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		outbuf__putc(b, (char)(value | 0x80));
	outbuf__putc(b, (char)value);
}

static inline void row_string(struct outbuf *b, const char *s)
{
	size_t len = strlen(s);

	row_count(b, len);
	outbuf__put(b, s, len);
}

#endif
