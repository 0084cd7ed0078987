// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "inline"
#include "cmd/inline_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/outputs.h"
#include "cmd/session_inline.h"
#include "cmd/sum.h"
#include "export/summary.h"
#include "profile/code_glob.h"
#include "profile/place.h"

struct calls {
	const struct session_opts *opts;
	const struct output_opts *output;
	const struct exporter *format;
	const char *path;
	bool time;
	unsigned int number; /* of the last snapshot */
	struct inline_count_view view;
	const struct session_counted *of;
	struct session_result *result;
	bool *kept; /* by function, of the view: what --include and --exclude leave */
	uint64_t left_out; /* calls of the others */
};

/* The sums as if they had been collected from a trace. */
struct shape {
	struct agg_result r;
	struct agg_process process;
	struct agg_thread thread;
	struct agg_func *funcs;
	struct agg_stack *stacks;
};

static void shape_done(struct shape *s)
{
	strpool__done(&s->r.strings);
	free(s->funcs);
	free(s->stacks);
}

static int text(struct shape *s, const char *from, uint32_t *id)
{
	return strpool__add(&s->r.strings, from, strlen(from), id);
}

static int shape_head(const struct calls *c, struct shape *s)
{
	struct utsname uts = { 0 };
	int err = strpool__init(&s->r.strings);

	uname(&uts);
	err = err ? err : text(s, "inline", &s->r.engine);
	err = err ? err : text(s, PYEBPF_VERSION, &s->r.version);
	err = err ? err : text(s, uts.nodename, &s->r.hostname);
	err = err ? err : text(s, uts.release, &s->r.kernel);
	err = err ? err : text(s, c->opts->arguments ? c->opts->arguments : "", &s->r.arguments);
	err = err ? err : text(s, c->of->comm, &s->process.comm);
	err = err ? err : text(s, c->of->exe, &s->process.exe);
	err = err ? err : text(s, c->of->python, &s->process.python);
	s->process.pid = s->thread.tid = (uint32_t)c->of->pid;
	s->thread.name = s->process.comm;
	s->thread.is_main = true;
	s->r.processes = &s->process;
	s->r.threads = &s->thread;
	s->r.process_cnt = s->r.thread_cnt = 1;
	s->r.start_ns = c->of->start_ns;
	s->r.start_unix_ns = c->of->start_unix_ns;
	return err;
}

static bool any_meant(const struct glob_list *globs, const char *file)
{
	const char *below = NULL;

	place_of_file(file, &below);
	for (size_t i = 0; i < globs->cnt; i++)
		if (code_glob_matches(globs->v[i], file, below))
			return true;
	return false;
}

static int choose_funcs(struct calls *c)
{
	const struct filter_opts *filter = &c->opts->filter;

	free(c->kept);
	c->kept = calloc(c->view.func_cnt + 1ul, sizeof(*c->kept));
	for (uint32_t i = 0; c->kept && i < c->view.func_cnt; i++) {
		const char *file = strpool__get(c->view.strings, c->view.funcs[i].file);

		c->kept[i] = (!filter->include.cnt || any_meant(&filter->include, file)) &&
			     !any_meant(&filter->exclude, file);
	}
	return c->kept ? 0 : -ENOMEM;
}

static int shape_funcs(struct calls *c, struct shape *s)
{
	const struct inline_count_view *v = &c->view;
	int err = 0;

	c->left_out = 0;
	s->funcs = calloc(v->func_cnt + 1ul, sizeof(*s->funcs));
	s->stacks = calloc(1ul + v->func_cnt + v->node_cnt, sizeof(*s->stacks));
	if (!s->funcs || !s->stacks)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < v->func_cnt; i++) {
		const struct inline_count_func *f = &v->funcs[i];
		struct agg_func *to = &s->funcs[i];

		to->line = f->line;
		err = text(s, strpool__get(v->strings, f->file), &to->file);
		err = err ? err : text(s, strpool__get(v->strings, f->name), &to->name);
		err = err ? err : text(s, strpool__get(v->strings, f->qualname), &to->qualname);
		err = err ? err
			  : text(s, place_short_file(strpool__get(v->strings, f->file)),
				 &to->short_file);
		if (c->kept[i])
			s->r.totals.written += f->calls + f->resumes;
		else
			c->left_out += f->calls + f->resumes;
	}
	s->r.funcs = s->funcs;
	s->r.func_cnt = v->func_cnt;
	return err;
}

