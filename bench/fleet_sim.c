// SPDX-License-Identifier: Apache-2.0
/*
 * Many agents in one process: each has its own labels, its own state of the sink and its own moment in the window, makes a profile of
 * made-up stacks with the exporter that agents use, and pushes it with the code and the requests that agents use.
 *
 *	fleet_sim TYPE=URL[,KEY=VALUE...] AGENTS WINDOWS PERIOD_MS STACKS CONNECTIONS [SUMS [TOGETHER]]
 *
 * TOGETHER windows of 60 s are in each push, as with a sink's interval: then WINDOWS and PERIOD_MS are of the pushes.
 *
 * PERIOD_MS is the time from one window to the next; 0: all as fast as it goes. The agents of a fleet have CPUs of their own, these have
 * one thread. So where there is a pace everything is put together before the first window begins, by the same code, and what is left for the
 * pace is to send it and to read the answers.
 *
 * Prints a line of JSON for each window; SUMS gets "service;frame;frame... samples ns" of all that was taken. due_p99_ms is from the moment a
 * push was due to its last answer, so one that began late because others were slow counts in full; sent_p99_ms is from the moment it began, and
 * late_p99_ms what is between. Without a pace a push is due when it begins.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/outbuf.h"
#include "export/export.h"
#include "sink/http.h"
#include "sink/sink.h"
#include "store/head.h"

#define MS	  1000000ull
#define SECOND	  1000000000ull
#define WINDOW_NS (60 * SECOND)
#define SAMPLE_NS UINT64_C(52631578)
#define RETRY_NS  (500 * MS)
#define WAIT_MS	  20
#define SERVICES  10u
#define POOL	  2000u /* stacks of a service */
#define FUNCTIONS 3000u
#define FRAMES	  40u
#define SLOTS_MAX 512u
#define TRIES_MAX 20u

struct agent {
	uint32_t number;
	uint64_t phase; /* of 2^16, in the window */
	void *self; /* of the sink */
};

/* A push on its way. */
struct slot {
	struct http_call *call;
	struct sink_push push;
	struct agent *agent; /* NULL: free */
	uint32_t window, at, tries; /* window; request of the push */
	uint64_t due_ns, start_ns, again_ns;
};

struct sim {
	struct sink_spec spec;
	struct http *http;
	struct agent *agents;
	struct slot *slots;
	uint32_t agent_cnt, window_cnt, stack_cnt, slot_cnt, together;
	uint64_t period_ns, begin_ns, start_cpu_ns, next; /* push that is started next */
	uint64_t took_cnt;
	struct sink_push *ready; /* with a pace: of the agents of each window */
	uint64_t *due_ns, *sent_ns, *late_ns; /* of the pushes of each window; see above */
	uint32_t *done_cnt; /* of each window */
	uint64_t *cpu_ns, *ready_cpu_ns, *sent_bytes, *profile_bytes;
	uint64_t retries, samples[SERVICES][POOL];
	int64_t first_unix_ns;
	int fd; /* of the window at hand */
};

static _Noreturn void die(const char *what, int err)
{
	fprintf(stderr, "fleet_sim: %s: %s\n", what, err_str(err));
	exit(1);
}

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t v[3] = { a, b, c };

	return XXH3_64bits(v, sizeof(v));
}

/* --- profiles --- */

static uint32_t frames_of(uint32_t service, uint32_t stack, uint32_t *out)
{
	uint32_t cnt = 8 + (uint32_t)(mixed(service, stack, 1) % (FRAMES - 8));

	for (uint32_t i = 0; i < cnt; i++) /* near the root stacks are alike */
		out[i] = (uint32_t)(mixed(i, i < cnt / 2 ? stack % 16 : stack, 2) % FUNCTIONS);
	return cnt;
}

static void name_of(uint32_t function, char *out, size_t size)
{
	snprintf(out, size, "package.module_%u.function_%u", function % 220, function);
}

static int put_functions(void *self, const uint64_t *counts, uint32_t service)
{
	static bool seen[FUNCTIONS];
	uint32_t frames[FRAMES];
	char name[64], file[64];
	int err = 0;

	memset(seen, 0, sizeof(seen));
	for (uint32_t k = 0; k < POOL; k++) {
		uint32_t cnt = counts[k] ? frames_of(service, k, frames) : 0;

		for (uint32_t i = 0; i < cnt && !err; i++) {
			name_of(frames[i], name, sizeof(name));
			snprintf(file, sizeof(file), "/srv/package/module_%u.py", frames[i] % 220);
			if (!seen[frames[i]])
				err = export_pprof.consumer.func(
					self, &(struct trace_func){ .id = frames[i] + 1,
								    .process = 1,
								    .line = 1,
								    .qualname = name,
								    .name = name,
								    .file = file });
			seen[frames[i]] = true;
		}
	}
	return err;
}

