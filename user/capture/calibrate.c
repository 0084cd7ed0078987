// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "calibrate"
#include "capture/calibrate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi/event.h"
#include "abi/proc.h"
#include "base/log.h"
#include "capture/attach.h"
#include "capture/capture.h"
#include "capture/feature.h"
#include "cpython/plan.h"
#include "trace.skel.h"

#define ROUNDS	    1000
#define WARMUP	    50
#define COST_MAX_NS 100000

/* Like the real sites: an entry sits on a conditional jump, an exit on a push. */
void calibrate_enter(const void *frame);
void calibrate_leave(const void *tstate, const void *frame);
extern const char calibrate_enter_site[], calibrate_leave_site[];

#if defined(__x86_64__)
__asm__(".text\n"
	".globl calibrate_enter, calibrate_enter_site, calibrate_leave, calibrate_leave_site\n"
	"calibrate_enter: test %rdi, %rdi\n"
	"calibrate_enter_site: jne 1f\n"
	"1: ret\n"
	"calibrate_leave:\n"
	"calibrate_leave_site: push %rbx\n"
	"pop %rbx\n"
	"ret\n");
#else
#error "calibrate.c: write the two functions for this architecture"
#endif

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

static int place(const struct bpf_loaded *bpf, struct attached *a)
{
	struct interp *in = calloc(1, sizeof(*in));
	int err;

	if (!in)
		return -ENOMEM;
	strcpy(in->open_path, "/proc/self/exe");
	strcpy(in->path, "pyebpf");
	site(in, 0, PROBE_RESUME, PREG_RDI, calibrate_enter_site);
	site(in, 1, PROBE_CLEAR, PREG_RSI, calibrate_leave_site);
	err = attach_plan(bpf, in, (uint32_t)getpid(), a, NULL);
	free(in);
	return err;
}

struct samples {
	uint32_t cnt[4];
	uint32_t ns[4][ROUNDS * 2];
	uint64_t last_ns;
	unsigned int last_kind, events;
};

/* Interval by the kinds at its ends: 0 entry-entry, 1 entry-exit, 2 exit-entry, 3 exit-exit. */
static void take(struct samples *s, const struct pye_head *head)
{
	unsigned int kind = head->kind == PYE_REC_EXIT, which = s->last_kind * 2 + kind;
	uint64_t ns = head->ts_ns - s->last_ns;

	if (s->events++ > 4 * WARMUP && ns < COST_MAX_NS && s->cnt[which] < ROUNDS * 2)
		s->ns[which][s->cnt[which]++] = (uint32_t)ns;
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

static uint32_t median(uint32_t *ns, uint32_t cnt)
{
	if (!cnt)
		return 0;
	qsort(ns, cnt, sizeof(*ns), compare);
	return ns[cnt / 2];
}

static uint32_t minus(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

/* Only sums of an "after" and a "before" are ever used, so one of the four can be chosen freely. */
static void split(struct samples *s, struct trace_cost *out)
{
	uint32_t entry_entry = median(s->ns[0], s->cnt[0]),
		 entry_exit = median(s->ns[1], s->cnt[1]);
	uint32_t exit_entry = median(s->ns[2], s->cnt[2]);

	out->entry_before_ns = entry_entry / 2;
	out->entry_after_ns = entry_entry - out->entry_before_ns;
	out->exit_before_ns = minus(entry_exit, out->entry_after_ns);
	out->exit_after_ns = minus(exit_entry, out->entry_before_ns);
	log_debug("entry-entry %u, entry-exit %u, exit-entry %u, exit-exit %u ns", entry_entry,
		  entry_exit, exit_entry, median(s->ns[3], s->cnt[3]));
}

static void run(void)
{
	static const uint64_t tstate[16];
	struct fake_code code = { { 0 } };
	struct fake_frame outer = { .code = &code }, inner = { .code = &code, .previous = &outer };

	for (int i = 0; i < ROUNDS; i++) {
		calibrate_enter(&outer);
		calibrate_enter(&inner);
		calibrate_leave(tstate, &inner);
		calibrate_leave(tstate, &outer);
	}
}

int calibrate(const struct bpf_loaded *bpf, struct ring *rings, uint32_t slot,
	      struct trace_cost *out)
{
	int procs = bpf_map__fd(bpf->skel->maps.procs),
	    layouts = bpf_map__fd(bpf->skel->maps.layouts);
	struct pye_proc proc = { .layout = (uint16_t)slot, .flags = PYE_PROC_TRACED };
	struct samples *s = calloc(1, sizeof(*s));
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
		err = place(bpf, &a);
	if (!err) {
		run();
		attach_close(&a);
		read_events(bpf, rings, s);
		split(s, out);
	}
	bpf_map_delete_elem(procs, &pid);
	free(s);
	return err;
}
