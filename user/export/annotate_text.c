// SPDX-License-Identifier: Apache-2.0
#include "export/annotate_text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "export/source_file.h"
#include "export/summary.h"

enum {
	AROUND = 5 /* lines around one with time */
};

static void print_line(FILE *f, uint32_t number, const struct ranking_row *row,
		       const struct source_line *text)
{
	char self[16] = "", total[16] = "", shown[6 * SOURCE_LINE_MAX + 64] = "";

	if (row && row->self_ns)
		summary_duration(self, sizeof(self), row->self_ns);
	if (row && row->total_ns)
		summary_duration(total, sizeof(total), row->total_ns);
	if (text)
		text_escape(shown, sizeof(shown), text->s, text->len);
	fprintf(f, "%9s %9s %6" PRIu32 "  %s\n", self, total, number, shown);
}

static void print_source(FILE *f, const struct ranking_row *row, uint32_t cnt,
			 const struct source_file *text, bool whole)
{
	const struct ranking_row *end = row + cnt;
	uint32_t near = 0;
	bool cut = false;

	/* of some samples the file is known and the line is not */
	for (; row < end && !row->line; row++)
		print_line(f, 0, row, &(struct source_line){ "[line not known]", 16 });
	for (uint32_t number = 1; number <= text->line_cnt; number++) {
		const struct ranking_row *at = row < end && row->line == number ? row++ : NULL;

		near = at ? number : near;
		if (!whole && !(near && number - near <= AROUND) &&
		    !(row < end && row->line <= number + AROUND)) {
			cut = true;
			continue;
		}
		if (cut)
			fputs("      ...\n", f);
		cut = false;
		print_line(f, number, at, &text->lines[number - 1]);
	}
	if (row < end)
		fputs("the file ends before these lines:\n", f);
	for (; row < end; row++)
		print_line(f, row->line, row, NULL);
}

static int no_file(const struct annotate *a, const char *name, uint32_t cnt, struct err *e)
{
	char shown[512];

	if (cnt)
		err_set(e, -PYE_EUSAGE, "%" PRIu32 " files are called %.200s", cnt, name);
	else
		err_set(e, -PYE_EUSAGE, "no file in the capture is called %.200s", name);
	if (!cnt && a->file_cnt)
		err_hint(e, "the one with the most time is %s",
			 text_escape(shown, 400, strpool__get(&a->r->strings, a->files[0].file),
				     strlen(strpool__get(&a->r->strings, a->files[0].file))));
	else
		err_hint(
			e,
			"pyebpf stats FILE --by module -n 0 shows every file; give more of its path");
	return -PYE_EUSAGE;
}

int annotate_print(FILE *f, const struct annotate *a, const char *name, bool whole, struct err *e)
{
	auto_fn(source_file__done) struct source_file text = { 0 };
	uint32_t cnt, i = annotate__find(a, name, &cnt);
	const struct annotate_file *file;
	const char *path;
	char shown[4096];
	int err;

	if (cnt != 1)
		return no_file(a, name, cnt, e);
	file = &a->files[i];
	path = strpool__get(&a->r->strings, file->file);
	err = source_file__init(&text, path, a->r->start_unix_ns);
	if (err)
		return err;
	fprintf(f, "%s\n", text_escape(shown, sizeof(shown), path, strlen(path)));
	if (text.missing)
		fprintf(f, "no source: %s\n", text.missing);
	if (text.newer)
		fputs("the file is newer than the capture: its lines may be others than those that ran\n",
		      f);
	if (!a->r->sample_ns)
		fputs("a trace of calls does not know which line runs: times stand at the first line of a function\n",
		      f);
	fprintf(f, "%9s %9s %6s\n", "self", "total", "line");
	print_source(f, a->lines.rows + file->line_at, file->line_cnt, &text, whole);
	return 0;
}