static int put_samples(void *self, const uint64_t *counts, uint32_t service)
{
	struct trace_frame at[FRAMES];
	uint32_t frames[FRAMES];
	uint64_t ts = 1;
	int err = 0;

	for (uint32_t k = 0; k < POOL && !err; k++) {
		uint32_t cnt = counts[k] ? frames_of(service, k, frames) : 0;

		for (uint32_t i = 0; i < cnt; i++)
			at[i] = (struct trace_frame){ frames[i] + 1, frames[i] % 90 + 1 };
		if (cnt)
			err = export_pprof.consumer.sample(
				self, &(struct trace_sample){ .ts_ns = ts++,
							      .weight_ns = counts[k] * SAMPLE_NS,
							      .count = counts[k],
							      .frames = at,
							      .frame_cnt = cnt,
							      .thread = 1 });
	}
	return err;
}

/* What an agent has seen in a window. */
static void choose(const struct sim *s, const struct agent *a, uint32_t window, uint64_t *counts)
{
	uint32_t first = (uint32_t)mixed(a->number, window, 3);

	memset(counts, 0, POOL * sizeof(*counts));
	for (uint32_t i = 0; i < s->stack_cnt; i++) /* some are everywhere, others are rare */
		counts[i % 3 ? i % POOL : (first + i * i) % POOL] += 1 + mixed(first, i, 4) % 5;
}

static int put_profile(void *self, const struct sim *s, const struct agent *a, uint32_t window)
{
	const struct trace_consumer *to = &export_pprof.consumer;
	uint32_t service = a->number % SERVICES;
	uint64_t counts[POOL];
	int err = to->begin(self,
			    &(struct trace_info){ .start_ns = 1,
						  .start_unix_ns = s->first_unix_ns +
								   (int64_t)(window * WINDOW_NS),
						  .engine = "sample",
						  .version = "",
						  .hostname = "",
						  .kernel = "",
						  .cpu = "",
						  .arguments = "",
						  .sample_ns = SAMPLE_NS });

	err = err ? err
		  : to->process(self, &(struct trace_process){ .id = 1,
							       .pid = 1,
							       .comm = "python3",
							       .exe = "/usr/bin/python3",
							       .python = "3.12",
							       .prefix = "" });
	err = err ? err
		  : to->thread(self, &(struct trace_thread){
					     .id = 1, .process = 1, .tid = 1, .name = "main" });
	choose(s, a, window, counts);
	err = err ? err : put_functions(self, counts, service);
	err = err ? err : put_samples(self, counts, service);
	return err ? err
		   : to->end(self,
			     &(struct trace_totals){ .end_ns = 1 + WINDOW_NS, .complete = true });
}

static int encode(const struct sim *s, const struct agent *a, uint32_t window, struct membuf *out)
{
	char node[64], name[64];
	const struct store_label labels[] = { { "node", node }, { STORE_SERVICE, name } };
	char comments[2][256];
	const char *list[] = { comments[0], comments[1], NULL };
	const struct export_opts opts = { .comments = list };
	const struct export_out to = { .ctx = out, .write = membuf__write };
	void *self = NULL;
	int err;

	snprintf(node, sizeof(node), "node-%u", a->number);
	snprintf(name, sizeof(name), "service-%u", a->number % SERVICES);
	for (unsigned int i = 0; i < 2; i++)
		head_comment(&labels[i], comments[i], sizeof(comments[i]));
	err = exporter__new(&export_pprof, &self, &opts, &to);
	err = err ? err : put_profile(self, s, a, window);
	exporter__free(&export_pprof, self);
	return err;
}

/* --- pushes --- */

static int add(struct sim *s, struct agent *a, const struct membuf *profile, struct sink_push *out)
{
	struct head head = { 0 };
	struct err e = { 0 };
	struct sink_window w = { .file = "window.pb.gz",
				 .fd = s->fd,
				 .bytes = (const uint8_t *)profile->data,
				 .len = profile->len,
				 .id = XXH3_64bits(profile->data, profile->len),
				 .head = &head };
	int err = ftruncate(s->fd, 0) || pwrite(s->fd, profile->data, profile->len, 0) < 0 ||
				  lseek(s->fd, 0, SEEK_SET) < 0
			  ? -errno
			  : head_read(s->fd, &head);

	err = err ? err : s->spec.ops->add(a->self, out, &w, &e);
	out->free_state = s->spec.ops->free_state;
	out->window_cnt++;
	head_done(&head);
	return err;
}

