// SPDX-License-Identifier: Apache-2.0
#include "cpython/thread_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "proc/mem.h"
#include "proc/self_tid.h"

#define KEY_BYTES   96 /* of a str: its head and the names that are looked for */
#define ENTRIES_MAX 65536u
#define READS_MAX   (1u << 19) /* in all: some 35 for each thread */
#define WORD	    sizeof(uint64_t)

/* Where sys.modules is in PyInterpreterState; from 3.13 on the position of that in _Py_DebugOffsets. Source:
 * offsetof() over the headers of 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0; looked for
 * in 3.14.10 and 3.15.2. */
static const uint16_t is_modules[] = {
	[6] = 16,   [7] = 40,	[8] = 56,  [9] = 856, [10] = 856,
	[11] = 888, [12] = 944, [13] = 88, [14] = 96, [15] = 96,
};

struct reader {
	const struct proc_mem *mem;
	const struct interp *in;
	uint32_t reads; /* that are left */
};

/* The entries of a dict, or the attributes of an instance. */
struct table {
	uint64_t entries; /* address of the first one */
	uint64_t values; /* the values' array when they are not in the entries; 0: they are */
	uint32_t cnt, size; /* entries; bytes of one */
	uint32_t key; /* where it is in an entry; the value comes behind it */
};

static unsigned int minor_of(const struct reader *r)
{
	return r->in->layout.minor;
}

/* A hostile program could have lists in lists. */
static int get(struct reader *r, uint64_t addr, void *out, size_t size)
{
	if (!r->reads)
		return -EFAULT;
	r->reads--;
	return proc_mem__read(r->mem, addr, out, size);
}

static int word(struct reader *r, uint64_t addr, uint64_t *out)
{
	return get(r, addr, out, sizeof(*out));
}

/* Of a PyDictKeysObject: to 3.10 five words with dk_size and dk_nentries, then the index. */
static int old_keys(struct reader *r, uint64_t keys, struct table *t)
{
	uint64_t head[5], width;
	int err = get(r, keys, head, sizeof(head));

	if (err)
		return err;
	if (head[1] > 1ull << 32 || head[4] > head[1])
		return -EFAULT;
	width = head[1] <= 0xff ? 1 : head[1] <= 0xffff ? 2 : 4;
	t->entries = keys + sizeof(head) + head[1] * width;
	t->cnt = head[4] < ENTRIES_MAX ? (uint32_t)head[4] : ENTRIES_MAX;
	t->size = 3 * WORD;
	t->key = WORD; /* behind its hash */
	return 0;
}

/* From 3.11 on: four words with the logarithm of the index's bytes, the kind and the number. */
static int new_keys(struct reader *r, uint64_t keys, struct table *t)
{
	uint8_t head[4 * WORD];
	uint64_t cnt;
	int err = get(r, keys, head, sizeof(head));

	if (err)
		return err;
	memcpy(&cnt, head + 3 * WORD, WORD);
	if (head[9] > 32 || head[10] > 2)
		return -EFAULT;
	t->entries = keys + sizeof(head) + (1ull << head[9]);
	t->cnt = cnt < ENTRIES_MAX ? (uint32_t)cnt : ENTRIES_MAX;
	t->size = head[10] ? 2 * WORD
			   : 3 * WORD; /* keys that are all str have no hash beside them */
	t->key = head[10] ? 0 : WORD;
	return 0;
}

static int open_keys(struct reader *r, uint64_t keys, struct table *t)
{
	return minor_of(r) < 11 ? old_keys(r, keys, t) : new_keys(r, keys, t);
}

/* Where values begin in what a pointer to them points to: 3.13 has four small numbers before. */
static uint64_t first_value(struct reader *r, uint64_t values)
{
	return values + (minor_of(r) < 13 ? 0 : WORD);
}

static int open_dict(struct reader *r, uint64_t dict, struct table *t)
{
	uint64_t words[2]; /* ma_keys, ma_values */
	int err = get(r, dict + r->in->layout.obj_head + 2 * WORD, words, sizeof(words));

	*t = (struct table){ 0 };
	if (err)
		return err;
	t->values = words[1] ? first_value(r, words[1]) : 0;
	return open_keys(r, words[0], t);
}

static int open_values(struct reader *r, uint64_t type, uint64_t values, struct table *t)
{
	uint64_t keys = 0;
	int err = word(r, type + r->in->layout.type_keys, &keys);

	*t = (struct table){ .values = values };
	return err ? err : open_keys(r, keys, t);
}

