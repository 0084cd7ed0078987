// SPDX-License-Identifier: Apache-2.0
/*
 * Collapsed stacks: a line per stack, "outer;inner;innermost 12". What the number counts is not said:
 * of our own files, known by their first two frames "comm-pid" and "thread-tid", or by "comm-pid" and
 * a frame as only we write it where a recording's threads are one, nanoseconds; of others samples. The line in "name (file:line)" is a function's first one in ours, and where the
 * sample was in others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "import/importers.h"

enum {
	OWN_FRAMES = 2, /* process and thread */
	FRAMES_MAX = 1 << 16,
	LINES_TO_TRY = 100
};

struct collapsed {
	struct source *s;
	struct sink *k;
	struct trace_frame *frames;
	uint32_t frame_cap;
	uint32_t process, thread;
	bool is_own, is_merged; /* ours; without the threads */
	uint64_t line;
};

/* The number behind the last space; what is before it is the stack. Floats are cut to whole ones. */
static bool split_count(const char *line, size_t len, size_t *stack_len, uint64_t *count)
{
	size_t end = len, at;

	while (end && (line[end - 1] == ' ' || line[end - 1] == '\t'))
		end--;
	for (at = end; at && line[at - 1] != ' ' && line[at - 1] != '\t';)
		at--;
	if (!at || at == end)
		return false;
	*count = 0;
	for (size_t i = at; i < end; i++) {
		if (line[i] == '.' && i > at) {
			for (i++; i < end && line[i] >= '0' && line[i] <= '9';)
				i++;
			if (i < end)
				return false;
			break;
		}
		if (line[i] < '0' || line[i] > '9' || __builtin_mul_overflow(*count, 10, count) ||
		    __builtin_add_overflow(*count, (uint64_t)(line[i] - '0'), count))
			return false;
	}
	for (; at && (line[at - 1] == ' ' || line[at - 1] == '\t');)
		at--;
	*stack_len = at;
	return at > 0;
}

/* "name-1234"; where the number begins, 0 if it is not one. */
static size_t number_at(const char *s, size_t len, uint32_t *number)
{
	size_t i = len;
	uint64_t value = 0;

	while (i && s[i - 1] >= '0' && s[i - 1] <= '9')
		i--;
	if (i == len || !i || s[i - 1] != '-' || len - i > 10)
		return 0;
	for (size_t at = i; at < len; at++)
		value = value * 10 + (uint64_t)(s[at] - '0');
	*number = (uint32_t)value;
	return value > UINT32_MAX ? 0 : i;
}

static bool is_text(const uint8_t *head, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!head[i])
			return false;
	}
	return true;
}

/* The first line that is no comment is a stack with a number, or all of a cut one. */
static bool is_collapsed(const uint8_t *head, size_t len)
{
	const char *at = (const char *)head, *end = at + len;
	size_t stack_len;
	uint64_t count;

	if (!is_text(head, len))
		return false;
	for (int i = 0; i < LINES_TO_TRY && at < end; i++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at);

		if (n && at[n - 1] == '\r')
			n--;
		if (n && *at != '#')
			return split_count(at, n, &stack_len, &count) ||
			       (!newline && len == SOURCE_BYTES);
		at = newline ? newline + 1 : end;
	}
	return false;
}

static int add_thread(struct collapsed *c, const char *comm, size_t comm_len, uint32_t pid,
		      const char *name, size_t name_len, uint32_t tid)
{
	uint32_t text;
	int err = sink__text(c->k, comm, comm_len, &text);

	err = err ? err : sink__process(c->k, pid, text, &c->process);
	err = err ? err : sink__text(c->k, name, name_len, &text);
	return err ? err : sink__thread(c->k, c->process, tid, text, &c->thread);
}

/* "comm-pid;": where the pid's thread or first function begins, 0 if it is not that. */
static size_t begins_as_process(const char *line, size_t len, uint32_t *pid)
{
	const char *first = memchr(line, ';', len);

	if (!first || !number_at(line, (size_t)(first - line), pid))
		return 0;
	return (size_t)(first - line) + 1;
}

static size_t frame_end(const char *line, size_t len, size_t at)
{
	const char *end = memchr(line + at, ';', len - at);

	return end ? (size_t)(end - line) : len;
}

static bool begins_as_ours(const char *line, size_t len)
{
	uint32_t pid, tid;
	size_t at = begins_as_process(line, len, &pid);

	return at && number_at(line + at, frame_end(line, len, at) - at, &tid);
}

/* "qualname (file:line)" or a mark. Other tools have "comm-pid", too, but none of these behind it. */
static bool is_our_frame(const char *s, size_t len)
{
	static const char *const marks[] = { "[no Python", "[unreadable", "[truncated" };
	size_t digits = len - 1;

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (len >= strlen(marks[i]) && !memcmp(s, marks[i], strlen(marks[i])))
			return true;
	if (len < 2 || s[len - 1] != ')')
		return false;
	while (digits && s[digits - 1] >= '0' && s[digits - 1] <= '9')
		digits--;
	return digits && digits < len - 1 && s[digits - 1] == ':';
}

