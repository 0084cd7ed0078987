// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/input.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "export/annotate_text.h"
#include "export/stats.h"
#include "export/stats_query.h"

struct stats_opts {
	struct input_opts input;
	enum ranking_by by;
	enum ranking_sort sort;
	struct table_opts table;
	const char *function, *annotate;
};

static int parse_sort(void *field, const char *arg, struct err *e)
{
	static const char *const names[] = {
		[RANKING_SELF] = "self", [RANKING_TOTAL] = "total", [RANKING_CALLS] = "calls", NULL
	};
	int i = opt_word(names, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want self, total or calls");
	*(enum ranking_sort *)field = (enum ranking_sort)i;
	return 0;
}

#define AT(member) offsetof(struct stats_opts, member)

/* clang-format off */
static const struct opt_row rows[] = {
	{ 0, "by", "WHAT", OPT_CUSTOM, AT(by), "function",
	  "a row per function, module, line, thread or process", false, table_parse_by },
	{ 0, "sort", "WHAT", OPT_CUSTOM, AT(sort), "self",
	  "most self, total or calls first", false, parse_sort },
	{ 0, "function", "NAME", OPT_STRING, AT(function), NULL,
	  "of one function: latencies, callers, callees; qualname, mod.f, mod:qualname or\n"
	  "path/x.py:qualname, with :LINE behind it where several are called so", false, NULL },
	{ 0, "annotate", "FILE", OPT_STRING, AT(annotate), NULL,
	  "a source file with the time of its lines: its path, or the end of it", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", rows, 0 },
	{ NULL, table_rows, AT(table) },
	{ NULL, names_rows, AT(input) },
	{ NULL, input_rows, AT(input) },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "stats",
	.usage = "stats FILE [--by WHAT] [--sort WHAT] [-n N] [--json]\n"
		 "stats FILE --function NAME [-n N] [--json]\n"
		 "stats FILE --annotate SOURCE [-n 0]",
	.about =
		"Say what is in a capture (.pyebpf) or a profile of another tool: events, losses, gaps, and where the time went. "
		"FILE is - for stdin. Needs no privilege. The profiler's own cost is taken out of "
		"the times.",
	.groups = groups,
	.examples = "  pyebpf stats trace.pyebpf\n"
		    "  pyebpf stats trace.pyebpf --by module --sort total\n"
		    "  pyebpf stats trace.pyebpf --function json.decoder:JSONDecoder.decode\n"
		    "  pyebpf stats trace.pyebpf -n 0 --json | jq '.rows[0]'\n",
};

/* @lines: of samples, to show a table by line; else NULL. */
static int print_table(const struct stats_opts *opts, const struct agg_result *r,
		       const struct lines *lines, struct outbuf *b)
{
	auto_fn(ranking__done) struct ranking k = { 0 };
	int err = lines && r->sample_ns ? ranking__of_lines(&k, lines, opts->sort, false)
					: ranking__init(&k, r, opts->by, opts->sort, false);

	if (!err && opts->table.json)
		stats_json(b, r, &k, table_row_cnt(&opts->table));
	else if (!err)
		stats_print(stdout, r, &k, table_row_cnt(&opts->table));
	return err;
}

/* The sentence goes first, then what the name may mean, where errors go. */
static int explain_name(const char *name, const struct query_result *q)
{
	struct err e = { 0 };
	int code;

	if (q->meant_cnt)
		err_set(&e, -PYE_EUSAGE, "%s%u functions are called %.200s; give one of these:",
			q->meant_cnt == QUERY_MEANT_MAX ? "at least " : "", q->meant_cnt, name);
	else
		err_set(&e, -PYE_EUSAGE, "no function in the capture is called %.200s", name);
	code = cmd_fail(command.name, -PYE_EUSAGE, &e);
	if (!stats_query_candidates(stderr, q, !q->meant_cnt, name))
		fputs("pyebpf stats FILE -n 0 shows every function\n", stderr);
	return code;
}

static int print_query(const struct stats_opts *opts, const struct query_result *q,
		       struct outbuf *b, int *code)
{
	if (q->func == AGG_NONE) {
		*code = explain_name(opts->function, q);
		return 0;
	}
	if (opts->table.json)
		stats_query_json(b, q, table_row_cnt(&opts->table));
	else
		stats_query_print(stdout, q, table_row_cnt(&opts->table));
	return 0;
}

static int print_source(const struct stats_opts *opts, const struct lines *l, struct err *e)
{
	auto_fn(annotate__done) struct annotate a = { 0 };
	int err = annotate__init(&a, l);

	return err ? err : annotate_print(stdout, &a, opts->annotate, !opts->table.top_cnt, e);
}

static void free_aggregate(struct aggregate **agg)
{
	aggregate__free(*agg);
}

static void free_lines(struct lines **l)
{
	lines__free(*l);
}

static void free_query(struct query **q)
{
	query__free(*q);
}

static int decode(const char *in, const struct stats_opts *opts,
		  const struct trace_consumer *consumer, void *self, struct err *e)
{
	auto_close int fd = input_open(in, e);
	int err = fd < 0 ? fd : input_read(fd, &opts->input, consumer, self, e);

	if (fd >= 0 && err == -PYE_EFORMAT)
		return input_explain(in, e);
	if (!err && e->what[0])
		log_warn("%s", e->what);
	return err;
}

/* @code: set where what is wrong was said already. */
static int stats(const char *in, const struct stats_opts *opts, int *code, struct err *e)
{
	const struct aggregate_opts agg_opts = { .raw = opts->table.raw,
						 .full_files = opts->table.full_files };
	auto_fn(free_aggregate) struct aggregate *agg = NULL;
	auto_fn(free_query) struct query *query = NULL;
	auto_fn(free_lines) struct lines *lines = NULL;
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = table_begin(&b);

	if (err)
		return err;
	if (opts->function) {
		err = query__new(&query, opts->function, &agg_opts);
		err = err ? err : decode(in, opts, &query_consumer, query, e);
		err = err ? err : print_query(opts, query__result(query), &b, code);
	} else if (opts->annotate) {
		err = lines__new(&lines, LINES_OF_FILES, &agg_opts);
		err = err ? err : decode(in, opts, &lines_consumer, lines, e);
		err = err ? err : print_source(opts, lines, e);
	} else if (opts->by == RANKING_LINE) {
		err = lines__new(&lines, LINES_OF_FUNCTIONS, &agg_opts);
		err = err ? err : decode(in, opts, &lines_consumer, lines, e);
		err = err ? err : print_table(opts, lines__result(lines), lines, &b);
	} else {
		err = aggregate__new(&agg, &agg_opts);
		err = err ? err : decode(in, opts, &aggregate_consumer, agg, e);
		err = err ? err : print_table(opts, aggregate__result(agg), NULL, &b);
	}
	if (err)
		return err;
	return table_end(&b, e);
}

int cmd_stats(int argc, char **argv)
{
	struct stats_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	int code = 0;
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.operand_cnt + rest.command_cnt != 1)
		return err_exit_code(options_usage(&command, "want one capture"));
	err = stats(rest.operand_cnt ? rest.operands[0] : rest.command[0], &opts, &code, &e);
	return err ? cmd_fail(command.name, err, &e) : code;
}
