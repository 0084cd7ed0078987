// SPDX-License-Identifier: Apache-2.0
/*
 * What the writer knows of processes, threads and functions, and when it forgets it. A definition
 * is kept as the bytes that a chunk holds of it, so that writing it again is a copy. A record lives
 * as long as something counts on it: a function its process and file name, a thread its process,
 * and the chunk being filled everything that it lists.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "capfile/writer_priv.h"

static void process_free(struct capw *w, struct wprocess *p)
{
	w->defs_memory -= sizeof(*p) + p->body.cap;
	bytes_done(&p->body);
	free(p);
}

static void process_put(struct capw *w, struct wprocess *p)
{
	if (!p || --p->ref_cnt || !p->ended)
		return;
	idtab__remove(&w->processes, p->id);
	process_free(w, p);
}

static void func_free(struct capw *w, struct wfunc *f)
{
	process_put(w, f->process);
	strtab__put(&w->files, f->file, &w->defs_memory);
	w->defs_memory -= sizeof(*f) + f->body.cap;
	bytes_done(&f->body);
	free(f);
}

static void thread_free(struct capw *w, struct wthread *t)
{
	capw_stack_clear(w, t);
	pages_free(t->stack, t->cap * sizeof(t->stack[0]));
	capw_sample_forget(w, t);
	w->stacks_memory -= t->cap * sizeof(t->stack[0]);
	process_put(w, t->process);
	w->defs_memory -= sizeof(*t) + t->body.cap;
	bytes_done(&t->body);
	free(t);
}

static void use_process(struct capw *w, struct wprocess *p)
{
	if (p->epoch == w->epoch)
		return;
	p->epoch = w->epoch;
	p->index = w->used_processes.cnt;
	p->ref_cnt++;
	list_add(&w->used_processes, &p->used);
	w->defs_bytes += p->body.len;
}

static void use_file(struct capw *w, struct wstring *s)
{
	if (s->epoch == w->epoch)
		return;
	s->epoch = w->epoch;
	s->index = w->used_files.cnt;
	s->ref_cnt++;
	list_add(&w->used_files, &s->used);
	w->defs_bytes += s->len;
}

void capw_defs_use_func(struct capw *w, struct wfunc *f)
{
	use_process(w, f->process);
	use_file(w, f->file);
	if (f->epoch == w->epoch)
		return;
	f->epoch = w->epoch;
	f->index = w->used_funcs.cnt;
	list_add(&w->used_funcs, &f->used);
	w->defs_bytes += f->body.len + VARINT_MAX;
}

void capw_defs_use_thread(struct capw *w, struct wthread *t)
{
	use_process(w, t->process);
	if (t->epoch == w->epoch)
		return;
	t->epoch = w->epoch;
	list_add(&w->used_threads, &t->used);
	w->defs_bytes += t->body.len + (size_t)4 * VARINT_MAX;
}

/* Make sure that @size more bytes of definitions are allowed; a chunk written now frees some. */
static int reserve(struct capw *w, size_t size)
{
	if (w->scratch.failed)
		return -ENOMEM;
	if (w->defs_memory + size <= DEFS_MEMORY_MAX)
		return 0;
	capw_chunk_write(w);
	return w->defs_memory + size <= DEFS_MEMORY_MAX ? 0 : -ENOMEM;
}

/* Move the definition in w->scratch to @body. */
static int keep_body(struct capw *w, struct bytes *body)
{
	uint8_t *data = malloc(w->scratch.len);

	if (!data)
		return -ENOMEM;
	memcpy(data, w->scratch.data, w->scratch.len);
	w->defs_memory -= body->cap;
	free(body->data);
	*body = (struct bytes){ .data = data, .len = w->scratch.len, .cap = w->scratch.len };
	w->defs_memory += body->cap;
	return 0;
}

static void encode_process(struct bytes *b, const struct trace_process *def)
{
	uint32_t cnt = 0;

	while (def->import_roots && cnt < CAP_ROOTS_MAX && def->import_roots[cnt])
		cnt++;
	bytes_clear(b);
	bytes_varint(b, def->id);
	bytes_varint(b, def->pid);
	bytes_varint(b, def->start_ns);
	bytes_varint(b, def->end_ns);
	bytes_string(b, def->comm);
	bytes_string(b, def->exe);
	bytes_string(b, def->python);
	bytes_string(b, def->prefix);
	bytes_varint(b, def->import_roots ? cnt + 1 : 0);
	for (uint32_t i = 0; i < cnt; i++)
		bytes_string(b, def->import_roots[i]);
}

int capw__process(struct capw *w, const struct trace_process *def)
{
	struct wprocess *p, *added = NULL;
	int err;

	encode_process(&w->scratch, def);
	err = reserve(w, w->scratch.len + sizeof(*p));
	if (err)
		return err;
	p = idtab__find(&w->processes, def->id);
	if (!p) {
		p = added = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->id = def->id;
		w->defs_memory += sizeof(*p);
	}
	err = keep_body(w, &p->body);
	if (!err && added)
		err = idtab__add(&w->processes, def->id, p);
	if (err) {
		if (added)
			process_free(w, added);
		return err;
	}
	p->ended = def->end_ns != 0;
	use_process(w, p);
	return 0;
}

static void encode_thread(struct bytes *b, const struct trace_thread *def)
{
	bytes_clear(b);
	bytes_varint(b, def->id);
	bytes_varint(b, def->tid);
	bytes_varint(b, def->start_ns);
	bytes_varint(b, def->end_ns);
	bytes_varint(b, def->is_main);
	bytes_string(b, def->name);
}

