/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole terminal, on loan: lines are drawn and keys are read until it is given back as it was. What
 * goes to stderr meanwhile is kept, and shown then.
 */
#ifndef PYEBPF_TUI_SCREEN_H
#define PYEBPF_TUI_SCREEN_H

#include "base/err.h"
#include "tui/table.h"

struct screen;

/**
 * screen__open - take the terminal of stdin and stdout
 *
 * The locale is set already. Return: 0; -ENOMEM; -PYE_EUSAGE with a sentence for a terminal of an unknown
 * type.
 */
int screen__open(struct screen **out, struct err *e);

/* screen__close - give it back; NULL is fine. */
void screen__close(struct screen *s);

/* screen__key - the next key that was pressed, as view__key() takes it; 0: none. -EIO: nobody can press
 * any more. */
int screen__key(struct screen *s);

/* screen__size - columns and lines now. */
void screen__size(const struct screen *s, int *width, int *height);

/* screen__draw - all lines, as many as the screen has; @anew: also what seems to be there already. */
void screen__draw(struct screen *s, const struct table_line *lines, int cnt, bool anew);

#endif
