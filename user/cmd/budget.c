// SPDX-License-Identifier: Apache-2.0
/*
 * --max-overhead: each process may spend a share of its CPU time in probes. It has a bucket that fills with
 * that share of the CPU time that it uses, and each event takes out of it what an event costs, as measured
 * at the start. When it is empty the probes are taken out of that process, and put back when the bucket
 * holds enough for a window; other processes are not touched. Switching takes the kernel some 10 ms in
 * which the target still runs into probes: that is paid from the bucket, too.
 */
#define LOG_DOMAIN "budget"
#include "cmd/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/session_priv.h"

#define WINDOW_NS 20000000ll /* of probe time that a window should have at least */
#define BURST_NS  60000000ll /* what a process that did little can save up */
#define LOOK_NS	  2000000ull

static uint64_t cpu_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_ns(clock);
}

static int64_t share(const struct session *s, uint64_t ns)
{
	return (int64_t)(ns * s->opts.limits.overhead_pct / 100);
}

static uint64_t cost_ns(const struct session *s, const struct target *t)
{
	struct trace_cost c;
	uint64_t both;

	cap_bpf__cost(s->cap, &t->in.plan, &c);
	both = (uint64_t)c.entry_before_ns + c.entry_after_ns + c.exit_before_ns + c.exit_after_ns;
	return both ? both / 2 : 1000; /* not measured: rather too much */
}

static void begin(const struct session *s, struct target *t)
{
	t->budget = (struct budget){ .pix = t->pix,
				     .cost_ns = cost_ns(s, t),
				     .cpu_ns = cpu_ns(t->pid.given),
				     .tokens_ns = BURST_NS / 2 };
}

/* Bring the bucket up to date. */
static void settle(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t cpu = cpu_ns(t->pid.given), hits = assembler__hits(s->as, t->pix);
	uint64_t used = cpu > b->cpu_ns ? cpu - b->cpu_ns : 0;
	uint64_t spent = (hits - b->hits) * b->cost_ns;

	b->tokens_ns += share(s, used) - (int64_t)spent;
	if (b->tokens_ns > BURST_NS + b->switch_ns)
		b->tokens_ns = BURST_NS + b->switch_ns;
	b->cpu_ns = cpu ? cpu : b->cpu_ns;
	b->hits = hits;
	b->window_cpu_ns += used;
	b->window_spent_ns += spent;
}

/* While the kernel switches, hits are no events, but go on as before: they are paid for by time. */
static void pay_switch(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t cpu = cpu_ns(t->pid.given), used = cpu > b->cpu_ns ? cpu - b->cpu_ns : 0;
	double part = b->window_cpu_ns ? (double)b->window_spent_ns / (double)b->window_cpu_ns : 0;
	int64_t cost = (int64_t)((part < 1 ? part : 1) * (double)used);

	b->tokens_ns += share(s, used) - cost;
	b->switch_ns = cost;
	b->cpu_ns = cpu ? cpu : b->cpu_ns;
}

static void switch_off(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t from = now_ns();
	int err = cap_bpf__pause(s->cap, t->pid.given);

	if (err) {
		log_warn("process %d: its probes cannot be switched off: %s", t->pid.given,
			 err_str(err));
		b->broken = true;
		return;
	}
	b->off_ns = from;
	b->drained = false;
	assembler__off(s->as, t->pix, from);
	pay_switch(s, t);
	s->windows_cnt++;
	log_debug("process %d: off, took %.1f ms, has %.1f ms, switching costs %.1f ms",
		  t->pid.given, (double)(now_ns() - from) / 1e6, (double)b->tokens_ns / 1e6,
		  (double)b->switch_ns / 1e6);
}

static void switch_on(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t since;
	int err = cap_bpf__resume(s->cap, &t->in, t->pid.given, &since);

	if (err) {
		if (err != -ESRCH)
			log_warn("process %d: its probes cannot be switched on again: %s",
				 t->pid.given, err_str(err));
		b->broken = true;
		return;
	}
	assembler__on(s->as, t->pix, since);
	s->off_ns += since - b->off_ns;
	b->off_ns = 0;
	settle(s, t);
	b->window_cpu_ns = b->window_spent_ns = 0;
	log_debug("process %d: on again, has %.1f ms", t->pid.given, (double)b->tokens_ns / 1e6);
}

int budget_check(const struct session *s, struct err *e)
{
	bool shared = s->selection || (s->opts.command && s->opts.subprocesses);

	if (s->opts.limits.overhead_pct && filters_any(&s->opts.filter))
		return err_set(
			e, -PYE_EUSAGE,
			"--max-overhead does not go with filters: it counts the events that are "
			"recorded");
	if (!s->opts.limits.overhead_pct || (!shared && cap_bpf__per_process(s->cap)))
		return 0;
	if (shared)
		return err_set(e, -PYE_EUSAGE,
			       "--max-overhead does not go with -s and a command, -a, --comm or "
			       "--cgroup: the probes are in the file for all processes");
	return err_set(e, -PYE_EUSAGE,
		       "--max-overhead needs probes per process, which this kernel cannot place");
}

void budget_tick(struct session *s, uint64_t now, bool drained)
{
	if (!s->opts.limits.overhead_pct || !s->as)
		return;
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];
		struct budget *b = &t->budget;

		if (!t->pix || t->ended || !t->has_interp)
			continue;
		if (b->pix != t->pix)
			begin(s, t);
		b->drained |= drained;
		if (b->broken || now - b->look_ns < LOOK_NS)
			continue;
		b->look_ns = now;
		settle(s, t);
		if (!b->off_ns && b->tokens_ns <= 0)
			switch_off(s, t);
		else if (b->off_ns && b->drained && b->tokens_ns >= WINDOW_NS + b->switch_ns)
			switch_on(s, t);
	}
}

void budget_finish(struct session *s, uint64_t now)
{
	for (size_t i = 0; s->as && i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (!t->budget.off_ns)
			continue;
		assembler__on(s->as, t->budget.pix, now);
		s->off_ns += now - t->budget.off_ns;
		t->budget.off_ns = 0;
	}
	if (s->opts.limits.overhead_pct && !s->opts.quiet)
		fprintf(stderr,
			"budget    %" PRIu64 " %%: the probes were switched off %" PRIu64
			" times, for %.2f s in all; those gaps are called window\n",
			s->opts.limits.overhead_pct, s->windows_cnt, (double)s->off_ns / 1e9);
}
