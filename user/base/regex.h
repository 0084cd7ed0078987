/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions that somebody wrote: POSIX extended ones, which match a whole value. The C library writes repetitions out before it
 * compiles them, so "(a{1,255}){1,255}" takes it hours and gigabytes, and so does "((a*)*){20}". Such expressions are refused, and those whose
 * matching has no bound (back-references).
 */
#ifndef PYEBPF_BASE_REGEX_H
#define PYEBPF_BASE_REGEX_H

#include <regex.h>
#include <stddef.h>

#define REGEX_MAX 1024 /* characters, repetitions written out */

/**
 * regex_compile - compile an expression that matches whole values
 * @out:   of regexec(); group 1 is the whole, those of @text begin behind it. Released with regfree() after success
 * @flags: of regcomp(), besides REG_EXTENDED
 * @why:   what is wrong, for people; of @size bytes
 *
 * Return: 0, -EINVAL with @why, -ENOMEM.
 */
int regex_compile(regex_t *out, const char *text, int flags, char *why, size_t size);

#endif
