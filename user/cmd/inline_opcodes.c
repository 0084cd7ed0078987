// SPDX-License-Identifier: Apache-2.0
#include "cmd/inline_opcodes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/outputs.h"
#include "cmd/session_inline.h"
#include "cmd/sum.h"
#include "export/json.h"
#include "export/summary.h"
#include "profile/place.h"

#define BUFFER_BYTES (256u << 10)

struct run {
	const struct session_opts *opts;
	const struct output_opts *output;
	const char *path;
	bool lines; /* ndjson: each instruction */
	const struct opcode_name *names;
	struct interp_version {
		char text[24];
	} version;
	pid_t pid;
	unsigned int number; /* of the last snapshot */
	struct outfile *file;
	struct outbuf out;
};

static const char *base_of(const struct run *r, uint8_t opcode)
{
	return r->names[r->names[opcode].base].name;
}

/* --- ndjson --- */

static int begin(void *ctx, const struct interp *in, const struct opcode_name *names, pid_t pid)
{
	struct run *r = ctx;

	r->names = names;
	r->pid = pid;
	snprintf(r->version.text, sizeof(r->version.text), "%s", in->version);
	return 0;
}

/* Tenths of a nanosecond. */
static void put_ns(struct outbuf *b, double ns)
{
	outbuf__printf(b, "%.1f", ns);
}

static int each(void *ctx, const struct inline_opcode_event *event)
{
	struct run *r = ctx;
	struct outbuf *b = &r->out;

	outbuf__puts(b, "{\"seq\":");
	json_u64(b, event->seq);
	outbuf__puts(b, ",\"ts\":");
	json_u64(b, event->ts_ns);
	outbuf__puts(b, ",\"pid\":");
	json_u64(b, event->pid);
	outbuf__puts(b, ",\"tid\":");
	json_u64(b, event->tid);
	outbuf__puts(b, ",\"depth\":");
	json_u64(b, event->depth);
	outbuf__puts(b, ",\"op\":");
	json_str(b, r->names[event->opcode].name);
	outbuf__puts(b, ",\"base\":");
	json_str(b, base_of(r, event->opcode));
	outbuf__puts(b, ",\"offset\":");
	json_u64(b, event->offset);
	outbuf__puts(b, ",\"line\":");
	json_u64(b, event->line);
	outbuf__puts(b, ",\"func\":");
	json_str(b, event->qualname);
	outbuf__puts(b, ",\"file\":");
	json_str(b, event->file);
	outbuf__puts(b, ",\"ns\":");
	if (event->timed)
		put_ns(b, event->ns);
	else
		outbuf__puts(b, "null");
	outbuf__puts(b, "}\n");
	return b->err;
}

static void put_meta(struct run *r, const struct inline_opcodes_view *v,
		     const struct session_sums *s)
{
	struct outbuf *b = &r->out;

	outbuf__printf(b, "{\"meta\":{\"pid\":%d,\"python\":", r->pid);
	json_str(b, r->version.text);
	outbuf__puts(b, ",\"instructions\":");
	json_u64(b, v->cnt);
	outbuf__puts(b, ",\"untimed\":");
	json_u64(b, v->untimed);
	outbuf__puts(b, ",\"lost\":");
	json_u64(b, s->lost);
	outbuf__puts(b, ",\"probe_ns\":");
	put_ns(b, s->cost_ns);
	outbuf__puts(b, "}}\n");
}

/* --- tables --- */

static int by_time(const void *a, const void *b)
{
	const struct inline_opcode_row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return x->cnt < y->cnt ? 1 : x->cnt > y->cnt ? -1 : 0;
}

static void put_figures(struct outbuf *b, const struct inline_opcode_row *row, double all_ns)
{
	char time[16];

	outbuf__printf(b, "%14llu %10s ", (unsigned long long)row->cnt,
		       summary_duration(time, sizeof(time), (uint64_t)row->ns));
	if (row->timed)
		outbuf__printf(b, "%9.1f ns", row->ns / (double)row->timed);
	else
		outbuf__printf(b, "%12s", "-");
	outbuf__printf(b, " %5.1f%%  ", all_ns > 0 ? row->ns * 100 / all_ns : 0.0);
}

