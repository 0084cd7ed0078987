/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing protocol buffers. One message of the top level at a time is built in memory and handed
 * to an outbuf; there is no tree of objects. The length of a nested message is patched in when it
 * is closed. Errors (no memory) stick and come out of proto__flush().
 */
#ifndef PYEBPF_EXPORT_PROTO_H
#define PYEBPF_EXPORT_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "base/outbuf.h"

/* Zeroed is an empty message; released with proto__done(). */
struct proto {
	uint8_t *data;
	size_t len, cap;
	int err;
};

void proto__done(struct proto *p);

/**
 * proto__flush - hand what was written to @b and begin anew
 *
 * Return: 0, -ENOMEM, or the error of @b.
 */
int proto__flush(struct proto *p, struct outbuf *b);

/* proto__varint - a bare number, for packed fields. */
void proto__varint(struct proto *p, uint64_t value);

/* proto__varints - many of them; @cnt is at most a few thousand. */
void proto__varints(struct proto *p, const uint32_t *values, size_t cnt);

/* proto__raw - bytes that are fields already. */
void proto__raw(struct proto *p, const void *data, size_t len);

/* proto__u64, proto__i64 - a number; 0 is left out, as proto3 does. */
void proto__u64(struct proto *p, uint32_t field, uint64_t value);
void proto__i64(struct proto *p, uint32_t field, int64_t value);

/* proto__bytes - a string or bytes, empty ones too; a string must be valid UTF-8. */
void proto__bytes(struct proto *p, uint32_t field, const void *data, size_t len);

/**
 * proto__open - begin a nested message or a packed field
 *
 * Return: what proto__close() wants; nest as you like.
 */
size_t proto__open(struct proto *p, uint32_t field);
void proto__close(struct proto *p, size_t mark);

#endif
