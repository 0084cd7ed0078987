/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a made-up interpreter, in the layout of any version: strings, code objects and frames
 * are put one after another into one region, where struct pye_pylayout says that their fields are.
 */
#ifndef PYEBPF_HOST_IMAGE_H
#define PYEBPF_HOST_IMAGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi/pylayout.h"
#include "host.h"

#define IMAGE_BASE  0x7f1234560000ULL
#define IMAGE_BYTES (16u << 20)
#define OBJECT	    256 /* bytes for a code object or a frame; every field used lies inside */

struct image {
	const struct pye_pylayout *l;
	size_t used;
	uint8_t *bytes; /* IMAGE_BYTES */
};

static inline uint64_t image_take(struct image *m, size_t size)
{
	uint64_t addr = IMAGE_BASE + m->used;

	m->used += (size + 15) & ~15UL;
	if (m->used > IMAGE_BYTES)
		abort();
	return addr;
}

static inline void image_put(struct image *m, uint64_t addr, const void *data, size_t len)
{
	memcpy(m->bytes + (addr - IMAGE_BASE), data, len);
}

static inline void image_field(struct image *m, uint64_t object, uint16_t offset, uint64_t value,
			       size_t size)
{
	if (offset != PYE_NO_FIELD)
		image_put(m, object + offset, &value, size);
}

/* The data of the str at @addr, @kind bytes for each of its @length code points. */
static inline uint64_t image_str_raw(struct image *m, uint64_t length, unsigned int kind, int ascii,
				     const void *data, size_t len)
{
	const struct pye_pylayout *l = m->l;
	uint64_t addr = image_take(m, OBJECT + len);
	uint32_t state = kind * (l->str_kind_mask & -l->str_kind_mask) | l->str_compact_mask;

	if (ascii)
		state |= l->str_ascii_mask;
	image_field(m, addr, l->str_length, length, 8);
	image_field(m, addr, l->str_state, state, 4);
	image_put(m, addr + (ascii ? l->str_ascii_data : l->str_data), data, len);
	return addr;
}

static inline uint64_t image_str(struct image *m, const char *text)
{
	return image_str_raw(m, strlen(text), 1, 1, text, strlen(text));
}

static inline uint64_t image_code(struct image *m, const char *name, uint32_t line, uint32_t flags)
{
	const struct pye_pylayout *l = m->l;
	uint64_t addr = image_take(m, OBJECT);

	image_field(m, addr, l->co_filename, image_str(m, "file.py"), 8);
	image_field(m, addr, l->co_name, image_str(m, name), 8);
	image_field(m, addr, l->co_qualname, image_str(m, name), 8);
	image_field(m, addr, l->co_firstlineno, line, 4);
	image_field(m, addr, l->co_flags, flags, 4);
	return addr;
}

/* A frame that runs. */
static inline uint64_t image_frame(struct image *m, uint64_t code, uint64_t previous, uint8_t owner)
{
	const struct pye_pylayout *l = m->l;
	uint64_t addr = image_take(m, OBJECT), minus = UINT64_MAX;

	image_field(m, addr, l->f_code, code, 8);
	image_field(m, addr, l->f_previous, previous, 8);
	image_field(m, addr, l->f_owner, owner, 1);
	if (l->flags & PYE_LAYOUT_FRAME_STATE)
		image_field(m, addr, l->f_stack, minus, 4);
	return addr;
}

#endif
