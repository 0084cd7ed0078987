/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of JSON, appended to an outbuf. There is no tree and no state: the caller writes the
 * punctuation with outbuf__puts(). The json_fmt_* forms write into the caller's memory, for
 * formats that keep columns of numbers as text or build a line by hand.
 *
 * Output is ASCII outside of strings and valid UTF-8 in them, safe to show on a terminal.
 */
#ifndef PYEBPF_EXPORT_JSON_H
#define PYEBPF_EXPORT_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/outbuf.h"

enum {
	JSON_U64_MAX = 20, /* bytes that json_fmt_u64() writes at most */
	JSON_I64_MAX = 20,
	JSON_MS_MAX = 21,
	JSON_US_MAX = 21,
};

/* json_fmt_u64, json_fmt_i64 - decimal digits; no NUL. Return: the first byte after them. */
char *json_fmt_u64(char *out, uint64_t value);
char *json_fmt_i64(char *out, int64_t value);

/**
 * json_fmt_ms - nanoseconds as milliseconds
 *
 * Exact: up to six decimals without trailing zeros (1500000 is 1.5, 7 is 0.000007, 0 is 0).
 *
 * Return: the first byte after the number.
 */
char *json_fmt_ms(char *out, uint64_t ns);

/* json_fmt_us - nanoseconds as microseconds: no decimals or three (1500 is 1.500, 2000 is 2). */
char *json_fmt_us(char *out, uint64_t ns);

void json_u64(struct outbuf *b, uint64_t value);
void json_i64(struct outbuf *b, int64_t value);
void json_ms(struct outbuf *b, uint64_t ns);

/* json_bool - true or false. */
void json_bool(struct outbuf *b, int value);

/**
 * json_str, json_strn - a string with its quotes
 * @s: UTF-8 as base/text.h says; any bytes are fine
 *
 * Lone surrogates become \udXXX; a byte that is no UTF-8 becomes \udc80 to \udcff (Python's
 * surrogateescape); control characters, line separators and bidi controls are escaped.
 */
void json_str(struct outbuf *b, const char *s);
void json_strn(struct outbuf *b, const char *s, size_t len);

/* json_str_body - the same without the quotes, to build a string of several pieces. */
void json_str_body(struct outbuf *b, const char *s, size_t len);

/**
 * json_shown, json_shown_body - a string for people, which viewers show as it is
 *
 * First as text_escape() has it, so that what comes out is whole characters only: a lone surrogate
 * is the six characters of its number. Strict readers refuse the escape that json_str() writes.
 */
void json_shown(struct outbuf *b, const char *s);
void json_shown_body(struct outbuf *b, const char *s);

#endif
