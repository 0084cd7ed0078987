// SPDX-License-Identifier: Apache-2.0
/* What the agent says of itself: to `agent status`, and to Prometheus. One table of numbers for both. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cmd/agent_priv.h"
#include "cmd/agent_sinks.h"
#include "export/json.h"
#include "sink/sender.h"

#define SECOND	 1000000000ull
#define FIRST_NS (15 * SECOND) /* by then there was a window, unless there is nothing to sample */

static const char *const state_names[AGENT_STATE_CNT] = { "running", "off", "over_memory" };

struct number {
	const char *name, *help;
	bool is_counter;
	double value;
};

enum {
	NUMBERS_MAX = 40
};

struct numbers {
	struct number v[NUMBERS_MAX];
	size_t cnt;
};

static void put(struct numbers *n, const char *name, const char *help, double value)
{
	size_t len = strlen(name);

	if (n->cnt < NUMBERS_MAX)
		n->v[n->cnt++] = (struct number){ name, help,
						  len > 6 && !strcmp(name + len - 6, "_total"),
						  value };
}

static double budget_of(const struct agent *a)
{
	return (double)agent_cpu_limit(a->opts) / 100;
}

/* With what sends. */
static double cpu_seconds(const struct agent *a)
{
	return (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) + sender__cpu_ns(a->sender)) / 1e9;
}

static void take(const struct agent *a, const struct session_load *l, struct numbers *n)
{
	const struct agent_totals *t = &a->totals;

	n->cnt = 0;
	put(n, "samples_total", "stacks taken", (double)l->samples);
	put(n, "samples_skipped_total", "stacks left out for max_cpu", (double)l->skipped);
	put(n, "samples_unwanted_total", "samples of services that rules leave out",
	    (double)t->unwanted);
	put(n, "samples_excluded_total", "ticks in such services: no stack was taken",
	    (double)l->unwanted);
	put(n, "waits_short_total", "waits shorter than off_cpu, left out", (double)l->short_waits);
	put(n, "waits_short_seconds_total", "their time", (double)l->short_waits_ns / 1e9);
	put(n, "windows_total", "windows written", (double)t->windows);
	put(n, "profiles_total", "profiles written", (double)t->profiles);
	put(n, "profile_bytes_total", "bytes of the profiles written", (double)t->bytes);
	put(n, "profiles_unwritten_total", "profiles that could not be written",
	    (double)t->unwritten);
	put(n, "profiles_expired_total", "profiles removed for their age",
	    (double)t->trimmed_by_age);
	put(n, "profiles_evicted_total", "profiles removed before their time for max_size",
	    (double)t->trimmed_by_bytes);
	put(n, "bursts_total", "bursts of calls written", (double)t->bursts);
	put(n, "bursts_failed_total", "bursts that failed", (double)t->bursts_failed);
	put(n, "burst_events_total", "events of bursts", (double)t->burst_calls);
	put(n, "burst_events_lost_total", "events that bursts have lost", (double)t->burst_lost);
	put(n, "reloads_total", "settings read again", (double)t->reloads);
	put(n, "reloads_failed_total", "settings that were not good", (double)t->reloads_failed);
	put(n, "agent_cpu_seconds_total", "CPU time of the agent, with its sender", cpu_seconds(a));
	put(n, "sender_cpu_seconds_total", "of it for sending to the sinks",
	    (double)sender__cpu_ns(a->sender) / 1e9);
	put(n, "window_cpu_seconds_total", "of it for writing windows",
	    (double)t->window_cpu_ns / 1e9);
	put(n, "bpf_run_seconds_total", "CPU time of its programs in the kernel",
	    (double)l->bpf_ns / 1e9);
	put(n, "cpu_budget_ratio", "CPU time it may use, per second", budget_of(a));
	put(n, "sampling_hz", "samples of each CPU per second, now",
	    (double)a->opts->rate * l->keep);
	put(n, "ring_used_ratio", "of the ring to user space", l->backlog_pct / 100.0);
	put(n, "resident_memory_bytes", "memory of the agent, with its sender",
	    (double)a->rss_bytes);
	put(n, "sender_memory_bytes", "of it what the sender has of its own",
	    (double)a->sender_bytes);
	put(n, "memory_limit_bytes", "memory it may use", (double)a->opts->max_memory);
	put(n, "store_limit_bytes", "that the store may have", (double)a->opts->max_bytes);
	put(n, "store_full", "1: the disk had no room for the last profiles", a->full);
	put(n, "store_stuck", "1: the file system of the store does not answer",
	    agent_store_is_stuck(a));
	put(n, "windows_waiting", "windows in memory that wait for it", agent_store_waiting(a));
	put(n, "targets", "processes that are sampled", (double)services__cnt(a->services));
	put(n, "burst_budget_seconds", "time of bursts that is left",
	    (double)a->burst_tokens_ns / 1e9);
	put(n, "window_age_seconds", "since the end of the last window, or the start",
	    (double)(a->tick_ns - (a->window_ns ? a->window_ns : a->start_ns)) / 1e9);
	put(n, "uptime_seconds", "since the start", (double)(a->tick_ns - a->start_ns) / 1e9);
}

