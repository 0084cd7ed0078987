// SPDX-License-Identifier: Apache-2.0
/* Questions to a store of profiles: which services there are, and the sum of what is asked for as a flame graph or a
 * table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/emit.h"
#include "cmd/fleet_from.h"
#include "cmd/fleet_send.h"
#include "cmd/options.h"
#include "cmd/sinks.h"
#include "cmd/sum.h"
#include "cmd/table.h"
#include "cmd/viewer.h"
#include "export/diff_table.h"
#include "export/json.h"
#include "export/stats.h"
#include "export/summary.h"
#include "store/store.h"

#define DEFAULT_STORE "/var/lib/pyebpf/store"
#define SINCE_TEXT    "1h"

enum {
	SUMMARY_TOP = 10
};

struct fleet_opts {
	struct fleet_choice choice, before; /* of before, what differs */
	struct output_opts output;
	uint64_t top_cnt;
	bool json, quiet;
	struct sink_list sinks;
	uint64_t duration_ns;
	struct viewer_opts viewer;
};

static int parse_store(void *field, const char *arg, struct err *e)
{
	struct fleet_stores *stores = field;

	if (stores->cnt == FLEET_STORES_MAX)
		return err_set(e, -PYE_EUSAGE, "at most %d of them", FLEET_STORES_MAX);
	stores->dirs[stores->cnt++] = arg;
	return 0;
}

#define AT(member) offsetof(struct fleet_opts, member)

