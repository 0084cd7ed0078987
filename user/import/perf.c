// SPDX-License-Identifier: Apache-2.0
/*
 * The text that `perf script` prints: a line per sample, "comm pid/tid [cpu] seconds: period event:", its frames below it from
 * the innermost on, and an empty line. Events that count time have it as their period; of others each
 * sample stands for the same time. A frame of Python's perf trampoline is "py::name:file".
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "import/importers.h"

struct perf {
	struct source *s;
	struct sink *k;
	struct trace_frame frames[TRACE_SAMPLE_FRAMES]; /* innermost first, while reading */
	struct trace_sample sample;
	uint32_t process;
	bool open, begun, counted, too_deep;
	uint64_t line;
};

/* What the first line of a sample says; spans of the line. */
struct head {
	const char *comm, *event, *rest;
	size_t comm_len, event_len;
	uint32_t pid, tid;
	uint64_t ts_ns, period;
};

static const char *skip_space(const char *s)
{
	return s + strspn(s, " \t");
}

/* Digits up to a number of 64 bits; NULL if there are none. */
static const char *read_u64(const char *s, uint64_t *value)
{
	const char *first = s;

	for (*value = 0; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(*value, 10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(*s - '0'), value))
			return NULL;
	}
	return s == first ? NULL : s;
}

/* "1234.567890:" as ns. */
static const char *read_time(const char *s, uint64_t *ns)
{
	uint64_t scale = 1000000000, seconds;

	s = read_u64(s, &seconds);
	if (!s || *s != '.' || seconds > SINK_TIME_MAX / scale)
		return NULL;
	*ns = seconds * scale;
	for (s++; *s >= '0' && *s <= '9'; s++) {
		scale /= 10;
		*ns += (uint64_t)(*s - '0') * scale;
	}
	return *s == ':' ? s + 1 : NULL;
}

/* From the pid on: "pid[/tid] [cpu] time: [period] event:". */
static bool read_numbers(const char *s, struct head *h)
{
	uint64_t pid, tid;
	const char *after;

	s = read_u64(s, &pid);
	if (!s)
		return false;
	tid = pid;
	if (*s == '/')
		s = read_u64(s + 1, &tid);
	if (!s || (*s != ' ' && *s != '\t') || pid > UINT32_MAX || tid > UINT32_MAX)
		return false;
	s = skip_space(s);
	if (*s == '[')
		s = skip_space(s + strcspn(s, "]") + (strchr(s, ']') != NULL));
	s = read_time(s, &h->ts_ns);
	if (!s)
		return false;
	s = skip_space(s);
	h->period = 0;
	after = read_u64(s, &h->period);
	if (after && (*after == ' ' || *after == '\t'))
		s = skip_space(after);
	h->event = s;
	h->event_len = strcspn(s, " \t");
	h->rest = skip_space(s + h->event_len);
	h->pid = (uint32_t)pid;
	h->tid = (uint32_t)tid;
	return h->event_len > 1 && s[h->event_len - 1] == ':';
}

/* A name may have spaces and numbers in it: it ends where what follows can be read. */
static bool read_head(const char *line, struct head *h)
{
	const char *at = skip_space(line);

	h->comm = at;
	while ((at = strpbrk(at, " \t"))) {
		const char *number = skip_space(at);

		if (*number >= '0' && *number <= '9' && read_numbers(number, h)) {
			h->comm_len = (size_t)(at - h->comm);
			return h->comm_len > 0;
		}
		at = number;
	}
	return false;
}

/* "event" or "event:modifiers:"; whether its period is a time. */
static bool counts_time(const struct head *h)
{
	static const char *const names[] = { "cpu-clock", "task-clock" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t n = strlen(names[i]);

		if (h->event_len > n && !strncmp(h->event, names[i], n) && h->event[n] == ':')
			return h->period > 0;
	}
	return false;
}

static bool is_perf(const uint8_t *head, size_t len)
{
	const char *at = (const char *)head, *end = at + len;
	char line[1024];
	struct head h;

	for (int i = 0; i < 100 && at < end; i++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at);

		if (memchr(at, 0, n))
			return false;
		if (n && *at != '#') {
			n = n < sizeof(line) ? n : sizeof(line) - 1;
			memcpy(line, at, n);
			line[n] = '\0';
			return read_head(line, &h);
		}
		at = newline ? newline + 1 : end;
	}
	return false;
}

