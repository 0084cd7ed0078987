// SPDX-License-Identifier: Apache-2.0
#include "import/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int sink__init(struct sink *k, const struct trace_consumer *consumer, void *self, struct err *e)
{
	*k = (struct sink){ .consumer = consumer, .self = self, .e = e };
	if (strpool__init(&k->strings) || strpool__init(&k->processes) ||
	    strpool__init(&k->threads) || strpool__init(&k->funcs) ||
	    strpool__add(&k->strings, SINK_OTHER, strlen(SINK_OTHER), &k->other)) {
		sink__done(k);
		return -ENOMEM;
	}
	return 0;
}

void sink__done(struct sink *k)
{
	strpool__done(&k->strings);
	strpool__done(&k->processes);
	strpool__done(&k->threads);
	strpool__done(&k->funcs);
	free(k->cut);
}

int sink__begin(struct sink *k, const struct trace_info *info)
{
	struct trace_info all = *info;

	all.engine = all.engine ? all.engine : "";
	all.version = all.version ? all.version : "";
	all.hostname = all.hostname ? all.hostname : "";
	all.kernel = all.kernel ? all.kernel : "";
	all.cpu = all.cpu ? all.cpu : "";
	all.arguments = all.arguments ? all.arguments : "";
	k->last_ns = all.start_ns;
	return k->consumer->begin ? k->consumer->begin(k->self, &all) : 0;
}

/* A text without NUL. The first ones have their names: which they are is not known before all is read. */
static int add_text(struct sink *k, const char *s, size_t len, uint32_t *id)
{
	uint32_t before = k->strings.cnt;
	int err;

	if (before >= SINK_NAMES_MAX || k->text_bytes >= SINK_BYTES_MAX) {
		if (!strpool__find(&k->strings, s, len, id))
			*id = k->other;
		k->is_full |= *id == k->other;
		return 0;
	}
	err = strpool__add(&k->strings, s, len, id);
	k->text_bytes += k->strings.cnt > before ? len : 0;
	return err;
}

void sink__note_full(struct sink *k)
{
	char before[sizeof(k->e->what)];

	if (!k->is_full)
		return;
	snprintf(before, sizeof(before), "%s", k->e->what);
	err_set(k->e, 0,
		"%s%sthe file has more names than are shown of one (%u, or %llu MB): the others are " SINK_OTHER
		", and the sums are right",
		before, *before ? "; " : "", SINK_NAMES_MAX, SINK_BYTES_MAX >> 20);
}

int sink__text(struct sink *k, const char *s, size_t len, uint32_t *id)
{
	auto_free char *copy = NULL;
	size_t n = 0;

	if (len > SINK_TEXT_MAX)
		len = SINK_TEXT_MAX;
	if (!memchr(s ? s : "", 0, len))
		return add_text(k, s ? s : "", len, id);
	copy = malloc(len * 2);
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < len && n + 2 <= SINK_TEXT_MAX; i++) {
		if (!s[i])
			copy[n++] = '\xc0';
		copy[n++] = s[i] ? s[i] : '\x80';
	}
	return add_text(k, copy, n, id);
}

/* Return: 1 for a new key, 0 for a known one, or a negative number. */
static int intern(struct strpool *pool, const uint32_t *key, size_t size, uint32_t *id)
{
	uint32_t before = pool->cnt, at;
	int err = strpool__add(pool, (const char *)key, size, &at);

	*id = 0;
	if (err)
		return err;
	*id = at - 1;
	return at == before;
}

int sink__process(struct sink *k, uint32_t pid, uint32_t comm, uint32_t *id)
{
	const uint32_t key[2] = { pid, comm };
	struct trace_process p = { .pid = pid, .exe = "", .python = "", .prefix = "" };
	int fresh = intern(&k->processes, key, sizeof(key), id);

	if (fresh <= 0 || !k->consumer->process)
		return fresh < 0 ? fresh : 0;
	p.id = *id;
	p.comm = strpool__get(&k->strings, comm);
	p.start_ns = k->last_ns;
	return k->consumer->process(k->self, &p);
}

int sink__thread(struct sink *k, uint32_t process, uint32_t tid, uint32_t name, uint32_t *id)
{
	const uint32_t key[3] = { process, tid, name };
	struct trace_thread t = { .process = process, .tid = tid };
	int fresh = intern(&k->threads, key, sizeof(key), id);

	if (fresh <= 0 || !k->consumer->thread)
		return fresh < 0 ? fresh : 0;
	t.id = *id;
	t.name = strpool__get(&k->strings, name);
	t.start_ns = k->last_ns;
	return k->consumer->thread(k->self, &t);
}

