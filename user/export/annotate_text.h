/* SPDX-License-Identifier: Apache-2.0 */
/* A source file in a terminal, with the time of its lines beside it. */
#ifndef PYEBPF_EXPORT_ANNOTATE_TEXT_H
#define PYEBPF_EXPORT_ANNOTATE_TEXT_H

#include <stdio.h>

#include "base/err.h"
#include "profile/annotate.h"

/**
 * annotate_print - a file of the profile
 * @name:  as annotate__find() takes it
 * @whole: also the lines far from any with time
 *
 * Return: 0; -PYE_EUSAGE with a sentence when no file is called so, or several are; -ENOMEM.
 */
int annotate_print(FILE *f, const struct annotate *a, const char *name, bool whole, struct err *e);

#endif
