// SPDX-License-Identifier: Apache-2.0
#include "cmd/filters.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "abi/filter.h"
#include "cmd/session_priv.h"
#include "profile/code_glob.h"

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

#define AT(member) offsetof(struct filter_opts, member)

/* clang-format off */
const struct opt_row filter_rows[] = {
	{ 0, "include", "GLOB", OPT_CUSTOM, AT(include), NULL,
	  "record only code of these modules (app, 'app.*') or files ('*/app/*', x.py); can be repeated",
	  false, add_glob },
	{ 0, "exclude", "GLOB", OPT_CUSTOM, AT(exclude), NULL,
	  "do not record code of these modules or files; can be repeated", false, add_glob },
	{ 0 },
};
/* clang-format on */

static bool by_code(const struct filter_opts *o)
{
	return o->include.cnt || o->exclude.cnt;
}

bool filters_any(const struct filter_opts *o)
{
	return by_code(o);
}

uint32_t filters_kernel(const struct filter_opts *o)
{
	return by_code(o) ? PYE_FILTER_CODE : 0;
}

void filters_assembler(const struct filter_opts *o, struct assembler_filter *out)
{
	*out = (struct assembler_filter){ .include_cnt = o->include.cnt,
					  .exclude_cnt = o->exclude.cnt };
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

void filters_report(const struct filter_opts *o, const struct assembler *as, uint64_t held_back)
{
	struct assembler_filtered seen;

	if (!filters_any(o))
		return;
	assembler__filtered(as, &seen);
	fprintf(stderr, "filtered  %" PRIu64 " calls that are not recorded\n",
		held_back + seen.calls);
}
