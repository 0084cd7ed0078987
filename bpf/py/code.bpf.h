/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Code objects: from an address in the target to the id under which its names were sent.
 *
 * The way is two tables: a direct-mapped cache (`code_slots`, an array: no lock, a few ns) in front
 * of a hash table (`codes`). Only what is in neither is read from the target and sent, once. An
 * address can be freed and given to another code object: a probe on the type's deallocator
 * (code_retire) takes it out of both tables.
 */
#ifndef PYEBPF_PY_CODE_BPF_H
#define PYEBPF_PY_CODE_BPF_H

#include "lib/core.bpf.h"

/* Two words, written without a lock by several CPUs: `check` in the second one depends on the
 * first, so that a mixture of two writes is not taken for an entry. */
struct code_slot {
	u64 key; /* address | process << 48 */
	u64 value; /* id and its bits << 32 | check */
};

/* Key: hash of the address. Written by the probes; entries of processes that have ended are cleared by
 * user space. A collision only costs a look-up in `codes`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PYE_CODE_SLOTS);
	__type(key, u32);
	__type(value, struct code_slot);
} code_slots SEC(".maps");

/* Key: address | process << 48; value: id and its bits. Written by the probes, deleted by the
 * deallocator's probe and by user space when a process ends. When full, definitions repeat. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_CODES_MAX);
	__type(key, u64);
	__type(value, u32);
} codes SEC(".maps");

__u32 next_code = 1;

#define CO_SUSPENDS (0x20 | 0x80 | 0x200) /* CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR */

static __always_inline u64 code_key(const struct thread *t, u64 code)
{
	return code | (u64)(t->pix & 0xffff) << 48;
}

static __always_inline u32 code_hash(u64 key)
{
	key *= 0x9e3779b97f4a7c15ULL;
	return key >> 32;
}

/* read_user - from the target's memory; a page that is not there is faulted in where that is allowed. */
static __always_inline long read_user(void *to, u32 size, u64 from)
{
	long err = bpf_probe_read_user(to, size, (void *)from);

	if (err && cfg_sleepable)
		err = bpf_copy_from_user(to, size, (void *)from);
	return err;
}

static __always_inline struct pye_pylayout *layout_of(struct thread *t)
{
	u32 layout = t->layout;

	return bpf_map_lookup_elem(&layouts, &layout);
}

static __always_inline void head_fill(struct pye_head *head, struct thread *t, u32 kind, u32 sub,
				      u64 frame)
{
	head->ts_ns = bpf_ktime_get_ns();
	head->frame = frame;
	head->kind = kind;
	head->sub = sub;
	head->tix = t->tix;
	head->seq = t->seq;
}

static __always_inline void str_look(struct pye_pylayout *l, struct str_info *s)
{
	u64 bytes;

	s->fault = 1;
	s->bytes = 0;
	s->length = 0;
	s->state = 0;
	if (read_user(&s->length, 8, s->addr + l->str_length) ||
	    read_user(&s->state, 4, s->addr + l->str_state))
		return;
	if (!(s->state & l->str_compact_mask)) {
		if (read_user(&s->data, 8, s->addr + l->str_data))
			return;
	} else if (s->state & l->str_ascii_mask) {
		s->data = s->addr + l->str_ascii_data;
	} else {
		s->data = s->addr + l->str_data;
	}
	/* the kind is 1, 2 or 4 bytes per code point, in a field of three bits */
	bytes = s->length & 0x3fffffff;
	if (s->state & l->str_kind_mask & (l->str_kind_mask << 2))
		bytes <<= 2;
	else if (s->state & l->str_kind_mask & (l->str_kind_mask << 1) & ~(l->str_kind_mask << 2))
		bytes <<= 1;
	s->bytes = bytes;
	s->fault = 0;
}

#define STR_EMIT(room_)                                                             \
	do {                                                                        \
		rec = bpf_ringbuf_reserve(&defs, sizeof(*rec) + (room_), 0);        \
		if (!rec)                                                           \
			return -1;                                                  \
		rec->room = (room_);                                                \
		n = s->bytes <= (room_) ? s->bytes : (room_);                       \
		if (s->fault || read_user(rec->data, n & ((room_)*2 - 1), s->data)) \
			n = 0, fault = 1;                                           \
	} while (0)