/* What a function that is left out took is its caller's. */
static int shape_nodes(struct calls *c, struct shape *s, uint32_t *cnt)
{
	const struct inline_count_view *v = &c->view;
	auto_free uint32_t *stack_of = calloc(v->node_cnt + 1ul, sizeof(*stack_of));

	if (!stack_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->node_cnt; i++) {
		const struct inline_count_node *n = &v->nodes[i];
		uint32_t caller = n->caller == INLINE_COUNT_NONE ? 0 : stack_of[n->caller];

		stack_of[i] = c->kept[n->func] ? (*cnt)++ : caller;
		if (c->kept[n->func])
			s->stacks[stack_of[i]] = (struct agg_stack){ .parent = caller,
								     .func = n->func,
								     .calls = n->calls,
								     .self_ns = n->self_ns };
		else if (caller)
			s->stacks[caller].self_ns += n->self_ns;
	}
	return 0;
}

static int shape_stacks(struct calls *c, struct shape *s)
{
	const struct inline_count_view *v = &c->view;
	uint32_t cnt = 1;
	int err = 0;

	s->stacks[0] = (struct agg_stack){ .parent = AGG_NONE, .func = AGG_NONE };
	if (c->time)
		err = shape_nodes(c, s, &cnt);
	for (uint32_t i = 0; !c->time && i < v->func_cnt; i++)
		if (v->funcs[i].calls && c->kept[i])
			s->stacks[cnt++] =
				(struct agg_stack){ .func = i, .calls = v->funcs[i].calls };
	s->r.stacks = s->stacks;
	s->r.stack_cnt = cnt;
	s->r.totals.lost[LOSS_MAP] = v->lost;
	s->r.totals.generated = s->r.totals.written + v->lost;
	s->r.totals.end_ns = now_ns();
	s->r.totals.complete = true;
	return err;
}

/* The middle of a bucket. */
static uint64_t bucket_ns(const struct calls *c, uint32_t bucket)
{
	double low = (double)(1ull << bucket / 2) * (bucket % 2 ? 1.5 : 1.0);

	return (uint64_t)(low * (bucket % 2 ? 7.0 / 6 : 1.25) * 1e9 /
			  (double)c->view.ticks_per_second);
}

static uint64_t share_ns(const struct calls *c, const uint64_t *spans, uint64_t cnt, double share)
{
	uint64_t rank = (uint64_t)(share * (double)cnt), seen = 0;
	uint32_t i = 0;

	for (; i < IL_SPAN_BUCKETS - 1; i++) {
		seen += spans[i];
		if (seen > rank || seen == cnt)
			break;
	}
	return bucket_ns(c, i);
}

static void put_shares(struct outbuf *b, const struct calls *c, const struct inline_count_func *f)
{
	static const double shares[] = { 0.5, 0.9, 0.99, 1 };
	char shown[1024], duration[16];
	const char *name = strpool__get(c->view.strings, f->qualname);
	const char *file = strpool__get(c->view.strings, f->file);
	uint64_t cnt = 0;

	file = c->output->full_files ? file : place_short_file(file);
	for (uint32_t i = 0; i < IL_SPAN_BUCKETS; i++)
		cnt += f->spans[i];
	if (!cnt)
		return;
	outbuf__printf(b, "%17llu", (unsigned long long)cnt);
	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
		outbuf__printf(b, " %10s",
			       summary_duration(duration, sizeof(duration),
						share_ns(c, f->spans, cnt, shares[i])));
	outbuf__printf(b, "  %s", text_escape(shown, sizeof(shown), file, strlen(file)));
	outbuf__printf(b, ":%u(%s)\n", f->line,
		       text_escape(shown, sizeof(shown), name, strlen(name)));
}

static int put_durations(void *ctx, int (*write)(void *ctx, const void *data, size_t len), void *to)
{
	const struct calls *c = ctx;
	struct outbuf b;
	uint32_t missing = 0;
	int err = outbuf__init(&b, 4096, write, to);

	if (err)
		return err;
	outbuf__puts(&b, "\nhow long they took, to within a quarter:");
	outbuf__printf(&b, "\n%17s %10s %10s %10s %10s  %s\n", "runs", "p50", "p90", "p99", "max",
		       "filename:lineno(function)");
	for (uint32_t i = 0; i < c->view.func_cnt; i++) {
		const struct inline_count_func *f = &c->view.funcs[i];

		if (f->spans && c->kept[i])
			put_shares(&b, c, f);
		missing += f->roomless && !f->spans && c->kept[i] && f->calls + f->resumes;
	}
	if (missing)
		outbuf__printf(
			&b,
			"\n%u functions are not in this table: there was no room for how long "
			"they take\n",
			missing);
	err = outbuf__flush(&b);
	outbuf__done(&b);
	return err;
}

/* What was counted, for days perhaps, is not gone with a file that could not be written at the end. */
static void show_instead(struct calls *c, const struct sum *sum)
{
	struct err unused;
	bool said = false;

	if (!sum__stream(sum, &export_text, true, emit_instead, &said, &unused) && c->time)
		put_durations(c, emit_instead, &said);
	fflush(stderr);
}