bool agent_is_alive(const struct agent *a)
{
	uint64_t since = a->window_ns ? a->window_ns : a->start_ns;

	return !services__cnt(a->services) || a->tick_ns - since <= 2 * a->opts->window_ns;
}

bool agent_is_ready(const struct agent *a)
{
	return a->totals.windows ||
	       (a->tick_ns - a->start_ns > FIRST_NS && !services__cnt(a->services));
}

static void put_number(struct outbuf *b, double value)
{
	outbuf__printf(b, value == (double)(uint64_t)value ? "%.0f" : "%.6f", value);
}

void agent_metrics(const struct agent *a, struct outbuf *b)
{
	struct session_load load;
	struct numbers n;

	session__load(a->session, &load);
	take(a, &load, &n);
	for (size_t i = 0; i < n.cnt; i++) {
		outbuf__printf(b, "# HELP pyebpf_%s %s\n# TYPE pyebpf_%s %s\npyebpf_%s ",
			       n.v[i].name, n.v[i].help, n.v[i].name,
			       n.v[i].is_counter ? "counter" : "gauge", n.v[i].name);
		put_number(b, n.v[i].value);
		outbuf__putc(b, '\n');
	}
	outbuf__puts(b, "# HELP pyebpf_events_lost_total samples lost, by reason\n"
			"# TYPE pyebpf_events_lost_total counter\n");
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		outbuf__printf(b, "pyebpf_events_lost_total{reason=\"%s\"} %" PRIu64 "\n",
			       trace_loss_name(i), load.lost[i]);
	outbuf__printf(b,
		       "# HELP pyebpf_unwind_errors_total stacks that are not whole, by reason\n"
		       "# TYPE pyebpf_unwind_errors_total counter\n"
		       "pyebpf_unwind_errors_total{reason=\"no_state\"} %" PRIu64 "\n"
		       "pyebpf_unwind_errors_total{reason=\"read_fault\"} %" PRIu64 "\n"
		       "pyebpf_unwind_errors_total{reason=\"partial\"} %" PRIu64 "\n",
		       load.no_state, load.faults, load.deep);
	outbuf__puts(b, "# HELP pyebpf_governor_state what the agent does: one is 1\n"
			"# TYPE pyebpf_governor_state gauge\n");
	for (int i = 0; i < AGENT_STATE_CNT; i++)
		outbuf__printf(b, "pyebpf_governor_state{state=\"%s\"} %d\n", state_names[i],
			       (int)a->state == i);
	outbuf__printf(b,
		       "# HELP pyebpf_build_info the version\n# TYPE pyebpf_build_info gauge\n"
		       "pyebpf_build_info{version=\"%s\"} 1\n",
		       PYEBPF_VERSION);
	agent_kube_metrics(a, b);
	agent_sinks_metrics(a->sender, b);
}

