// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "calibrate"
#include "capture/calibrate.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/event.h"
#include "abi/proc.h"
#include "base/clock.h"
#include "base/log.h"
#include "capture/attach.h"
#include "capture/capture.h"
#include "capture/feature.h"
#include "cpython/plan.h"
#include "trace.skel.h"

#define BATCHES	    9
#define ROUNDS	    40 /* per batch and kind */
#define WARMUP	    8
#define PAUSE_US    300
#define DATA_BYTES  (16u << 10)
#define COST_MAX_NS 100000
#define OTHERS	    16

/* Like the real sites: an entry sits on a conditional jump, an exit on one of three. */
void calibrate_enter(const void *frame);
void calibrate_leave_jump(const void *tstate, const void *frame);
void calibrate_leave_push(const void *tstate, const void *frame);
void calibrate_leave_call(const void *tstate, const void *frame);
void calibrate_code(void);
extern const char calibrate_enter_site[], calibrate_jump_site[], calibrate_push_site[],
	calibrate_call_site[];

#if defined(__x86_64__)
/* The return of a call that the kernel has made is one that the processor did not foresee, and so are
 * those of its callers: that belongs to the price. An evaluator is left through about so many. */
__asm__(".text\n"
	".globl calibrate_enter, calibrate_enter_site, calibrate_leave_jump, calibrate_jump_site\n"
	".globl calibrate_code, calibrate_leave_push, calibrate_push_site, calibrate_leave_call, calibrate_call_site\n"
	"calibrate_enter: test %rdi, %rdi\n"
	"calibrate_enter_site: jne 1f\n"
	"1: ret\n"
	"calibrate_leave_jump:\n"
	"calibrate_jump_site: jmp 1f\n"
	"1: ret\n"
	"calibrate_leave_push:\n"
	"calibrate_push_site: push %rbx\n"
	"pop %rbx\n"
	"ret\n"
	"calibrate_leave_call: call 2f\n"
	"ret\n"
	"2: call 3f\n"
	"ret\n"
	"3: call 4f\n"
	"ret\n"
	"4:\n"
	"calibrate_call_site: call 1f\n"
	"ret\n"
	"1: ret\n"
	/* a jump per line of the cache */
	"calibrate_code:\n"
	".rept 288\n"
	"jmp 1f\n"
	".balign 64\n"
	"1: nop\n"
	".endr\n"
	"ret\n");
#else
#error "calibrate.c: write the functions for this architecture"
#endif

/* What a program does between two events drives some of the kernel's code and data out of the caches. The
 * amounts are those with which functions of known length come out right, from 0.3 to 10 us, under every
 * interpreter (tests/e2e/test_cost.py); without, an event seems 60 to 120 ns cheaper than it is. */
static void disturb(void)
{
	static volatile uint64_t data[DATA_BYTES / sizeof(uint64_t)];

	calibrate_code();
	for (size_t i = 0; i < DATA_BYTES / sizeof(data[0]); i += 8)
		data[i]++;
}

/* By what the instruction does. */
enum kind {
	KIND_JUMP,
	KIND_PUSH,
	KIND_CALL,
	KIND_CNT
};

/* A frame, its code object and a thread state, made up after layout() below. */
struct fake_code {
	uint64_t words[16];
};

struct fake_frame {
	const struct fake_code *code;
	const struct fake_frame *previous;
	uint64_t words[9];
};

static struct pye_pylayout layout(void)
{
	struct pye_pylayout l = {
		.minor = 12,
		.f_code = offsetof(struct fake_frame, code),
		.f_previous = offsetof(struct fake_frame, previous),
		.f_instr = 56,
		.f_owner = 70,
		.f_state = PYE_NO_FIELD,
		.f_gen = PYE_NO_FIELD,
		.co_qualname = PYE_NO_FIELD,
		.co_filename = 8,
		.co_name = 16,
		.co_flags = 48,
		.co_firstlineno = 68,
	};

	return l;
}

static void site(struct interp *in, uint32_t i, enum probe_kind kind, uint8_t reg, const char *addr)
{
	struct probe_site *s = &in->plan.sites[i];

	s->kind = kind;
	s->source = PROBE_IN_REG;
	s->reg = reg;
	s->value_reg = PREG_NONE;
	in->plan.site_cnt = i + 1;
	s->offset = feature_self_offset(addr);
}