static void put_opcode(struct outbuf *b, const struct run *r, uint8_t opcode)
{
	outbuf__puts(b, r->names[opcode].name);
	if (r->names[opcode].base != opcode)
		outbuf__printf(b, " (%s)", base_of(r, opcode));
}

static void put_by_opcode(struct outbuf *b, const struct run *r,
			  const struct inline_opcodes_view *v, double all_ns)
{
	struct inline_opcode_row sums[OPCODE_CNT] = { 0 };

	for (uint32_t i = 0; i < v->row_cnt; i++) {
		struct inline_opcode_row *to = &sums[v->rows[i].opcode];

		to->cnt += v->rows[i].cnt;
		to->timed += v->rows[i].timed;
		to->ns += v->rows[i].ns;
	}
	for (unsigned int i = 0; i < OPCODE_CNT; i++)
		sums[i].opcode = (uint8_t)i;
	qsort(sums, OPCODE_CNT, sizeof(*sums), by_time);
	outbuf__printf(b, "%14s %10s %12s %6s  %s\n", "count", "time", "each", "share",
		       "opcode (of which it is a form)");
	for (unsigned int i = 0; i < OPCODE_CNT && sums[i].cnt; i++) {
		put_figures(b, &sums[i], all_ns);
		put_opcode(b, r, sums[i].opcode);
		outbuf__putc(b, '\n');
	}
}

static int put_by_line(struct outbuf *b, const struct run *r, const struct inline_opcodes_view *v,
		       double all_ns)
{
	auto_free struct inline_opcode_row *rows = calloc(v->row_cnt + 1ul, sizeof(*rows));
	char shown[1024];

	if (!rows)
		return -ENOMEM;
	if (v->row_cnt)
		memcpy(rows, v->rows, v->row_cnt * sizeof(*rows));
	qsort(rows, v->row_cnt, sizeof(*rows), by_time);
	outbuf__printf(b, "\n%14s %10s %12s %6s  %s\n", "count", "time", "each", "share",
		       "opcode filename:line(function)");
	for (uint32_t i = 0; i < v->row_cnt && rows[i].cnt; i++) {
		const char *whole = strpool__get(v->strings, rows[i].file);
		const char *file = r->output->full_files ? whole : place_short_file(whole);
		const char *func = strpool__get(v->strings, rows[i].qualname);

		put_figures(b, &rows[i], all_ns);
		put_opcode(b, r, rows[i].opcode);
		outbuf__putc(b, ' ');
		outbuf__puts(b, text_escape(shown, sizeof(shown), file, strlen(file)));
		outbuf__printf(b, ":%u(", rows[i].line);
		outbuf__puts(b, text_escape(shown, sizeof(shown), func, strlen(func)));
		outbuf__puts(b, ")\n");
	}
	return 0;
}

static int put_tables(struct outbuf *b, const struct run *r, const struct inline_opcodes_view *v,
		      const struct session_sums *s)
{
	char time[16];
	double all_ns = 0;

	for (uint32_t i = 0; i < v->row_cnt; i++)
		all_ns += v->rows[i].ns;
	outbuf__printf(b, "%llu instructions of process %d%s (CPython %s) in %s; lost: %llu\n",
		       (unsigned long long)v->cnt, r->pid,
		       r->opts->subprocesses ? " and what it started" : "", r->version.text,
		       summary_duration(time, sizeof(time), s->duration_ns),
		       (unsigned long long)s->lost);
	outbuf__printf(b,
		       "An instruction lasts until the next one of its thread begins; %.1f ns of "
		       "the probes' own %s each.\n",
		       s->cost_ns, r->output->raw ? "are in" : "were taken off");
	if (v->untimed)
		outbuf__printf(b, "%llu of them did not end in sight: counted, not timed.\n",
			       (unsigned long long)v->untimed);
	outbuf__putc(b, '\n');
	put_by_opcode(b, r, v, all_ns);
	return put_by_line(b, r, v, all_ns);
}

/* What was counted is not gone with a file that could not be written at the end. */
static void show_instead(struct run *r, const struct inline_opcodes_view *v,
			 const struct session_sums *s)
{
	struct outbuf b;
	bool said = false;

	if (outbuf__init(&b, BUFFER_BYTES, emit_instead, &said))
		return;
	put_tables(&b, r, v, s);
	outbuf__flush(&b);
	outbuf__done(&b);
	fflush(stderr);
}

