// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdio.h>
#include <string.h>

size_t text_put_code_point(char *out, uint32_t cp)
{
	if (cp > 0x10ffff)
		cp = 0xfffd;
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

static size_t sequence_length(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	if (lead >= 0xf0 && lead < 0xf5)
		return 4;
	return 0;
}

size_t text_next(const char *s, size_t len, uint32_t *cp)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = (unsigned char)s[0];
	size_t n = sequence_length(lead);
	uint32_t value;

	if (lead == 0xc0 && len > 1 && (unsigned char)s[1] == 0x80) {
		*cp = 0;
		return 2;
	}
	*cp = 0xfffd;
	if (!n || n > len)
		return 1;
	value = n == 1 ? lead : lead & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 1;
		value = value << 6 | ((unsigned char)s[i] & 0x3f);
	}
	if (value < least[n] || value > 0x10ffff)
		return 1;
	*cp = value;
	return n;
}

bool text_harmless(uint32_t cp)
{
	if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
		return false;
	if (cp >= 0xd800 && cp < 0xe000)
		return false;
	/* bidi controls, zero-width marks, line and paragraph separators, the byte order mark */
	if (cp == 0x061c || (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
	    (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff)
		return false;
	return true;
}

char *text_escape(char *out, size_t size, const char *s, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i < len;) {
		char piece[16];
		uint32_t cp;
		size_t n = text_next(s + i, len - i, &cp), m;

		if (cp == 0xfffd && n == 1)
			m = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)s[i]);
		else if (text_harmless(cp))
			m = text_put_code_point(piece, cp);
		else if (cp < 0x100)
			m = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", cp);
		else
			m = (size_t)snprintf(piece, sizeof(piece), "\\u%04x", cp);
		if (at + m + 1 > size)
			break;
		memcpy(out + at, piece, m);
		at += m;
		i += n;
	}
	if (size)
		out[at] = '\0';
	return out;
}