static int place(const struct bpf_loaded *bpf, pid_t pid, struct attached *a)
{
	struct interp *in = calloc(1, sizeof(*in));
	int err;

	if (!in)
		return -ENOMEM;
	strcpy(in->open_path, "/proc/self/exe");
	strcpy(in->path, "pyebpf");
	site(in, 0, PROBE_RESUME, PREG_RDI, calibrate_enter_site);
	site(in, 1, PROBE_CLEAR, PREG_RSI, calibrate_jump_site);
	site(in, 2, PROBE_CLEAR, PREG_RSI, calibrate_push_site);
	site(in, 3, PROBE_CLEAR, PREG_RSI, calibrate_call_site);
	err = attach_plan(bpf, in, (uint32_t)pid, 0, a, NULL);
	free(in);
	return err;
}

/* Intervals by the kinds of event at their ends. */
enum interval {
	ENTRY_ENTRY,
	ENTRY_EXIT,
	EXIT_ENTRY,
	EXIT_EXIT,
	INTERVAL_CNT
};

struct samples {
	uint32_t cnt[INTERVAL_CNT];
	uint32_t ns[INTERVAL_CNT][BATCHES * ROUNDS];
	uint64_t last_ns;
	unsigned int last_kind, events; /* events: of this batch */
};

static void add_sample(struct samples *s, enum interval which, uint64_t ns)
{
	if (s->events++ >= 4 * WARMUP && ns < COST_MAX_NS && s->cnt[which] < BATCHES * ROUNDS)
		s->ns[which][s->cnt[which]++] = (uint32_t)ns;
}

static void take(struct samples *s, const struct pye_head *head)
{
	unsigned int kind = head->kind == PYE_REC_EXIT;

	add_sample(s, s->last_kind * 2 + kind, head->ts_ns - s->last_ns);
	s->last_ns = head->ts_ns;
	s->last_kind = kind;
}

