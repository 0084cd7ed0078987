// SPDX-License-Identifier: Apache-2.0
/* Questions to a store of profiles: which services there are, and the sum of what is asked for as a flame graph or a
 * table. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/options.h"
#include "cmd/sum.h"
#include "cmd/table.h"
#include "export/json.h"
#include "export/stats.h"
#include "export/summary.h"
#include "store/store.h"

#define DEFAULT_STORE "/var/lib/pyebpf/store"
#define SINCE_TEXT    "1h"

#define TYPE_LABEL    "profile_type" /* as the agent sets it */

enum {
	SUMMARY_TOP = 10,
	STORES_MAX = 256
};

struct stores {
	const char *dirs[STORES_MAX];
	uint32_t cnt;
};

struct fleet_opts {
	struct stores stores;
	const char *query, *service, *type;
	uint64_t since_ns, until_ns; /* ago */
	struct output_opts output;
	uint64_t top_cnt;
	bool json, quiet;
};

static int parse_store(void *field, const char *arg, struct err *e)
{
	struct stores *stores = field;

	if (stores->cnt == STORES_MAX)
		return err_set(e, -PYE_EUSAGE, "at most %d of them", STORES_MAX);
	stores->dirs[stores->cnt++] = arg;
	return 0;
}

#define AT(member) offsetof(struct fleet_opts, member)

