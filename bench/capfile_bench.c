// SPDX-License-Identifier: Apache-2.0
/*
 * How fast the capture file is: ns of CPU time per event of writing and of decoding, and bytes per
 * event. The events are made beforehand, with time stamps that jitter around 1 us as those of a
 * traced program do, since the size of a capture is mostly that of its time stamps.
 *
 *	cmake --build build --target capfile_bench && build/bench/capfile_bench [EVENTS] [THREADS] [DEPTH]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "capfile/writer.h"
#include "decode/decode.h"

enum {
	FUNC_CNT = 600,
	BURST = 512, /* events of a thread in a row, as from a ring */
};

struct event {
	uint32_t delta_ns;
	uint16_t func;
	uint8_t kind;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint32_t random_next(void)
{
	static uint32_t state = 2463534242;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* A program: each function calls a few others, mostly the same; depth stays around a limit. */
static void make_events(struct event *events, size_t cnt, uint32_t limit)
{
	uint16_t *stack = calloc(limit + 2, sizeof(*stack));
	uint32_t depth = 0;

	if (!stack)
		abort();
	for (size_t i = 0; i < cnt; i++) {
		uint32_t r = random_next();

		events[i].delta_ns =
			700 + r % 256 + (r >> 8) % 256 + ((r >> 16) % 32 ? 0 : r % 20000);
		if (depth <= limit && (depth == 0 || r >> 20 & 1)) {
			uint32_t pick = random_next() % 8;

			events[i].kind = r % 64 ? TRACE_CALL : TRACE_RESUME;
			events[i].func =
				(uint16_t)(1 + (stack[depth] * 7 + pick * pick) % FUNC_CNT);
			stack[++depth] = events[i].func;
		} else {
			events[i].kind = r % 64 ? TRACE_RETURN : TRACE_YIELD;
			depth--;
		}
	}
	free(stack);
}

static void define(struct capw *w, uint32_t thread_cnt)
{
	struct trace_process p = { .id = 1, .pid = 1, .comm = "python3", .exe = "/usr/bin/python3" };
	char qualname[64], file[64];

	capw__process(w, &p);
	for (uint32_t i = 1; i <= thread_cnt; i++) {
		struct trace_thread t = { .id = i, .process = 1, .tid = i, .name = "thread" };

		capw__thread(w, &t);
	}
	for (uint32_t i = 1; i <= FUNC_CNT; i++) {
		struct trace_func f = { .id = i, .process = 1, .line = i };

		snprintf(qualname, sizeof(qualname), "SomeClass%u.method_%u", i / 7, i);
		snprintf(file, sizeof(file), "/usr/lib/python3/dist-packages/module%u.py", i / 20);
		f.qualname = qualname;
		f.name = qualname + 12;
		f.file = file;
		capw__func(w, &f);
	}
}

static uint64_t write_events(struct capw *w, const struct event *events, size_t cnt,
			     uint32_t thread_cnt)
{
	size_t each = cnt / thread_cnt, done = 0;
	uint64_t *clock = calloc(thread_cnt + 1, sizeof(*clock));
	uint64_t start = cpu_ns();

	for (; done < each; done += BURST) {
		for (uint32_t t = 1; t <= thread_cnt; t++) {
			const struct event *e = events + (t - 1) * each + done;
			const struct event *end = e + (each - done < BURST ? each - done : BURST);

			for (; e < end; e++) {
				clock[t] += e->delta_ns;
				if (trace_is_leave(e->kind))
					capw__leave(w, t, clock[t], e->kind);
				else
					capw__enter(w, t, clock[t], e->kind, e->func);
			}
		}
	}
	free(clock);
	return cpu_ns() - start;
}

static int count_event(void *self, const struct trace_event *event)
{
	uint64_t *sum = self;

	sum[0]++;
	sum[1] += event->func;
	return 0;
}

static void report(const char *what, uint64_t ns, size_t cnt)
{
	printf("%-7s %6.1f ns/event  %6.1f M events/s\n", what, (double)ns / (double)cnt,
	       (double)cnt * 1e3 / (double)ns);
}

int main(int argc, char **argv)
{
	size_t cnt = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
	uint32_t thread_cnt = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
	uint32_t depth = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 40;
	const struct trace_consumer consumer = { .event = count_event };
	struct trace_info info = { .engine = "bench" };
	struct trace_totals totals = { 0 };
	struct event *events = calloc(cnt, sizeof(*events));
	int fd = memfd_create("capture", MFD_CLOEXEC);
	uint64_t sum[2] = { 0 }, ns, written, bytes;
	struct rusage usage;
	struct capw *w;
	long before_kb;

	if (!events || fd < 0 || !thread_cnt || capw__new(&w, fd, NULL, &info))
		return 1;
	for (uint32_t i = 0; i < thread_cnt; i++)
		make_events(events + i * (cnt / thread_cnt), cnt / thread_cnt, depth);
	getrusage(RUSAGE_SELF, &usage);
	before_kb = usage.ru_maxrss;
	define(w, thread_cnt);
	ns = write_events(w, events, cnt, thread_cnt);
	written = capw__written(w);
	report("write", ns, written);
	capw__finish(w, &totals);
	getrusage(RUSAGE_SELF, &usage);
	bytes = capw__bytes(w);
	printf("size    %6.2f bytes/event\n", (double)bytes / (double)written);
	printf("memory  %6.1f MiB of the writer\n", (double)(usage.ru_maxrss - before_kb) / 1024);
	capw__free(w);
	free(events);
	lseek(fd, 0, SEEK_SET);
	ns = cpu_ns();
	if (decode_file(fd, &consumer, sum, NULL))
		return 1;
	ns = cpu_ns() - ns;
	report("decode", ns, sum[0]);
	return sum[0] == written ? 0 : 1;
}