static void put(struct sim *s, struct agent *a, uint32_t window, struct sink_push *out)
{
	int err = 0;

	*out = (struct sink_push){ 0 };
	for (uint32_t i = 0; i < s->together && !err; i++) {
		struct membuf profile = { 0 };

		err = encode(s, a, window * s->together + i, &profile);
		err = err ? err : add(s, a, &profile, out);
		s->profile_bytes[window] += profile.len;
		membuf__done(&profile);
	}
	err = err ? err : s->spec.ops->finish ? s->spec.ops->finish(a->self, out) : 0;
	if (err)
		die("a profile cannot be made", err);
}

static void sent(const struct sim *s, struct agent *a, const struct sink_push *push)
{
	if (s->spec.ops->sent)
		s->spec.ops->sent(a->self, push);
}

static void start_request(struct sim *s, struct slot *slot)
{
	struct err e = { 0 };
	int err = http_call__start(slot->call, slot->agent->number, &slot->push.requests[slot->at],
				   &e);

	slot->again_ns = 0;
	s->sent_bytes[slot->window] += slot->push.requests[slot->at].body.len;
	if (err)
		die(e.what, err);
}

static void take(struct sim *s, struct slot *slot)
{
	uint64_t now = now_ns(), counts[POOL];
	uint32_t service = slot->agent->number % SERVICES, w = slot->window;
	size_t at = (size_t)w * s->agent_cnt + s->done_cnt[w]++;

	if (!s->ready)
		sent(s, slot->agent, &slot->push);
	for (uint32_t i = 0; i < s->together; i++) {
		choose(s, slot->agent, w * s->together + i, counts);
		for (uint32_t k = 0; k < POOL; k++)
			s->samples[service][k] += counts[k];
	}
	s->due_ns[at] = now - slot->due_ns;
	s->sent_ns[at] = now - slot->start_ns;
	s->late_ns[at] = slot->start_ns - slot->due_ns;
	s->took_cnt++;
	if (s->done_cnt[w] == s->agent_cnt)
		s->cpu_ns[w] = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	sink_push__done(&slot->push);
	slot->agent = NULL;
}

/* The sink has learned something. */
static void put_anew(struct sim *s, struct slot *slot)
{
	if (s->ready)
		die("a server refuses what was put together before", -EPROTO);
	sink_push__done(&slot->push);
	put(s, slot->agent, slot->window, &slot->push);
	slot->at = 0;
	start_request(s, slot);
}

static void answer(struct sim *s, struct slot *slot, const struct http_result *r)
{
	struct err e = { 0 };
	enum sink_verdict verdict = SINK_RETRY;

	if (r->reply.status)
		verdict = s->spec.ops->judge(slot->agent->self, &r->reply, &e);
	if (verdict == SINK_OK && ++slot->at == slot->push.request_cnt) {
		take(s, slot);
	} else if (verdict == SINK_OK) {
		start_request(s, slot);
	} else if (verdict == SINK_AGAIN) {
		put_anew(s, slot);
	} else if (verdict == SINK_RETRY && ++slot->tries < TRIES_MAX) {
		if (!s->retries++)
			fprintf(stderr, "fleet_sim: the first that is sent again: %s\n",
				r->reply.status ? e.what : r->why);
		slot->again_ns = now_ns() + RETRY_NS;
	} else {
		fprintf(stderr, "fleet_sim: %s\n", e.what[0] ? e.what : r->why);
		exit(1);
	}
}

/* --- before a pace --- */

/*
 * What an agent learns of its servers from the first answer after its start, all learn here: a request without a row is sent once, and
 * each agent reads the answer.
 */
static void learn(struct sim *s)
{
	struct slot *slot = &s->slots[0];
	struct http_result r;
	struct err e = { 0 };

	slot->agent = &s->agents[0];
	put(s, slot->agent, 0, &slot->push);
	slot->push.requests[0].header_cnt = 0;
	membuf__done(&slot->push.requests[0].body);
	if (sink_request__gzip(&slot->push.requests[0], "", 0))
		die("memory", -ENOMEM);
	start_request(s, slot);
	while (!http__next(s->http, &r))
		if (http__wait(s->http, NULL, 0, WAIT_MS))
			die("waiting", -EIO);
	if (r.reply.status && s->spec.ops->judge(slot->agent->self, &r.reply, &e) == SINK_AGAIN)
		for (uint32_t i = 1; i < s->agent_cnt; i++)
			s->spec.ops->judge(s->agents[i].self, &r.reply, &e);
	sink_push__done(&slot->push);
	slot->agent = NULL;
	s->sent_bytes[0] = s->profile_bytes[0] = 0;
}

