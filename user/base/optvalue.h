/* SPDX-License-Identifier: Apache-2.0 */
/* Values with units, as options and configuration files have them. */
#ifndef PYEBPF_BASE_OPTVALUE_H
#define PYEBPF_BASE_OPTVALUE_H

#include <stdint.h>

/**
 * opt_duration, opt_size, opt_unsigned - read 30, 30s, 5m, 2h, 250ms, 1.5s as ns; bytes with K, M, G, powers of
 * 1024; a count with k, M, G, powers of 1000
 *
 * Return: 0, -EINVAL, or -ERANGE for a number that does not fit; *@value is then as before.
 */
int opt_duration(const char *s, uint64_t *ns);
int opt_size(const char *s, uint64_t *bytes);
int opt_unsigned(const char *s, uint64_t *value);

/* opt_word - the index of @s among @words, which end with NULL; -1: none of them. */
int opt_word(const char *const *words, const char *s);

#endif