static int commit(const struct run *r, struct outfile *file, const char *path, struct err *e)
{
	struct emit_result wrote = { .part_cnt = 1, .bytes = outfile__bytes(file) };
	int err = outfile__commit(file, e);

	if (!err && !r->opts->quiet)
		emit_report(stderr, path, r->lines ? &export_ndjson : &export_text, &wrote);
	return err;
}

static int write_tables(struct run *r, const char *path, const struct inline_opcodes_view *v,
			const struct session_sums *s, struct err *e)
{
	auto_fn(outfile__freep) struct outfile *file = NULL;
	struct outbuf b;
	int err = outfile__open(&file, path, OUTFILE_ATOMIC, r->output->force, e);

	err = err ? err : outbuf__init(&b, BUFFER_BYTES, outfile__write, file);
	if (err)
		return err;
	err = put_tables(&b, r, v, s);
	err = outbuf__flush(&b) ?: err;
	outbuf__done(&b);
	if (err == -PYE_EOUTPUT)
		return outfile__explain(file, e);
	return err ? err : commit(r, file, path, e);
}

static int sums(void *ctx, const struct inline_opcodes_view *v, const struct session_sums *s,
		struct err *e)
{
	struct run *r = ctx;
	struct outputs from = { .opts = r->output, .verb = "trace", .capture_only = true }, to;
	int err;

	if (r->lines) {
		if (s->last)
			put_meta(r, v, s);
		err = outbuf__flush(&r->out);
		return err == -PYE_EOUTPUT ? outfile__explain(r->file, e) : err;
	}
	if (s->last || !strcmp(r->path, "-")) {
		err = write_tables(r, r->path, v, s, e);
		if (err && err != -ENOMEM && s->last)
			show_instead(r, v, s);
		return err;
	}
	r->number++;
	snprintf(from.capture, sizeof(from.capture), "%s", r->path);
	err = outputs_number(&from, &r->number, &to, e);
	return err ? err : write_tables(r, to.capture, v, s, e);
}

static int choose_output(struct run *r, struct err *e)
{
	struct output_opts output = *r->output;
	const struct exporter *format;
	int err;

	r->path = output.path ? output.path : "-";
	if (!output.format && !exporter_by_path(r->path))
		output.format = "text";
	err = emit_format(&output, r->path, &format, e);
	if (err)
		return err;
	r->lines = format == &export_ndjson;
	if (!r->lines && format != &export_text)
		return err_set(
			e, -PYE_EUSAGE,
			"--opcodes writes text (tables) or ndjson (each instruction), not %s",
			format->name);
	return emit_check(&output, r->path, format, e);
}

static int check_options(const struct session_opts *o, struct err *e)
{
	if (limits_any(&o->limits) || filters_any(&o->filter))
		return err_set(
			e, -PYE_EUSAGE,
			"--opcodes goes with -p or -- CMD, -s, -d, --ring, --on-full and what says "
			"where the sums go");
	return 0;
}

static int go(struct run *r, const struct session_opcodes *opcodes, struct session_result *result,
	      struct err *e)
{
	auto_close int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int err = nowhere < 0 ? -errno : 0;

	if (!err && r->lines) {
		err = outfile__open(&r->file, r->path, OUTFILE_DIRECT, r->output->force, e);
		err = err ? err : outbuf__init(&r->out, BUFFER_BYTES, outfile__write, r->file);
	}
	err = err ? err : session_inline(r->opts, nowhere, opcodes, NULL, result, NULL, e);
	outbuf__done(&r->out);
	if (!err && r->file)
		err = commit(r, r->file, r->path, e);
	outfile__free(r->file);
	return err;
}

int inline_opcodes(const struct session_opts *opts, const struct output_opts *output,
		   const char *list, struct session_result *result, struct err *e)
{
	struct run r = { .opts = opts, .output = output };
	struct session_opcodes opcodes = {
		.list = list, .raw = output->raw, .ctx = &r, .begin = begin, .sums = sums
	};
	int err = check_options(opts, e);

	err = err ? err : choose_output(&r, e);
	if (err)
		return err;
	opcodes.each = r.lines ? each : NULL;
	return go(&r, &opcodes, result, e);
}