static __always_inline void str_fill(struct pye_str_rec *rec, struct thread *t, u32 id, u32 which,
				     struct str_info *s, u32 status, u32 n)
{
	head_fill(&rec->head, t, PYE_REC_STR, which, 0);
	rec->code = id;
	rec->status = status;
	rec->str.addr = s->addr;
	rec->str.length = s->length;
	rec->str.state = s->state;
	rec->str.bytes = s->bytes;
	rec->data_len = n;
}

static __noinline int str_send_small(struct thread *t, u32 id, u32 which, struct str_info *s)
{
	struct pye_str_rec *rec;
	u32 n, fault = 0;

	STR_EMIT(64);
	if (fault)
		count(CNT_STR_FAULT);
	str_fill(rec, t, id, which, s, fault ? PYE_STR_FAULT : PYE_STR_OK, n);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

static __noinline int str_send_large(struct thread *t, u32 id, u32 which, struct str_info *s)
{
	struct pye_str_rec *rec;
	u32 n, fault = 0, status = PYE_STR_OK;

	if (s->bytes <= 512) {
		STR_EMIT(512);
	} else {
		rec = bpf_ringbuf_reserve(&defs, sizeof(*rec) + PYE_STR_BYTES, 0);
		if (!rec)
			return -1;
		rec->room = PYE_STR_BYTES;
		n = s->bytes;
		if (n > PYE_STR_BYTES) {
			n = PYE_STR_BYTES;
			status = PYE_STR_CUT;
			if (read_user(rec->data, PYE_STR_BYTES / 2, s->data) ||
			    read_user(rec->data + PYE_STR_BYTES / 2, PYE_STR_BYTES / 2,
				      s->data + s->bytes - PYE_STR_BYTES / 2))
				fault = 1, n = 0;
		} else if (read_user(rec->data, n & (2 * PYE_STR_BYTES - 1), s->data)) {
			fault = 1, n = 0;
		}
	}
	if (fault)
		count(CNT_STR_FAULT);
	str_fill(rec, t, id, which, s, fault ? PYE_STR_FAULT : status, n);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

static __noinline int str_send(struct thread *t, struct pye_pylayout *l, u32 id, u32 which,
			       u64 addr)
{
	struct str_info *s = &t->str; /* verifier: the stack of the call chain is full */

	s->addr = addr;
	s->data = 0;
	str_look(l, s);
	if (s->fault || s->bytes <= 64)
		return str_send_small(t, id, which, s);
	return str_send_large(t, id, which, s);
}

/* Can the code object of this name be the function that is asked for? Where it cannot be told, it can. */
static __noinline int may_be_chosen(struct thread *t, struct pye_pylayout *l, u64 addr)
{
	struct str_info *s = &t->str;
	u32 n;

	s->addr = addr;
	s->data = 0;
	str_look(l, s);
	if (s->fault)
		return true;
	if (!(s->state & l->str_ascii_mask))
		return cfg_tail_any;
	if (!s->length || s->length > cfg_tail_of)
		return false;
	n = s->length < PYE_FILTER_TAIL ? s->length : PYE_FILTER_TAIL;
	if (read_user(t->tail + ((PYE_FILTER_TAIL - n) & (PYE_FILTER_TAIL - 1)),
		      n & (2 * PYE_FILTER_TAIL - 1), s->data + s->length - n))
		return true;
	for (u32 i = 0; i < PYE_FILTER_TAIL; i++)
		if (i + n >= PYE_FILTER_TAIL && t->tail[i] != cfg_tail[i])
			return false;
	return true;
}

/* Is it Thread._bootstrap(self), or what sets Thread.name(self, name)? Others of these names do no harm. */
static __noinline bool is_naming(struct pye_pylayout *l, u64 code, u64 name)
{
	u64 length = 0, word = 0, want;
	u32 args = 0;

	read_user(&args, 4, code + l->co_argcount);
	if (read_user(&length, 8, name + l->str_length) || args < 1 || args > 2)
		return false;
	if (length != (args == 1 ? 10 : 4))
		return false;
	__builtin_memcpy(&want, args == 1 ? "_bootstr" : "name\0\0\0", 8);
	read_user(&word, args == 1 ? 8 : 4, name + l->str_ascii_data);
	return word == want;
}

/* code_define - read a code object and send it; its id and bits, 0 if the ring was full. */
static __always_inline u32 code_define(struct thread *t, struct pye_pylayout *l, u64 code)
{
	u64 file = 0, name = 0, qualname = 0;
	u32 line = 0, flags = 0, id, bits = 0;
	struct pye_def_rec *rec;

	read_user(&flags, 4, code + l->co_flags);
	read_user(&line, 4, code + l->co_firstlineno);
	read_user(&file, 8, code + l->co_filename);
	read_user(&name, 8, code + l->co_name);
	if (l->co_qualname != PYE_NO_FIELD)
		read_user(&qualname, 8, code + l->co_qualname);
	if (flags & CO_SUSPENDS)
		bits |= PYE_CODE_GENERATOR;
	rec = bpf_ringbuf_reserve(&defs, sizeof(*rec), 0);
	if (!rec)
		return 0;
	id = __sync_fetch_and_add(&next_code, 1) & PYE_CODE_ID;
	head_fill(&rec->head, t, PYE_REC_DEF, !!file + !!name + !!qualname, code);
	rec->code = id;
	rec->pix = t->pix;
	rec->line = line;
	rec->flags = flags;
	rec->str_addr[PYE_STR_FILE] = file;
	rec->str_addr[PYE_STR_NAME] = name;
	rec->str_addr[PYE_STR_QUALNAME] = qualname;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	if (file && str_send(t, l, id, PYE_STR_FILE, file))
		return 0;
	if (name && str_send(t, l, id, PYE_STR_NAME, name))
		return 0;
	if (qualname && str_send(t, l, id, PYE_STR_QUALNAME, qualname))
		return 0;
	if (cfg_filter & PYE_FILTER_THREAD && is_naming(l, code, name))
		bits |= PYE_CODE_NAMES;
	if (cfg_filter & (PYE_FILTER_ROOT | PYE_FILTER_ONLY)) {
		if (may_be_chosen(t, l, qualname ? qualname : name))
			bits |= PYE_CODE_CHOSEN;
		else if (cfg_filter & PYE_FILTER_ONLY)
			bits |= PYE_CODE_QUIET;
	}
	return id | bits;
}

/* verifier: not static, so that it is verified once; it finds its thread itself. */
__noinline u32 code_id_slow(u64 code)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct pye_pylayout *l = t ? layout_of(t) : NULL;
	u32 hash, slot, id, *known;
	struct code_slot *s;
	u64 key;

	if (!l)
		return 0;
	key = code_key(t, code);
	hash = code_hash(key);
	slot = hash & (PYE_CODE_SLOTS - 1);
	known = bpf_map_lookup_elem(&codes, &key);
	if (known) {
		id = *known;
	} else {
		id = code_define(t, l, code);
		if (!id)
			return 0;
		if (bpf_map_update_elem(&codes, &key, &id, BPF_ANY))
			count(CNT_DEF_AGAIN);
	}
	s = bpf_map_lookup_elem(&code_slots, &slot);
	if (s) {
		s->key = key;
		s->value = (u64)id << 32 | hash;
	}
	return id;
}

/* code_id - id and bits of a code object; 0 if it had to be sent and the ring was full. */
static __always_inline u32 code_id(struct thread *t, u64 code)
{
	u64 key = code_key(t, code);
	u32 hash = code_hash(key), slot = hash & (PYE_CODE_SLOTS - 1);
	struct code_slot *s = bpf_map_lookup_elem(&code_slots, &slot);

	if (s && s->key == key) {
		u64 value = s->value;

		if ((u32)value == hash)
			return value >> 32;
	}
	return code_id_slow(code);
}

/* code_retire - the code object at this address dies. */
static __always_inline void code_retire(struct thread *t, u64 code)
{
	u64 key = code_key(t, code);
	u32 hash = code_hash(key), slot = hash & (PYE_CODE_SLOTS - 1), id = 0, *known;
	struct code_slot *s = bpf_map_lookup_elem(&code_slots, &slot);
	struct pye_retire_rec *rec;
	void *ring;

	if (s && s->key == key) {
		id = s->value >> 32;
		s->key = 0;
		s->value = 0;
	}
	known = bpf_map_lookup_elem(&codes, &key);
	if (known) {
		id = *known;
		bpf_map_delete_elem(&codes, &key);
	}
	ring = id ? ring_of(t) : NULL;
	rec = ring ? bpf_ringbuf_reserve(ring, sizeof(*rec), 0) : NULL;
	if (!rec)
		return;
	head_fill(&rec->head, t, PYE_REC_RETIRE, 0, code);
	rec->code = id & PYE_CODE_ID;
	rec->pix = t->pix;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
}

#endif
