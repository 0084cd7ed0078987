// SPDX-License-Identifier: Apache-2.0
#include "cmd/emit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/progress.h"
#include "cmd/run.h"

/* clang-format off */
const struct opt_row output_rows[] = {
	{ 'o', "output", "FILE", OPT_STRING, offsetof(struct output_opts, path), NULL,
	  "where to write, - for stdout", false, NULL },
	{ 'f', "format", "NAME", OPT_STRING, offsetof(struct output_opts, format), NULL,
	  "firefox, pprof, speedscope, chrometrace, collapsed, svg, html, source, pstats, text or ndjson "
	  "(default: by the extension of FILE, else firefox)",
	  false, NULL },
	{ 0, "force", NULL, OPT_FLAG, offsetof(struct output_opts, force), NULL,
	  "replace a file that exists", false, NULL },
	{ 0, "raw", NULL, OPT_FLAG, offsetof(struct output_opts, raw), NULL,
	  "keep the profiler's own cost in the times of what adds up: pprof, collapsed, svg, pstats, "
	  "text, the summary",
	  false, NULL },
	{ 0 },
};
const struct opt_row files_rows[] = {
	{ 0, "full-filenames", NULL, OPT_FLAG, offsetof(struct output_opts, full_files), NULL,
	  "whole paths in collapsed, svg, chrometrace, text and the summary, not from the import root on; the others have them always",
	  false, NULL },
	{ 0 },
};
const struct opt_row split_rows[] = {
	{ 0, "split", "N", OPT_UNSIGNED, offsetof(struct output_opts, split_events), "10M",
	  "firefox: begin a new file after N events, 0 for never", false, NULL },
	{ 0 },
};
/* clang-format on */

/* Both consumers of the trace, and the files that the exporter writes. */
struct emit {
	const struct output_opts *opts;
	const struct emit_how *how;
	const char *path;
	const struct exporter *format;
	void *exporter; /* self of format->consumer */
	struct outfile *file;
	struct emit_result *result;
	struct progress progress;
	uint64_t read_cnt;
	unsigned int asked;
	struct err *e;
};

int emit_format(const struct output_opts *opts, const char *path, const struct exporter **format,
		struct err *e)
{
	const struct exporter *found;
	char names[256] = "";

	if (opts->format) {
		found = exporter_by_name(opts->format);
	} else {
		found = path && strcmp(path, "-") != 0 ? exporter_by_path(path) : NULL;
		found = found ? found : exporter_at(0);
	}
	if (found && found->missing)
		return err_set(e, -PYE_EUSAGE, "cannot write %s: %s", found->name, found->missing);
	if (found) {
		*format = found;
		return 0;
	}
	for (size_t i = 0; exporter_at(i); i++) {
		size_t at = strlen(names);

		snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
			 exporter_at(i)->name);
	}
	return err_set(e, -PYE_EUSAGE, "no format is called %s; there are %s", opts->format, names);
}

static bool is_capture_name(const char *path)
{
	static const char extension[] = ".pyebpf";
	size_t len = strlen(path), n = sizeof(extension) - 1;

	return len > n && !strcmp(path + len - n, extension);
}

int emit_check(const struct output_opts *opts, const char *path, const struct exporter *format,
	       struct err *e)
{
	const char *extension = format->extensions[0];
	size_t len = strlen(extension);

	if (is_capture_name(
		    path)) /* trace would take it for that of its own capture, and --force replace one */
		return err_set(
			e, -PYE_EUSAGE,
			"%s is the name of a capture, and this would be %s: choose another one, as NAME%s",
			path, format->name, extension);
	if (strcmp(path, "-") != 0)
		return outfile_check(path, opts->force, e);
	if ((format->binary || (len > 3 && !strcmp(extension + len - 3, ".gz"))) &&
	    isatty(STDOUT_FILENO))
		return err_set(e, -PYE_EUSAGE, "%s is %s and stdout is a terminal", format->name,
			       format->binary ? "no text" : "compressed");
	return 0;
}

bool emit_is_plain(const char *path)
{
	size_t len = strlen(path);

	return len > 5 && !strcmp(path + len - 5, ".json");
}

static int begin_part(struct emit *m)
{
	char name[PATH_MAX], extension[64];
	const char *path = m->path;
	int err;

	if (m->result->part_cnt) {
		unsigned int behind = m->how->parts_behind ?: 1;

		snprintf(extension, sizeof(extension), "-%u%s", behind + m->result->part_cnt,
			 emit_is_plain(m->path) ? ".json" : m->format->extensions[0]);
		err = emit_path_with(name, sizeof(name), m->path, extension);
		if (err)
			return err_set(m->e, -PYE_EOUTPUT, "the name of a part is too long");
		path = name;
	}
	err = outfile__open(&m->file, path, OUTFILE_ATOMIC, m->opts->force, m->e);
	if (!err)
		m->result->part_cnt++;
	return err;
}