/* Only the requests are kept. What will have been sent is known to the sink for the next window: a run in which something is not taken
 * ends at once. */
static void prepare(struct sim *s)
{
	learn(s);
	for (uint32_t w = 0; w < s->window_cnt; w++) {
		uint64_t before_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

		for (uint32_t i = 0; i < s->agent_cnt; i++) {
			struct sink_push *push = &s->ready[(size_t)w * s->agent_cnt + i];

			put(s, &s->agents[i], w, push);
			sent(s, &s->agents[i], push);
			if (push->free_state)
				push->free_state(push->state);
			push->state = NULL;
			push->request_cap = push->request_cnt;
			push->requests = reallocarray(push->requests, push->request_cnt,
						      sizeof(*push->requests));
			if (!push->requests)
				die("memory", -ENOMEM);
		}
		s->ready_cpu_ns[w] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
	}
}

/* --- time --- */

static uint64_t due_of(const struct sim *s, uint64_t push)
{
	const struct agent *a = &s->agents[push % s->agent_cnt];

	return s->begin_ns + push / s->agent_cnt * s->period_ns + (a->phase * s->period_ns >> 16);
}

static struct slot *free_slot(const struct sim *s)
{
	for (uint32_t i = 0; i < s->slot_cnt; i++)
		if (!s->slots[i].agent)
			return &s->slots[i];
	return NULL;
}

static void start_due(struct sim *s)
{
	struct slot *slot;

	for (uint32_t i = 0; i < s->slot_cnt; i++)
		if (s->slots[i].again_ns && now_ns() >= s->slots[i].again_ns)
			start_request(s, &s->slots[i]);
	while (s->next < (uint64_t)s->agent_cnt * s->window_cnt && now_ns() >= due_of(s, s->next) &&
	       (slot = free_slot(s))) {
		uint64_t push = s->next++;

		slot->agent = &s->agents[push % s->agent_cnt];
		slot->window = (uint32_t)(push / s->agent_cnt);
		slot->at = slot->tries = 0;
		if (s->ready)
			slot->push = s->ready[push];
		else
			put(s, slot->agent, slot->window, &slot->push);
		slot->start_ns = now_ns();
		slot->due_ns = s->ready ? due_of(s, push) : slot->start_ns;
		start_request(s, slot);
	}
}

static void run(struct sim *s)
{
	struct http_result r;

	s->start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	s->begin_ns = now_ns();
	while (s->took_cnt < (uint64_t)s->agent_cnt * s->window_cnt) {
		bool more;

		start_due(s);
		while (http__next(s->http, &r))
			for (uint32_t i = 0; i < s->slot_cnt; i++)
				if (s->slots[i].call == r.call) {
					answer(s, &s->slots[i], &r);
					break;
				}
		more = s->next < (uint64_t)s->agent_cnt * s->window_cnt &&
		       now_ns() >= due_of(s, s->next) && free_slot(s);
		if (http__wait(s->http, NULL, 0, more ? 0 : s->period_ns ? 2 : WAIT_MS))
			die("waiting", -EIO);
	}
}

/* --- the whole --- */

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int compare_agents(const void *a, const void *b)
{
	const struct agent *x = a, *y = b;

	return x->phase < y->phase ? -1 : x->phase > y->phase;
}

static double at_ms(const uint64_t *v, uint32_t cnt, double part)
{
	return (double)v[(uint32_t)((cnt - 1) * part)] / 1e6;
}

static void report_times(const char *name, uint64_t *v, uint32_t cnt)
{
	qsort(v, cnt, sizeof(*v), compare_u64);
	printf("\"%s_p50_ms\": %.1f, \"%s_p99_ms\": %.1f, \"%s_max_ms\": %.1f, ", name,
	       at_ms(v, cnt, 0.5), name, at_ms(v, cnt, 0.99), name, at_ms(v, cnt, 1));
}

static void report(const struct sim *s)
{
	uint64_t before_ns = s->start_cpu_ns;

	for (uint32_t w = 0; w < s->window_cnt; w++) {
		size_t at = (size_t)w * s->agent_cnt;
		double pushes = s->agent_cnt;

		printf("{\"window\": %u, \"pushes\": %u, ", w, s->agent_cnt);
		report_times("due", s->due_ns + at, s->agent_cnt);
		report_times("sent", s->sent_ns + at, s->agent_cnt);
		report_times("late", s->late_ns + at, s->agent_cnt);
		printf("\"bytes\": %.0f, \"profile_bytes\": %.0f, \"prepare_cpu_ms\": %.2f, \"cpu_ms\": "
		       "%.2f, \"retries\": %" PRIu64 "}\n",
		       (double)s->sent_bytes[w] / pushes, (double)s->profile_bytes[w] / pushes,
		       (double)s->ready_cpu_ns[w] / 1e6 / pushes,
		       (double)(s->cpu_ns[w] - before_ns) / 1e6 / pushes, s->retries);
		before_ns = s->cpu_ns[w];
	}
}

