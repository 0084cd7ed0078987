// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strpool.h"
#include "base/text.h"
#include "export/firefox_map.h"

static uint32_t add_valid(struct strpool *t, const char *s, size_t len)
{
	uint32_t id;

	return strpool__add(t, s, len, &id) ? FF_NONE : id;
}

static size_t bad_bytes(const char *s, size_t len)
{
	size_t bad = 0;

	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp;

		n = 1;
		if ((unsigned char)s[i] < 0x80)
			continue;
		n = text_next(s + i, len - i, &cp);
		bad += cp == 0xfffd && n == 1;
	}
	return bad;
}

uint32_t ff_stringn(struct strpool *t, const char *s, size_t len)
{
	auto_free char *fixed = NULL;
	size_t bad = bad_bytes(s, len);
	char *at;

	if (!bad)
		return add_valid(t, s, len);
	at = fixed = malloc(len + bad * 2);
	if (!fixed)
		return FF_NONE;
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t cp;

		n = text_next(s + i, len - i, &cp);
		if (cp == 0xfffd && n == 1) {
			at += text_put_code_point(at, 0xdc00u + (unsigned char)s[i]);
		} else {
			memcpy(at, s + i, n);
			at += n;
		}
	}
	return add_valid(t, fixed, (size_t)(at - fixed));
}

uint32_t ff_string(struct strpool *t, const char *s)
{
	return ff_stringn(t, s ? s : "", s ? strlen(s) : 0);
}
