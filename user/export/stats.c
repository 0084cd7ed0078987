// SPDX-License-Identifier: Apache-2.0
#include "export/stats.h"

#include <inttypes.h>

#include "base/color.h"
#include "base/text.h"
#include "export/json.h"
#include "export/summary.h"
#include "profile/module.h"

static const char *const by_names[] = {
	[RANKING_FUNCTION] = "function", [RANKING_MODULE] = "module",	[RANKING_LINE] = "line",
	[RANKING_THREAD] = "thread",	 [RANKING_PROCESS] = "process",
};

static void put_escaped(FILE *f, const struct agg_result *r, uint32_t string)
{
	const struct strpool_str *s = &r->strings.strs[string];
	char shown[512];

	fputs(text_escape(shown, sizeof(shown), s->s, s->len), f);
}

void stats_print_func(FILE *f, const struct agg_result *r, const struct agg_func *func)
{
	put_escaped(f, r, func->qualname);
	if (!agg_shown_file(r, func))
		return;
	fputs(" (", f);
	put_escaped(f, r, agg_shown_file(r, func));
	if (func->line) /* other tools do not know it */
		fprintf(f, ":%" PRIu32, func->line);
	fputc(')', f);
}

static const char *module_of(const struct agg_result *r, const struct agg_func *func, char *out,
			     size_t size)
{
	return module_name(out, size, strpool__get(&r->strings, func->short_file));
}