static bool begins_as_merged(const char *line, size_t len)
{
	uint32_t pid;
	size_t at = begins_as_process(line, len, &pid);

	return at && is_our_frame(line + at, frame_end(line, len, at) - at);
}

static int take_thread(struct collapsed *c, const char *line, size_t len, size_t *at)
{
	static const char all[] = "all threads";
	uint32_t pid = 0, tid = 0;
	size_t comm, name_at, name, end;

	*at = 0;
	if (!c->is_own)
		return 0;
	*at = name_at = begins_as_process(line, len, &pid);
	comm = name_at ? number_at(line, name_at - 1, &pid) - 1 : 0;
	if (name_at && c->is_merged)
		return add_thread(c, line, comm, pid, all, sizeof(all) - 1, 0);
	end = frame_end(line, len, name_at);
	name = number_at(line + name_at, end - name_at, &tid);
	if (!name_at || !name)
		return err_set(c->k->e, -PYE_EFORMAT,
			       "line %" PRIu64 " does not begin with a process and a thread as the "
			       "others do",
			       c->line);
	*at = end + 1;
	return add_thread(c, line, comm, pid, line + name_at, name - 1, tid);
}

static int push_frame(struct collapsed *c, uint32_t at, const char *label, size_t len)
{
	if (at == FRAMES_MAX)
		return err_set(c->k->e, -PYE_EFORMAT, "line %" PRIu64 " has more than %d frames",
			       c->line, FRAMES_MAX);
	if (at == c->frame_cap) {
		uint32_t cap = c->frame_cap ? c->frame_cap * 2 : 128;
		struct trace_frame *grown = reallocarray(c->frames, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		c->frames = grown;
		c->frame_cap = cap;
	}
	return import_label(c->k, c->process, label, len, c->is_own, &c->frames[at]);
}

static int take_line(struct collapsed *c, const char *line, size_t len)
{
	struct trace_sample sample = { 0 };
	uint64_t count;
	size_t stack_len, at;
	int err;

	if (!split_count(line, len, &stack_len, &count))
		return err_set(c->k->e, -PYE_EFORMAT,
			       "line %" PRIu64 " is no stack with a number behind it", c->line);
	err = take_thread(c, line, stack_len, &at);
	while (!err && at < stack_len) {
		const char *end = memchr(line + at, ';', stack_len - at);
		size_t n = end ? (size_t)(end - line) - at : stack_len - at;

		if (n)
			err = push_frame(c, sample.frame_cnt++, line + at, n);
		at += n + 1;
	}
	if (err)
		return err;
	sample.count = c->is_own ? 0 : count;
	err = sink__times(c->k, count, c->is_own ? 1 : c->k->count_ns, &sample.weight_ns);
	sample.frames = c->frames;
	sample.thread = c->thread;
	return err ? err : sink__sum(c->k, &sample);
}

/* Whether a file is ours is in its first line. */
static int begin(struct collapsed *c, const char *line, size_t len)
{
	size_t stack_len = len;
	uint64_t count;
	struct trace_info info = { .engine = "collapsed", .sample_ns = c->k->count_ns };
	int err;

	split_count(line, len, &stack_len, &count);
	c->is_own = begins_as_ours(line, stack_len);
	c->is_merged = !c->is_own && begins_as_merged(line, stack_len);
	c->is_own = c->is_own || c->is_merged;
	if (c->is_own)
		info.sample_ns = 0;
	err = sink__begin(c->k, &info);
	if (err || c->is_own)
		return err;
	return add_thread(c, "all", 3, 0, "all", 3, 0);
}

static int read_lines(struct collapsed *c)
{
	bool begun = false;
	size_t len;
	char *line;
	int got, err = 0;

	while (!err && (got = source__line(c->s, &line, &len)) != 0) {
		if (got < 0)
			return got;
		c->line++;
		if (!len || *line == '#')
			continue;
		err = begun ? 0 : begin(c, line, len);
		begun = true;
		err = err ? err : take_line(c, line, len);
	}
	if (!begun && !err)
		err = err_set(c->k->e, -PYE_EFORMAT, "there is no stack in the file");
	return err;
}

static int run(struct source *s, struct sink *k)
{
	struct collapsed c = { .s = s, .k = k };
	int err = read_lines(&c);

	free(c.frames);
	err = err ? err : sink__end(k, 0);
	if (!err && !c.is_own)
		import_note_counts(k);
	return err;
}

const struct importer import_collapsed = { .name = "collapsed", .is = is_collapsed, .run = run };
