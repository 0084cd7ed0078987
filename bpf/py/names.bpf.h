/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Threads that are chosen by their names: by what the program calls them (the attribute _name of a
 * threading.Thread) or by what the operating system does.
 *
 * The first frame of a thread that threading starts is that of Thread._bootstrap(), whose first variable is
 * the Thread: its name is known from the first call on. Those that ran before have theirs from user space.
 * Who gives a name runs the setter of Thread.name; behind it all threads read theirs again.
 */
#ifndef PYEBPF_PY_NAMES_BPF_H
#define PYEBPF_PY_NAMES_BPF_H

#include "py/stack.bpf.h"

#define ATTRS_MAX      256 /* of one object: more are not looked at */
#define NAME_KEY       0x656d616e5fULL /* "_name" */
#define NAME_KEY_BYTES 5
#define NAME_KEY_MASK  ((1ULL << 8 * NAME_KEY_BYTES) - 1)
#define TAIL_MASK      (2 * PYE_FILTER_TAIL - 1)
#define UTF8_MAX       4
#define SETTER_BYTES   4 /* of "name" */
/* Hits after the entry of the setter until it is left: what is no str is made one between. */
#define RENAMING_HITS 4

/* Key: thread, by its number in pyebpf's pid namespace. Written by user space, deleted by the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYE_NAMED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct pye_named);
} named SEC(".maps");

/* Lies in t->frame, which nobody else needs meanwhile: the attributes of an object. */
struct attrs {
	u64 entries; /* address of the first key */
	u64 values; /* of the values when they do not follow their keys; 0: they do */
	u64 value; /* what was looked for; 0: not found */
	u32 cnt, size; /* entries; bytes of one */
	u32 key; /* where it is in an entry */
	u32 at;
};

static __always_inline u64 word_at(u64 addr)
{
	u64 value = 0;

	return read_user(&value, sizeof(value), addr) ? 0 : value;
}

/* Of a PyDictKeysObject. Source: user/cpython/thread_names.c has the same, with the same positions. */
static __noinline int attrs_keys(struct thread *t, struct pye_pylayout *l, u64 keys)
{
	struct attrs *a = (void *)t->frame;
	u64 head = word_at(keys + 8), cnt;

	if (l->minor < 11) { /* dk_size */
		if (head > 0xffff)
			return -1;
		cnt = word_at(keys + 32);
		a->entries = keys + 40 + head * (head <= 0xff ? 1 : 2);
		a->size = 24;
		a->key = 8;
	} else { /* the logarithms of the sizes of the table and of its index, the kind */
		cnt = word_at(keys + 24);
		a->entries = keys + 32 + (1ULL << (head >> 8 & 31));
		a->size = head >> 16 & 0xff ? 16 : 24;
		a->key = head >> 16 & 0xff ? 0 : 8;
	}
	a->cnt = cnt < ATTRS_MAX ? cnt : ATTRS_MAX;
	return 0;
}

static __noinline int attrs_open(struct thread *t, struct pye_pylayout *l, u64 obj)
{
	struct attrs *a = (void *)t->frame;
	u64 type = word_at(obj + l->obj_head - 8), values = 0, dict, offset;

	if (l->obj_attrs == PYE_ATTRS_DICT) {
		offset = word_at(type + l->obj_head + PYE_TYPE_DICTOFFSET);
		dict = offset && offset < 4096 ? word_at(obj + offset) : 0;
	} else {
		dict = word_at(obj + (s64)l->obj_dict);
		if (l->obj_attrs == PYE_ATTRS_BEFORE)
			values = word_at(obj - 32);
		else if (l->obj_attrs == PYE_ATTRS_TAGGED && dict & 1)
			values = dict + 1;
		else if (l->obj_attrs == PYE_ATTRS_INLINE && !dict &&
			 word_at(type + l->obj_head + PYE_TYPE_FLAGS) & PYE_TYPE_INLINE)
			values = obj + word_at(type + l->obj_head + PYE_TYPE_BASICSIZE);
	}
	a->value = a->at = 0;
	if (values) {
		dict = word_at(type + l->type_keys);
	} else if (dict) {
		values = word_at(dict + l->obj_head + 24);
		dict = word_at(dict + l->obj_head + 16);
	}
	/* 3.13 has four small numbers before them */
	a->values = values && l->minor >= 13 ? values + 8 : values;
	return dict ? attrs_keys(t, l, dict) : -1;
}