static int end_part(struct emit *m)
{
	int err = outfile__commit(m->file, m->e);

	m->result->bytes += outfile__bytes(m->file);
	outfile__free(m->file);
	m->file = NULL;
	return err;
}

static int next_part(void *ctx)
{
	int err = end_part(ctx);

	return err ? err : begin_part(ctx);
}

static int is_to_end(struct emit *m)
{
	if (!m->how->asks)
		return 0;
	m->asked += run_is_to_end(0);
	return m->asked >= m->how->asks ? -EINTR : 0;
}

static int write_part(void *ctx, const void *data, size_t len)
{
	struct emit *m = ctx;
	int err = is_to_end(m);

	if (err)
		return err;
	err = outfile__write(m->file, data, len);
	return err ? outfile__explain(m->file, m->e) : 0;
}

static void note(void *ctx, const char *sentence)
{
	progress__done(&((struct emit *)ctx)->progress);
	log_warn("%s", sentence);
}

/* Hands one call of the trace to the exporter and to the aggregate. */
#define TEE(name, member, type)                                              \
	static int name(void *self, const struct type *what)                 \
	{                                                                    \
		struct emit *m = self;                                       \
		int err = 0;                                                 \
                                                                             \
		if (m->format && m->format->consumer.member)                 \
			err = m->format->consumer.member(m->exporter, what); \
		if (!err && m->how->agg)                                     \
			err = aggregate_consumer.member(m->how->agg, what);  \
		return err;                                                  \
	}

TEE(on_begin, begin, trace_info)
TEE(on_process, process, trace_process)
TEE(on_thread, thread, trace_thread)
TEE(on_func, func, trace_func)
TEE(tee_event, event, trace_event)
TEE(tee_sample, sample, trace_sample)
TEE(on_gap, gap, trace_gap)
TEE(on_end, end, trace_totals)

static int on_memory(void *self, const struct trace_memory *memory)
{
	struct emit *m = self;

	return m->format && m->format->consumer.memory
		       ? m->format->consumer.memory(m->exporter, memory)
		       : 0;
}

static int count(struct emit *m)
{
	if (++m->read_cnt & 0xffff)
		return 0;
	progress__say(&m->progress, "%.1fM events read", (double)m->read_cnt / 1e6);
	return is_to_end(m);
}

static int on_event(void *self, const struct trace_event *event)
{
	int err = count(self);

	return err ? err : tee_event(self, event);
}

static int on_sample(void *self, const struct trace_sample *sample)
{
	int err = count(self);

	return err ? err : tee_sample(self, sample);
}

static int on_totals(void *self, const struct trace_totals *totals)
{
	struct emit *m = self;

	m->result->totals = *totals;
	m->result->damaged = !totals->complete;
	return on_end(self, totals);
}

static const struct trace_consumer tee = {
	.begin = on_begin,
	.process = on_process,
	.thread = on_thread,
	.func = on_func,
	.event = on_event,
	.sample = on_sample,
	.memory = on_memory,
	.gap = on_gap,
	.end = on_totals,
};

static int convert(struct emit *m, int fd)
{
	const struct export_opts opts = { .raw = m->opts->raw,
					  .full_files = m->opts->full_files,
					  .merge_threads = m->opts->merge_threads,
					  .plain = emit_is_plain(m->path),
					  .split_events = m->opts->split_events };
	const struct export_out out = { .ctx = m,
					.write = write_part,
					.next = strcmp(m->path, "-") ? next_part : NULL,
					.note = note };
	int err;

	if (!m->format)
		return input_read(fd, m->how->in, &tee, m, m->e);
	err = begin_part(m);
	err = err ? err : exporter__new(m->format, &m->exporter, &opts, &out);
	err = err ? err : input_read(fd, m->how->in, &tee, m, m->e);
	return err ? err : end_part(m);
}

int emit_capture(int fd, const struct emit_how *how, const struct output_opts *opts,
		 const char *path, const struct exporter *format, struct emit_result *result,
		 struct err *e)
{
	struct emit m = {
		.opts = opts, .how = how, .path = path, .format = format, .result = result, .e = e
	};
	int err;

