// SPDX-License-Identifier: Apache-2.0
#include "assemble/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"
#include "base/cleanup.h"
#include "cpython/pystr.h"

/* Strings read from outside are cut here; longer ones keep their head and are told apart by a hash. */
#define READ_MAX (4u << 20)

struct asm_def {
	uint32_t id;
	uint32_t missing; /* strings to come */
	struct pye_def_rec rec;
	char *text[PYE_STR_CNT];
	UT_hash_handle hh;
};

static void def_free(struct asm_def *d)
{
	for (int i = 0; i < PYE_STR_CNT; i++)
		free(d->text[i]);
	free(d);
}

/* One more definition than this is a sign of lost pieces: the oldest goes. */
#define PENDING_MAX 256

static void drop_oldest(struct assembler *a)
{
	struct asm_def *oldest = a->names.pending; /* uthash keeps the order of adding */

	HASH_DEL(a->names.pending, oldest);
	def_free(oldest);
}

int asm_func_new(struct assembler *a, const struct trace_func *func, uint64_t address)
{
	int hidden = a->filter ? asm_filter_func(a, func, address) : 0, err;

	if (a->watch)
		asm_watch_func(a, func);
	if (hidden)
		return hidden < 0 ? hidden : 0;
	err = capw__func(a->w, func);
	if (err != -ENOMEM)
		return err;
	asm_retire_all(a);
	return capw__func(a->w, func);
}

void asm_func_gone(struct assembler *a, uint32_t code)
{
	if (a->filter)
		asm_filter_retire(a, code);
	capw__retire_func(a->w, code);
}

static int complete(struct assembler *a, struct asm_def *d)
{
	const char *name = d->text[PYE_STR_NAME], *qualname = d->text[PYE_STR_QUALNAME];
	const char *file = d->text[PYE_STR_FILE];
	struct trace_func func = { .id = d->id, .process = d->rec.pix, .line = d->rec.line };
	struct asm_process *p = asm_process_get(a, d->rec.pix, 0);
	char unnamed[48];
	int err = -ENOMEM;

	if (a->sampling) {
		if (p)
			asm_code_died(a, p, &d->rec, d->text);
		HASH_DEL(a->names.pending, d);
		def_free(d);
		return 0;
	}
	snprintf(unnamed, sizeof(unnamed), "[unreadable code 0x%llx]",
		 (unsigned long long)d->rec.head.frame);
	if (!name && !qualname)
		a->odd.unnamed++;
	func.name = name ? name : qualname ? qualname : unnamed;
	func.qualname = qualname ? qualname : func.name;
	func.file = file ? file : "[unreadable]";
	if (p)
		err = asm_func_new(a, &func, d->rec.head.frame);
	if (!err)
		err = asm_process_code(p, d->id);
	if (err == -ENOMEM || err == -EINVAL) {
		a->odd.unnamed++; /* its events are shown without a name */
		err = 0;
	}
	HASH_DEL(a->names.pending, d);
	def_free(d);
	return err;
}

int names_define(struct assembler *a, const struct pye_def_rec *rec)
{
	struct asm_def *d;

	asm_process_get(a, rec->pix, 0);
	HASH_FIND(hh, a->names.pending, &rec->code, sizeof(rec->code), d);
	if (d) {
		HASH_DEL(a->names.pending, d);
		def_free(d);
	}
	if (HASH_COUNT(a->names.pending) >= PENDING_MAX)
		drop_oldest(a);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->id = rec->code;
	d->rec = *rec;
	d->missing = rec->head.sub;
	HASH_ADD(hh, a->names.pending, id, sizeof(d->id), d);
	return d->missing ? 0 : complete(a, d);
}

/* The kernel found a page missing: look from outside, where it can be faulted in. */
static size_t read_outside(const struct asm_process *p, uint64_t addr, char *out, size_t size)
{
	const struct pye_pylayout *l = &p->layout;
	auto_free char *data = NULL;
	uint64_t length, at, bytes;
	uint32_t state;

	if (!p->mem_open || proc_mem__read(&p->mem, addr + l->str_length, &length, 8) ||
	    proc_mem__read(&p->mem, addr + l->str_state, &state, 4))
		return 0;
	at = addr + (pystr_place(l, state) == PYSTR_ASCII ? l->str_ascii_data : l->str_data);
	if (pystr_place(l, state) == PYSTR_POINTER && proc_mem__word(&p->mem, at, &at))
		return 0;
	bytes = length > READ_MAX ? READ_MAX : length * pystr_kind(l, state);
	if (bytes > READ_MAX)
		bytes = READ_MAX;
	data = malloc(bytes + 1);
	if (!data || proc_mem__read(&p->mem, at, data, bytes))
		return 0;
	return pystr_decode(l, state, length, data, bytes, out, size);
}

int names_string(struct assembler *a, const struct pye_str_rec *rec)
{
	char text[PYSTR_SIZE];
	struct asm_process *p;
	struct asm_def *d;
	size_t len;

	HASH_FIND(hh, a->names.pending, &rec->code, sizeof(rec->code), d);
	if (!d || rec->head.sub >= PYE_STR_CNT || d->text[rec->head.sub]) {
		a->odd.malformed++;
		return 0;
	}
	p = asm_process_get(a, d->rec.pix, 0);
	if (!p)
		return -ENOMEM;
	/* a long one came with its head and tail only: its hash should be over all of it */
	len = rec->status == PYE_STR_OK ? 0 : read_outside(p, rec->str.addr, text, sizeof(text));
	if (!len && rec->status != PYE_STR_FAULT)
		len = pystr_decode(&p->layout, rec->str.state, rec->str.length, rec->data,
				   rec->data_len, text, sizeof(text));
	/* an empty name is a name: only what cannot be read stays NULL */
	if (len || (rec->status != PYE_STR_FAULT && !rec->str.length)) {
		d->text[rec->head.sub] = strndup(text, len);
		if (!d->text[rec->head.sub])
			return -ENOMEM;
	}
	return --d->missing ? 0 : complete(a, d);
}

void names_free(struct asm_names *n)
{
	struct asm_def *d, *next;

	HASH_ITER(hh, n->pending, d, next)
	{
		HASH_DEL(n->pending, d);
		def_free(d);
	}
}
