// SPDX-License-Identifier: Apache-2.0
#include "profile/diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/module.h"

enum {
	SLICES_NEEDED = 5, /* with time of a function, to tell its noise */
	SHIFTS_NEEDED = 5, /* functions, to tell the machine's */
	SAMPLES_NEEDED =
		10, /* to say that a function is not called any more: chance makes that none of them */
};

#define SIGMAS	    3.0
#define FLOOR_LEAST 0.02
#define FLOOR_GUESS 0.10
#define SHARE_LEAST 0.002 /* of all time: functions below that tell nothing of the machine */

/* Slices of one row, of all its functions. */
struct series {
	double self_ns[SLICES_MAX], runs[SLICES_MAX];
	double own_ns; /* the profiler's part */
};

/* How sure the self time of a row is. */
struct noise {
	bool known, by_run;
	double own_ns;
	double variance; /* of the sum, all that disturbed the run included */
	double each_ns; /* median of a run, or of a slice */
	double typical_ns, typical_variance; /* of the sum, if all were as the median */
};

/* The functions of both sides, by what they are called. */
struct match {
	const struct slices *slices[2];
	const struct agg_result *r[2];
	uint32_t *row_of[2]; /* of each function */
	uint32_t row_cnt;
	struct noise *noise[2]; /* of each row */
};

static void match_done(struct match *m)
{
	for (int side = 0; side < 2; side++) {
		free(m->row_of[side]);
		free(m->noise[side]);
	}
}

int diff_name(struct strpool *names, const struct agg_result *r, uint32_t func, uint32_t *id)
{
	const struct strpool_str *name = &r->strings.strs[r->funcs[func].qualname];
	auto_free char *key = malloc(name->len + 514);

	if (!key)
		return -ENOMEM;
	module_name(key, 512, strpool__get(&r->strings, r->funcs[func].short_file));
	strcat(key, ":");
	strcat(key, name->s);
	return strpool__add(names, key, strlen(key), id);
}

static int name_rows(struct match *m)
{
	struct strpool names;
	int err = strpool__init(&names);

	for (int side = 0; side < 2 && !err; side++) {
		const struct agg_result *r = m->r[side];

		m->row_of[side] = malloc((r->func_cnt + 1ull) * sizeof(*m->row_of[side]));
		if (!m->row_of[side])
			err = -ENOMEM;
		for (uint32_t i = 0; i < r->func_cnt && !err; i++) {
			uint32_t id = 1;

			err = diff_name(&names, r, i, &id);
			m->row_of[side][i] = id - 1;
		}
	}
	m->row_cnt = names.cnt ? names.cnt - 1 : 0;
	strpool__done(&names);
	return err;
}

static int by_value(const void *left, const void *right)
{
	const double *l = left, *r = right;

	return *l < *r ? -1 : *l > *r;
}

/* The middle one; puts them in order. */
static double median(double *values, uint32_t cnt)
{
	qsort(values, cnt, sizeof(*values), by_value);
	return (values[cnt / 2] + values[(cnt - 1) / 2]) / 2;
}

/* As the standard deviation, from the median distance to @middle: what is far off does not move it. */
static double spread(double *values, uint32_t cnt, double middle)
{
	for (uint32_t i = 0; i < cnt; i++)
		values[i] = fabs(values[i] - middle);
	return 1.4826 * median(values, cnt);
}

/* Variance of a sum over slices, when each scatters around @ratio times its runs, or around the mean. */
static double scatter(const struct series *s, double ratio, double mean, uint32_t active)
{
	double sum = 0;

	for (int i = 0; i < SLICES_MAX; i++) {
		double off = s->self_ns[i] - ratio * s->runs[i] - mean;

		if (s->self_ns[i] != 0 || s->runs[i] != 0)
			sum += off * off;
	}
	return sum * active / (active - 1);
}

/*
 * What is steady about a function is its time per run, or its time per slice where it runs for longer.
 * A function that ran in few slices may be anything.
 */
static struct noise noise_of(const struct series *s)
{
	double self_ns = 0, runs = 0, each[SLICES_MAX], middle, times;
	uint32_t active = 0, cnt = 0;
	struct noise n = { .own_ns = s->own_ns };
	bool by_run;

