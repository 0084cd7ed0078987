/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs share that feed made-up records to the reading side: options, clocks, the last line. */
#ifndef PYEBPF_BENCH_READING_H
#define PYEBPF_BENCH_READING_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define READING_USAGE	  "[-j] [-n EVENTS] [-t THREADS] [-d DEPTH] [-o FILE]"
#define READING_DEPTH_MAX 1000

struct reading {
	uint64_t events, fed; /* asked for; made so far */
	uint32_t thread_cnt, depth;
	bool json;
	const char *path;
	uint64_t cpu_ns, wall_ns; /* that it took to read them */
};

#define READING_DEFAULTS                                                              \
	{                                                                             \
		.events = 10000000, .thread_cnt = 4, .depth = 20, .path = "/dev/null" \
	}

static inline uint64_t reading_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline uint32_t reading_random(void)
{
	static uint32_t state = 2463534242;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* 0; -EINVAL: it is not as READING_USAGE says */
static inline int reading_parse(struct reading *r, uint32_t threads_max, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "jn:t:d:o:")) != -1) {
		if (c == 'j')
			r->json = true;
		else if (c == 'n')
			r->events = strtoull(optarg, NULL, 10);
		else if (c == 't')
			r->thread_cnt = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'd')
			r->depth = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'o')
			r->path = optarg;
		else
			return -EINVAL;
	}
	return r->events && r->thread_cnt && r->thread_cnt <= threads_max && r->depth &&
			       r->depth * 2 <= READING_DEPTH_MAX && optind == argc
		       ? 0
		       : -EINVAL;
}

/* @file_bytes: of the capture; @input_mb: what the made-up records take of the memory */
static inline void reading_report(const struct reading *r, uint64_t file_bytes,
				  unsigned int input_mb)
{
	double events = (double)r->fed;
	double cpu = events * 1e9 / (double)r->cpu_ns, wall = events * 1e9 / (double)r->wall_ns;
	struct rusage usage;
	double rss_mb;

	getrusage(RUSAGE_SELF, &usage);
	rss_mb = (double)usage.ru_maxrss / 1024;
	if (r->json)
		printf("{\"events\": %.0f, \"threads\": %u, \"events_per_s\": %.0f, "
		       "\"events_per_s_elapsed\": %.0f, \"bytes_per_event\": %.2f, \"peak_rss_mb\": %.0f}\n",
		       events, r->thread_cnt, cpu, wall, (double)file_bytes / events, rss_mb);
	else
		printf("%.0f events, %u threads: %.0f events per s of CPU time, %.0f elapsed, %.2f bytes "
		       "per event, peak %.0f MB (%u of them the input)\n",
		       events, r->thread_cnt, cpu, wall, (double)file_bytes / events, rss_mb,
		       input_mb);
}

#endif