void agent_status_json(const struct agent *a, struct outbuf *b)
{
	struct session_load load;
	struct numbers n;

	session__load(a->session, &load);
	take(a, &load, &n);
	outbuf__printf(b, "{\"state\":\"%s\",\"store\":", state_names[a->state]);
	json_str(b, a->opts->store);
	outbuf__puts(b, ",\"node\":");
	json_str(b, a->node);
	outbuf__puts(b, ",\"burst\":");
	if (a->burst)
		json_str(b, a->burst_what);
	else
		outbuf__puts(b, "null");
	outbuf__puts(b, ",\"lost\":{");
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		outbuf__printf(b, "%s\"%s\":%" PRIu64, i ? "," : "", trace_loss_name(i),
			       load.lost[i]);
	outbuf__putc(b, '}');
	for (size_t i = 0; i < n.cnt; i++) {
		outbuf__printf(b, ",\"%s\":", n.v[i].name);
		put_number(b, n.v[i].value);
	}
	outbuf__puts(b, ",\"kubernetes\":");
	agent_kube_json(a, b);
	outbuf__puts(b, ",\"sinks\":");
	agent_sinks_json(a->sender, b);
	outbuf__puts(b, "}\n");
}

void agent_status_text(const struct agent *a, struct outbuf *b)
{
	const struct agent_totals *t = &a->totals;
	double uptime = (double)(a->tick_ns - a->start_ns) / 1e9;
	struct session_load l;
	uint64_t lost = 0;

	session__load(a->session, &l);
	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += l.lost[i];
	outbuf__printf(b, "state     %s, for %.0f s\n", state_names[a->state], uptime);
	outbuf__printf(b, "sampling  %.1f of %" PRIu64 " Hz, %u processes\n",
		       (double)a->opts->rate * l.keep, a->opts->rate, services__cnt(a->services));
	outbuf__printf(
		b,
		"cpu       %.2f%% on average, %.2f%% in the kernel, %.2f%% sending; the budget is "
		"%.2f%%\n",
		(cpu_seconds(a) + (double)l.bpf_ns / 1e9) / (uptime > 0 ? uptime : 1) * 100,
		(double)l.bpf_ns / 1e7 / (uptime > 0 ? uptime : 1),
		(double)sender__cpu_ns(a->sender) / 1e7 / (uptime > 0 ? uptime : 1),
		budget_of(a) * 100);
	outbuf__printf(b, "memory    %.1f of %.1f MB\n", (double)a->rss_bytes / 1e6,
		       (double)a->opts->max_memory / 1e6);
	outbuf__printf(b, "samples   %" PRIu64 ", %" PRIu64 " left out, %" PRIu64 " lost\n",
		       l.samples, l.skipped, lost);
	outbuf__printf(b,
		       "windows   %" PRIu64 ", %" PRIu64 " profiles, %" PRIu64 " bytes, %" PRIu64
		       " not written\n",
		       t->windows, t->profiles, t->bytes, t->unwritten);
	outbuf__printf(b, "store     %s, %" PRIu64 " profiles expired, %" PRIu64 " evicted%s\n",
		       a->opts->store, t->trimmed_by_age, t->trimmed_by_bytes,
		       agent_store_is_stuck(a) ? "; it does not answer"
		       : a->full	       ? "; the disk is full"
					       : "");
	outbuf__printf(b,
		       "bursts    %" PRIu64 ", %" PRIu64 " failed, %" PRIu64 " events, %" PRIu64
		       " lost; %.0f s left%s%s\n",
		       t->bursts, t->bursts_failed, t->burst_calls, t->burst_lost,
		       (double)a->burst_tokens_ns / 1e9, a->burst ? "; now: " : "",
		       a->burst ? a->burst_what : "");
	agent_kube_text(a, b);
	agent_sinks_text(a->sender, b);
}
