/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings from targets. Inside pyebpf a name is UTF-8 in which a lone surrogate of the target's
 * string is kept as its three-byte form (ED A0..BF xx, as CPython's "surrogatepass" writes it) and
 * a NUL as C0 80, so that nothing is lost; each output escapes that form in its own way.
 */
#ifndef PYEBPF_BASE_TEXT_H
#define PYEBPF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * text_put_code_point - append one code point as UTF-8, surrogates as three bytes
 * @out: room for 4 bytes
 *
 * Return: bytes written, 1 to 4 (a number past U+10FFFF is written as U+FFFD).
 */
size_t text_put_code_point(char *out, uint32_t cp);

/**
 * text_next - decode one code point
 * @s, @len: bytes left, @len > 0
 * @cp:      the code point; lone surrogates are passed, C0 80 is NUL; 0xFFFD with a length of 1
 *           for a byte that is not UTF-8
 *
 * Return: bytes consumed, >= 1.
 */
size_t text_next(const char *s, size_t len, uint32_t *cp);

/**
 * text_escape - make a string safe for a terminal or a log
 * @out, @size: NUL-terminated result, cut at @size - 1 between characters
 *
 * Control characters (C0, DEL, C1), bidi controls, line separators, surrogates and bytes that are
 * no UTF-8 become \xNN or \uNNNN; a backslash stays as it is.
 *
 * Return: @out.
 */
char *text_escape(char *out, size_t size, const char *s, size_t len);

/* text_harmless - whether text_escape() shows a code point as it is. */
bool text_harmless(uint32_t cp);

#endif
