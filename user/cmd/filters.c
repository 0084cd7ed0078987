// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "trace"
#include "cmd/filters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "abi/filter.h"
#include "abi/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/session_priv.h"
#include "export/summary.h"
#include "profile/code_glob.h"
#include "profile/module.h"

#define MIN_NS_MAX 10000000000ull /* what waits for its end is in memory */

static int add_glob(void *field, const char *arg, struct err *e)
{
	struct glob_list *list = field;

	if (!*arg || strlen(arg) > CODE_GLOB_MAX)
		return err_set(e, -PYE_EUSAGE, "want a pattern of 1 to %d bytes", CODE_GLOB_MAX);
	if (list->cnt == ASSEMBLER_GLOBS_MAX)
		return err_set(e, -PYE_EUSAGE, "more than %d", ASSEMBLER_GLOBS_MAX);
	list->v[list->cnt++] = arg;
	return 0;
}

/* A number alone is one of microseconds. */
static int parse_min(void *field, const char *arg, struct err *e)
{
	uint64_t *ns = field;

	if (!opt_unsigned(arg, ns) && *ns <= MIN_NS_MAX / 1000)
		*ns *= 1000;
	else if (opt_duration(arg, ns))
		*ns = 0;
	if (!*ns || *ns > MIN_NS_MAX)
		return err_set(e, -PYE_EUSAGE, "want microseconds, or 5ms: at most 10s");
	return 0;
}

#define AT(member) offsetof(struct filter_opts, member)

/* clang-format off */
const struct opt_row filter_rows[] = {
	{ 0, "include", "GLOB", OPT_CUSTOM, AT(include), NULL,
	  "record only code of these modules (app, 'app.*') or files ('*/app/*', x.py); can be repeated",
	  false, add_glob },
	{ 0, "exclude", "GLOB", OPT_CUSTOM, AT(exclude), NULL,
	  "do not record code of these modules or files; can be repeated", false, add_glob },
	{ 0, "thread", "GLOB", OPT_STRING, AT(thread), NULL,
	  "record only threads of this name, as it is at the moment: threading's, or the system's", false, NULL },
	{ 0, "root", "FUNC", OPT_STRING, AT(root), NULL,
	  "record only while module:qualname is on the thread's stack, from there on", false, NULL },
	{ 0, "latency", "FUNC", OPT_STRING, AT(latency), NULL,
	  "record nothing: show how long calls of module:qualname take, live on a terminal", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "with --latency: print a JSON object at the end", false, NULL },
	{ 0, "max-depth", "N", OPT_LIMIT, AT(max_depth), NULL,
	  "record only the N outermost frames of a stack", false, NULL },
	{ 0, "min-duration", "US", OPT_CUSTOM, AT(min_ns), NULL,
	  "leave out calls that take less than so many microseconds, or 5ms: they are folded into their "
	  "callers", false, parse_min },
	{ 0 },
};
/* clang-format on */

bool filters_by_code(const struct filter_opts *o)
{
	return o->include.cnt || o->exclude.cnt;
}

bool filters_any(const struct filter_opts *o)
{
	return filters_by_code(o) || o->root || o->latency || o->thread || o->max_depth ||
	       o->min_ns;
}

int filters_check(const struct filter_opts *o, struct err *e)
{
	size_t len = o->thread ? strlen(o->thread) : 1;

	if (!len || len >= PYE_FILTER_NAME)
		return err_set(e, -PYE_EUSAGE, "--thread: want a pattern of 1 to %d bytes",
			       PYE_FILTER_NAME - 1);
	if (o->root && !*o->root)
		return err_set(e, -PYE_EUSAGE, "--root: want module:qualname");
	if (o->latency &&
	    (!*o->latency || filters_by_code(o) || o->root || o->max_depth || o->min_ns))
		return err_set(
			e, -PYE_EUSAGE,
			"--latency wants module:qualname, and no other filter than --thread");
	if (o->json && !o->latency)
		return err_set(e, -PYE_EUSAGE, "--json goes with --latency");
	if (o->max_depth > UINT32_MAX)
		return err_set(e, -PYE_EUSAGE, "--max-depth: the number is too large");
	return 0;
}