/* clang-format off */
static const struct opt_row choice_rows[] = {
	{ 0, "store", "DIR", OPT_CUSTOM, AT(stores), NULL,
	  "folder of profiles, not " DEFAULT_STORE "; can be repeated: those of several machines add up",
	  false, parse_store },
	{ 0, "type", "TYPE", OPT_STRING, AT(type), NULL,
	  "of profiles: cpu, or calls for those of bursts; cpu for flame and top, all for services", false, NULL },
	{ 0, "since", "TIME", OPT_DURATION, AT(since_ns), SINCE_TEXT, "so long ago: 15m, 6h", false, NULL },
	{ 0, "until", "TIME", OPT_DURATION, AT(until_ns), NULL, "so long ago; now if not given", false, NULL },
	{ 0, "query", "SELECTOR", OPT_STRING, AT(query), NULL,
	  "only profiles with these labels: '{service_name=\"web\", zone!=\"a\", python=~\"3\\.1.*\"}'",
	  false, NULL },
	{ 0, "service", "NAME", OPT_STRING, AT(service), NULL, "only this service_name", false, NULL },
	{ 0 },
};
static const struct opt_row verb_rows[] = {
	{ 'n', "top", "N", OPT_UNSIGNED, AT(top_cnt), "20", "top: rows to show, 0 for all", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "top, services: print JSON", false, NULL },
	{ 'q', "quiet", NULL, OPT_FLAG, AT(quiet), NULL,
	  "flame: no summary, and nothing about what was written", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Which profiles", choice_rows, 0 },
	{ "Output", output_rows, AT(output) },
	{ NULL, verb_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "fleet",
	.usage = "fleet flame -o OUT [options]\n"
		 "fleet top [options]\n"
		 "fleet services [options]",
	.about =
		"Ask a store of profiles, as pyebpf agent keeps it: add them up into one file (flame: "
		"html, svg, pprof, collapsed, firefox or another format), say which functions take the "
		"most time in all of them (top), or which services have profiles (services).",
	.groups = groups,
	.examples = "  pyebpf fleet services --since 24h\n"
		    "  pyebpf fleet flame --service web -o web.html\n"
		    "  pyebpf fleet top --store a --store b --type calls --service web\n"
		    "  pyebpf fleet top --query '{node=~\"web-.*\"}' --json | jq '.rows[0]'\n",
};

/* --- which profiles --- */

struct choice {
	struct store *store;
	struct selector *selector;
	const char *service, *type; /* NULL: any */
	int64_t since_ns, until_ns;
	int (*fn)(void *ctx, const struct store_window *w);
	void *ctx;
};

static void choice_done(struct choice *c)
{
	selector__free(c->selector);
	store__free(c->store);
}

static int choose(struct choice *c, const struct fleet_opts *o, const char *dir, struct err *e)
{
	int64_t now = wall_ns();
	int err;

	if (o->since_ns > (uint64_t)now || o->until_ns >= o->since_ns)
		return err_set(e, -PYE_EUSAGE, "--since has to be longer ago than --until");
	c->since_ns = now - (int64_t)o->since_ns;
	c->until_ns = now - (int64_t)o->until_ns;
	c->service = o->service;
	c->type = o->type;
	err = selector__parse(&c->selector, o->query ? o->query : "", e);
	return err ? err : store__open(&c->store, dir, STORE_READ, e);
}

static int of_service(void *ctx, const struct store_window *w)
{
	const struct choice *c = ctx;
	const char *service = label_value(w->labels, w->label_cnt, STORE_SERVICE);
	const char *type = label_value(w->labels, w->label_cnt, TYPE_LABEL);

	if (c->service && strcmp(c->service, service) != 0)
		return 0;
	/* one without it is of record, or of an agent that had no other type */
	if (c->type && strcmp(c->type, *type ? type : "cpu") != 0)
		return 0;
	return c->fn(c->ctx, w);
}

static int each(struct choice *c, int (*fn)(void *ctx, const struct store_window *w), void *ctx,
		struct err *e)
{
	c->fn = fn;
	c->ctx = ctx;
	return store__each(c->store, c->since_ns, c->until_ns, c->selector, of_service, c, e);
}

/* --- flame, top --- */

struct adding {
	const struct store *store;
	struct sum *sum;
	struct err *e;
	uint64_t gone; /* removed while we read */
};

static int add_window(void *ctx, const struct store_window *w)
{
	struct adding *a = ctx;
	auto_close int fd = store__open_window(a->store, w, a->e);

	if (fd < 0) {
		a->gone++;
		a->e->what[0] = '\0';
		return 0;
	}
	return sum__add(a->sum, fd, w->file, NULL, a->e);
}

static int add_store(const struct fleet_opts *o, const char *dir, struct sum *sum, struct err *e)
{
	auto_fn(choice_done) struct choice c = { 0 };
	struct adding adding = { .sum = sum, .e = e };
	int err = choose(&c, o, dir, e);

	if (!err && !c.type)
		c.type = "cpu";
	adding.store = c.store;
	err = err ? err : each(&c, add_window, &adding, e);
	if (!err && adding.gone)
		log_warn("%" PRIu64 " profiles were removed while they were read", adding.gone);
	return err;
}

static int add_all(const struct fleet_opts *o, struct sum *sum, struct err *e)
{
	int err = sum__init(sum, false, false);

	for (uint32_t i = 0; i < o->stores.cnt && !err; i++)
		err = add_store(o, o->stores.dirs[i], sum, e);
	if (err)
		return err;
	if (!sum->cnt) {
		err_set(e, -PYE_ETARGET,
			"no profile of that time and with these labels is in %s (type %s)",
			o->stores.dirs[0], o->type ? o->type : "cpu");
		err_hint(e, "pyebpf fleet services shows what there is");
		return -PYE_ETARGET;
	}
	return sum__close(sum);
}

static int flame(const struct fleet_opts *o, struct err *e)
{
	auto_fn(sum__done) struct sum sum = { 0 };
	struct emit_result result = { 0 };
	const struct exporter *format;
	int err = sum_format(&o->output, &format, e);

	err = err ? err : emit_check(&o->output, o->output.path, format, e);
	err = err ? err : add_all(o, &sum, e);
	err = err ? err : sum__write(&sum, &o->output, format, &result, e);
	if (err || o->quiet)
		return err;
	summary_print(stderr, sum.all, SUMMARY_TOP);
	fprintf(stderr, "profiles  %u\n", sum.cnt);
	emit_report(stderr, o->output.path, format, &result);
	return 0;
}

static int top(const struct fleet_opts *o, struct err *e)
{
	uint32_t cnt = table_row_cnt(&(struct table_opts){ .top_cnt = o->top_cnt });
	auto_fn(sum__done) struct sum sum = { 0 };
	auto_fn(ranking__done) struct ranking k = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	const struct agg_result *r;
	int err = add_all(o, &sum, e);

	if (err)
		return err;
	r = aggregate__result(sum.all);
	err = ranking__init(&k, r, RANKING_FUNCTION, RANKING_SELF, false);
	err = err ? err : table_begin(&b);
	if (err)
		return err;
	if (o->json)
		stats_json(&b, r, &k, cnt);
	else
		stats_print(stdout, r, &k, cnt);
	return table_end(&b, e);
}

/* --- services --- */

struct service_row {
	char *name;
	uint64_t profiles, bytes;
	int64_t first_ns, last_ns;
};

struct service_rows {
	struct service_row *v;
	uint32_t cnt, cap;
};

static void rows_done(struct service_rows *r)
{
	for (uint32_t i = 0; i < r->cnt; i++)
		free(r->v[i].name);
	free(r->v);
}

static struct service_row *row_of(struct service_rows *r, const char *name)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (!strcmp(r->v[i].name, name))
			return &r->v[i];
	if (GROW(r->v, r->cap, r->cnt))
		return NULL;
	r->v[r->cnt] = (struct service_row){ .name = strdup(name), .first_ns = INT64_MAX };
	return r->v[r->cnt].name ? &r->v[r->cnt++] : NULL;
}

static int count_window(void *ctx, const struct store_window *w)
{
	struct service_row *row = row_of(ctx, label_value(w->labels, w->label_cnt, STORE_SERVICE));

	if (!row)
		return -ENOMEM;
	row->profiles++;
	row->bytes += w->bytes;
	row->first_ns = w->start_ns < row->first_ns ? w->start_ns : row->first_ns;
	row->last_ns = w->end_ns > row->last_ns ? w->end_ns : row->last_ns;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct service_row *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void stamp(int64_t unix_ns, char *out, size_t size)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int print_rows(const struct service_rows *rows, bool json, struct err *e)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	char first[32], last[32], shown[512];
	int err = table_begin(&b);

	if (err)
		return err;
	if (!json)
		outbuf__printf(&b, "%-40s %9s %12s  %-20s  %s\n", "SERVICE", "PROFILES", "BYTES",
			       "FIRST", "LAST");
	for (size_t i = 0; i < rows->cnt; i++) {
		const struct service_row *r = &rows->v[i];

		stamp(r->first_ns, first, sizeof(first));
		stamp(r->last_ns, last, sizeof(last));
		if (!json) {
			text_escape(shown, sizeof(shown), r->name, strlen(r->name));
			outbuf__printf(&b, "%-40s %9" PRIu64 " %12" PRIu64 "  %-20s  %s\n", shown,
				       r->profiles, r->bytes, first, last);
			continue;
		}
		outbuf__puts(&b, i ? ",\n{\"service\":" : "[{\"service\":");
		json_str(&b, r->name);
		outbuf__printf(&b,
			       ",\"profiles\":%" PRIu64 ",\"bytes\":%" PRIu64
			       ",\"first\":\"%s\",\"last\":\"%s\"}",
			       r->profiles, r->bytes, first, last);
	}
	if (json)
		outbuf__puts(&b, rows->cnt ? "]\n" : "[]\n");
	return table_end(&b, e);
}

static int services(const struct fleet_opts *o, struct err *e)
{
	auto_fn(rows_done) struct service_rows rows = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < o->stores.cnt && !err; i++) {
		auto_fn(choice_done) struct choice c = { 0 };

		err = choose(&c, o, o->stores.dirs[i], e);
		err = err ? err : each(&c, count_window, &rows, e);
	}
	if (err)
		return err;
	if (rows.cnt)
		qsort(rows.v, rows.cnt, sizeof(rows.v[0]), by_name);
	return print_rows(&rows, o->json, e);
}

