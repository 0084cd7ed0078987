// SPDX-License-Identifier: Apache-2.0
#include "export/json.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

static const char digit_pairs[201] = "00010203040506070809101112131415161718192021222324"
				     "25262728293031323334353637383940414243444546474849"
				     "50515253545556575859606162636465666768697071727374"
				     "75767778798081828384858687888990919293949596979899";

static unsigned int digit_cnt(uint64_t v)
{
	unsigned int n = 1;

	for (;;) {
		if (v < 10)
			return n;
		if (v < 100)
			return n + 1;
		if (v < 1000)
			return n + 2;
		if (v < 10000)
			return n + 3;
		v /= 10000;
		n += 4;
	}
}

char *json_fmt_u64(char *out, uint64_t value)
{
	char *end = out + digit_cnt(value), *at = end;

	while (value >= 100) {
		at -= 2;
		memcpy(at, digit_pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10)
		memcpy(at - 2, digit_pairs + value * 2, 2);
	else
		at[-1] = (char)('0' + value);
	return end;
}

char *json_fmt_i64(char *out, int64_t value)
{
	if (value >= 0)
		return json_fmt_u64(out, (uint64_t)value);
	*out = '-';
	return json_fmt_u64(out + 1, -(uint64_t)value);
}

char *json_fmt_ms(char *out, uint64_t ns)
{
	size_t part = ns % 1000000;
	char *end = json_fmt_u64(out, ns / 1000000);

	if (!part)
		return end;
	*end = '.';
	memcpy(end + 1, digit_pairs + part / 10000 * 2, 2);
	memcpy(end + 3, digit_pairs + part / 100 % 100 * 2, 2);
	memcpy(end + 5, digit_pairs + part % 100 * 2, 2);
	end += 7;
	while (end[-1] == '0')
		end--;
	return end;
}

char *json_fmt_us(char *out, uint64_t ns)
{
	size_t part = ns % 1000;
	char *end = json_fmt_u64(out, ns / 1000);

	if (!part)
		return end;
	end[0] = '.';
	end[1] = (char)('0' + part / 100);
	memcpy(end + 2, digit_pairs + part % 100 * 2, 2);
	return end + 4;
}

void json_u64(struct outbuf *b, uint64_t value)
{
	outbuf__used(b, json_fmt_u64(outbuf__room(b, JSON_U64_MAX), value));
}

void json_i64(struct outbuf *b, int64_t value)
{
	outbuf__used(b, json_fmt_i64(outbuf__room(b, JSON_I64_MAX), value));
}

void json_ms(struct outbuf *b, uint64_t ns)
{
	outbuf__used(b, json_fmt_ms(outbuf__room(b, JSON_MS_MAX), ns));
}

void json_bool(struct outbuf *b, int value)
{
	outbuf__puts(b, value ? "true" : "false");
}

static void put_u_escape(struct outbuf *b, uint32_t unit)
{
	static const char hex[] = "0123456789abcdef";
	char *at = outbuf__room(b, 6);

	at[0] = '\\';
	at[1] = 'u';
	for (int i = 0; i < 4; i++)
		at[2 + i] = hex[unit >> (12 - 4 * i) & 15];
	outbuf__used(b, at + 6);
}

static void put_special(struct outbuf *b, const char *s, size_t n, uint32_t cp)
{
	if (cp == 0xfffd && n == 1)
		put_u_escape(b, 0xdc00u + (unsigned char)*s);
	else if (cp == '"')
		outbuf__put(b, "\\\"", 2);
	else if (cp == '\\')
		outbuf__put(b, "\\\\", 2);
	else if (cp == '\n')
		outbuf__put(b, "\\n", 2);
	else if (cp == '\t')
		outbuf__put(b, "\\t", 2);
	else if (cp < 0x10000 && !text_harmless(cp))
		put_u_escape(b, cp);
	else
		outbuf__put(b, s, n);
}

static bool plain(char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void json_str_body(struct outbuf *b, const char *s, size_t len)
{
	const char *end = s + len;

	while (s < end) {
		const char *run = s;
		uint32_t cp;
		size_t n;

		while (s < end && plain(*s))
			s++;
		if (s > run)
			outbuf__put(b, run, (size_t)(s - run));
		if (s == end)
			break;
		n = text_next(s, (size_t)(end - s), &cp);
		put_special(b, s, n, cp);
		s += n;
	}
}

void json_strn(struct outbuf *b, const char *s, size_t len)
{
	outbuf__putc(b, '"');
	json_str_body(b, s, len);
	outbuf__putc(b, '"');
}

void json_str(struct outbuf *b, const char *s)
{
	json_strn(b, s, strlen(s));
}

void json_shown_body(struct outbuf *b, const char *s)
{
	size_t left = strlen(s);
	char piece[32];

	while (left) {
		uint32_t cp;
		size_t n = text_next(s, left, &cp);

		text_escape(piece, sizeof(piece), s, n);
		json_str_body(b, piece, strlen(piece));
		s += n;
		left -= n;
	}
}

void json_shown(struct outbuf *b, const char *s)
{
	outbuf__putc(b, '"');
	json_shown_body(b, s);
	outbuf__putc(b, '"');
}