int capw__thread(struct capw *w, const struct trace_thread *def)
{
	struct wthread *t, *added = NULL;
	struct wprocess *p;
	int err;

	encode_thread(&w->scratch, def);
	err = reserve(w, w->scratch.len + sizeof(*t));
	if (err)
		return err;
	p = idtab__find(&w->processes, def->process);
	if (!p)
		return -EINVAL;
	t = idtab__find(&w->threads, def->id);
	if (!t) {
		t = added = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		t->id = def->id;
		w->defs_memory += sizeof(*t);
	}
	err = keep_body(w, &t->body);
	if (!err && added)
		err = idtab__add(&w->threads, def->id, t);
	if (err) {
		if (added)
			thread_free(w, added);
		return err;
	}
	p->ref_cnt++;
	process_put(w, t->process);
	t->process = p;
	capw_defs_use_thread(w, t);
	return 0;
}

/* The plain name is mostly the end of the qualified one: then its length + 1, else 0 and itself. */
static void encode_func(struct bytes *b, const struct trace_func *def)
{
	const char *qualname = def->qualname ? def->qualname : "";
	const char *name = def->name ? def->name : "";
	size_t qualname_len = strlen(qualname), len = strlen(name);
	bool is_end = qualname_len <= CAP_STRING_MAX && len <= qualname_len &&
		      !memcmp(qualname + qualname_len - len, name, len);

	bytes_clear(b);
	bytes_varint(b, def->id);
	bytes_varint(b, def->line);
	bytes_string(b, qualname);
	bytes_varint(b, is_end ? len + 1 : 0);
	if (!is_end)
		bytes_string(b, name);
}

static int set_func(struct capw *w, struct wfunc *f, struct wprocess *p, const char *file)
{
	struct wstring *s = strtab__get(&w->files, file ? file : "", &w->defs_memory);
	int err;

	if (!s)
		return -ENOMEM;
	err = keep_body(w, &f->body);
	if (err) {
		strtab__put(&w->files, s, &w->defs_memory);
		return err;
	}
	strtab__put(&w->files, f->file, &w->defs_memory);
	f->file = s;
	p->ref_cnt++;
	process_put(w, f->process);
	f->process = p;
	return 0;
}

int capw__func(struct capw *w, const struct trace_func *def)
{
	struct wfunc *f, *added = NULL;
	struct wprocess *p;
	int err;

	encode_func(&w->scratch, def);
	err = reserve(w, w->scratch.len + sizeof(*f));
	if (err)
		return err;
	p = idtab__find(&w->processes, def->process);
	if (!p)
		return -EINVAL;
	f = idtab__find(&w->funcs, def->id);
	if (!f) {
		f = added = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		f->id = def->id;
		w->defs_memory += sizeof(*f);
	}
	err = set_func(w, f, p, def->file);
	if (!err && added)
		err = idtab__add(&w->funcs, def->id, f);
	if (err) {
		if (added)
			func_free(w, added);
		return err;
	}
	f->kind = def->kind;
	if (f->epoch == w->epoch)
		capw_defs_use_func(w, f); /* its process or file may be new to the chunk */
	return 0;
}

void capw__retire_func(struct capw *w, uint32_t func)
{
	struct wfunc *f = idtab__find(&w->funcs, func);

	if (!f || f->retired)
		return;
	f->retired = true;
	if (f->epoch || f->open_cnt) {
		list_add(&w->gone_funcs, &f->gone);
		return;
	}
	idtab__remove(&w->funcs, func); /* never used: no reader has heard of it */
	func_free(w, f);
}

static void forget_threads(struct capw *w)
{
	struct wthread *t;

	for (struct link *l = w->used_threads.first, *next; l; l = next) {
		next = l->next;
		t = list_entry(l, struct wthread, used);
		if (!t->retired)
			continue;
		idtab__remove(&w->threads, t->id);
		thread_free(w, t);
	}
}

static void forget_funcs(struct capw *w)
{
	struct link *l = w->gone_funcs.first, *next;
	struct wfunc *f;

	list_clear(&w->gone_funcs);
	for (; l; l = next) {
		next = l->next;
		f = list_entry(l, struct wfunc, gone);
		if (f->open_cnt) {
			list_add(&w->gone_funcs, l);
			continue;
		}
		idtab__remove(&w->funcs, f->id);
		func_free(w, f);
	}
}

void capw_defs_forget(struct capw *w)
{
	struct link *l, *next;

	forget_funcs(w);
	forget_threads(w);
	for (l = w->used_files.first; l; l = next) {
		next = l->next;
		strtab__put(&w->files, list_entry(l, struct wstring, used), &w->defs_memory);
	}
	for (l = w->used_processes.first; l; l = next) {
		next = l->next;
		process_put(w, list_entry(l, struct wprocess, used));
	}
}

static void release_func(void *record, void *arg)
{
	struct wfunc *f = record;

	(void)arg;
	bytes_done(&f->body);
	free(f);
}

static void release_thread(void *record, void *arg)
{
	struct wthread *t = record;

	(void)arg;
	bytes_done(&t->body);
	pages_free(t->stack, t->cap * sizeof(t->stack[0]));
	free(t->sample);
	free(t);
}

static void release_process(void *record, void *arg)
{
	struct wprocess *p = record;

	(void)arg;
	bytes_done(&p->body);
	free(p);
}

void capw_defs_done(struct capw *w)
{
	idtab__each(&w->funcs, release_func, NULL);
	idtab__done(&w->funcs);
	idtab__each(&w->threads, release_thread, NULL);
	idtab__done(&w->threads);
	idtab__each(&w->processes, release_process, NULL);
	idtab__done(&w->processes);
	strtab__done(&w->files);
}
