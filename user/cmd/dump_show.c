// SPDX-License-Identifier: Apache-2.0
#include "cmd/dump_show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cpython/code_read.h"
#include "cpython/interp.h"
#include "cpython/linetable.h"
#include "cpython/lock_outside.h"
#include "export/json.h"
#include "proc/pid.h"
#include "profile/trace.h"

/* The last code object that was looked up: recursion asks for the same one again and again. */
struct lookup {
	const struct dump_process *p;
	uint64_t code; /* 0: none */
	bool readable, has_lines;
	struct code_names names;
	struct linetable lines;
	struct lock_memo locks;
};

struct lock {
	uint64_t address; /* of the object, or of the word that is waited for; 0: no lock */
	const char *type; /* NULL: not known */
};

struct place {
	const char *name, *file; /* borrowed until the next look */
	uint32_t line;
};

/* By enum pye_off_reason. */
static const char *const reason_texts[] = {
	[PYE_OFF_NONE] = "runs",
	[PYE_OFF_OTHER] = "waits",
	[PYE_OFF_PREEMPTED] = "runs",
	[PYE_OFF_LOCK] = "waits for a lock",
	[PYE_OFF_SLEEP] = "sleeps",
	[PYE_OFF_IO] = "waits for I/O",
	[PYE_OFF_FAULT] = "waits for memory",
	[PYE_OFF_GIL] = "waits for the GIL",
};

static void lookup_done(struct lookup *l)
{
	linetable__done(&l->lines);
	l->code = 0;
}

static void look_up(struct lookup *l, uint64_t code)
{
	const struct pye_pylayout *layout = &l->p->in->layout;

	if (l->code == code)
		return;
	lookup_done(l);
	l->code = code;
	l->readable = !code_read(&l->p->mem, layout, code, &l->names);
	l->has_lines = l->readable && !linetable__read(&l->lines, &l->p->mem, layout, code);
}

static bool find_place(struct lookup *l, const struct outside_frame *frame, struct place *out)
{
	const struct pye_pylayout *layout = &l->p->in->layout;
	uint64_t instr = 0;

	look_up(l, frame->code);
	if (!l->readable)
		return false;
	*out = (struct place){ l->names.qualname, l->names.filename, 0 };
	if (l->has_lines && !proc_mem__read(&l->p->mem, frame->frame + layout->f_instr, &instr,
					    layout->flags & PYE_LAYOUT_FRAME_OBJECT ? 4 : 8))
		out->line = linetable__line(&l->lines, layout, frame->code, instr);
	if (!out->line)
		out->line = (uint32_t)l->names.firstlineno;
	return true;
}

/* By the functions of the standard library that wait, else by the object. */
static struct lock find_lock(struct lookup *l, const struct outside_thread *t,
			     const struct outside_wait *w)
{
	const struct pye_pylayout *layout = &l->p->in->layout;
	struct pye_sample_lock where;
	struct lock lock = { .address = w->futex };
	lock_role roles[LOCK_ROLES];
	enum pye_lock_type type;
	struct lock_found found;
	uint32_t cnt = 0;

	if (w->reason != PYE_OFF_LOCK || !w->futex || !t->frame_cnt)
		return lock;
	for (; cnt < LOCK_ROLES && cnt < t->frame_cnt; cnt++) {
		look_up(l, t->frames[cnt].code);
		roles[cnt] = l->readable ? lock_role_of(l->names.filename, l->names.name) : 0;
	}
	where = lock_where(&l->p->mem, t->frames[0].frame, w->futex);
	found = lock_find(&l->p->mem, layout, &l->locks, w->futex, &where, now_ns());
	if (found.object)
		lock.address = found.object;
	type = lock_type_by_roles(roles, cnt);
	if (type || found.type)
		lock.type = trace_lock_name(type ? type : found.type);
	return lock;
}

/* Why there is no stack, or it is not whole; NULL: it is. */
static const char *problem_of(const struct outside_thread *t)
{
	switch (t->status) {
	case OUTSIDE_AGREED:
		return t->truncated ? "truncated: too deep" : NULL;
	case OUTSIDE_MOVED:
		return "runs: its stack changes while it is read";
	default:
		return "unreadable";
	}
}

static bool is_running(const struct outside_thread *t, const struct outside_wait *w)
{
	return t->status == OUTSIDE_MOVED || w->reason == PYE_OFF_NONE;
}

static void put_text(struct outbuf *b, const char *s)
{
	char shown[512];

	outbuf__puts(b, text_escape(shown, sizeof(shown), s, strlen(s)));
}

static void put_reason(struct lookup *l, struct outbuf *b, const struct outside_thread *t,
		       const struct outside_wait *w)
{
	struct lock lock = { 0 };

	outbuf__printf(b, ": %s", is_running(t, w) ? "runs" : reason_texts[w->reason]);
	if (!is_running(t, w))
		lock = find_lock(l, t, w);
	if (lock.address)
		outbuf__printf(b, ", %s at 0x%" PRIx64, lock.type ? lock.type : "type not known",
			       lock.address);
}

/* As the program calls the thread, or else the system. "": not known. */
static const char *thread_name(const struct lookup *l, const struct outside_thread *t,
			       const struct outside_wait *w)
{
	const char *name = thread_names__find(&l->p->names, t->thread_id);

	return name && *name ? name : w->comm;
}

