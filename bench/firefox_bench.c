// SPDX-License-Identifier: Apache-2.0
/*
 * What the Firefox exporter costs: pushes a made-up trace into it, gzip included, and prints events
 * per second of CPU time, bytes per event and the peak of memory.
 *
 *	firefox_bench [-j] [-n events] [-t threads] [-f functions per level] [-r] [-o FILE]
 *
 * The program that is "traced" has functions on levels; each calls some of the next level, mostly
 * the same ones in the same order, with costs around 1 us of full ns resolution. A block of it is
 * made before the clock starts and repeated; it is far longer than the 32 KB that gzip looks back.
 * With -r each repetition calls other functions, which makes millions of different stacks.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"

enum {
	BLOCK_EVENTS = 1 << 20,
	LEVELS = 24,
	CALLEES = 4,
	RUN_EVENTS = 700 /* of one thread before another runs */
};

struct step {
	uint32_t delta_ns;
	uint32_t func; /* UINT32_MAX: return */
};

struct block {
	struct step steps[BLOCK_EVENTS + LEVELS * 2];
	size_t cnt;
	uint32_t per_level; /* functions */
	uint64_t random;
};

struct opts {
	uint64_t events;
	uint32_t threads, per_level;
	bool json, rotate;
	const char *path;
};

struct sink {
	FILE *file; /* or NULL */
	uint64_t bytes;
	unsigned char tail[4];
};

static uint64_t next_random(struct block *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random;
}

/* Skewed to the right like measured times: 300 ns to some 10 us, median near 1 us. */
static uint32_t delta(struct block *b)
{
	uint64_t r = next_random(b);
	uint32_t ns = 300 + (uint32_t)(r & 511) + (uint32_t)(r >> 9 & 511);

	for (unsigned int i = 0; i < 5 && (r >> (20 + i) & 3) == 0; i++)
		ns *= 2;
	return ns;
}

static void call(struct block *b, uint32_t level, uint32_t index)
{
	uint64_t path = next_random(b);

	if (b->cnt >= BLOCK_EVENTS)
		return;
	b->steps[b->cnt++] = (struct step){ delta(b), level * b->per_level + index };
	for (uint32_t i = 0; i < CALLEES && level + 1 < LEVELS; i++) {
		/* mostly leaves, some loops */
		unsigned int chance = path >> (8 * i) & 255;
		uint32_t callee = (index * 7 + i * 13 + (chance < 8)) % b->per_level;

		if (chance > 88 + level)
			continue;
		for (unsigned int loops = chance & 1 ? 1 + chance % 3 : 1; loops; loops--)
			call(b, level + 1, callee);
	}
	b->steps[b->cnt++] = (struct step){ delta(b), UINT32_MAX };
}

