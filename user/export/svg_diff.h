/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two runs as one flame graph: a box is as wide as the larger of its two times, so that what is gone is seen as
 * well as what is new; red took more time itself, blue less, and grey changed by no more than noise.
 */
#ifndef PYEBPF_EXPORT_SVG_DIFF_H
#define PYEBPF_EXPORT_SVG_DIFF_H

#include "base/outbuf.h"
#include "profile/diff.h"

/* svg_diff - write all of it. Return: 0, -ENOMEM, -EOVERFLOW, or the first error of @b. */
int svg_diff(struct outbuf *b, const struct diff *d);

#endif
