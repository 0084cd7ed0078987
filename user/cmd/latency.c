// SPDX-License-Identifier: Apache-2.0
#include "cmd/latency.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cmd/session_priv.h"
#include "cmd/table.h"
#include "export/json.h"
#include "export/latency_table.h"
#include "export/summary.h"

#define LIVE_NS 500000000ull

int latency_begin(struct session *s)
{
	const char *function = s->opts.filter.latency;

	return function ? assembler__latency(s->as, function) : 0;
}

static uint64_t lost(const struct trace_totals *t)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		sum += t->lost[i];
	return sum;
}

static void print_runs(FILE *f, const struct assembler_latency *l)
{
	char p50[16], p99[16], most[16];

	if (l->yields)
		fprintf(f, "runs      %" PRIu64 " between waits: p50 %s, p99 %s, max %s\n",
			l->runs.cnt,
			summary_duration(p50, sizeof(p50), histogram__quantile(&l->runs, 0.5)),
			summary_duration(p99, sizeof(p99), histogram__quantile(&l->runs, 0.99)),
			summary_duration(most, sizeof(most), l->runs.max));
}

static void print(FILE *f, const struct session *s, const struct trace_totals *t)
{
	const struct assembler_latency *l = assembler__latency_so_far(s->as);
	const char *text = s->opts.filter.latency;
	char shown[600], took[16];

	fprintf(f, "function  %s: %" PRIu64 " found\n",
		text_escape(shown, sizeof(shown), text, strlen(text)), l->functions);
	fprintf(f,
		"calls     %" PRIu64 " in %s, %" PRIu64 " by an exception, %" PRIu64
		" recursive; %" PRIu64 " open; %" PRIu64 " began before\n",
		l->calls.cnt, summary_duration(took, sizeof(took), t->end_ns - s->start_ns),
		l->unwound, l->recursive, l->open, l->unknown);
	print_runs(f, l);
	fprintf(f, "lost      %" PRIu64 " events\n", lost(t));
	latency_print(f, &l->calls, NULL);
}

static void put_number(struct outbuf *b, const char *name, uint64_t value)
{
	outbuf__puts(b, ",\n\"");
	outbuf__puts(b, name);
	outbuf__puts(b, "\":");
	json_u64(b, value);
}

static int print_json(const struct session *s, const struct trace_totals *t)
{
	const struct assembler_latency *l = assembler__latency_so_far(s->as);
	const char *text = s->opts.filter.latency;
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = table_begin(&b);

	if (err)
		return err;
	outbuf__puts(&b, "{\"function\":");
	json_str(&b, text);
	put_number(&b, "duration_ns", t->end_ns - s->start_ns);
	put_number(&b, "functions", l->functions);
	put_number(&b, "calls", l->calls.cnt);
	put_number(&b, "runs", l->runs.cnt);
	put_number(&b, "unwound", l->unwound);
	put_number(&b, "yields", l->yields);
	put_number(&b, "recursive", l->recursive);
	put_number(&b, "open", l->open);
	put_number(&b, "began_before", l->unknown);
	put_number(&b, "lost", lost(t));
	latency_json(&b, &l->calls);
	outbuf__puts(&b, ",\n\"of_runs\":{\"count\":");
	json_u64(&b, l->runs.cnt);
	latency_json(&b, &l->runs);
	outbuf__puts(&b, "}}\n");
	return outbuf__flush(&b);
}

/* Over what stands there; the lines are counted, they can be more each time. */
static void redraw(struct session *s, const struct trace_totals *t)
{
	auto_free char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	unsigned int lines = 0;

	if (!f)
		return;
	print(f, s, t);
	fclose(f);
	if (!text)
		return;
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	if (s->live_lines)
		printf("\033[%uA\033[J", s->live_lines);
	fputs(text, stdout);
	fflush(stdout);
	s->live_lines = lines;
}

static bool is_live(const struct session *s)
{
	/* a command has the same terminal */
	return !s->opts.filter.json && !s->opts.command && isatty(STDOUT_FILENO);
}

void latency_live(struct session *s, uint64_t now)
{
	struct trace_totals t;

	if (!s->as || now < s->live_next || !is_live(s))
		return;
	s->live_next = now + LIVE_NS;
	session_totals(s, now, &t);
	redraw(s, &t);
}

int latency_run(const struct session_opts *opts, struct session_result *result, struct err *e)
{
	auto_fn(session__freep) struct session *s = NULL;
	auto_close int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct session_opts no_files = *opts;
	int err;

	no_files.files = (struct limit_files){ 0 };
	err = fd < 0 ? -errno : session__new(&s, &no_files, e);
	err = err ? err : session__run(s, fd, result, e);
	if (err || !s)
		return err;
	if (opts->filter.json)
		err = print_json(s, &result->totals);
	else if (is_live(s))
		redraw(s, &result->totals);
	else
		print(stdout, s, &result->totals);
	return err || fflush(stdout) ? err_set(e, -PYE_EOUTPUT, "stdout cannot be written") : 0;
}