static void put_head(struct lookup *l, struct outbuf *b, const struct outside_thread *t,
		     const struct outside_wait *w)
{
	const char *name = thread_name(l, t, w);

	if (w->tid)
		outbuf__printf(b, "\nThread %d", w->tid);
	else
		outbuf__printf(b, "\nThread 0x%" PRIx64, t->thread_id);
	if (w->own_tid != w->tid)
		outbuf__printf(b, " (%d inside)", w->own_tid);
	if (*name) {
		outbuf__puts(b, " \"");
		put_text(b, name);
		outbuf__putc(b, '"');
	}
	if (w->known)
		put_reason(l, b, t, w);
	if (w->holds_gil)
		outbuf__puts(b, w->known ? ", holds the GIL" : ": holds the GIL");
	outbuf__putc(b, '\n');
}

static void put_thread(struct lookup *l, struct outbuf *b, size_t i)
{
	const struct outside_thread *t = &l->p->reading.stacks.threads[i];
	const char *problem = problem_of(t);

	put_head(l, b, t, &l->p->reading.waits.threads[i]);
	for (uint32_t k = 0; k < t->frame_cnt; k++) {
		struct place place;

		if (!find_place(l, &t->frames[k], &place)) {
			outbuf__puts(b, "    [unreadable code object]\n");
			continue;
		}
		outbuf__puts(b, "    ");
		put_text(b, place.name);
		outbuf__puts(b, " (");
		put_text(b, place.file);
		outbuf__printf(b, ":%" PRIu32 ")\n", place.line);
	}
	if (problem)
		outbuf__printf(b, "    [%s]\n", problem);
	else if (!t->frame_cnt)
		outbuf__puts(b, "    [no Python frame]\n");
}

static struct lookup *lookup_new(const struct dump_process *p)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (l)
		l->p = p;
	return l;
}

void dump__text(const struct dump_process *p, struct outbuf *b)
{
	auto_free struct lookup *l = lookup_new(p);

	if (!l) {
		b->err = b->err ? b->err : -ENOMEM;
		return;
	}
	outbuf__printf(b, "Process %d", p->pid->given);
	outbuf__puts(b, ": ");
	put_text(b, p->info.comm);
	outbuf__printf(b, " (CPython %s)\n", p->in->version);
	for (size_t i = 0; i < p->reading.stacks.cnt; i++)
		put_thread(l, b, i);
	if (p->reading.stacks.truncated)
		outbuf__puts(b, "\n[the list of threads changed while it was read]\n");
	lookup_done(l);
}

static void put_key(struct outbuf *b, const char *key)
{
	outbuf__printf(b, ",\"%s\":", key);
}

static void put_bool(struct outbuf *b, const char *key, bool value)
{
	put_key(b, key);
	json_bool(b, value);
}

/* A number that is known when it is not 0. */
static void put_id(struct outbuf *b, const char *key, int64_t value)
{
	put_key(b, key);
	if (value)
		json_i64(b, value);
	else
		outbuf__puts(b, "null");
}

/* A string, or null. */
static void put_word(struct outbuf *b, const char *key, const char *value)
{
	put_key(b, key);
	if (value)
		json_str(b, value);
	else
		outbuf__puts(b, "null");
}

static void json_frame(struct lookup *l, struct outbuf *b, const struct outside_frame *frame)
{
	struct place place = { "[unreadable]", "", 0 };

	find_place(l, frame, &place);
	outbuf__puts(b, "{\"name\":");
	json_str(b, place.name);
	put_word(b, "file", place.file);
	put_key(b, "line");
	json_u64(b, place.line);
	outbuf__putc(b, '}');
}

static void json_thread(struct lookup *l, struct outbuf *b, size_t i)
{
	const struct outside_thread *t = &l->p->reading.stacks.threads[i];
	const struct outside_wait *w = &l->p->reading.waits.threads[i];
	const char *name = thread_name(l, t, w);
	bool runs = is_running(t, w);
	struct lock lock = runs ? (struct lock){ 0 } : find_lock(l, t, w);
	char address[32];

	outbuf__printf(b, "{\"thread_id\":%" PRIu64, t->thread_id);
	put_id(b, "tid", w->tid);
	put_id(b, "tid_inside", w->own_tid);
	put_word(b, "thread", *name ? name : NULL);
	put_word(b, "state", !w->known ? NULL : runs ? "on" : "off");
	put_word(b, "reason", w->known && !runs ? trace_reason_name(w->reason) : NULL);
	put_bool(b, "holds_gil", w->holds_gil);
	snprintf(address, sizeof(address), "0x%" PRIx64, lock.address);
	put_word(b, "lock", lock.address ? address : NULL);
	put_word(b, "lock_type", lock.type);
	put_word(b, "problem", problem_of(t));
	outbuf__puts(b, ",\"stack\":[");
	for (uint32_t k = t->frame_cnt; k-- > 0;) {
		json_frame(l, b, &t->frames[k]);
		outbuf__puts(b, k ? "," : "");
	}
	outbuf__puts(b, "]}");
}

void dump__json(const struct dump_process *p, struct outbuf *b)
{
	auto_free struct lookup *l = lookup_new(p);

	if (!l) {
		b->err = b->err ? b->err : -ENOMEM;
		return;
	}
	outbuf__printf(b, "{\"pid\":%d", p->pid->given);
	put_id(b, "pid_inside", p->info.own_pid);
	put_word(b, "process", p->info.comm);
	put_word(b, "version", p->in->version);
	put_bool(b, "truncated", p->reading.stacks.truncated);
	outbuf__puts(b, ",\"threads\":[");
	for (size_t i = 0; i < p->reading.stacks.cnt; i++) {
		outbuf__puts(b, i ? ",\n" : "\n");
		json_thread(l, b, i);
	}
	outbuf__puts(b, "]}");
	lookup_done(l);
}