static void read_events(const struct bpf_loaded *bpf, struct ring *rings, struct samples *s)
{
	struct capture_batch batch;

	for (uint32_t i = 0; i < bpf->ring_cnt; i++) {
		while ((batch.len = ring__next(&rings[i], &batch.data, 1 << 20))) {
			const struct pye_head *head;
			size_t at = 0;
			uint32_t len;

			while ((head = capture_record(&batch, &at, &len)))
				if (head->kind == PYE_REC_ENTRY || head->kind == PYE_REC_EXIT)
					take(s, head);
		}
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The lower quartile: what a moment of disturbance adds is not in it. */
static uint32_t typical(struct samples *s, enum interval which)
{
	if (!s->cnt[which])
		return 0;
	qsort(s->ns[which], s->cnt[which], sizeof(s->ns[which][0]), compare);
	return s->ns[which][s->cnt[which] * 2 / 5];
}

static uint32_t minus(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

/* Only sums of an "after" and a "before" are ever used, so one of the four can be chosen freely. What an
 * instruction takes beyond a jump is spent after the time stamp. */
static void settle(struct samples *s, struct samples *bare, struct calibration *out)
{
	uint32_t between = typical(bare, ENTRY_ENTRY);
	uint32_t entry_entry = minus(typical(&s[KIND_JUMP], ENTRY_ENTRY), between);
	uint32_t entry_exit = minus(typical(&s[KIND_JUMP], ENTRY_EXIT), between);
	uint32_t jump = typical(&s[KIND_JUMP], EXIT_ENTRY);
	struct trace_cost *cost = &out->jump;

	cost->entry_before_ns = entry_entry / 2;
	cost->entry_after_ns = entry_entry - cost->entry_before_ns;
	cost->exit_before_ns = minus(entry_exit, cost->entry_after_ns);
	cost->exit_after_ns = minus(minus(jump, between), cost->entry_before_ns);
	out->push_ns = minus(typical(&s[KIND_PUSH], EXIT_ENTRY), jump);
	out->call_ns = minus(typical(&s[KIND_CALL], EXIT_ENTRY), jump);
	log_debug(
		"entry-entry %u, entry-exit %u, exit-entry %u ns over %u; a push %u, a call %u ns more",
		entry_entry, entry_exit, minus(jump, between), between, out->push_ns, out->call_ns);
}

typedef void (*leave_fn)(const void *tstate, const void *frame);

/* @bare: without probes, takes the time between what would be two events. */
static void run(leave_fn leave, struct samples *bare)
{
	static const uint64_t tstate[16];
	struct fake_code code = { { 0 } };
	struct fake_frame outer = { .code = &code }, inner = { .code = &code, .previous = &outer };

	for (int i = 0; i < ROUNDS + WARMUP; i++) {
		uint64_t begin_ns = bare ? now_ns() : 0;

		calibrate_enter(&outer);
		disturb();
		calibrate_enter(&inner);
		disturb();
		leave(tstate, &inner);
		disturb();
		leave(tstate, &outer);
		disturb();
		if (bare)
			add_sample(bare, ENTRY_ENTRY, (now_ns() - begin_ns) / 4);
	}
}

static const leave_fn leave_by[KIND_CNT] = {
	[KIND_JUMP] = calibrate_leave_jump,
	[KIND_PUSH] = calibrate_leave_push,
	[KIND_CALL] = calibrate_leave_call,
};

/* The kinds take turns, so that a slow moment of the machine is one for all of them. */
static void measure(const struct bpf_loaded *bpf, struct ring *rings, struct samples *s)
{
	for (unsigned int batch = 0; batch < BATCHES; batch++) {
		for (unsigned int kind = 0; kind < KIND_CNT; kind++) {
			run(leave_by[kind], NULL);
			s[kind].events = 0;
			read_events(bpf, rings, &s[kind]);
		}
		usleep(PAUSE_US);
	}
}

static void measure_bare(struct samples *bare)
{
	for (unsigned int batch = 0; batch < BATCHES; batch++) {
		run(leave_by[KIND_JUMP], bare);
		usleep(PAUSE_US);
	}
}

/* What each other process with probes at the same places adds: a child has some more that do not concern us. */
static void measure_others(const struct bpf_loaded *bpf, struct ring *rings,
			   const struct samples *alone, struct calibration *out)
{
	struct samples *all = calloc(2, sizeof(*all));
	struct attached others[OTHERS] = { 0 };
	pid_t pid = all ? fork() : -1;
	int err = pid < 0 ? -ENOMEM : 0;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (int i = 0; !err && i < OTHERS; i++)
		err = place(bpf, pid, &others[i]);
	for (unsigned int batch = 0; !err && batch < BATCHES; batch++) {
		run(calibrate_leave_jump, NULL);
		all[0].events = 0;
		read_events(bpf, rings, &all[0]);
		usleep(PAUSE_US);
	}
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (!err) {
		all[1] = *alone;
		out->other_ns =
			minus(typical(&all[0], ENTRY_ENTRY), typical(&all[1], ENTRY_ENTRY)) /
			OTHERS;
	}
	log_debug("each other process adds %u ns", out->other_ns);
	attach_close_all(others, OTHERS);
	free(all);
}

static uint32_t extra(const struct calibration *c, const char *insn)
{
	return !strncmp(insn, "push", 4) ? c->push_ns : !strncmp(insn, "call", 4) ? c->call_ns : 0;
}

void calibration_apply(const struct calibration *c, const struct probe_plan *plan,
		       struct trace_cost *out)
{
	bool entry = false, leave = false;

	*out = c->jump;
	/* the first site of a sort is the usual one; the others are variants of the opcode */
	for (uint32_t i = 0; i < plan->site_cnt; i++) {
		const struct probe_site *site = &plan->sites[i];

		if (!entry && (site->kind == PROBE_RESUME || site->kind == PROBE_EVAL_ENTRY)) {
			out->entry_after_ns += extra(c, site->insn);
			entry = true;
		} else if (!leave && (site->kind == PROBE_CLEAR || site->kind == PROBE_RETURN ||
				      site->kind == PROBE_EVAL_EXIT)) {
			out->exit_after_ns += extra(c, site->insn);
			leave = true;
		}
	}
}

int calibrate(const struct bpf_loaded *bpf, struct ring *rings, uint32_t slot, bool others,
	      struct calibration *out)
{
	int procs = bpf_map__fd(bpf->skel->maps.procs),
	    layouts = bpf_map__fd(bpf->skel->maps.layouts);
	struct pye_proc proc = { .layout = (uint16_t)slot, .flags = PYE_PROC_TRACED };
	struct samples *s = calloc(KIND_CNT + 1, sizeof(*s));
	struct pye_pylayout l = layout();
	struct attached a = { 0 };
	uint32_t pid = (uint32_t)getpid();
	int err;

	memset(out, 0, sizeof(*out));
	if (!s)
		return -ENOMEM;
	/* process 0: its threads count in no sum */
	if (bpf_map_update_elem(layouts, &slot, &l, BPF_ANY) ||
	    bpf_map_update_elem(procs, &pid, &proc, BPF_ANY))
		err = -errno;
	else
		err = place(bpf, getpid(), &a);
	if (!err) {
		measure(bpf, rings, s);
		if (others)
			measure_others(bpf, rings, &s[KIND_JUMP], out);
		attach_close(&a);
		measure_bare(&s[KIND_CNT]);
		settle(s, &s[KIND_CNT], out);
	}
	bpf_map_delete_elem(procs, &pid);
	free(s);
	return err;
}
