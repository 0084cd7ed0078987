// SPDX-License-Identifier: Apache-2.0
/*
 * The BPF walkers (bpf/py) over a hostile target: the input says which layout, what fails, what is done,
 * and is the target's memory besides; the events that come of it must add up. It lies at address 0, so that pointers of two bytes hit it; one
 * word can stand for a frame, a code object and a string at once.
 */
#include "cpython/layouts.h"
#include "fuzz.h"
#include "walkers.h"

#define STEPS	    24
#define HEAD_BYTES  (8 + 4 * STEPS)
#define RECORDS_MAX 200

enum action {
	WALK_ALL,
	WALK_NEAR,
	REFILL,
	REAL,
	ID,
	RETIRE,
	ENTRY,
	EXIT,
	ACTIONS
};

static const struct layout *const layouts_known[] = {
	&layout_3_6,   &layout_3_7,  &layout_3_8,   &layout_3_9,   &layout_3_10,
	&layout_3_11,  &layout_3_12, &layout_3_13,  &layout_3_13t, &layout_3_14,
	&layout_3_14t, &layout_3_15, &layout_3_15t,
};

#define LAYOUT_CNT (sizeof(layouts_known) / sizeof(layouts_known[0]))

static void check_record(const struct host_record *r)
{
	const struct pye_head *head = (const void *)r->data;
	const struct pye_walk_rec *w = (const void *)r->data;
	const struct pye_str_rec *s = (const void *)r->data;

	demand(r->submitted);
	switch (head->kind) {
	case PYE_REC_WALK:
		demand(r->size == sizeof(*w) && w->cnt <= PYE_WALK_FRAMES);
		for (uint32_t i = 0; i < w->cnt; i++)
			demand(w->frames[i].frame && w->frames[i].code);
		break;
	case PYE_REC_STR:
		demand(r->size == sizeof(*s) + s->room && s->data_len <= s->room);
		break;
	case PYE_REC_DEF:
		demand(r->size == sizeof(struct pye_def_rec) && head->sub <= PYE_STR_CNT);
		break;
	case PYE_REC_ENTRY:
		demand(r->size == sizeof(struct pye_entry_rec));
		break;
	case PYE_REC_EXIT:
		demand(r->size == sizeof(struct pye_exit_rec));
		break;
	case PYE_REC_RETIRE:
		demand(r->size == sizeof(struct pye_retire_rec));
		break;
	default:
		demand(false);
	}
}

struct seen {
	uint64_t events; /* records of entries and exits */
	uint32_t next; /* number of the event that would follow without a loss */
	bool walked; /* a stack was shown since the last event */
};

/* Events are numbered without a hole but for those lost, and after a hole the stack is shown. */
static void check_order(struct seen *s, const struct thread *t)
{
	for (size_t i = 0; i < host.record_cnt; i++) {
		const struct pye_head *head = (const void *)host.records[i]->data;

		if (head->kind == PYE_REC_WALK)
			s->walked = true;
		if (head->kind != PYE_REC_ENTRY && head->kind != PYE_REC_EXIT)
			continue;
		demand(head->seq >= s->next && (head->seq == s->next || s->walked));
		s->next = head->seq + 1;
		s->walked = false;
		s->events++;
	}
	host_forget_records();
	demand(t->seq ==
	       s->events + walkers_counter(CNT_LOST_RING) + walkers_counter(CNT_LOST_READ));
}

static void check(const struct thread *t)
{
	demand(t->walk_cnt <= PYE_WALK_FRAMES);
	demand(t->valid <= PYE_STACK_SLOTS);
	for (size_t i = 0; i < host.record_cnt; i++)
		check_record(host.records[i]);
}

static void act(struct thread *t, unsigned int action, uint64_t addr)
{
	switch (action % ACTIONS) {
	case WALK_ALL:
		walk_all(addr, PYE_WALK_UNKNOWN);
		break;
	case WALK_NEAR:
		if (stack_top(t))
			walk_near(addr);
		break;
	case REFILL:
		if (!t->valid)
			stack_refill(addr);
		break;
	case REAL:
		frame_real(addr, addr & 1);
		break;
	case ID:
		code_id(t, addr);
		break;
	case RETIRE:
		code_retire(t, addr);
		break;
	case ENTRY:
		on_entry(t, layout_of(t), 1, addr, action & 0x4000);
		break;
	case EXIT:
		/* half of them leave the frame that is the top, as they should */
		if (action & 0x4000)
			addr = SLOT_FRAME(stack_top(t));
		on_exit(t, 1, addr, action >> 8 & 3);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	struct seen seen = { 0 };
	struct thread *t;
	uint16_t word[4];

	if (!ready)
		walkers_maps();
	ready = true;
	if (size < HEAD_BYTES + 16)
		return 0;
	host_reset();
	memcpy(word, data, sizeof(word));
	t = walkers_thread(&layouts_known[word[0] % LAYOUT_CNT]->py);
	host_memory(0, data + HEAD_BYTES, size - HEAD_BYTES);
	host.ring_records = RECORDS_MAX;
	if (word[1])
		host.fail_read = word[1];
	if (word[2])
		host.fail_reserve = word[2];
	host.fail_all_reads = word[3] & 1;
	host.fail_all_reserves = word[3] & 2;
	host.paged_out = word[3] & 4;
	t->pos = word[3] >> 3;
	for (size_t i = 0; i < STEPS; i++) {
		uint16_t step[2];

		memcpy(step, data + 8 + 4 * i, sizeof(step));
		act(t, step[0], step[1]);
		check(t);
		if (step[0] & 0x8000)
			check_order(&seen, t);
	}
	check_order(&seen, t);
	return 0;
}