static int flush(struct perf *p)
{
	struct trace_frame *f = p->frames;
	uint32_t cnt = p->sample.frame_cnt;

	if (!p->open)
		return 0;
	p->open = false;
	for (uint32_t i = 0; i < cnt / 2; i++) {
		struct trace_frame swap = f[i];

		f[i] = f[cnt - 1 - i];
		f[cnt - 1 - i] = swap;
	}
	p->sample.frames = f;
	return sink__sample(p->k, &p->sample);
}

static int begin_sample(struct perf *p, const struct head *h)
{
	struct trace_info info = { .engine = "perf script",
				   .start_ns = h->ts_ns,
				   .sample_ns = p->k->count_ns };
	uint32_t comm;
	int err;

	if (counts_time(h))
		info.sample_ns = h->period;
	err = p->begun ? 0 : sink__begin(p->k, &info);
	p->begun = true;
	err = err ? err : sink__text(p->k, h->comm, h->comm_len, &comm);
	err = err ? err : sink__process(p->k, h->pid, comm, &p->process);
	p->sample = (struct trace_sample){ .ts_ns = h->ts_ns,
					   .weight_ns = counts_time(h) ? h->period : p->k->count_ns,
					   .count = 1 };
	p->counted = p->counted || !counts_time(h);
	p->open = true;
	p->too_deep = false;
	return err ? err : sink__thread(p->k, p->process, h->tid, comm, &p->sample.thread);
}

/* "symbol+0x1f (file)"; a Python frame has name and file in the symbol. */
static int name_frame(struct perf *p, const char *s, struct trace_frame *frame)
{
	size_t len = strlen(s), name_len, file_len = 0;
	const char *open = len && s[len - 1] == ')' ? memrchr(s, '(', len) : NULL, *file = "";
	const char *plus, *colon;
	uint32_t name_id, file_id;
	int err;

	name_len = open ? (size_t)(open - s) : len;
	while (name_len && s[name_len - 1] == ' ')
		name_len--;
	if (open) {
		file = open + 1;
		file_len = len - (size_t)(file - s) - 1;
	}
	plus = memrchr(s, '+', name_len);
	if (plus && plus > s && !strncmp(plus, "+0x", 3))
		name_len = (size_t)(plus - s);
	if (name_len > 4 && !strncmp(s, "py::", 4)) {
		s += 4;
		name_len -= 4;
		colon = memchr(s, ':', name_len);
		if (colon) {
			file = colon + 1;
			file_len = name_len - (size_t)(file - s);
			name_len = (size_t)(colon - s);
		}
	}
	err = sink__text(p->k, s, name_len, &name_id);
	err = err ? err : sink__text(p->k, file, file_len, &file_id);
	frame->line = 0;
	return err ? err : sink__func(p->k, p->process, name_id, file_id, 0, &frame->func);
}

/* "    7f00aa  symbol+0x1f (file)". Lines that are no frame, of other fields of perf script, are left out. */
static int take_frame(struct perf *p, const char *line)
{
	const char *s = skip_space(line);
	size_t digits = strspn(s, "0123456789abcdef");

	if (!digits || (s[digits] != ' ' && s[digits] != '\t'))
		return 0;
	if (p->sample.frame_cnt == TRACE_SAMPLE_FRAMES) {
		struct trace_frame *last = &p->frames[TRACE_SAMPLE_FRAMES - 1];

		if (p->too_deep)
			return 0;
		p->too_deep = true;
		return name_frame(p, "[truncated]", last);
	}
	return name_frame(p, skip_space(s + digits), &p->frames[p->sample.frame_cnt++]);
}

static int take_line(struct perf *p, const char *line)
{
	struct head h;
	int err;

	if (*line == '#')
		return 0;
	if (!*skip_space(line))
		return flush(p);
	if (p->open && (*line == ' ' || *line == '\t') && !read_head(line, &h))
		return take_frame(p, line);
	if (!read_head(line, &h))
		return err_set(p->k->e, -PYE_EFORMAT,
			       "line %" PRIu64 " is no sample of perf script", p->line);
	err = flush(p);
	err = err ? err : begin_sample(p, &h);
	return err || !*h.rest ? err : take_frame(p, h.rest);
}

static int read_lines(struct perf *p)
{
	size_t len;
	char *line;
	int got, err = 0;

	while (!err && (got = source__line(p->s, &line, &len)) != 0) {
		if (got < 0)
			return got;
		p->line++;
		err = take_line(p, line);
	}
	return err ? err : flush(p);
}

static int run(struct source *s, struct sink *k)
{
	struct perf *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->s = s;
	p->k = k;
	err = read_lines(p);
	err = err ? err : sink__end(k, 0);
	if (!err && p->counted)
		import_note_counts(k);
	free(p);
	return err;
}

const struct importer import_perf = { .name = "perf script", .is = is_perf, .run = run };