/* --- the command --- */

static const struct verb {
	const char *name;
	int (*run)(const struct fleet_opts *o, struct err *e);
	bool writes;
} verbs[] = {
	{ "flame", flame, true },
	{ "top", top, false },
	{ "services", services, false },
};

static const struct verb *find_verb(const struct opt_rest *rest)
{
	if (rest->operand_cnt != 1 || rest->command_cnt)
		return NULL;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, rest->operands[0]))
			return &verbs[i];
	return NULL;
}

int cmd_fleet(int argc, char **argv)
{
	struct fleet_opts opts = { 0 };
	const struct verb *verb;
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	err = options_parse(&command, argc, argv, &opts, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	verb = find_verb(&rest);
	if (!verb)
		return err_exit_code(
			options_usage(&command, "want flame, top or services, one of them"));
	if (verb->writes && !opts.output.path)
		return err_exit_code(options_usage(&command, "want -o OUT, or -o - for stdout"));
	if (!verb->writes && (opts.output.path || opts.output.format))
		return err_exit_code(options_usage(&command, "%s writes to stdout; -o is for flame",
						   verb->name));
	if (!opts.stores.cnt)
		opts.stores.dirs[opts.stores.cnt++] = DEFAULT_STORE;
	err = verb->run(&opts, &e);
	return cmd_end(&command, err, &e);
}