static void function(struct bpf_filter *f, uint32_t by, const char *text)
{
	struct func_spec spec;

	func_spec_parse(&spec, text);
	f->by |= by;
	f->function = text;
	f->function_len = spec.len;
}

struct bpf_filter filters_kernel(const struct filter_opts *o)
{
	struct bpf_filter f = { .thread = o->thread };

	if (filters_by_code(o))
		f.by |= PYE_FILTER_CODE;
	if (o->thread)
		f.by |= PYE_FILTER_THREAD;
	if (o->root)
		function(&f, PYE_FILTER_ROOT, o->root);
	if (o->latency)
		function(&f, PYE_FILTER_CODE | PYE_FILTER_ONLY, o->latency);
	/* the programs count all frames, so only where all are shown */
	if (o->max_depth && !filters_by_code(o) && !o->root) {
		f.by |= PYE_FILTER_DEPTH;
		f.max_depth = (uint32_t)o->max_depth;
	}
	return f;
}

void filters_assembler(const struct filter_opts *o, struct assembler_filter *out)
{
	*out = (struct assembler_filter){ .include_cnt = o->include.cnt,
					  .exclude_cnt = o->exclude.cnt,
					  .max_depth = (uint32_t)o->max_depth,
					  .min_ns = o->min_ns,
					  .root = o->root,
					  .only = o->latency,
					  .thread = o->thread };
	memcpy(out->include, o->include.v, sizeof(out->include));
	memcpy(out->exclude, o->exclude.v, sizeof(out->exclude));
}

static void decide(void *ctx, const struct pye_verdict *verdict)
{
	struct session *s = ctx;

	cap_bpf__decide(s->cap, verdict);
}

int filters_begin(struct session *s)
{
	struct assembler_filter f;

	if (!filters_any(&s->opts.filter))
		return 0;
	filters_assembler(&s->opts.filter, &f);
	f.decide = decide;
	f.ctx = s;
	return assembler__filter(s->as, &f);
}

static void say_no_code(void)
{
	log_warn("no code that ran is what --include and --exclude leave");
}

/* A file without events does not come without a reason. */
static void say_nothing_kept(const struct filter_opts *o, const struct assembler_filtered *seen)
{
	char shown[300];

	if (o->thread && !seen->threads)
		log_warn("no thread that ran is called %s",
			 text_escape(shown, sizeof(shown), o->thread, strlen(o->thread)));
	else if (o->root && !seen->functions)
		log_warn("no function that ran is called %s",
			 text_escape(shown, sizeof(shown), o->root, strlen(o->root)));
	else if (filters_by_code(o) && !seen->codes)
		say_no_code();
}

static void say_left_out(uint64_t calls)
{
	fprintf(stderr, "filtered  %" PRIu64 " calls that are not recorded\n", calls);
}

void filters_say(const struct filter_opts *o, uint64_t left_out, bool any)
{
	if (!filters_by_code(o))
		return;
	say_left_out(left_out);
	if (!any)
		say_no_code();
}

void filters_report(const struct filter_opts *o, const struct assembler *as, uint64_t held_back)
{
	const struct assembler_folded *folded = assembler__folded(as);
	struct assembler_filtered seen;
	char took[16];

	assembler__filtered(as, &seen);
	if (filters_by_code(o) || o->root || o->max_depth)
		say_left_out(held_back + seen.calls);
	say_nothing_kept(o, &seen);
	if (o->min_ns)
		fprintf(stderr,
			"folded    %" PRIu64 " short calls, %s in all, into their callers\n",
			folded->calls, summary_duration(took, sizeof(took), folded->ns));
}
