/* SPDX-License-Identifier: Apache-2.0 */
/* Text as XML and HTML have it, in an element or in a quoted attribute. */
#ifndef PYEBPF_EXPORT_MARKUP_H
#define PYEBPF_EXPORT_MARKUP_H

#include "base/outbuf.h"

/* markup_put - @s was through text_escape(): no control character is in it. */
void markup_put(struct outbuf *b, const char *s, size_t len);

/* markup_shown - any bytes: first as text_escape() has them. Of more than 4000 bytes the rest is "...". */
void markup_shown(struct outbuf *b, const char *s, size_t len);

#endif