static long attrs_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	u64 entry, name;
	u32 state = 0;
	struct attrs *a;

	if (!t)
		return 1;
	a = (void *)t->frame;
	if (a->at >= a->cnt)
		return 1;
	entry = a->entries + (u64)a->at * a->size + a->key;
	name = word_at(entry);
	if (!name || word_at(name + l->str_length) != NAME_KEY_BYTES ||
	    read_user(&state, sizeof(state), name + l->str_state) || !(state & l->str_ascii_mask) ||
	    (word_at(name + l->str_ascii_data) & NAME_KEY_MASK) != NAME_KEY) {
		a->at++;
		return 0;
	}
	a->value = word_at(a->values ? a->values + (u64)a->at * 8 : entry + 8);
	return 1;
}

/* Lies in t->frame, too. verifier: on the stack it would follow each value that it has. */
struct utf8 {
	u32 at, out, width;
};

static long utf8_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	struct utf8 *u;
	u64 point;
	u32 c, lead = 0, more;

	if (!t)
		return 1;
	u = (void *)t->frame;
	if (u->at >= t->str.length || u->out + UTF8_MAX > TAIL_MASK)
		return 1;
	point = word_at(t->str.data + (u64)u->at++ * u->width);
	c = u->width == 1 ? (u8)point : u->width == 2 ? (u16)point : (u32)point;
	more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	if (more)
		lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
	t->tail[u->out++ & TAIL_MASK] = lead | (c >> 6 * more);
	if (more > 2)
		t->tail[u->out++ & TAIL_MASK] = 0x80 | (c >> 12 & 0x3f);
	if (more > 1)
		t->tail[u->out++ & TAIL_MASK] = 0x80 | (c >> 6 & 0x3f);
	if (more)
		t->tail[u->out++ & TAIL_MASK] = 0x80 | (c & 0x3f);
	return 0;
}

/* A str, or its beginning, into t->tail as UTF-8 with an end. */
static __noinline int name_read(struct thread *t, struct pye_pylayout *l, u64 addr)
{
	struct utf8 *u = (void *)t->frame;
	u32 n;

	t->str.addr = addr;
	t->str.data = 0;
	str_look(l, &t->str);
	if (t->str.fault || !t->str.length)
		return -1;
	if (t->str.state & l->str_ascii_mask) {
		n = t->str.bytes < TAIL_MASK ? t->str.bytes : TAIL_MASK;
		if (read_user(t->tail, n & TAIL_MASK, t->str.data))
			return -1;
		u->out = n;
	} else {
		u->at = u->out = 0;
		u->width = t->str.bytes == t->str.length       ? 1
			   : t->str.bytes == 2 * t->str.length ? 2
							       : 4;
		bpf_for_each_map_elem(&rounds, utf8_round, NULL, 0);
	}
	t->tail[u->out & TAIL_MASK] = 0;
	return 0;
}

/* What the program calls its thread, into t->tail. */
static __noinline int name_given(struct thread *t, struct pye_pylayout *l)
{
	struct attrs *a = (void *)t->frame;

	if (!t->object || attrs_open(t, l, t->object))
		return -1;
	bpf_for_each_map_elem(&rounds, attrs_round, NULL, 0);
	return a->value ? name_read(t, l, a->value) : -1;
}

struct glob { /* as struct utf8 does */
	u32 at, text, star, from;
	u32 matches;
};

#define NONE (~0u)

/* As glob_matches() of user/profile/code_glob.c does. */
static long glob_round(void *map, u32 *key, u8 *value, void *ctx)
{
	struct pye_pylayout *l;
	struct thread *t = self(&l);
	struct glob *g;
	char c, p;

	if (!t)
		return 1;
	g = (void *)t->frame;
	c = t->tail[g->text & TAIL_MASK];
	p = g->at < PYE_FILTER_NAME ? thread_glob[g->at & (PYE_FILTER_NAME - 1)] : 0;
	if (!c && p != '*') {
		g->matches = !p;
		return 1;
	}
	if (p == '*') {
		g->star = g->at++;
		g->from = g->text;
	} else if (p && (p == '?' || p == c)) {
		g->at++;
		g->text++;
	} else if (g->star != NONE) {
		g->at = g->star + 1;
		g->text = ++g->from;
	} else {
		return 1;
	}
	return 0;
}