static int sink_write(void *ctx, const void *data, size_t len)
{
	struct sink *s = ctx;

	if (s->file && fwrite(data, 1, len, s->file) != len)
		return -EIO;
	s->bytes += len;
	if (len >= sizeof(s->tail))
		memcpy(s->tail, (const char *)data + len - sizeof(s->tail), sizeof(s->tail));
	return 0;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int define(const struct trace_consumer *to, void *self, uint32_t threads, uint32_t funcs)
{
	const struct trace_info info = { .engine = "uprobe",
					 .version = PYEBPF_VERSION,
					 .hostname = "",
					 .kernel = "",
					 .cpu = "",
					 .arguments = "" };
	const struct trace_process process = { .id = 1,
					       .pid = 100,
					       .comm = "python3",
					       .exe = "/usr/bin/python3",
					       .python = "3.12",
					       .prefix = "/usr/lib/python3.12" };
	int err = to->begin(self, &info);

	if (!err)
		err = to->process(self, &process);
	for (uint32_t i = 0; !err && i < threads; i++) {
		const struct trace_thread thread = {
			.id = i + 1, .process = 1, .tid = 100 + i, .is_main = !i, .name = "python3"
		};

		err = to->thread(self, &thread);
	}
	for (uint32_t i = 0; !err && i < funcs; i++) {
		char name[64], file[64];
		const struct trace_func func = { .id = i + 1,
						 .process = 1,
						 .line = 10 + i,
						 .qualname = name,
						 .name = name,
						 .file = file };

		snprintf(name, sizeof(name), "Class%u.method_%u", i / 10, i);
		snprintf(file, sizeof(file), "/usr/lib/python3.12/package/module_%u.py", i / 40);
		err = to->func(self, &func);
	}
	return err;
}

/* Each thread is somewhere else in the same block. */
struct cursor {
	size_t at;
	uint32_t depth, turn;
	uint32_t open[LEVELS + 1];
};

static uint32_t turned(const struct block *b, uint32_t func, uint32_t turn)
{
	return func - func % b->per_level + (func % b->per_level + turn) % b->per_level;
}

static int push(const struct trace_consumer *to, void *self, const struct block *b,
		struct cursor *cursors, const struct opts *o, uint64_t *end_ns)
{
	uint64_t ts_ns = 1000;
	int err = 0;

	for (uint64_t done = 0; !err && done < o->events; done++) {
		uint32_t thread = (uint32_t)(done / RUN_EVENTS % o->threads);
		struct cursor *c = &cursors[thread];
		const struct step *s = &b->steps[c->at];
		struct trace_event event = { .ts_ns = ts_ns += s->delta_ns, .thread = thread + 1 };

		if (s->func == UINT32_MAX) {
			event.kind = TRACE_RETURN;
			event.depth = --c->depth;
			event.func = c->open[c->depth];
		} else {
			event.func = turned(b, s->func, c->turn) + 1;
			event.depth = c->depth;
			c->open[c->depth++] = event.func;
		}
		if (++c->at == b->cnt) {
			c->at = 0;
			c->turn += o->rotate;
		}
		err = to->event(self, &event);
	}
	*end_ns = ts_ns;
	return err;
}

static int run(const struct block *b, const struct opts *o, struct sink *sink)
{
	const struct trace_consumer *to = &export_firefox.consumer;
	const struct export_opts opts = { 0 };
	const struct export_out out = { .ctx = sink, .write = sink_write };
	struct trace_totals totals = { .generated = o->events,
				       .written = o->events,
				       .complete = true };
	struct cursor *cursors = calloc(o->threads, sizeof(*cursors));
	void *self;
	int err;

	if (!cursors)
		return -ENOMEM;
	err = exporter__new(&export_firefox, &self, &opts, &out);
	if (!err) {
		err = define(to, self, o->threads, b->per_level * LEVELS);
		if (!err)
			err = push(to, self, b, cursors, o, &totals.end_ns);
		if (!err)
			err = to->end(self, &totals);
		exporter__free(&export_firefox, self);
	}
	free(cursors);
	return err;
}

static void report(const struct opts *o, double seconds, const struct sink *sink)
{
	uint32_t text_bytes = sink->tail[0] | sink->tail[1] << 8 | sink->tail[2] << 16 |
			      (uint32_t)sink->tail[3] << 24;
	double events = (double)o->events;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf(o->json ? "{\"events\":%.0f,\"threads\":%u,\"events_per_s\":%.0f,"
			 "\"gz_bytes_per_event\":%.2f,\"json_bytes_per_event\":%.2f,"
			 "\"peak_rss_mb\":%.0f}\n"
		       : "%.0f events, %u threads: %.0f events/s, %.2f B/event gz, "
			 "%.2f B/event JSON, peak %.0f MB\n",
	       events, o->threads, events / seconds, (double)sink->bytes / events,
	       (double)text_bytes / events, (double)usage.ru_maxrss / 1024);
}

static int parse(struct opts *o, int argc, char **argv)
{
	int c;

	*o = (struct opts){ .events = 10000000, .threads = 1, .per_level = 30 };
	while ((c = getopt(argc, argv, "jn:t:f:ro:")) != -1) {
		if (c == 'j')
			o->json = true;
		else if (c == 'n')
			o->events = strtoull(optarg, NULL, 10);
		else if (c == 't')
			o->threads = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'f')
			o->per_level = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			o->rotate = true;
		else if (c == 'o')
			o->path = optarg;
		else
			return -EINVAL;
	}
	return o->events && o->threads && o->per_level && optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct block *b = calloc(1, sizeof(*b));
	struct sink sink = { 0 };
	struct opts o;
	double start;
	int err;

	if (!b || parse(&o, argc, argv)) {
		fprintf(stderr, "usage: firefox_bench [-j] [-n events] [-t threads] "
				"[-f functions] [-r] [-o FILE]\n");
		free(b);
		return 2;
	}
	b->random = 88172645463325252u;
	b->per_level = o.per_level;
	while (b->cnt < BLOCK_EVENTS)
		call(b, 0, (uint32_t)(next_random(b) % o.per_level));
	sink.file = o.path ? fopen(o.path, "we") : NULL;
	start = cpu_seconds();
	err = run(b, &o, &sink);
	if (!err)
		report(&o, cpu_seconds() - start, &sink);
	if (sink.file && fclose(sink.file))
		err = -EIO;
	free(b);
	return err ? 1 : 0;
}
