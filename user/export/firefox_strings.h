/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of the Firefox exporter: base/strpool.h, with bytes that are no UTF-8 brought into the
 * form of base/text.h first (the surrogate that Python's surrogateescape would use), so that two
 * ids never mean one JSON string. Kept for the whole trace: a part of a split file numbers those
 * that it uses anew.
 */
#ifndef PYEBPF_EXPORT_FIREFOX_STRINGS_H
#define PYEBPF_EXPORT_FIREFOX_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct strpool;

/* ff_string, ff_stringn - id of a string, copied; NULL is "". UINT32_MAX: out of memory. */
uint32_t ff_string(struct strpool *t, const char *s);
uint32_t ff_stringn(struct strpool *t, const char *s, size_t len);

#endif
