// SPDX-License-Identifier: Apache-2.0
#include "cmd/table.h"

#include <errno.h>
#include <stdio.h>

#include "profile/ranking.h"

#define AT(member) offsetof(struct table_opts, member)

/* clang-format off */
const struct opt_row table_rows[] = {
	{ 'n', "top", "N", OPT_UNSIGNED, AT(top_cnt), "20", "rows to show, 0 for all", false, NULL },
	{ 0, "raw", NULL, OPT_FLAG, AT(raw), NULL,
	  "keep the profiler's own cost in the times", false, NULL },
	{ 0, "full-filenames", NULL, OPT_FLAG, AT(full_files), NULL,
	  "whole paths, not from the import root on", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "print a JSON object", false, NULL },
	{ 0 },
};
/* clang-format on */

int table_parse_by(void *field, const char *arg, struct err *e)
{
	int i = opt_word(ranking_by_names, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want function, module, line, thread or process");
	*(enum ranking_by *)field = (enum ranking_by)i;
	return 0;
}

uint32_t table_row_cnt(const struct table_opts *opts)
{
	return opts->top_cnt && opts->top_cnt < UINT32_MAX ? (uint32_t)opts->top_cnt : UINT32_MAX;
}

static int write_stdout(void *ctx, const void *data, size_t len)
{
	(void)ctx;
	return fwrite(data, 1, len, stdout) == len ? 0 : -PYE_EOUTPUT;
}

int table_begin(struct outbuf *b)
{
	return outbuf__init(b, 65536, write_stdout, NULL);
}

int table_end(struct outbuf *b, struct err *e)
{
	if (outbuf__flush(b) || fflush(stdout))
		return err_set(e, -PYE_EOUTPUT, "cannot write standard output: %s",
			       err_str(-errno));
	return 0;
}
