// SPDX-License-Identifier: Apache-2.0
/*
 * gen_capture OUT EVENTS [COST [DEPTH [SEED]]]: a capture of made-up calls in two processes with two threads each,
 * for the tests of `pyebpf convert`. What the capture adds up to is computed here, from each call's begin
 * and end, and printed as JSON: tests compare it with what the exporters say. With COST, the
 * capture says that an event costs that many ns before and as many after its time stamp, and the
 * calls are that much longer; the sums printed stay those without it. DEPTH is the most frames, 30 at most:
 * few of them make few distinct stacks. Another SEED (1 or more) makes other calls.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capfile/writer.h"

enum {
	THREADS = 4,
	FUNCS = 40,
	MAX_DEPTH = 30
};

struct thread {
	uint32_t funcs[MAX_DEPTH];
	uint64_t begin_ns[MAX_DEPTH];
	uint64_t inner_ns[MAX_DEPTH]; /* of the calls made from it, cost included */
	uint64_t inner_cost_ns[MAX_DEPTH];
	uint32_t depth;
};

struct func {
	uint64_t calls, self_ns, total_ns;
};

static const char *const odd_names[] = {
	"<module>",
	"f.<locals>.<lambda>",
	"Caf\xc3\xa9.m\xed\xb2\x80thod",
	"esc\x1b[31m;\"\\\n",
	"nul\xc0\x80nul",
	"bad\xff\xfe",
	"",
	"\xe2\x80\xaertl",
	"a b",
	"</script><script>alert(1)</script>",
	"<img src=x onerror=x>",
};

static struct thread threads[THREADS];
static struct func funcs[FUNCS];
static uint64_t now_ns = 1000000000, cost_ns, max_depth = MAX_DEPTH;

static void check(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "gen_capture: %s: %s\n", what, strerror(-err));
		exit(1);
	}
}

static uint64_t random_state = 88172645463325252ull;

static uint64_t random64(void)
{
	uint64_t x = random_state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return random_state = x;
}

static void define(struct capw *w)
{
	char name[32], file[64];

	for (uint32_t p = 0; p < 2; p++) {
		const struct trace_process process = { .id = p,
						       .pid = 1000 + p,
						       .comm = "py thon;3",
						       .exe = "/usr/bin/python3",
						       .python = "3.12",
						       .start_ns = now_ns,
						       .prefix = "/usr/lib/python3.12" };

		check(capw__process(w, &process), "process");
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		const struct trace_thread thread = { .id = t,
						     .process = t / 2,
						     .tid = 1000 + t,
						     .name = t & 1 ? "worker" : "main",
						     .is_main = !(t & 1),
						     .start_ns = now_ns };

		check(capw__thread(w, &thread), "thread");
	}
	for (uint32_t f = 0; f < FUNCS; f++) {
		struct trace_func func = { .id = f,
					   .process = f / (FUNCS / 2),
					   .line = f + 1,
					   .qualname = name,
					   .name = name,
					   .file = file };

		snprintf(name, sizeof(name), "func_%u", f);
		snprintf(file, sizeof(file), "/usr/lib/python3.12/mod%u.py", f % 7);
		if (f < sizeof(odd_names) / sizeof(*odd_names))
			func.qualname = odd_names[f];
		check(capw__func(w, &func), "func");
	}
}

static void enter(struct capw *w, uint32_t id)
{
	struct thread *t = &threads[id];
	uint32_t func = id / 2 * (FUNCS / 2) + (uint32_t)(random64() % (FUNCS / 2));

	now_ns += cost_ns;
	check(capw__enter(w, id, now_ns, TRACE_CALL, func), "enter");
	t->funcs[t->depth] = func;
	now_ns += cost_ns;
	t->begin_ns[t->depth] = now_ns;
	t->inner_ns[t->depth] = t->inner_cost_ns[t->depth] = 0;
	t->depth++;
}

/* Time of a call: from when its entry's cost is over to when its exit's begins, less its calls. */
static void leave(struct capw *w, uint32_t id)
{
	struct thread *t = &threads[id];
	uint32_t func = t->funcs[--t->depth];
	uint64_t total = now_ns - t->begin_ns[t->depth], inner = t->inner_ns[t->depth];
	uint64_t inner_cost = t->inner_cost_ns[t->depth];
	bool recursive = false;

	for (uint32_t i = 0; i < t->depth; i++)
		recursive = recursive || t->funcs[i] == func;
	funcs[func].calls++;
	funcs[func].self_ns += total - inner;
	if (!recursive)
		funcs[func].total_ns += total - inner_cost;
	now_ns += cost_ns;
	check(capw__leave(w, id, now_ns, random64() % 8 ? TRACE_RETURN : TRACE_UNWIND), "leave");
	now_ns += cost_ns;
	if (!t->depth)
		return;
	t->inner_ns[t->depth - 1] += total + 4 * cost_ns;
	t->inner_cost_ns[t->depth - 1] += inner_cost + 4 * cost_ns;
}

static void print_expected(uint64_t events)
{
	printf("{\"events\": %" PRIu64 ", \"funcs\": {", events);
	for (int f = 0; f < FUNCS; f++)
		printf("%s\"%d\": {\"calls\": %" PRIu64 ", \"self_ns\": %" PRIu64
		       ", \"total_ns\": %" PRIu64 "}",
		       f ? ", " : "", f + 1, funcs[f].calls, funcs[f].self_ns, funcs[f].total_ns);
	puts("}}");
}

int main(int argc, char **argv)
{
	struct trace_info info = { .start_ns = 1000000000,
				   .start_unix_ns = 1700000000000000000,
				   .engine = "uprobe",
				   .version = "test",
				   .hostname = "host",
				   .kernel = "6.1",
				   .cpu = "cpu",
				   .cpu_cnt = 2,
				   .arguments = "gen" };
	struct trace_totals totals = { .complete = true };
	uint64_t events = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, n;
	struct capw *w;
	int fd;

	if (argc < 3)
		return 2;
	if (argc > 3)
		cost_ns = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		max_depth = strtoull(argv[4], NULL, 10);
	if (argc > 5)
		random_state ^= strtoull(argv[5], NULL, 10) * 0x9e3779b97f4a7c15ull;
	if (!max_depth || max_depth > MAX_DEPTH)
		return 2;
	info.cost = (struct trace_cost){ (uint32_t)cost_ns, (uint32_t)cost_ns, (uint32_t)cost_ns,
					 (uint32_t)cost_ns };
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	check(fd < 0 ? -1 : capw__new(&w, fd, NULL, &info), argv[1]);
	define(w);
	/* one thread at a time runs for a while, so that time passes in the others' open frames too */
	for (n = 0; n < events; n++) {
		uint32_t id = (uint32_t)(n / 1000 % THREADS);

		now_ns += 50 + random64() % 200;
		if (!threads[id].depth || (threads[id].depth < max_depth && random64() & 1))
			enter(w, id);
		else
			leave(w, id);
	}
	for (uint32_t id = 0; id < THREADS; id++) {
		for (; threads[id].depth; n++) {
			now_ns += 10;
			leave(w, id);
		}
	}
	totals.end_ns = now_ns;
	totals.generated = totals.written = n;
	check(capw__finish(w, &totals), "finish");
	capw__free(w);
	close(fd);
	print_expected(n);
	return 0;
}
