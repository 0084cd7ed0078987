// SPDX-License-Identifier: Apache-2.0
#include "export/summary.h"

#include <inttypes.h>
#include <string.h>

#include "base/color.h"
#include "export/stats.h"
#include "profile/ranking.h"

char *summary_duration(char *out, size_t size, uint64_t ns)
{
	double value = (double)ns;
	const char *unit = "ns";

	if (ns >= 999500000) {
		value /= 1e9;
		unit = "s";
	} else if (ns >= 999500) {
		value /= 1e6;
		unit = "ms";
	} else if (ns >= 1000) {
		value /= 1e3;
		unit = "us";
	}
	snprintf(out, size, "%.*f %s",
		 ns < 1000 || value >= 100 ? 0
		 : value >= 10		   ? 1
					   : 2,
		 value, unit);
	return out;
}

char *summary_time(char *out, size_t size, uint64_t ns, uint64_t doubt_ns)
{
	size_t sign = ns < doubt_ns && size > 1;

	if (sign)
		*out = '~';
	summary_duration(out + sign, size - sign, ns);
	return out;
}

void summary_print_doubt(FILE *f)
{
	fprintf(f,
		"~ not sure to be more than nothing: the profiler's own cost, which is out of it, is known to "
		"%.0f %%\n",
		100 * AGG_OWN_DOUBT);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_samples(FILE *f, const struct agg_result *r)
{
	char wall[16], on[16], off[16];
	const struct trace_totals *t = &r->totals;

	fprintf(f, "samples   %" PRIu64 " in %s, %" PRIu32 " thread%s: %s on a CPU, %s off\n",
		t->written,
		summary_duration(wall, sizeof(wall),
				 t->end_ns > r->start_ns ? t->end_ns - r->start_ns : 0),
		r->thread_cnt, r->thread_cnt == 1 ? "" : "s",
		summary_duration(on, sizeof(on), r->self_ns - r->off_ns),
		summary_duration(off, sizeof(off), r->off_ns));
}

static void print_events(FILE *f, const struct agg_result *r)
{
	const struct trace_totals *t = &r->totals;
	uint64_t wall_ns = t->end_ns > r->start_ns ? t->end_ns - r->start_ns : 0;
	uint64_t per_second = wall_ns ? (uint64_t)((double)t->written * 1e9 / (double)wall_ns) : 0;
	char wall[16];

	fprintf(f, "events    %" PRIu64 " in %s (%" PRIu64 " per second), %" PRIu32 " thread%s\n",
		t->written, summary_duration(wall, sizeof(wall), wall_ns), per_second,
		r->thread_cnt, r->thread_cnt == 1 ? "" : "s");
}

uint64_t summary_gap_ns(const struct agg_result *r)
{
	uint64_t gap_ns = 0;

	for (uint32_t i = 0; i < r->thread_cnt; i++)
		gap_ns += r->threads[i].gap_ns;
	return gap_ns;
}

/* What the capture does not show because it was not to be kept, or is in another one. */
static void print_before(FILE *f, const struct agg_result *r)
{
	const struct trace_before *b = &r->before;
	char kept[16], run[16];

	if (!b->part && !b->keep_ns)
		return;
	summary_duration(kept, sizeof(kept), r->totals.end_ns - r->start_ns);
	summary_duration(run, sizeof(run), r->totals.end_ns - b->start_ns);
	if (b->part)
		fprintf(f, "part      %" PRIu32 " of a run of %s: %" PRIu64 " events came before\n",
			b->part, run, b->events);
	else
		fprintf(f,
			"recorder  the last %s of %s: %" PRIu64 " events in %" PRIu64
			" chunks were forgotten\n",
			kept, run, b->events, b->chunks);
}

static void print_losses(FILE *f, const struct agg_result *r)
{
	const struct trace_totals *t = &r->totals;
	enum color color;
	uint64_t lost = 0;
	char gaps[16];

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += t->lost[i];
	color = lost ? COLOR_BAD : COLOR_NONE;
	fprintf(f, "lost      %s%" PRIu64 " (%.*f %%)%s:", color_begin(f, color), lost,
		lost ? 2 : 0, percent(lost, t->generated), color_end(f, color));
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		fprintf(f, "%s %s %" PRIu64, i ? "," : "", trace_loss_name(i), t->lost[i]);
	fputc('\n', f);
	if (r->gap_cnt)
		fprintf(f, "gaps      %" PRIu64 " in which a thread's stack is not known, %s\n",
			r->gap_cnt, summary_duration(gaps, sizeof(gaps), summary_gap_ns(r)));
	if (r->cut_cnt)
		fprintf(f, "callers   too many stacks: %" PRIu64 " calls have [truncated] ones\n",
			r->cut_cnt);
	if (!t->complete)
		fputs("capture   ends before its proper end; this is what is there\n", f);
}

const char *summary_own(const struct agg_result *r)
{
	return !r->own_ns ? "not measured, still in the times"
	       : r->raw	  ? "still in the times"
			  : "taken out of the times";
}

static void print_share(FILE *f, const struct agg_result *r)
{
	uint64_t all = r->self_ns + (r->raw ? 0 : r->own_ns);
	char own[16];

	if (r->own_ns)
		fprintf(f, "profiler  %s (%.1f %% of the time in Python frames), %s\n",
			summary_duration(own, sizeof(own), r->own_ns), percent(r->own_ns, all),
			r->raw ? "still in the times below" : "taken out below");
	else
		fprintf(f, "profiler  its own time was %s below\n", summary_own(r));
}

void summary_print_head(FILE *f, const struct agg_result *r)
{
	if (r->sample_ns)
		print_samples(f, r);
	else
		print_events(f, r);
	print_before(f, r);
	print_losses(f, r);
	if (!r->sample_ns && (r->self_ns || r->own_ns))
		print_share(f, r);
}

static void print_row(FILE *f, const struct agg_result *r, const struct ranking_row *row)
{
	char self[16], total[16];

	fprintf(f, "%12" PRIu64 " %10s %10s  ", row->calls,
		summary_time(self, sizeof(self), row->self_ns, row->doubt_ns),
		summary_time(total, sizeof(total), row->total_ns, row->doubt_ns));
	stats_print_func(f, r, &r->funcs[row->index]);
	fputc('\n', f);
}

void summary_print(FILE *f, const struct aggregate *agg, uint32_t top_cnt)
{
	const struct agg_result *r = aggregate__result(agg);
	struct ranking k;
	bool doubt = false;

	summary_print_head(f, r);
	if (ranking__init(&k, r, RANKING_FUNCTION, RANKING_SELF, false))
		return; /* no memory for a table */
	if (!k.cnt)
		fputs("No Python function was on a stack while this ran.\n", f);
	else
		fprintf(f, "\n%s%12s %10s %10s  %s%s\n", color_begin(f, COLOR_HEAD),
			r->sample_ns ? "samples" : "calls", "self", "total", "function",
			color_end(f, COLOR_HEAD));
	for (uint32_t i = 0; i < k.cnt && i < top_cnt; i++) {
		print_row(f, r, &k.rows[i]);
		doubt = doubt || k.rows[i].self_ns < k.rows[i].doubt_ns;
	}
	if (doubt)
		summary_print_doubt(f);
	ranking__done(&k);
}
