// SPDX-License-Identifier: Apache-2.0
#include "cpython/code_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/mem.h"

/* Bytes of a text that are read; what a longer one has behind them only counts by its length. */
#define TEXT_BYTES_MAX (1u << 20)

struct header {
	uint64_t length;
	uint32_t state;
};

static int read_header(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t str,
		       struct header *h)
{
	int err = proc_mem__word(mem, str + l->str_length, &h->length);

	if (!err)
		err = proc_mem__read(mem, str + l->str_state, &h->state, sizeof(h->state));
	if (!err && (!pystr_kind(l, h->state) || h->length > INT64_MAX))
		err = -EFAULT;
	return err;
}

static int find_data(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t str,
		     uint32_t state, uint64_t *data)
{
	switch (pystr_place(l, state)) {
	case PYSTR_ASCII:
		*data = str + l->str_ascii_data;
		return 0;
	case PYSTR_COMPACT:
		*data = str + l->str_data;
		return 0;
	case PYSTR_POINTER:
		break;
	}
	return proc_mem__word(mem, str + l->str_data, data);
}

int str_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t str, char *out,
	     size_t size)
{
	auto_free char *bytes = NULL;
	struct header h;
	uint64_t data = 0;
	size_t len;
	int err;

	err = read_header(mem, l, str, &h);
	if (!err)
		err = find_data(mem, l, str, h.state, &data);
	if (err)
		return err;
	len = h.length < TEXT_BYTES_MAX ? (size_t)h.length * pystr_kind(l, h.state)
					: TEXT_BYTES_MAX;
	if (len > TEXT_BYTES_MAX)
		len = TEXT_BYTES_MAX;
	bytes = malloc(len + 1);
	if (!bytes)
		return -ENOMEM;
	err = proc_mem__read(mem, data, bytes, len);
	if (err)
		return err;
	pystr_decode(l, h.state, h.length, bytes, len, out, size);
	return 0;
}

static int read_member(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t member,
		       char *out)
{
	uint64_t str;
	int err = proc_mem__word(mem, member, &str);

	return err ? err : str_read(mem, l, str, out, PYSTR_SIZE);
}

int code_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t code,
	      struct code_names *out)
{
	int err = read_member(mem, l, code + l->co_name, out->name);

	if (!err)
		err = read_member(mem, l, code + l->co_filename, out->filename);
	if (!err && l->co_qualname != PYE_NO_FIELD)
		err = read_member(mem, l, code + l->co_qualname, out->qualname);
	else if (!err)
		memcpy(out->qualname, out->name, sizeof(out->name));
	if (!err)
		err = proc_mem__read(mem, code + l->co_firstlineno, &out->firstlineno,
				     sizeof(out->firstlineno));
	if (!err)
		err = proc_mem__read(mem, code + l->co_flags, &out->flags, sizeof(out->flags));
	return err;
}