	for (int i = 0; i < SLICES_MAX; i++) {
		self_ns += s->self_ns[i];
		runs += s->runs[i];
		active += s->self_ns[i] != 0 || s->runs[i] != 0;
	}
	by_run = runs >= 2 * active;
	for (int i = 0; i < SLICES_MAX; i++) {
		if (by_run && s->runs[i] > 0)
			each[cnt++] = s->self_ns[i] / s->runs[i];
		else if (!by_run && (s->self_ns[i] != 0 || s->runs[i] != 0))
			each[cnt++] = s->self_ns[i];
	}
	if (cnt < SLICES_NEEDED)
		return n;
	n.known = true;
	n.by_run = by_run;
	n.variance = by_run ? scatter(s, self_ns / runs, 0, active)
			    : scatter(s, 0, self_ns / active, active);
	middle = median(each, cnt);
	times = by_run ? runs : active;
	n.each_ns = middle;
	n.typical_ns = middle * times;
	/* 1.25: a median scatters that much more than a mean */
	n.typical_variance = pow(1.25 * spread(each, cnt, middle) * times, 2) / cnt;
	return n;
}

static int find_noise(struct match *m, int side)
{
	auto_free struct series *series = calloc(m->row_cnt + 1ull, sizeof(*series));

	m->noise[side] = malloc((m->row_cnt + 1ull) * sizeof(*m->noise[side]));
	if (!series || !m->noise[side])
		return -ENOMEM;
	for (uint32_t f = 0; f < m->r[side]->func_cnt; f++) {
		const struct slice *slice = slices__of(m->slices[side], f);
		struct series *s = &series[m->row_of[side][f]];

		for (int i = 0; slice && i < SLICES_MAX; i++) {
			s->self_ns[i] += (double)slice[i].self_ns;
			s->runs[i] += (double)slice[i].runs;
			s->own_ns += (double)slice[i].own_ns;
		}
	}
	for (uint32_t i = 0; i < m->row_cnt; i++)
		m->noise[side][i] = noise_of(&series[i]);
	return 0;
}

static int sum_up(struct diff *d, const struct match *m, int side)
{
	const struct agg_result *r = m->r[side];
	auto_free uint64_t *total_ns = malloc((m->row_cnt + 1ull) * sizeof(*total_ns));
	int err = total_ns ? agg_group_totals(r, m->row_of[side], m->row_cnt, total_ns) : -ENOMEM;

	if (err)
		return err;
	for (uint32_t i = 0; i < m->row_cnt; i++)
		d->rows[i].side[side] =
			(struct diff_side){ .func = AGG_NONE, .total_ns = total_ns[i] };
	for (uint32_t f = r->func_cnt; f-- > 0;) {
		struct diff_side *s = &d->rows[m->row_of[side][f]].side[side];

		s->func = f;
		s->calls += r->funcs[f].calls;
		s->self_ns += r->funcs[f].self_ns;
	}
	return 0;
}

/* How the time per call shifts for most functions, and how much they differ in that. */
static int find_shift(struct diff *d, const struct match *m)
{
	auto_free double *shifts = malloc((m->row_cnt + 1ull) * sizeof(*shifts));
	double middle;
	uint32_t n = 0;

	if (!shifts)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->row_cnt; i++) {
		const struct noise *a = &m->noise[0][i], *b = &m->noise[1][i];

		if (!a->by_run || !b->by_run || a->each_ns <= 0 || b->each_ns <= 0 ||
		    a->typical_ns < SHARE_LEAST * (double)d->side[0]->self_ns ||
		    b->typical_ns < SHARE_LEAST * (double)d->side[1]->self_ns)
			continue;
		shifts[n++] = log(b->each_ns / a->each_ns);
	}
	d->shift_cnt = n;
	d->floor = FLOOR_GUESS;
	if (n < SHIFTS_NEEDED)
		return 0;
	middle = median(shifts, n);
	d->shift = exp(middle) - 1;
	d->floor = fabs(middle) + spread(shifts, n, middle);
	d->floor = d->floor < FLOOR_LEAST ? FLOOR_LEAST : d->floor;
	return 0;
}

