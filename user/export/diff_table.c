// SPDX-License-Identifier: Apache-2.0
#include "export/diff_table.h"

#include <inttypes.h>
#include <math.h>

#include "base/color.h"
#include "export/json.h"
#include "export/stats.h"
#include "export/summary.h"

static const char *const verdicts[] = {
	[DIFF_CHANGED] = "changed", [DIFF_NEW] = "new",	    [DIFF_GONE] = "gone",
	[DIFF_UNKNOWN] = "unknown", [DIFF_NOISE] = "noise",
};

static void print_side(FILE *f, const char *name, const struct agg_result *r)
{
	uint64_t lost = 0;
	char text[16];

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += r->totals.lost[i];
	fprintf(f, "%-9s %" PRIu64 " %s, %" PRIu64 " lost, %" PRIu64 " gaps", name,
		r->totals.written, r->sample_ns ? "samples" : "events", lost, r->gap_cnt);
	fprintf(f, ", %s in Python frames\n", summary_duration(text, sizeof(text), r->self_ns));
}

static void print_head(FILE *f, const struct diff *d)
{
	print_side(f, "before", d->side[0]);
	print_side(f, "after", d->side[1]);
	if (d->shift_cnt < 5)
		fprintf(f,
			"machine   too few functions to tell: %.0f %% of a function's time count as noise\n",
			100 * d->floor);
	else
		fprintf(f,
			"machine   a call takes %+.1f %% (median of %" PRIu32
			" functions); %.1f %% of a function's time count as noise\n",
			100 * d->shift, d->shift_cnt, 100 * d->floor);
}

static void print_per_call(FILE *f, const struct diff *d, const struct diff_row *row)
{
	const struct diff_side *a = &row->side[0], *b = &row->side[1];
	bool samples = d->side[0]->sample_ns || d->side[1]->sample_ns;

	if (!samples && a->calls && b->calls && a->self_ns)
		fprintf(f, " %+8.1f%%",
			100 * ((double)b->self_ns / (double)b->calls /
				       ((double)a->self_ns / (double)a->calls) -
			       1));
	else
		fprintf(f, " %9s",
			row->verdict == DIFF_NEW || row->verdict == DIFF_GONE
				? verdicts[row->verdict]
				: "");
}

static void print_row(FILE *f, const struct diff *d, const struct diff_row *row)
{
	int side = row->side[1].func != AGG_NONE;
	enum color color = row->verdict >= DIFF_UNKNOWN ? COLOR_FAINT
			   : row->change_ns < 0		? COLOR_GOOD
							: COLOR_BAD;
	char change[16], noise[16], before[16], after[16];

	fprintf(f, "%s%c%10s%s", color_begin(f, color), row->change_ns < 0 ? '-' : '+',
		summary_duration(change, sizeof(change), (uint64_t)fabs(row->change_ns)),
		color_end(f, color));
	fprintf(f, " %10s",
		row->noise_ns < 0
			? row->verdict == DIFF_UNKNOWN ? "?" : ""
			: summary_duration(noise, sizeof(noise), (uint64_t)row->noise_ns));
	fprintf(f, " %10s %10s", summary_duration(before, sizeof(before), row->side[0].self_ns),
		summary_duration(after, sizeof(after), row->side[1].self_ns));
	print_per_call(f, d, row);
	fprintf(f, " %10" PRIu64 " %10" PRIu64 "  ", row->side[0].calls, row->side[1].calls);
	stats_print_func(f, d->side[side], &d->side[side]->funcs[row->side[side].func]);
	fputc('\n', f);
}

void diff_print(FILE *f, const struct diff *d, uint32_t top_cnt)
{
	uint32_t changed = 0, shown = 0, i;

	print_head(f, d);
	while (changed < d->cnt && d->rows[changed].verdict < DIFF_UNKNOWN)
		changed++;
	fprintf(f, "\n%s%11s %10s %10s %10s %9s %10s %10s  %s%s\n", color_begin(f, COLOR_HEAD),
		"change", "noise", "before", "after", "per call", "calls", "calls",
		"function (self times)", color_end(f, COLOR_HEAD));
	for (i = 0; i < changed && i < top_cnt; i++)
		print_row(f, d, &d->rows[i]);
	if (!changed)
		fputs("nothing changed by more than the noise\n", f);
	else if (changed > top_cnt)
		fprintf(f, "and %" PRIu32 " more\n", changed - top_cnt);
	if (changed == d->cnt)
		return;
	fputs("\nwithin the noise, or too short to tell (?):\n", f);
	for (i = changed; i < d->cnt && shown < top_cnt; i++, shown++)
		print_row(f, d, &d->rows[i]);
	if (i < d->cnt)
		fprintf(f, "and %" PRIu32 " more\n", d->cnt - i);
}

static void put_number(struct outbuf *b, const char *name, double value)
{
	char text[64];

	snprintf(text, sizeof(text), ",\"%s\":%.6g", name, isfinite(value) ? value : 0);
	outbuf__puts(b, text);
}

static void put_ns(struct outbuf *b, const char *name, double ns)
{
	char text[64];

	snprintf(text, sizeof(text), ",\"%s\":%.0f", name, ns);
	outbuf__puts(b, text);
}

static void put_side(struct outbuf *b, const char *name, const struct diff_side *side)
{
	char text[160];

	snprintf(text, sizeof(text),
		 ",\"%s\":{\"calls\":%" PRIu64 ",\"self_ns\":%" PRIu64 ",\"total_ns\":%" PRIu64 "}",
		 name, side->calls, side->self_ns, side->total_ns);
	outbuf__puts(b, text);
}

void diff_json(struct outbuf *b, const struct diff *d, uint32_t top_cnt)
{
	outbuf__puts(b, "{\"before\":{");
	stats_json_head(b, d->side[0]);
	outbuf__puts(b, "},\n\"after\":{");
	stats_json_head(b, d->side[1]);
	outbuf__putc(b, '}');
	put_number(b, "shift", d->shift);
	put_number(b, "noise_share", d->floor);
	outbuf__puts(b, ",\"shift_functions\":");
	json_u64(b, d->shift_cnt);
	outbuf__puts(b, ",\"row_count\":");
	json_u64(b, d->cnt);
	outbuf__puts(b, ",\"rows\":[");
	for (uint32_t i = 0; i < d->cnt && i < top_cnt; i++) {
		const struct diff_row *row = &d->rows[i];
		int side = row->side[1].func != AGG_NONE;

		outbuf__puts(b, i ? ",\n{" : "\n{");
		stats_json_func(b, d->side[side], &d->side[side]->funcs[row->side[side].func]);
		outbuf__puts(b, ",\"verdict\":");
		json_str(b, verdicts[row->verdict]);
		put_ns(b, "change_ns", row->change_ns);
		if (row->noise_ns >= 0)
			put_ns(b, "noise_ns", row->noise_ns);
		else
			outbuf__puts(b, ",\"noise_ns\":null");
		put_side(b, "before", &row->side[0]);
		put_side(b, "after", &row->side[1]);
		outbuf__putc(b, '}');
	}
	outbuf__puts(b, "]}\n");
}