static int write_sums(struct calls *c, const char *path, struct err *e)
{
	auto_fn(shape_done) struct shape shape = { 0 };
	auto_fn(sum__done) struct sum sum = { 0 };
	struct output_opts output = *c->output;
	struct emit_result result = { 0 };
	int err = shape_head(c, &shape);

	output.path = path;
	err = err ? err : choose_funcs(c);
	err = err ? err : shape_funcs(c, &shape);
	err = err ? err : shape_stacks(c, &shape);
	if (err)
		return err;
	c->result->totals = shape.r.totals;
	err = sum__init(&sum, false, false, output.full_files);
	err = err ? err : aggregate__merge(sum.all, &shape.r);
	err = err ? err : sum__close(&sum);
	if (c->time && c->format == &export_text)
		sum.tail = (struct sum_tail){ put_durations, c };
	err = err ? err : sum__write(&sum, &output, c->format, &result, e);
	if (err && err != -ENOMEM && c->of->last)
		show_instead(c, &sum);
	if (!err && c->view.lost && c->format != &export_text) /* text has it itself */
		log_warn("%llu calls are not in %s: there was no room for them",
			 (unsigned long long)c->view.lost, strcmp(path, "-") ? path : "the output");
	if (!err && !c->opts->quiet && strcmp(path, "-") != 0)
		emit_report(stderr, path, c->format, &result);
	return err;
}

static int sums(void *ctx, const struct inline_count_view *view, const struct session_counted *of,
		struct err *e)
{
	struct calls *c = ctx;
	struct outputs from = { .opts = c->output, .verb = "trace", .capture_only = true }, to;
	int err = 0;

	c->view = *view;
	c->of = of;
	if (of->last || !strcmp(c->path, "-"))
		return write_sums(c, c->path, e);
	c->number++;
	snprintf(from.capture, sizeof(from.capture), "%s", c->path);
	err = outputs_number(&from, &c->number, &to, e);
	return err ? err : write_sums(c, to.capture, e);
}

/* By module and file alone. */
static bool is_filter_known(const struct filter_opts *filter)
{
	struct filter_opts rest = *filter;

	for (size_t i = 0; i < filter->include.cnt + filter->exclude.cnt; i++)
		if (!strcmp(i < filter->include.cnt ? filter->include.v[i]
						    : filter->exclude.v[i - filter->include.cnt],
			    "__main__"))
			return false;
	rest.include.cnt = rest.exclude.cnt = 0;
	return !filters_any(&rest);
}

static int check_options(const struct session_opts *o, struct err *e)
{
	if (o->select || o->record_rings || o->ring_bytes || !is_filter_known(&o->filter) ||
	    limits_any(&o->limits))
		return err_set(
			e, -PYE_EUSAGE,
			"--count goes with -p or -- CMD, -s, -d, --on-full, --include and --exclude (but "
			"not of __main__) and what says where the sums go");
	return 0;
}

/* Stacks, each as wide as the time it took: calls alone have neither. */
static bool shows_times(const struct exporter *format)
{
	return !strcmp(format->name, "collapsed") || !strcmp(format->name, "svg");
}

static int choose_output(struct calls *c, struct err *e)
{
	struct output_opts output = *c->output;
	int err;

	c->path = output.path ? output.path : "-";
	output.path = c->path;
	if (!output.format && !strcmp(c->path, "-"))
		output.format = "text";
	err = sum_format(&output, &c->format, e);
	if (!err && !c->format->folds)
		err = err_set(
			e, -PYE_EUSAGE,
			"%s shows calls in time, and --count has sums: text, pstats and pprof "
			"show them, with --time collapsed and svg, too",
			c->format->name);
	if (!err && !c->time && shows_times(c->format))
		err = err_set(e, -PYE_EUSAGE,
			      "%s shows the times of stacks, which --count has with --time alone",
			      c->format->name);
	return err ? err : emit_check(&output, c->path, c->format, e);
}

int inline_calls(const struct session_opts *opts, const struct output_opts *output, bool time,
		 struct session_result *result, struct err *e)
{
	struct calls c = { .opts = opts, .output = output, .time = time, .result = result };
	const struct session_counts counts = { .time = time, .ctx = &c, .sums = sums };
	auto_close int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int err = nowhere < 0 ? -errno : check_options(opts, e);

	err = err ? err : choose_output(&c, e);
	err = err ? err : session_inline(opts, nowhere, NULL, &counts, result, NULL, e);
	if (!err && c.kept && !opts->quiet)
		filters_say(&opts->filter, c.left_out, result->totals.written != 0);
	free(c.kept);
	return err;
}