static void write_sums(const struct sim *s, const char *path)
{
	FILE *f = fopen(path, "we");
	uint32_t frames[FRAMES];
	char name[64];

	if (!f)
		die(path, -errno);
	for (uint32_t service = 0; service < SERVICES; service++)
		for (uint32_t k = 0; k < POOL; k++) {
			uint64_t samples = s->samples[service][k];
			uint32_t cnt = samples ? frames_of(service, k, frames) : 0;

			if (!cnt)
				continue;
			fprintf(f, "service-%u", service);
			for (uint32_t i = 0; i < cnt; i++) {
				name_of(frames[i], name, sizeof(name));
				fprintf(f, ";%s", name);
			}
			fprintf(f, " %" PRIu64 " %" PRIu64 "\n", samples, samples * SAMPLE_NS);
		}
	if (fclose(f))
		die(path, -errno);
}

static void *room(size_t cnt, size_t size)
{
	void *p = calloc(cnt, size);

	if (!p)
		die("memory", -ENOMEM);
	return p;
}

static void set_up(struct sim *s)
{
	size_t pushes = (size_t)s->agent_cnt * s->window_cnt;
	struct err e = { 0 };
	int err = http__new(&s->http, &e);

	s->fd = memfd_create("fleet_sim", MFD_CLOEXEC);
	s->due_ns = room(pushes, sizeof(uint64_t));
	s->sent_ns = room(pushes, sizeof(uint64_t));
	s->late_ns = room(pushes, sizeof(uint64_t));
	s->ready = s->period_ns ? room(pushes, sizeof(*s->ready)) : NULL;
	s->done_cnt = room(s->window_cnt, sizeof(uint32_t));
	s->cpu_ns = room(s->window_cnt, sizeof(uint64_t));
	s->ready_cpu_ns = room(s->window_cnt, sizeof(uint64_t));
	s->sent_bytes = room(s->window_cnt, sizeof(uint64_t));
	s->profile_bytes = room(s->window_cnt, sizeof(uint64_t));
	s->slots = room(s->slot_cnt, sizeof(*s->slots));
	s->agents = room(s->agent_cnt, sizeof(*s->agents));
	for (uint32_t i = 0; i < s->slot_cnt && !err; i++)
		err = http_call__new(&s->slots[i].call, s->http, &s->spec, 8192, false);
	for (uint32_t i = 0; i < s->agent_cnt && !err; i++) {
		struct agent *a = &s->agents[i];

		*a = (struct agent){ i, mixed(i, 0, 5) >> 48, room(1, s->spec.ops->size + 1) };
		err = s->spec.ops->open ? s->spec.ops->open(a->self, &s->spec) : 0;
	}
	if (err || s->fd < 0)
		die("setting up", err);
	qsort(s->agents, s->agent_cnt, sizeof(*s->agents), compare_agents);
	s->first_unix_ns = (wall_ns() / (int64_t)SECOND) * (int64_t)SECOND -
			   (int64_t)((uint64_t)s->window_cnt * s->together * WINDOW_NS);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || value < least || value > most)
		die(text, -EINVAL);
	return (uint32_t)value;
}

int main(int argc, char **argv)
{
	static struct sim s;
	struct err e = { 0 };

	if (argc < 7)
		die("TYPE=URL AGENTS WINDOWS PERIOD_MS STACKS CONNECTIONS [SUMS [TOGETHER]]",
		    -EINVAL);
	if (sink_spec__parse(&s.spec, argv[1], &e))
		die(e.what, -EINVAL);
	s.agent_cnt = number(argv[2], 1, 1000000);
	s.window_cnt = number(argv[3], 1, 60);
	s.period_ns = number(argv[4], 0, 3600000) * MS;
	s.stack_cnt = number(argv[5], 1, POOL);
	s.slot_cnt = number(argv[6], 1, SLOTS_MAX);
	s.together = argc > 8 ? number(argv[8], 1, 60) : 1;
	set_up(&s);
	if (s.ready)
		prepare(&s);
	run(&s);
	report(&s);
	if (argc > 7)
		write_sums(&s, argv[7]);
	return 0;
}
