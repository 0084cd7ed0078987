// SPDX-License-Identifier: Apache-2.0
#include "export/markup.h"

#include <string.h>

#include "base/text.h"

enum {
	SHOWN_MAX = 4000
};

void markup_put(struct outbuf *b, const char *s, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		uint32_t cp;

		n = text_next(s + i, len - i, &cp);
		switch (cp) {
		case '&':
			outbuf__puts(b, "&amp;");
			break;
		case '<':
			outbuf__puts(b, "&lt;");
			break;
		case '>':
			outbuf__puts(b, "&gt;");
			break;
		case '"':
			outbuf__puts(b, "&quot;");
			break;
		case '\'':
			outbuf__puts(b, "&#39;");
			break;
		/* the last that XML cannot hold */
		case 0xfffe:
		case 0xffff:
			outbuf__printf(b, "\\u%04x", cp);
			break;
		default:
			outbuf__put(b, s + i, n);
		}
	}
}

void markup_shown(struct outbuf *b, const char *s, size_t len)
{
	char shown[6 * SHOWN_MAX + 1];

	text_escape(shown, sizeof(shown), s, len < SHOWN_MAX ? len : SHOWN_MAX);
	markup_put(b, shown, strlen(shown));
	if (len > SHOWN_MAX)
		outbuf__puts(b, "...");
}
