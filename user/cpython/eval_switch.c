// SPDX-License-Identifier: Apache-2.0
/*
 * Position-independent code has tables of distances from the table itself, and adds the two right before the jump:
 *
 *   lea table(%rip), %rdx; movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax
 *
 * The dispatch table (cpython/optable.h) has addresses and is none of these.
 */
#include "cpython/eval_switch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "elf/elf_file.h"

#define STRETCH_MAX 24
#define ENTRIES_MAX 1024

/* Straight on to a jump. */
static size_t straight_to(const struct body *b, size_t jump)
{
	size_t i = jump, cnt;

	while (i && jump - i < STRETCH_MAX) {
		body__edges(b, b->insns[i].addr, &cnt);
		if (cnt || !body__falls_into(b, i))
			break;
		i--;
	}
	return i;
}

/* Is what a register has at the jump a sum? Decodes one instruction, for most jumps are those of the dispatch. */
static bool is_sum(const struct planner *p, const struct body *b, size_t from, size_t jump,
		   uint8_t reg)
{
	struct insn insn;
	uint8_t to, other;

	for (size_t i = jump; reg < MACHINE_REG_CNT && i-- > from;)
		if (b->insns[i].writes >> reg & 1)
			return !code__insn(&p->code, b->insns[i].addr, &insn) &&
			       insn__adds(&insn, &to, &other);
	return false;
}

/* The table that a jump's register has been added to, or 0. */
static uint64_t table_of(const struct planner *p, const struct body *b, size_t jump)
{
	uint64_t tables[MACHINE_REG_CNT] = { 0 }, sums[MACHINE_REG_CNT] = { 0 };
	size_t from = straight_to(b, jump);
	uint8_t reg, to, other, named;
	struct insn insn;

	if (code__insn(&p->code, b->insns[jump].addr, &insn))
		return 0;
	reg = insn__jumps_through(&insn);
	if (!is_sum(p, b, from, jump, reg))
		return 0;
	for (size_t i = from; i < jump; i++) {
		uint64_t sum = 0;

		if (code__insn(&p->code, b->insns[i].addr, &insn))
			return 0;
		if (insn__adds(&insn, &to, &other))
			sum = tables[to] ? tables[to] : tables[other];
		for (uint8_t r = 0; r < MACHINE_REG_CNT; r++)
			if (insn.writes >> r & 1)
				tables[r] = sums[r] = 0;
		named = insn__names_address(&insn);
		if (sum)
			sums[to] = sum;
		else if (named != PREG_NONE)
			tables[named] = insn.pointer;
	}
	return sums[reg];
}

/* Where another table begins, this one ends. */
static uint64_t table_end(const struct eval_switches *s, uint64_t table)
{
	uint64_t end = table + 4ull * ENTRIES_MAX;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->at[i].table > table && s->at[i].table < end)
			end = s->at[i].table;
	return end;
}

static int read_targets(const struct planner *p, const struct body *b, struct eval_switches *s,
			struct eval_switch *of)
{
	uint64_t end = table_end(s, of->table);
	int32_t distance;
	size_t index;

	of->first = s->target_cnt;
	for (uint64_t at = of->table; at < end; at += 4) {
		if (elf_file__read(p->elf, at, &distance, sizeof(distance)) ||
		    body__index(b, of->table + (uint64_t)(int64_t)distance, &index))
			break;
		if (s->target_cnt == SWITCH_TARGETS_MAX)
			return -E2BIG;
		s->targets[s->target_cnt++] = (uint32_t)index;
		of->cnt++;
	}
	return 0;
}

static bool is_indirect(const struct body *b, size_t jump)
{
	return b->insns[jump].flow == FLOW_JUMP && !b->insns[jump].target;
}

static int find_switches(const struct planner *p, const struct body *b, struct eval_switches *out)
{
	int err = 0;

	for (size_t i = 0; i < b->insn_cnt; i++) {
		uint64_t table = is_indirect(b, i) ? table_of(p, b, i) : 0;

		if (table && out->cnt == SWITCHES_MAX)
			return -E2BIG;
		if (table)
			out->at[out->cnt++] = (struct eval_switch){ .jump = i, .table = table };
	}
	for (size_t i = 0; i < out->cnt && !err; i++)
		err = read_targets(p, b, out, &out->at[i]);
	return err;
}

static void add_other(struct eval_switches *s, size_t index)
{
	s->others[s->other_cnt++] = (uint32_t)index;
	s->led_to[index] = true;
}

static int find_others(const struct planner *p, const struct body *b, struct eval_switches *out)
{
	size_t index, cnt;

	out->others = calloc(b->insn_cnt + OPTABLE_CNT, sizeof(*out->others));
	out->led_to = calloc(b->insn_cnt, sizeof(*out->led_to));
	if (!out->others || !out->led_to)
		return -ENOMEM;
	for (size_t i = 0; i < out->target_cnt; i++)
		out->led_to[out->targets[i]] = true;
	for (size_t i = 0; i < b->insn_cnt; i++) {
		body__edges(b, b->insns[i].addr, &cnt);
		if (!cnt && !out->led_to[i] && !b->insns[i].nop && b->insns[i].addr != b->entry &&
		    !body__falls_into(b, i))
			add_other(out, i);
	}
	for (size_t i = 0; i < OPTABLE_CNT; i++)
		if (!body__index(b, p->table.targets[i], &index))
			add_other(out, index);
	return 0;
}

int eval_switches__find(const struct planner *p, const struct body *b, struct eval_switches *out)
{
	int err = find_switches(p, b, out);

	return err ? err : find_others(p, b, out);
}

void eval_switches__done(struct eval_switches *s)
{
	free(s->others);
	free(s->led_to);
}

const uint32_t *eval_switches__of(const struct eval_switches *s, const struct body *b, size_t jump,
				  size_t *cnt)
{
	*cnt = 0;
	if (!is_indirect(b, jump))
		return NULL;
	for (size_t i = 0; i < s->cnt; i++) {
		if (s->at[i].jump != jump || !s->at[i].cnt)
			continue;
		*cnt = s->at[i].cnt;
		return &s->targets[s->at[i].first];
	}
	*cnt = s->other_cnt;
	return s->others;
}

bool eval_switches__lead_to(const struct eval_switches *s, const struct body *b, uint64_t addr)
{
	size_t index;

	return !body__index(b, addr, &index) && s->led_to[index];
}
