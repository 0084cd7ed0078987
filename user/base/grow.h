/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow with what is put into them. */
#ifndef PYEBPF_BASE_GROW_H
#define PYEBPF_BASE_GROW_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* grow_to - @array with room for @index; what is new is zeroed. Return: the array, or NULL: it is as it was. */
static inline void *grow_to(void *array, uint32_t *cap, uint32_t index, size_t size)
{
	uint32_t more = *cap ? *cap : 16;
	char *grown;

	if (index < *cap)
		return array;
	while (more <= index) {
		if (more > UINT32_MAX / 2)
			return NULL;
		more *= 2;
	}
	grown = reallocarray(array, more, size);
	if (!grown)
		return NULL;
	memset(grown + *cap * size, 0, (more - *cap) * size);
	*cap = more;
	return grown;
}

/**
 * GROW - make room for an index, twice as much as there was if need be
 * @array: an lvalue; NULL with a capacity of 0 to begin with
 * @cap:   an lvalue, uint32_t
 *
 * Return: 0 or -ENOMEM.
 */
#define GROW(array, cap, index)                                                     \
	({                                                                          \
		void *grown_ = grow_to((array), &(cap), (index), sizeof(*(array))); \
                                                                                    \
		if (grown_)                                                         \
			(array) = grown_;                                           \
		grown_ ? 0 : -ENOMEM;                                               \
	})

#endif