/* @least_calls: fewer on one side, and none on the other, mean nothing. */
static void judge(struct diff_row *row, double floor, uint64_t least_calls,
		  const struct noise *before, const struct noise *after)
{
	const struct diff_side *a = &row->side[0], *b = &row->side[1];
	double most = (double)(a->self_ns > b->self_ns ? a->self_ns : b->self_ns);
	double own_ns = AGG_OWN_DOUBT * fmax(before->own_ns, after->own_ns), typical_ns,
	       typical_noise_ns;
	bool sure;

	row->change_ns = (double)b->self_ns - (double)a->self_ns;
	row->noise_ns = -1;
	if (!a->self_ns && !a->calls) {
		row->verdict = b->calls < least_calls ? DIFF_NOISE : DIFF_NEW;
		return;
	}
	if (!b->self_ns && !b->calls) {
		row->verdict = a->calls < least_calls ? DIFF_NOISE : DIFF_GONE;
		return;
	}
	if (!before->known || !after->known) {
		row->verdict = DIFF_UNKNOWN;
		return;
	}
	row->noise_ns = SIGMAS * sqrt(before->variance + after->variance) + floor * most + own_ns;
	/* what disturbed the program now and then is in the sums, but not in the medians */
	typical_ns = after->typical_ns - before->typical_ns;
	typical_noise_ns = SIGMAS * sqrt(before->typical_variance + after->typical_variance) +
			   floor * fmax(fabs(before->typical_ns), fabs(after->typical_ns)) + own_ns;
	sure = before->by_run == after->by_run && fabs(typical_ns) > typical_noise_ns &&
	       typical_ns * row->change_ns > 0;
	row->verdict = sure || fabs(row->change_ns) > row->noise_ns ? DIFF_CHANGED : DIFF_NOISE;
	if (sure && typical_noise_ns < row->noise_ns)
		row->noise_ns = typical_noise_ns;
}

static int by_change(const void *left, const void *right)
{
	const struct diff_row *l = left, *r = right;
	int left_class = l->verdict < DIFF_UNKNOWN ? 0 : l->verdict;
	int right_class = r->verdict < DIFF_UNKNOWN ? 0 : r->verdict;

	if (left_class != right_class)
		return left_class - right_class;
	if (fabs(l->change_ns) != fabs(r->change_ns))
		return fabs(l->change_ns) > fabs(r->change_ns) ? -1 : 1;
	if (l->side[0].func != r->side[0].func)
		return l->side[0].func < r->side[0].func ? -1 : 1;
	return l->side[1].func < r->side[1].func ? -1 : l->side[1].func > r->side[1].func;
}

static int fill(struct diff *d, struct match *m)
{
	uint64_t least_calls = d->side[0]->sample_ns || d->side[1]->sample_ns ? SAMPLES_NEEDED : 0;
	int err = name_rows(m);

	if (err)
		return err;
	d->rows = calloc(m->row_cnt + 1ull, sizeof(*d->rows));
	if (!d->rows)
		return -ENOMEM;
	for (int side = 0; side < 2 && !err; side++) {
		err = find_noise(m, side);
		err = err ? err : sum_up(d, m, side);
	}
	err = err ? err : find_shift(d, m);
	for (uint32_t i = 0; i < m->row_cnt && !err; i++) {
		struct diff_row row = d->rows[i];

		judge(&row, d->floor, least_calls, &m->noise[0][i], &m->noise[1][i]);
		if (row.side[0].calls || row.side[0].self_ns || row.side[1].calls ||
		    row.side[1].self_ns)
			d->rows[d->cnt++] = row;
	}
	return err;
}

int diff__init(struct diff *d, const struct slices *before, const struct slices *after)
{
	auto_fn(match_done) struct match m = { .slices = { before, after } };
	int err;

	for (int side = 0; side < 2; side++)
		m.r[side] = slices__result(m.slices[side]);
	*d = (struct diff){ .side = { m.r[0], m.r[1] } };
	err = fill(d, &m);
	if (err) {
		diff__done(d);
		return err;
	}
	qsort(d->rows, d->cnt, sizeof(*d->rows), by_change);
	return 0;
}

void diff__done(struct diff *d)
{
	free(d->rows);
	*d = (struct diff){ 0 };
}
