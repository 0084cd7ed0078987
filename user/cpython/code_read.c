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

static int read_header(const struct proc_near *near, const struct pye_pylayout *l, struct header *h)
{
	int err = proc_near__read(near, near->addr + l->str_length, &h->length, sizeof(h->length));

	if (!err)
		err = proc_near__read(near, near->addr + l->str_state, &h->state, sizeof(h->state));
	if (!err && (!pystr_kind(l, h->state) || h->length > INT64_MAX))
		err = -EFAULT;
	return err;
}

static int find_data(const struct proc_near *near, const struct pye_pylayout *l, uint32_t state,
		     uint64_t *data)
{
	switch (pystr_place(l, state)) {
	case PYSTR_ASCII:
		*data = near->addr + l->str_ascii_data;
		return 0;
	case PYSTR_COMPACT:
		*data = near->addr + l->str_data;
		return 0;
	case PYSTR_POINTER:
		break;
	}
	return proc_near__read(near, near->addr + l->str_data, data, sizeof(*data));
}

int str_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t str, char *out,
	     size_t size)
{
	auto_free char *bytes = NULL;
	struct proc_near near;
	struct header h;
	uint64_t data = 0;
	size_t len;
	int err;

	proc_near__look(&near, mem, str);
	err = read_header(&near, l, &h);
	if (!err)
		err = find_data(&near, l, h.state, &data);
	if (err)
		return err;
	len = h.length < TEXT_BYTES_MAX ? (size_t)h.length * pystr_kind(l, h.state)
					: TEXT_BYTES_MAX;
	if (len > TEXT_BYTES_MAX)
		len = TEXT_BYTES_MAX;
	bytes = malloc(len + 1);
	if (!bytes)
		return -ENOMEM;
	err = proc_near__read(&near, data, bytes, len);
	if (err)
		return err;
	pystr_decode(l, h.state, h.length, bytes, len, out, size);
	return 0;
}

/* @str: where it was found. */
static int read_member(const struct proc_near *code, const struct pye_pylayout *l, uint64_t offset,
		       uint64_t *str, char *out)
{
	int err = proc_near__read(code, code->addr + offset, str, sizeof(*str));

	return err ? err : str_read(code->mem, l, *str, out, PYSTR_SIZE);
}

/* That of a function of a module is its name, the same object. */
static int read_qualname(const struct proc_near *code, const struct pye_pylayout *l, uint64_t name,
			 struct code_names *out)
{
	uint64_t str = name;
	int err = 0;

	if (l->co_qualname != PYE_NO_FIELD)
		err = proc_near__read(code, code->addr + l->co_qualname, &str, sizeof(str));
	if (!err && str != name)
		return str_read(code->mem, l, str, out->qualname, PYSTR_SIZE);
	memcpy(out->qualname, out->name, sizeof(out->name));
	return err;
}

int code_read(const struct proc_mem *mem, const struct pye_pylayout *l, uint64_t code,
	      struct code_names *out)
{
	struct proc_near near;
	uint64_t name = 0, file;
	int err;

	proc_near__look(&near, mem, code);
	err = read_member(&near, l, l->co_name, &name, out->name);
	if (!err)
		err = read_member(&near, l, l->co_filename, &file, out->filename);
	if (!err)
		err = read_qualname(&near, l, name, out);
	if (!err)
		err = proc_near__read(&near, code + l->co_firstlineno, &out->firstlineno,
				      sizeof(out->firstlineno));
	if (!err)
		err = proc_near__read(&near, code + l->co_flags, &out->flags, sizeof(out->flags));
	return err;
}