int sink__func(struct sink *k, uint32_t process, uint32_t name, uint32_t file, uint32_t line,
	       uint32_t *id)
{
	uint32_t key[4] = { process, name, file, line };
	struct trace_func f = { .process = process };
	const char *dot;
	int fresh;

	if (name == k->other || (k->funcs.cnt >= SINK_NAMES_MAX &&
				 !strpool__find(&k->funcs, (const char *)key, sizeof(key), id))) {
		k->is_full = true;
		key[1] = k->other;
		key[2] = key[3] = 0;
	}
	fresh = intern(&k->funcs, key, sizeof(key), id);
	if (fresh <= 0 || !k->consumer->func)
		return fresh < 0 ? fresh : 0;
	f.id = *id;
	f.line = key[3];
	f.qualname = strpool__get(&k->strings, key[1]);
	dot = strrchr(f.qualname, '.');
	f.name = dot && dot[1] ? dot + 1 : f.qualname;
	f.file = key[2] == k->other ? "" : strpool__get(&k->strings, key[2]);
	return k->consumer->func(k->self, &f);
}

bool sink__is_other(const struct sink *k, uint32_t func)
{
	uint32_t name;

	memcpy(&name, strpool__get(&k->funcs, func + 1) + sizeof(name), sizeof(name));
	return name == k->other;
}

/* The process of a function, as its key says. */
static uint32_t process_of_func(const struct sink *k, uint32_t func)
{
	uint32_t process;

	memcpy(&process, strpool__get(&k->funcs, func + 1), sizeof(process));
	return process;
}

static int cut_frames(struct sink *k, struct trace_sample *s)
{
	uint32_t half = TRACE_SAMPLE_FRAMES / 2, name, id;
	int err;

	if (!k->cut)
		k->cut = malloc(TRACE_SAMPLE_FRAMES * sizeof(*k->cut));
	if (!k->cut)
		return -ENOMEM;
	err = sink__text(k, "[truncated]", strlen("[truncated]"), &name);
	err = err ? err : sink__func(k, process_of_func(k, s->frames[0].func), name, 0, 0, &id);
	if (err)
		return err;
	memcpy(k->cut, s->frames, half * sizeof(*k->cut));
	k->cut[half] = (struct trace_frame){ .func = id };
	memcpy(k->cut + half + 1, s->frames + s->frame_cnt - (half - 1),
	       (half - 1) * sizeof(*k->cut));
	s->frames = k->cut;
	s->frame_cnt = TRACE_SAMPLE_FRAMES;
	return 0;
}

static int too_long(struct sink *k)
{
	return err_set(k->e, -PYE_EFORMAT, "the times add up to more than 36 years");
}

int sink__times(struct sink *k, uint64_t a, uint64_t b, uint64_t *ns)
{
	if (__builtin_mul_overflow(a, b, ns) || *ns > SINK_TIME_MAX)
		return too_long(k);
	return 0;
}

int sink__sample(struct sink *k, const struct trace_sample *sample)
{
	struct trace_sample s = *sample;
	int err;

	if (s.ts_ns < k->last_ns)
		s.ts_ns = k->last_ns;
	if (s.ts_ns > SINK_TIME_MAX || s.weight_ns > SINK_TIME_MAX ||
	    __builtin_add_overflow(k->weight_ns, s.weight_ns, &k->weight_ns) ||
	    k->weight_ns > SINK_TIME_MAX ||
	    __builtin_add_overflow(k->written, s.count, &k->written) || k->written > SINK_TIME_MAX)
		return too_long(k);
	if (s.frame_cnt > TRACE_SAMPLE_FRAMES) {
		err = cut_frames(k, &s);
		if (err)
			return err;
	}
	k->last_ns = s.ts_ns;
	return k->consumer->sample ? k->consumer->sample(k->self, &s) : 0;
}

int sink__sum(struct sink *k, struct trace_sample *sample)
{
	if (__builtin_add_overflow(k->last_ns, sample->weight_ns, &sample->ts_ns))
		return too_long(k);
	return sink__sample(k, sample);
}

int sink__event(struct sink *k, const struct trace_event *event)
{
	if (event->ts_ns > SINK_TIME_MAX)
		return too_long(k);
	k->last_ns = event->ts_ns;
	k->written++;
	return k->consumer->event ? k->consumer->event(k->self, event) : 0;
}

int sink__end(struct sink *k, uint64_t end_ns)
{
	struct trace_totals totals = { .end_ns = k->last_ns > end_ns ? k->last_ns : end_ns,
				       .generated = k->written,
				       .written = k->written,
				       .complete = true };

	return k->consumer->end ? k->consumer->end(k->self, &totals) : 0;
}
