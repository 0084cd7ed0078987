// SPDX-License-Identifier: Apache-2.0
#include "export/latency_table.h"

#include <inttypes.h>

#include "export/json.h"
#include "export/summary.h"
#include "profile/aggregate.h"

#define BAR_WIDTH 40

static const struct {
	const char *name;
	double share;
} quantiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 } };

enum {
	QUANTILE_CNT = sizeof(quantiles) / sizeof(quantiles[0])
};

static uint64_t mean_of(const struct histogram *h)
{
	return h->cnt ? (uint64_t)(h->sum / (double)h->cnt + 0.5) : 0;
}

/* Powers of two from the least to the most, a bar each. */
static void print_histogram(FILE *f, const struct histogram *h)
{
	unsigned int first = h->min > 1 ? 63 - (unsigned int)__builtin_clzll(h->min) : 0;
	unsigned int last = h->max > 1 ? 63 - (unsigned int)__builtin_clzll(h->max) : 0;
	uint64_t rows[64] = { 0 }, most = 1, below, before;
	char from[16], to[16];

	before = first ? histogram__count_below(h, 1ull << first) : 0;
	for (unsigned int i = first; i <= last && i < 64; i++) {
		below = i < 63 ? histogram__count_below(h, 2ull << i) : h->cnt;
		rows[i] = below - before;
		before = below;
		most = rows[i] > most ? rows[i] : most;
	}
	fprintf(f, "\n%25s %12s\n", "latency", "runs");
	for (unsigned int i = first; i <= last && i < 64; i++) {
		int width = (int)((double)rows[i] / (double)most * BAR_WIDTH + 0.5);

		fprintf(f, "%11s - %11s %12" PRIu64 "%s%.*s\n",
			summary_duration(from, sizeof(from), i ? 1ull << i : 0),
			i < 63 ? summary_duration(to, sizeof(to), 2ull << i) : "", rows[i],
			width ? " " : "", width, "########################################");
	}
}

/* Of durations like this one, or with NULL of all: how well a mean one is known. */
static uint64_t doubt_of(const struct histogram *h, const uint64_t *own_ns, const uint64_t *ns)
{
	uint32_t from = ns ? histogram_bucket(*ns) : 0, to = ns ? from + 1 : HISTOGRAM_BUCKETS;
	uint64_t cnt = 0;
	double own = 0;

	for (uint32_t i = from; own_ns && i < to; i++) {
		own += (double)own_ns[i];
		cnt += h->buckets[i];
	}
	return cnt ? (uint64_t)(AGG_OWN_DOUBT * own / (double)cnt) : 0;
}

static bool print_one(FILE *f, const char *name, uint64_t ns, uint64_t doubt_ns)
{
	char text[16];

	fprintf(f, "%s %s", name, summary_time(text, sizeof(text), ns, doubt_ns));
	return ns < doubt_ns;
}

bool latency_print(FILE *f, const struct histogram *h, const uint64_t *own_ns)
{
	bool doubt;

	if (!h->cnt)
		return false;
	doubt = print_one(f, "latency   min", h->min, doubt_of(h, own_ns, &h->min));
	doubt |= print_one(f, ", mean", mean_of(h), doubt_of(h, own_ns, NULL));
	for (unsigned int i = 0; i < QUANTILE_CNT; i++) {
		uint64_t ns = histogram__quantile(h, quantiles[i].share);

		fputs(", ", f);
		doubt |= print_one(f, quantiles[i].name, ns, doubt_of(h, own_ns, &ns));
	}
	doubt |= print_one(f, ", max", h->max, doubt_of(h, own_ns, &h->max));
	fputc('\n', f);
	print_histogram(f, h);
	return doubt;
}

static void put_u64(struct outbuf *b, const char *name, uint64_t value)
{
	outbuf__puts(b, ",\"");
	outbuf__puts(b, name);
	outbuf__puts(b, "\":");
	json_u64(b, value);
}

void latency_json(struct outbuf *b, const struct histogram *h)
{
	bool first = true;

	outbuf__puts(b, ",\n\"latency\":{\"count\":");
	json_u64(b, h->cnt);
	if (h->cnt) {
		put_u64(b, "min_ns", h->min);
		put_u64(b, "mean_ns", mean_of(h));
		for (unsigned int i = 0; i < QUANTILE_CNT; i++) {
			char name[8];

			snprintf(name, sizeof(name), "%s_ns", quantiles[i].name);
			put_u64(b, name, histogram__quantile(h, quantiles[i].share));
		}
		put_u64(b, "max_ns", h->max);
	}
	outbuf__puts(b, "},\n\"histogram\":[");
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (!h->buckets[i])
			continue;
		outbuf__puts(b, first ? "{\"from_ns\":" : ",{\"from_ns\":");
		json_u64(b, histogram_low(i));
		put_u64(b, "to_ns", histogram_low(i) + (histogram_width(i) - 1));
		put_u64(b, "count", h->buckets[i]);
		outbuf__putc(b, '}');
		first = false;
	}
	outbuf__putc(b, ']');
}
