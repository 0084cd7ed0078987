// SPDX-License-Identifier: Apache-2.0
/*
 * --max-overhead: each process may spend a share of its CPU time in probes. It has a bucket that fills with
 * that share of the CPU time that it uses, and each hit of a probe, whether it records something or not, takes
 * out of it what a hit costs, as measured at the start. When it is empty the probes are taken out of that
 * process, and put back when the bucket holds enough for a window; other processes are not touched. What the
 * target still runs into while the kernel takes them out is paid from the bucket, too.
 */
#define LOG_DOMAIN "budget"
#include "cmd/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "capture/cap_budget.h"
#include "cmd/select.h"
#include "cmd/session_priv.h"
#include "proc/info.h"

#define WINDOW_NS   20000000ll /* of probe time that a window should have at least */
#define BURST_NS    60000000ll /* what a process that did little can save up */
#define LOOK_NS	    2000000ull
#define LOOK_MAX_NS 16000000ull /* at a process that runs into no probes */

static int64_t share(const struct session *s, uint64_t ns)
{
	return (int64_t)(ns * s->opts.limits.overhead_pct / 100);
}

static uint64_t cost_ns(const struct session *s, const struct target *t)
{
	uint64_t cost = cap_bpf__hit_ns(s->cap, &t->in, t->pid.given);

	return cost ? cost : 1000; /* not measured: rather too much */
}

/* A process that is new, or has executed something: then its probes may be out as they were before. */
static void begin(struct session *s, struct target *t)
{
	bool off = t->budget.off_ns;

	t->budget = (struct budget){ .pix = t->pix,
				     .cpu_ns = proc_cpu_ns(t->pid.given),
				     .tokens_ns = BURST_NS / 2,
				     .every_ns = LOOK_NS,
				     .leaving = t->budget.leaving,
				     .off_ns = off ? now_ns() : 0 };
	if (off)
		assembler__off(s->as, t->pix, t->budget.off_ns);
	if (cap_bpf__count_hits(s->cap, t->pix)) {
		log_warn("process %d has no budget: there are too many", t->pid.given);
		t->budget.broken = true;
	}
}

/* Bring the bucket up to date. */
static void settle(const struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t cpu = proc_cpu_ns(t->pid.given), hits = cap_bpf__hits(s->cap, t->pix);
	uint64_t used = cpu > b->cpu_ns ? cpu - b->cpu_ns : 0;

	b->every_ns = b->every_ns * 2 > LOOK_MAX_NS ? LOOK_MAX_NS : b->every_ns * 2;
	if (hits > b->hits || b->off_ns)
		b->every_ns = LOOK_NS;
	if (hits > b->hits) {
		b->tokens_ns -= (int64_t)((hits - b->hits) * cost_ns(s, t));
		b->hits = hits;
	}
	b->tokens_ns += share(s, used);
	if (b->tokens_ns > BURST_NS)
		b->tokens_ns = BURST_NS;
	b->cpu_ns = cpu ? cpu : b->cpu_ns;
}

static void refused(struct target *t, const char *what, int err)
{
	if (err != -ESRCH)
		log_warn("process %d: its probes cannot be switched %s: %s", t->pid.given, what,
			 err_str(err));
	t->budget.broken = true;
}

static void switch_off(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t from = now_ns();
	int err = cap_bpf__pause(s->cap, t->pid.given);

	if (err) {
		refused(t, "off", err);
		return;
	}
	b->off_ns = from;
	b->leaving = true;
	assembler__off(s->as, t->pix, from);
	s->windows_cnt++;
	log_debug("process %d: off, has %.1f ms", t->pid.given, (double)b->tokens_ns / 1e6);
}

/* The rings may still hold events of before until this has been so for a round. */
static void look_at_leaving(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	int out = cap_bpf__paused(s->cap, t->pid.given);

	if (!out)
		return;
	b->leaving = false;
	b->drained = s->drained_cnt;
	if (out < 0)
		refused(t, "off", out);
	else
		log_debug("process %d: out after %.1f ms, has %.1f ms", t->pid.given,
			  (double)(now_ns() - b->off_ns) / 1e6, (double)b->tokens_ns / 1e6);
}

static void switch_on(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;
	uint64_t since;
	int err = cap_bpf__resume(s->cap, &t->in, t->pid.given, &since);

	if (err) {
		refused(t, "on again", err);
		return;
	}
	assembler__on(s->as, t->pix, since);
	s->off_ns += since - b->off_ns;
	b->off_ns = 0;
	log_debug("process %d: on again, has %.1f ms", t->pid.given, (double)b->tokens_ns / 1e6);
}

bool budget_is_on(const struct session *s)
{
	return s->opts.limits.overhead_pct != 0;
}

int budget_check(const struct session *s, struct err *e)
{
	if (!budget_is_on(s))
		return 0;
	if (s->opts.select && s->opts.select->host_wide) {
		err_set(e, 0,
			"--max-overhead does not go with --host-wide: probes for everybody cannot be "
			"taken out of one process");
		err_hint(e, "leave out --host-wide: with -s children get probes of their own");
		return -PYE_EUSAGE;
	}
	if (!cap_bpf__per_process(s->cap))
		return err_set(
			e, -PYE_EUSAGE,
			"--max-overhead needs probes per process, which this kernel cannot place");
	return 0;
}

static void look(struct session *s, struct target *t)
{
	struct budget *b = &t->budget;

	settle(s, t);
	if (b->leaving)
		look_at_leaving(s, t);
	else if (!b->off_ns && b->tokens_ns <= 0)
		switch_off(s, t);
	else if (b->off_ns && s->drained_cnt != b->drained && b->tokens_ns >= WINDOW_NS)
		switch_on(s, t);
}

void budget_tick(struct session *s, uint64_t now, bool drained)
{
	if (!budget_is_on(s) || !s->as)
		return;
	s->drained_cnt += drained;
	for (size_t i = 0; i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (!t->pix || t->ended || !t->has_interp)
			continue;
		if (t->budget.pix != t->pix)
			begin(s, t);
		if (t->budget.broken || now < t->budget.next_ns)
			continue;
		look(s, t);
		t->budget.next_ns = now + t->budget.every_ns;
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
	if (budget_is_on(s) && !s->opts.quiet)
		fprintf(stderr,
			"budget    %" PRIu64 " %%: the probes were switched off %" PRIu64
			" times, for %.2f s in all; those gaps are called window\n",
			s->opts.limits.overhead_pct, s->windows_cnt, (double)s->off_ns / 1e9);
}