static int open_inline(struct reader *r, uint64_t obj, uint64_t type, struct table *t)
{
	uint64_t size = 0;
	int err = word(r, type + r->in->layout.obj_head + PYE_TYPE_BASICSIZE, &size);

	if (err || size > 4096)
		return err ? err : -EFAULT;
	return open_values(r, type, first_value(r, obj + size), t);
}

static int open_managed(struct reader *r, uint64_t obj, uint64_t type, struct table *t)
{
	uint64_t dict = 0, values = 0, flags = 0;
	int err = word(r, obj + (uint64_t)(int64_t)r->in->layout.obj_dict, &dict);

	if (!err && r->in->layout.obj_attrs == PYE_ATTRS_BEFORE)
		err = word(r, obj - 4 * WORD, &values);
	if (!err && r->in->layout.obj_attrs == PYE_ATTRS_TAGGED && dict & 1)
		values = dict + 1;
	if (err)
		return err;
	if (values)
		return open_values(r, type, values, t);
	if (dict)
		return open_dict(r, dict, t);
	err = word(r, type + r->in->layout.obj_head + PYE_TYPE_FLAGS, &flags);
	if (err || r->in->layout.obj_attrs != PYE_ATTRS_INLINE || !(flags & PYE_TYPE_INLINE))
		return err ? err : -EFAULT;
	return open_inline(r, obj, type, t);
}

static int open_attributes(struct reader *r, uint64_t obj, struct table *t)
{
	uint64_t type = 0, offset = 0, dict = 0;
	int err = word(r, obj + r->in->layout.obj_head - WORD, &type);

	if (!err && r->in->layout.obj_attrs != PYE_ATTRS_DICT)
		return open_managed(r, obj, type, t);
	err = err ? err : word(r, type + r->in->layout.obj_head + PYE_TYPE_DICTOFFSET, &offset);
	if (!err && (!offset || offset > 4096))
		err = -EFAULT;
	err = err ? err : word(r, obj + offset, &dict);
	return err ? err : open_dict(r, dict, t);
}

/* The key and the value of an entry; 0 where there is none. */
static int entry(struct reader *r, const struct table *t, uint32_t i, uint64_t *key,
		 uint64_t *value)
{
	uint64_t words[2] = { 0 };
	int err = get(r, t->entries + (uint64_t)i * t->size + t->key, words, sizeof(words));

	*key = words[0];
	*value = words[1];
	if (!err && t->values)
		err = word(r, t->values + i * WORD, value);
	return err;
}

static bool is_key(struct reader *r, uint64_t key, const char *name)
{
	const struct pye_pylayout *l = &r->in->layout;
	uint8_t data[KEY_BYTES] = { 0 };
	uint64_t length;
	uint32_t state;

	if (!key || !r->reads)
		return false;
	r->reads--;
	if (proc_mem__read_some(r->mem, key, data, sizeof(data)) <= 0)
		return false;
	memcpy(&length, data + l->str_length, sizeof(length));
	memcpy(&state, data + l->str_state, sizeof(state));
	return length == strlen(name) && l->str_ascii_data + length <= sizeof(data) &&
	       pystr_place(l, state) == PYSTR_ASCII &&
	       !memcmp(data + l->str_ascii_data, name, (size_t)length);
}

/* -ENOENT: there is no such key. */
static int look_up(struct reader *r, const struct table *t, const char *name, uint64_t *value)
{
	for (uint32_t i = 0; i < t->cnt; i++) {
		uint64_t key;
		int err = entry(r, t, i, &key, value);

		if (err)
			return err;
		if (*value && is_key(r, key, name))
			return 0;
	}
	return -ENOENT;
}

static int look_up_in(struct reader *r, uint64_t dict, const char *name, uint64_t *value)
{
	struct table t;
	int err = open_dict(r, dict, &t);

	return err ? err : look_up(r, &t, name, value);
}

/* threading._active */
static int find_active(struct reader *r, uint64_t interp, uint64_t *active)
{
	uint64_t offset = is_modules[minor_of(r)], modules = 0, module = 0, dict = 0;
	uint64_t runtime = r->in->interpreters - r->in->layout.rt_interpreters;
	int err = 0;

	if (!interp)
		err = word(r, r->in->interpreters, &interp);
	if (!err && minor_of(r) >= 13)
		err = word(r, runtime + is_modules[minor_of(r)], &offset);
	if (!err && (!interp || offset > 1u << 20))
		return -ENOENT;
	err = err ? err : word(r, interp + offset, &modules);
	if (!err && !modules)
		return -ENOENT;
	err = err ? err : look_up_in(r, modules, "threading", &module);
	err = err ? err : word(r, module + r->in->layout.obj_head, &dict); /* md_dict */
	return err ? err : look_up_in(r, dict, "_active", active);
}

