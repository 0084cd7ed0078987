// SPDX-License-Identifier: Apache-2.0
#include "base/optvalue.h"

#include <errno.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/*
 * A decimal number, with a fraction if the unit allows one, and a unit. Fractions are exact to
 * nine digits.
 */
static int read_value(const char *s, const struct unit *units, uint64_t *out)
{
	uint64_t whole = 0, part = 0, scale = 1, value, more;
	const char *first = s;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*s - '0'), &whole))
			return -ERANGE;
	}
	if (s == first)
		return -EINVAL;
	if (*s == '.') {
		for (first = ++s; *s >= '0' && *s <= '9'; s++) {
			if (scale == 1000000000)
				return -EINVAL;
			part = part * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
		if (s == first)
			return -EINVAL;
	}
	for (; units->name && strcmp(units->name, s) != 0; units++)
		;
	if (!units->name || (part && units->factor == 1))
		return -EINVAL;
	if (__builtin_mul_overflow(whole, units->factor, &value) ||
	    __builtin_mul_overflow(part, units->factor, &more) ||
	    __builtin_add_overflow(value, more / scale, &value))
		return -ERANGE;
	*out = value;
	return 0;
}

int opt_duration(const char *s, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "", 1000000000 },
		{ "s", 1000000000 },
		{ "ms", 1000000 },
		{ "us", 1000 },
		{ "m", 60ull * 1000000000 },
		{ "h", 3600ull * 1000000000 },
		{ "d", 86400ull * 1000000000 },
		{ NULL, 0 },
	};

	return read_value(s, units, ns);
}

int opt_size(const char *s, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },	  { "K", 1 << 10 },    { "k", 1 << 10 }, { "M", 1 << 20 },
		{ "G", 1 << 30 }, { "T", 1ull << 40 }, { NULL, 0 },
	};

	return read_value(s, units, bytes);
}

int opt_unsigned(const char *s, uint64_t *value)
{
	static const struct unit units[] = {
		{ "", 1 },	  { "k", 1000 },       { "K", 1000 },
		{ "M", 1000000 }, { "G", 1000000000 }, { NULL, 0 },
	};

	return read_value(s, units, value);
}

int opt_word(const char *const *words, const char *s)
{
	for (int i = 0; words[i]; i++) {
		if (!strcmp(words[i], s))
			return i;
	}
	return -1;
}