/* Is the name in t->tail the one that is asked for? */
static __noinline bool name_matches(struct thread *t)
{
	struct glob *g = (void *)t->frame;

	*g = (struct glob){ .star = NONE };
	bpf_for_each_map_elem(&rounds, glob_round, NULL, 0);
	return g->matches;
}

static __always_inline void name_copy(struct thread *t, const char *from)
{
	__builtin_memcpy(t->tail, from, PYE_COMM);
	t->tail[PYE_COMM] = 0;
}

/* A thread has the system's name of the one that made it, unless somebody gives it another. */
static __noinline bool is_inherited(struct thread *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	char first[PYE_COMM] = {};

	BPF_CORE_READ_STR_INTO(&first, task, group_leader, comm);
	for (u32 i = 0; i < PYE_COMM; i++) {
		if (first[i] != t->name[i])
			return false;
		if (!first[i])
			break;
	}
	return true;
}

static __noinline bool is_wanted(struct thread *t, struct pye_pylayout *l)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool first = BPF_CORE_READ(task, pid) == BPF_CORE_READ(task, tgid);
	bool given = !name_given(t, l);

	if (!given && first)
		name_copy(t, "MainThread\0\0\0\0\0");
	if ((given || first) && name_matches(t))
		return true;
	if (given && !first && is_inherited(t))
		return false;
	name_copy(t, t->name);
	return name_matches(t);
}

static __noinline int decide(struct thread *t, struct pye_pylayout *l)
{
	struct pye_named *known;
	bool renamed, was;
	u32 tid;

	renamed = !t->names_seen;
	t->names_seen = names_now;
	if (!t->object) {
		tid = task_pid(bpf_get_current_task_btf());
		known = bpf_map_lookup_elem(&named, &tid);
		if (known && known->pix == t->pix)
			t->object = known->object;
		if (known)
			bpf_map_delete_elem(&named, &tid);
	}
	was = t->other != OTHER_YES;
	if (!is_wanted(t, l))
		t->other = OTHER_YES;
	else if (t->other == OTHER_YES)
		t->other = OTHER_WAS;
	if (renamed || was != (t->other != OTHER_YES))
		thread_renamed(t);
	return 0;
}

/* names_other - somebody asks for threads by their names: is it not the current one? One that cannot be told is not
 * either: where probes were being taken out, this event is not to be recorded because they are back by now.
 * verifier: not static, so that it is verified once. */
__noinline int names_other(u64 cookie, u64 ip)
{
	struct thread *t = thread_meet(cookie, ip);
	struct pye_pylayout *l;

	if (!t || !(l = layout_of(t)))
		return true;
	if (t->renaming) {
		t->renaming--;
		__sync_fetch_and_add(&names_now, 1);
	}
	if (t->names_seen != names_now)
		decide(t, l);
	if (t->other == OTHER_YES) {
		hits_count(t);
		return true;
	}
	if (t->other == OTHER_WAS) {
		t->other = OTHER_NO;
		t->valid = t->below = t->root_at = 0;
		t->flags &= ~(T_KNOWN | T_UNWINDING | T_CUT);
	}
	return false;
}

/* Is it a Thread.name that is set, or the first frame of a thread? That one's variable is the Thread. */
static __noinline int names_frame(struct thread *t, struct pye_pylayout *l, u64 frame, u64 code)
{
	u64 name = word_at(code + l->co_name);

	if (word_at(name + l->str_length) == SETTER_BYTES)
		t->renaming = RENAMING_HITS;
	else if (!t->names_seen)
		t->object = word_at(frame + l->f_locals) & ~7ULL & ADDR_MASK;
	return 0;
}

/* names_entry - a frame is entered, and somebody asks for threads by their names. */
__noinline int names_entry(u64 cookie, u64 ip, u64 frame)
{
	struct thread *t = thread_meet(cookie, ip);
	struct pye_pylayout *l;
	u64 code;

	if (!t || !(l = layout_of(t)))
		return 0;
	code = word_at(frame + l->f_code) & ~7ULL & ADDR_MASK;
	if (code && code_id(t, code) & PYE_CODE_NAMES)
		names_frame(t, l, frame, code);
	return 0;
}

#endif
