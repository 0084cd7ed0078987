/* SPDX-License-Identifier: Apache-2.0 */
/* Text in columns of a terminal, by the locale of LC_CTYPE: what it cannot show becomes "?". */
#ifndef PYEBPF_TUI_FIT_H
#define PYEBPF_TUI_FIT_H

#include <stddef.h>

/* fit_width - columns that a text takes; it is escaped already (base/text.h), as for all of these. */
int fit_width(const char *text);

/**
 * fit_text - cut a text to a width, with ".." at its end, or fill it up with blanks
 * @out, @size: NUL-terminated
 * @width:      columns, >= 0
 *
 * Return: bytes written, without the NUL.
 */
size_t fit_text(char *out, size_t size, const char *text, int width);

/* fit_end - the same, cut at its beginning. */
size_t fit_end(char *out, size_t size, const char *text, int width);

/* fit_name - "name (place)" in a width: of a place that is too long the end is shown. */
size_t fit_name(char *out, size_t size, const char *name, const char *place, int width);

#endif