/* clang-format off */
static const struct opt_row choice_rows[] = {
	{ 0, "store", "DIR", OPT_CUSTOM, AT(choice.stores), NULL,
	  "folder of profiles, not " DEFAULT_STORE "; can be repeated: those of several machines add up",
	  false, parse_store },
	{ 0, "type", "TYPE", OPT_STRING, AT(choice.type), NULL,
	  "of profiles: cpu, or calls for those of bursts; cpu for flame, top and diff, all for services", false, NULL },
	{ 0, "server", "URL", OPT_STRING, AT(choice.server), NULL,
	  "ask this ClickHouse, not a folder; with ,KEY=VALUE behind it as for --sink", false, NULL },
	{ 0, "partial", NULL, OPT_FLAG, AT(choice.partial), NULL,
	  "be content with the shards that answer", false, NULL },
	{ 0, "since", "TIME", OPT_DURATION, AT(choice.since_ns), SINCE_TEXT, "so long ago: 15m, 6h", false, NULL },
	{ 0, "until", "TIME", OPT_DURATION, AT(choice.until_ns), NULL, "so long ago; now if not given", false, NULL },
	{ 0, "query", "SELECTOR", OPT_STRING, AT(choice.query), NULL,
	  "only profiles with these labels: '{service_name=\"web\", zone!=\"a\", python=~\"3[.]1.*\"}'",
	  false, NULL },
	{ 0, "service", "NAME", OPT_STRING, AT(choice.service), NULL, "only this service_name", false, NULL },
	{ 0 },
};
static const struct opt_row before_rows[] = {
	{ 0, "before-since", "TIME", OPT_DURATION, AT(before.since_ns), NULL,
	  "diff: what it is compared with; --since if not given", false, NULL },
	{ 0, "before-until", "TIME", OPT_DURATION, AT(before.until_ns), NULL, "diff: --until if not given", false, NULL },
	{ 0, "before-query", "SELECTOR", OPT_STRING, AT(before.query), NULL, "diff: --query if not given", false, NULL },
	{ 0 },
};
static const struct opt_row verb_rows[] = {
	{ 'n', "top", "N", OPT_UNSIGNED, AT(top_cnt), "20", "top, diff: rows to show, 0 for all", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "top, diff, services: print JSON", false, NULL },
	{ 'q', "quiet", NULL, OPT_FLAG, AT(quiet), NULL,
	  "flame: no summary, and nothing about what was written", false, NULL },
	{ 0 },
};
static const struct opt_row send_rows[] = {
	{ 0, "sink", "TYPE=URL", OPT_CUSTOM, AT(sinks), NULL, SINK_HELP, false, sinks_option },
	{ 'd', "duration", "TIME", OPT_DURATION, AT(duration_ns), NULL,
	  "send: give up after so long; else when everything is sent", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Which profiles", choice_rows, 0 },
	{ NULL, before_rows, 0 },
	{ "Output", output_rows, AT(output) },
	{ NULL, verb_rows, 0 },
	{ "In a browser", viewer_rows, AT(viewer) },
	{ "Sending", send_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "fleet",
	.usage = "fleet flame -o OUT [options]\n"
		 "fleet open [options]\n"
		 "fleet top [options]\n"
		 "fleet diff [options]\n"
		 "fleet services [options]\n"
		 "fleet send --sink TYPE=URL [options]",
	.about =
		"Ask a store of profiles, as pyebpf agent keeps it, or the ClickHouse that agents send to: add them up into one file (flame: "
		"html, svg, pprof, collapsed, firefox or another format), show it in a browser as view does (open), say which functions take the "
		"most time in all of them (top), compare two of them (diff), or which services have profiles (services). Or send what an agent "
		"could not send (send).",
	.groups = groups,
	.examples =
		"  pyebpf fleet services --since 24h\n"
		"  pyebpf fleet flame --service web -o web.html\n"
		"  pyebpf fleet flame --server http://ch:8123 --query '{zone=\"a\"}' -o a.html\n"
		"  sudo pyebpf fleet open --service web\n"
		"  pyebpf fleet diff --before-since 25h --before-until 24h\n"
		"  pyebpf fleet top --query '{node=~\"web-.*\"}' --json | jq '.rows[0]'\n",
};

static int add_all(const struct fleet_choice *choice, struct sum *sum, uint64_t *profiles,
		   struct err *e)
{
	int err = sum__init(sum, false, false, false);

	err = err ? err : fleet_sum(choice, sum, profiles, e);
	return err ? err : sum__close(sum);
}

/* --- flame, top --- */

static int flame(const struct fleet_opts *o, struct err *e)
{
	auto_fn(sum__done) struct sum sum = { 0 };
	struct emit_result result = { 0 };
	const struct exporter *format;
	uint64_t profiles;
	int err = sum_format(&o->output, &format, e);

	err = err ? err : emit_check(&o->output, o->output.path, format, e);
	err = err ? err : add_all(&o->choice, &sum, &profiles, e);
	err = err ? err : sum__write(&sum, &o->output, format, &result, e);
	if (err || o->quiet)
		return err;
	summary_print(stderr, sum.all, SUMMARY_TOP);
	fprintf(stderr, "profiles  %" PRIu64 "\n", profiles);
	emit_report(stderr, o->output.path, format, &result);
	return 0;
}

/* The store may be root's, and root serves nothing: it is read before. */
static int open_viewer(const struct fleet_opts *o, struct err *e)
{
	struct viewer_opts opts = o->viewer;
	const struct exporter *format;
	auto_fn(viewer__done) struct viewer v = { 0 };
	auto_fn(sum__done) struct sum sum = { 0 };
	uint64_t profiles;
	int fd, err = viewer_check(&opts, e);

	format = opts.firefox ? &export_firefox : &export_pprof;
	err = err ? err : add_all(&o->choice, &sum, &profiles, e);
	if (err)
		return err;
	fd = viewer__add(&v, opts.firefox);
	err = fd < 0 ? fd : sum__stream(&sum, format, false, viewer_write, &fd, e);
	err = err ? err : viewer_leave_root(e);
	return err ? err : viewer__run(&v, &opts, e);
}

static int top(const struct fleet_opts *o, struct err *e)
{
	uint32_t cnt = table_row_cnt(&(struct table_opts){ .top_cnt = o->top_cnt });
	auto_fn(sum__done) struct sum sum = { 0 };
	auto_fn(ranking__done) struct ranking k = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	const struct agg_result *r;
	uint64_t profiles;
	int err = add_all(&o->choice, &sum, &profiles, e);

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

/* --- diff --- */

static void free_slices(struct slices **s)
{
	slices__free(*s);
}

/* The sum of a side, as what is compared. */
static int side(const struct fleet_choice *choice, struct slices **out, struct err *e)
{
	static const struct aggregate_opts opts = { 0 };
	auto_fn(sum__done) struct sum sum = { 0 };
	uint64_t profiles;
	int err = add_all(choice, &sum, &profiles, e);

	if (!err && !aggregate__result(sum.all)->sample_ns)
		return err_set(e, -PYE_EFORMAT, "sums of calls are not compared");
	err = err ? err : slices__new(out, &opts);
	return err ? err : aggregate_push(aggregate__result(sum.all), &slices_consumer, *out);
}

static int compare(const struct fleet_opts *o, struct err *e)
{
	auto_fn(free_slices) struct slices *before = NULL;
	auto_fn(free_slices) struct slices *after = NULL;
	auto_fn(diff__done) struct diff d = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	struct fleet_choice other = o->choice;
	uint32_t cnt = table_row_cnt(&(struct table_opts){ .top_cnt = o->top_cnt });
	int err;

	if (!o->before.since_ns && !o->before.until_ns && !o->before.query)
		return err_set(e, -PYE_EUSAGE,
			       "diff wants --before-since, --before-until or --before-query");
	other.since_ns = o->before.since_ns ? o->before.since_ns : other.since_ns;
	other.until_ns = o->before.until_ns ? o->before.until_ns : other.until_ns;
	other.query = o->before.query ? o->before.query : other.query;
	err = side(&other, &before, e);
	err = err ? err : side(&o->choice, &after, e);
	err = err ? err : diff__init(&d, before, after);
	err = err ? err : table_begin(&b);
	if (err)
		return err;
	if (o->json)
		diff_json(&b, &d, cnt);
	else
		diff_print(stdout, &d, cnt);
	return table_end(&b, e);
}

/* --- services --- */

static void stamp(int64_t unix_ns, char *out, size_t size)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int print_rows(const struct fleet_services *rows, bool json, struct err *e)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	char first[32], last[32], bytes[32], shown[4 * STORE_LABEL_MAX + 1];
	int err = table_begin(&b);

	if (err)
		return err;
	if (!json)
		outbuf__printf(&b, "%-40s %9s %12s  %-20s  %s\n", "SERVICE", "PROFILES", "BYTES",
			       "FIRST", "LAST");
	for (size_t i = 0; i < rows->cnt; i++) {
		const struct fleet_service *r = &rows->v[i];

		stamp(r->first_ns, first, sizeof(first));
		stamp(r->last_ns, last, sizeof(last));
		if (!json) {
			text_escape(shown, sizeof(shown), r->name, strlen(r->name));
			snprintf(bytes, sizeof(bytes), "%" PRIu64, r->bytes);
			outbuf__printf(&b, "%-40s %9" PRIu64 " %12s  %-20s  %s\n", shown,
				       r->profiles, r->bytes ? bytes : "-", first, last);
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
	auto_fn(fleet_services_done) struct fleet_services rows = { 0 };
	int err = fleet_services(&o->choice, &rows, e);

	return err ? err : print_rows(&rows, o->json, e);
}

static int send_all(const struct fleet_opts *o, struct err *e)
{
	if (o->choice.stores.cnt > 1)
		return err_set(e, -PYE_EUSAGE, "send takes one --store");
	return fleet_send(o->choice.stores.dirs[0], &o->sinks, o->duration_ns, e);
}

/* --- the command --- */

static const struct verb {
	const char *name;
	int (*run)(const struct fleet_opts *o, struct err *e);
	bool writes;
} verbs[] = {
	{ "flame", flame, true },   { "open", open_viewer, false },  { "top", top, false },
	{ "diff", compare, false }, { "services", services, false }, { "send", send_all, false },
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
		return err_exit_code(options_usage(
			&command, "want flame, open, top, diff, services or send, one of them"));
	if (verb->writes && !opts.output.path)
		return err_exit_code(options_usage(&command, "want -o OUT, or -o - for stdout"));
	if (!verb->writes && (opts.output.path || opts.output.format))
		return err_exit_code(
			options_usage(&command, "%s writes no file; -o is for flame", verb->name));
	if (!opts.choice.stores.cnt)
		opts.choice.stores.dirs[opts.choice.stores.cnt++] = DEFAULT_STORE;
	err = verb->run(&opts, &e);
	return cmd_end(&command, err, &e);
}