	*result = (struct emit_result){ 0 };
	err_set(e, 0, "%s", "");
	progress__init(&m.progress, how->progress);
	err = convert(&m, fd);
	progress__done(&m.progress);
	if (err == -EINTR)
		err_set(e, err, "interrupted");
	else if (err && e && !e->what[0])
		err_set(e, err, "the conversion failed: %s", err_str(err));
	if (format)
		exporter__free(format, m.exporter);
	outfile__free(m.file);
	return err;
}

static size_t extension_len(const char *path, size_t len)
{
	size_t best = is_capture_name(path) ? strlen(".pyebpf") : 0;

	for (size_t i = 0; exporter_at(i); i++) {
		for (const char *const *end = exporter_at(i)->extensions; *end; end++) {
			size_t n = strlen(*end);

			if (n > best && n < len && !strcmp(path + len - n, *end))
				best = n;
		}
	}
	return best;
}

int emit_path_with(char *out, size_t size, const char *path, const char *extension)
{
	size_t len = strlen(path);
	int n = snprintf(out, size, "%.*s%s", (int)(len - extension_len(path, len)), path,
			 extension);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* For bash: each byte of what a terminal should not get as it is. */
static void print_escaped(FILE *f, const char *path)
{
	size_t len = strlen(path), n;

	fputs("$'", f);
	for (size_t i = 0; i < len; i += n) {
		uint32_t cp;

		n = text_next(path + i, len - i, &cp);
		for (size_t k = i; k < i + n; k++) {
			if (cp == '\'' || cp == '\\')
				fprintf(f, "\\%c", path[k]);
			else if (text_harmless(cp) && (n > 1 || cp < 0x80))
				fputc(path[k], f);
			else
				fprintf(f, "\\x%02x", (unsigned char)path[k]);
		}
	}
	fputc('\'', f);
}

/* A path for a shell: quoted unless it is plain. */
static void print_quoted(FILE *f, const char *path)
{
	char shown[4 * PATH_MAX];

	if (path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
			      "-_./+:,@%")] == '\0') {
		fputs(path, f);
		return;
	}
	if (strcmp(path, text_escape(shown, sizeof(shown), path, strlen(path))) != 0) {
		print_escaped(f, path);
		return;
	}
	fputc('\'', f);
	for (; *path; path++) {
		if (*path == '\'')
			fputs("'\\''", f);
		else
			fputc(*path, f);
	}
	fputc('\'', f);
}

static void print_next(FILE *f, const char *path, const struct exporter *format)
{
	const char *at = strchr(format->hint, '@');

	fprintf(f, "next: %.*s", at ? (int)(at - format->hint) : (int)strlen(format->hint),
		format->hint);
	if (at) {
		print_quoted(f, path);
		fputs(at + 1, f);
	}
	fputc('\n', f);
}

#define SIZE_TEXT_MAX 32

static const char *size_text(char text[SIZE_TEXT_MAX], uint64_t bytes)
{
	if (bytes < 1000)
		snprintf(text, SIZE_TEXT_MAX, "%" PRIu64 " bytes", bytes);
	else if (bytes < 999500)
		snprintf(text, SIZE_TEXT_MAX, "%.0f kB", (double)bytes / 1e3);
	else
		snprintf(text, SIZE_TEXT_MAX, "%.1f MB", (double)bytes / 1e6);
	return text;
}

void emit_report(FILE *f, const char *path, const struct exporter *format,
		 const struct emit_result *result)
{
	char shown[PATH_MAX], size[SIZE_TEXT_MAX];

	if (!strcmp(path, "-"))
		return;
	text_escape(shown, sizeof(shown), path, strlen(path));
	if (result->part_cnt > 1)
		fprintf(f, "wrote %s and %u more parts (%s together)\n", shown,
			result->part_cnt - 1, size_text(size, result->bytes));
	else
		fprintf(f, "wrote %s (%s)\n", shown, size_text(size, result->bytes));
	print_next(f, path, format);
}

int emit_instead(void *said, const void *data, size_t len)
{
	bool *begun = said;

	if (!*begun)
		fprintf(stderr, "pyebpf: what could not be written:\n");
	*begun = true;
	return fwrite(data, 1, len, stderr) == len ? 0 : -EIO;
}

void emit_report_capture(FILE *f, const char *path, uint64_t bytes)
{
	char shown[PATH_MAX], size[SIZE_TEXT_MAX];

	text_escape(shown, sizeof(shown), path, strlen(path));
	fprintf(f, "wrote %s (%s)\nnext: pyebpf convert ", shown, size_text(size, bytes));
	print_quoted(f, path);
	fputc('\n', f);
}