/* An int of up to two digits of 30 bits, which a pthread_t in user space fits. */
static int read_int(struct reader *r, uint64_t obj, uint64_t *out)
{
	uint32_t digits[2] = { 0 };
	uint64_t size = 0;
	int err = word(r, obj + r->in->layout.obj_head, &size);

	size = minor_of(r) < 12 ? size : size >> 3;
	if (err || !size || size > 2)
		return err ? err : -EFAULT;
	err = get(r, obj + r->in->layout.obj_head + WORD, digits, sizeof(digits));
	*out = digits[0] | (size == 2 ? (uint64_t)digits[1] << 30 : 0);
	return err;
}

static int read_one(struct reader *r, uint64_t ident, uint64_t thread, struct thread_name *out)
{
	char text[PYSTR_SIZE];
	struct table attrs;
	uint64_t name = 0, native = 0, number = 0;
	int err = read_int(r, ident, &out->thread_id);

	err = err ? err : open_attributes(r, thread, &attrs);
	if (err)
		return err;
	if (!look_up(r, &attrs, "_native_id", &native) && !read_int(r, native, &number))
		out->native_id = (uint32_t)number;
	else if (get(r, out->thread_id + GLIBC_TID, &out->native_id, sizeof(out->native_id)))
		out->native_id = 0;
	out->object = thread;
	err = err ? err : look_up(r, &attrs, "_name", &name);
	err = err ? err : str_read(r->mem, &r->in->layout, name, text, sizeof(out->name));
	if (!err)
		memcpy(out->name, text, sizeof(out->name));
	return err;
}

static int by_id(const void *a, const void *b)
{
	const struct thread_name *left = a, *right = b;

	return (left->thread_id > right->thread_id) - (left->thread_id < right->thread_id);
}

/* What cannot be read is one thread less; a process that is gone has none. */
static int read_all(struct reader *r, const struct table *active, struct thread_names *out)
{
	out->names = calloc(active->cnt + 1ull, sizeof(*out->names));
	if (!out->names)
		return -ENOMEM;
	for (uint32_t i = 0; i < active->cnt; i++) {
		uint64_t key, value;
		int err = entry(r, active, i, &key, &value);

		if (!err && key && value)
			err = read_one(r, key, value, &out->names[out->cnt]);
		if (err == -ESRCH)
			return err;
		out->cnt += !err && key && value;
	}
	qsort(out->names, out->cnt, sizeof(*out->names), by_id);
	return 0;
}

int thread_names__read(const struct proc_mem *mem, const struct interp *in, uint64_t interp,
		       struct thread_names *out)
{
	struct reader r = { .mem = mem, .in = in, .reads = READS_MAX };
	struct thread_names names = { 0 };
	uint64_t dict = 0;
	struct table active;
	int err;

	if (in->layout.minor >= sizeof(is_modules) / sizeof(is_modules[0]) || !in->interpreters) {
		*out = names;
		return 0;
	}
	err = find_active(&r, interp, &dict);
	err = err ? err : open_dict(&r, dict, &active);
	err = err ? err : read_all(&r, &active, &names);
	if (err && err != -ENOENT) {
		thread_names__done(&names);
		return err;
	}
	*out = names;
	return 0;
}

void thread_names__done(struct thread_names *n)
{
	free(n->names);
	*n = (struct thread_names){ 0 };
}

const char *thread_names__find(const struct thread_names *n, uint64_t thread_id)
{
	const struct thread_name key = { .thread_id = thread_id };
	const struct thread_name *found =
		n->cnt ? bsearch(&key, n->names, n->cnt, sizeof(*n->names), by_id) : NULL;

	return found ? found->name : NULL;
}

static int by_tid(const void *a, const void *b)
{
	const struct thread_name *left = a, *right = b;

	return (left->native_id > right->native_id) - (left->native_id < right->native_id);
}

void thread_names__by_tid(struct thread_names *n)
{
	if (n->cnt)
		qsort(n->names, n->cnt, sizeof(*n->names), by_tid);
}

const struct thread_name *thread_names__of_tid(const struct thread_names *n, uint32_t native_id)
{
	const struct thread_name key = { .native_id = native_id };

	return n->cnt ? bsearch(&key, n->names, n->cnt, sizeof(*n->names), by_tid) : NULL;
}