static void print_what(FILE *f, const struct agg_result *r, enum ranking_by by,
		       const struct ranking_row *row)
{
	struct ranking_text t;

	ranking_text(r, by, row, &t);
	fputs(t.name, f);
	if (t.place[0]) {
		fputs(color_begin(f, COLOR_FAINT), f);
		fprintf(f,
			by == RANKING_LINE     ? " %s"
			: by == RANKING_THREAD ? " in %s"
					       : " (%s)",
			t.place);
		fputs(color_end(f, COLOR_FAINT), f);
	}
	fputc('\n', f);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* As perf has it: red from 5 % on, green from 0.5 % on. */
static enum color color_of_share(const struct agg_result *r, const struct ranking_row *row)
{
	double share = percent(row->self_ns, r->self_ns);

	return share >= 5 ? COLOR_BAD : share >= 0.5 ? COLOR_GOOD : COLOR_NONE;
}

void stats_print(FILE *f, const struct agg_result *r, const struct ranking *k, uint32_t top_cnt)
{
	bool of_threads = k->by >= RANKING_THREAD;
	char self[16], other[16];
	bool doubt = false;

	summary_print_head(f, r);
	if (!k->cnt) {
		fputs("No Python function was on a stack while this ran.\n", f);
		return;
	}
	fprintf(f, "\n%s%12s %10s %6s %10s %6s  %s%s\n", color_begin(f, COLOR_HEAD),
		r->sample_ns ? "samples" : "calls", of_threads ? "time" : "self", "%",
		of_threads ? "gaps" : "total", of_threads ? "lost" : "%", by_names[k->by],
		color_end(f, COLOR_HEAD));
	for (uint32_t i = 0; i < k->cnt && i < top_cnt; i++) {
		const struct ranking_row *row = &k->rows[i];

		fprintf(f, "%12" PRIu64 " %10s %s%6.1f%s %10s ", row->calls,
			summary_time(self, sizeof(self), row->self_ns, row->doubt_ns),
			color_begin(f, color_of_share(r, row)), percent(row->self_ns, r->self_ns),
			color_end(f, color_of_share(r, row)),
			summary_time(other, sizeof(other), of_threads ? row->gap_ns : row->total_ns,
				     row->doubt_ns));
		doubt = doubt || row->self_ns < row->doubt_ns;
		if (of_threads)
			fprintf(f, "%6" PRIu64 "  ", row->lost);
		else
			fprintf(f, "%6.1f  ", percent(row->total_ns, r->self_ns));
		print_what(f, r, k->by, row);
	}
	if (k->cnt > top_cnt)
		fprintf(f, "and %" PRIu32 " more\n", k->cnt - top_cnt);
	if (doubt)
		summary_print_doubt(f);
}

/* A member: its name, which is ours, and a comma before it unless it is the first. */
static void put_key(struct outbuf *b, const char *name)
{
	outbuf__puts(b, ",\"");
	outbuf__puts(b, name);
	outbuf__puts(b, "\":");
}

static void put_u64(struct outbuf *b, const char *name, uint64_t value)
{
	put_key(b, name);
	json_u64(b, value);
}

static void put_str(struct outbuf *b, const char *name, const struct agg_result *r, uint32_t string)
{
	put_key(b, name);
	json_strn(b, r->strings.strs[string].s, r->strings.strs[string].len);
}

void stats_json_head(struct outbuf *b, const struct agg_result *r)
{
	const struct trace_totals *t = &r->totals;
	uint64_t calls = 0;

	for (uint32_t i = 0; i < r->func_cnt; i++)
		calls += r->funcs[i].calls;
	outbuf__puts(b, "\"events\":");
	json_u64(b, t->written);
	put_u64(b, "generated", t->generated);
	put_key(b, "lost");
	for (unsigned int i = 0; i < LOSS_CNT; i++) {
		outbuf__puts(b, i ? ",\"" : "{\"");
		outbuf__puts(b, trace_loss_name(i));
		outbuf__puts(b, "\":");
		json_u64(b, t->lost[i]);
	}
	outbuf__putc(b, '}');
	put_u64(b, "gaps", r->gap_cnt);
	put_u64(b, "gap_ns", summary_gap_ns(r));
	put_u64(b, "wall_ns", t->end_ns > r->start_ns ? t->end_ns - r->start_ns : 0);
	put_key(b, "start_unix_ns");
	json_i64(b, r->start_unix_ns);
	put_key(b, "complete");
	json_bool(b, t->complete);
	put_u64(b, "processes", r->process_cnt);
	put_u64(b, "threads", r->thread_cnt);
	put_u64(b, "calls", calls);
	put_u64(b, "self_ns", r->self_ns);
	put_u64(b, "profiler_ns", r->own_ns);
	put_key(b, "raw");
	json_bool(b, r->raw);
	put_u64(b, "truncated_calls", r->cut_cnt);
	put_u64(b, "sample_ns", r->sample_ns);
	put_u64(b, "off_cpu_ns", r->off_ns);
}

static void put_func(struct outbuf *b, const struct agg_result *r, const struct agg_func *f,
		     uint32_t line)
{
	char module[1024];

	outbuf__puts(b, "\"function\":");
	json_str(b, strpool__get(&r->strings, f->qualname));
	put_key(b, "module");
	json_str(b, module_of(r, f, module, sizeof(module)));
	put_str(b, "file", r, f->file);
	put_u64(b, "line", line);
}

void stats_json_func(struct outbuf *b, const struct agg_result *r, const struct agg_func *f)
{
	put_func(b, r, f, f->line);
}

static void put_process(struct outbuf *b, const struct agg_result *r, uint32_t process)
{
	const struct agg_process *p = &r->processes[process];

	outbuf__puts(b, "\"pid\":");
	json_u64(b, p->pid);
	put_str(b, "process", r, p->comm);
	put_str(b, "python", r, p->python);
}

static void put_what(struct outbuf *b, const struct agg_result *r, enum ranking_by by,
		     const struct ranking_row *row)
{
	uint32_t index = row->index;
	const struct agg_thread *t;
	char module[1024];

	switch (by) {
	case RANKING_FUNCTION:
		stats_json_func(b, r, &r->funcs[index]);
		break;
	case RANKING_LINE:
		put_func(b, r, &r->funcs[index], row->line);
		break;
	case RANKING_MODULE:
		outbuf__puts(b, "\"module\":");
		json_str(b, module_of(r, &r->funcs[index], module, sizeof(module)));
		put_str(b, "file", r, r->funcs[index].file);
		break;
	case RANKING_THREAD:
		t = &r->threads[index];
		put_process(b, r, t->process);
		put_u64(b, "tid", t->tid);
		put_str(b, "thread", r, t->name);
		put_key(b, "main");
		json_bool(b, t->is_main);
		break;
	case RANKING_PROCESS:
		put_process(b, r, index);
		break;
	}
}

void stats_json(struct outbuf *b, const struct agg_result *r, const struct ranking *k,
		uint32_t top_cnt)
{
	outbuf__putc(b, '{');
	stats_json_head(b, r);
	put_key(b, "by");
	json_str(b, by_names[k->by]);
	put_u64(b, "row_count", k->cnt);
	put_key(b, "rows");
	outbuf__putc(b, '[');
	for (uint32_t i = 0; i < k->cnt && i < top_cnt; i++) {
		const struct ranking_row *row = &k->rows[i];

		outbuf__puts(b, i ? ",\n{" : "\n{");
		put_what(b, r, k->by, row);
		put_u64(b, "calls", row->calls);
		put_u64(b, "self_ns", row->self_ns);
		if (k->by >= RANKING_THREAD) {
			put_u64(b, "gap_ns", row->gap_ns);
			put_u64(b, "lost", row->lost);
		} else {
			put_u64(b, "total_ns", row->total_ns);
			put_u64(b, "doubt_ns", row->doubt_ns);
		}
		outbuf__putc(b, '}');
	}
	outbuf__puts(b, "]}\n");
}
