// SPDX-License-Identifier: Apache-2.0
#include "cpython/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "elf/elf_file.h"

#define DECODE_MAX ((uint64_t)256 << 10) /* bytes decoded to prove one address */

int code__init(struct code *c, const struct elf_file *elf, struct err *e)
{
	int err;

	memset(c, 0, sizeof(*c));
	c->elf = elf;
	err = disasm__new(elf, &c->disasm, e);
	if (err)
		return err;
	err = elf_file__functions(elf, &c->functions, &c->function_cnt);
	if (err)
		return err == -ENOENT ? 0 : err;
	return code__add_starts(c, c->functions, c->function_cnt);
}

void code__done(struct code *c)
{
	disasm__free(c->disasm);
	free(c->functions);
	free(c->starts);
}

int code__add_starts(struct code *c, const uint64_t *addrs, size_t cnt)
{
	uint64_t *all = reallocarray(c->starts, c->start_cnt + cnt + 1, sizeof(*all));
	size_t total = 0;

	if (!all)
		return -ENOMEM;
	c->starts = all;
	for (size_t i = 0; i < cnt; i++)
		if (elf_file__is_code(c->elf, addrs[i]))
			all[c->start_cnt++] = addrs[i];
	qsort(all, c->start_cnt, sizeof(*all), order_u64);
	for (size_t i = 0; i < c->start_cnt; i++)
		if (!total || all[total - 1] != all[i])
			all[total++] = all[i];
	c->start_cnt = total;
	return 0;
}

int code__insn(const struct code *c, uint64_t addr, struct insn *out)
{
	return disasm__at(c->disasm, addr, out);
}

/* Number of addresses of a rising list that are at or below @addr. */
static size_t count_below(const uint64_t *list, size_t cnt, uint64_t addr)
{
	size_t lo = 0, hi = cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (list[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t code__start_below(const struct code *c, uint64_t addr)
{
	size_t cnt = count_below(c->starts, c->start_cnt, addr);

	return cnt ? c->starts[cnt - 1] : 0;
}

int code__function(const struct code *c, uint64_t addr, uint64_t *start, uint64_t *end)
{
	size_t cnt = count_below(c->functions, c->function_cnt, addr);
	uint64_t code_start, code_end;

	if (!cnt)
		return -ENOENT;
	for (size_t i = 0; elf_file__code(c->elf, i, &code_start, &code_end); i++) {
		if (addr < code_start || addr >= code_end)
			continue;
		if (c->functions[cnt - 1] < code_start)
			return -ENOENT;
		*start = c->functions[cnt - 1];
		*end = code_end;
		if (cnt < c->function_cnt && c->functions[cnt] < code_end)
			*end = c->functions[cnt];
		return 0;
	}
	return -ENOENT;
}

/* The word that an entry of the PLT jumps by; 0: it is none. */
static uint64_t plt_slot(const struct code *c, uint64_t at)
{
	struct insn insn;

	for (int i = 0; at && i < 2 && !code__insn(c, at, &insn); i++, at += insn.size) {
		if (insn.flow == FLOW_JUMP && insn.pointer)
			return insn.pointer;
		if (insn.flow != FLOW_NEXT || insn.op != INSN_OTHER)
			break;
	}
	return 0;
}

uint64_t code__resolve(const struct code *c, uint64_t target)
{
	uint64_t slot = plt_slot(c, target), value;

	return slot && !elf_file__pointer(c->elf, slot, &value) && elf_file__is_code(c->elf, value)
		       ? value
		       : target;
}

const char *code__imported(const struct code *c, const struct insn *call)
{
	uint64_t slot = call->pointer ? call->pointer : plt_slot(c, call->target);

	return slot ? elf_file__import(c->elf, slot) : "";
}

/* Decodes from a start up to @addr; @last is the last instruction before it that is no padding. */
static int decode_to(const struct code *c, uint64_t start, uint64_t addr, struct insn *last)
{
	struct insn insn;

	last->size = 0;
	if (!start || addr - start > DECODE_MAX)
		return -ENOENT;
	for (uint64_t at = start; at < addr; at += insn.size) {
		if (code__insn(c, at, &insn))
			return -ENOENT;
		if (at + insn.size > addr)
			return -ENOENT;
		if (!insn.nop)
			*last = insn;
	}
	return 0;
}

int code__before(const struct code *c, uint64_t addr, struct insn *out)
{
	uint64_t start = code__start_below(c, addr - 1);

	out->size = 0;
	return start ? decode_to(c, start, addr, out) : 0;
}

bool code__is_start(const struct code *c, uint64_t addr)
{
	struct insn last;

	return !decode_to(c, code__start_below(c, addr), addr, &last);
}

int code__around(const struct code *c, uint64_t addr, struct insn *out)
{
	uint64_t start = code__start_below(c, addr);

	if (!start || addr - start > DECODE_MAX)
		return -ENOENT;
	for (uint64_t at = start; at <= addr; at += out->size)
		if (code__insn(c, at, out))
			return -ENOENT;
	return 0;
}

/* Bytes in the middle of an instruction that decoding passes over are no branch. */
static bool is_real(const struct code *c, const struct disasm_branch *branch)
{
	uint64_t start = code__start_below(c, branch->addr);
	struct insn insn;

	if (!start || branch->addr - start > DECODE_MAX)
		return true;
	for (uint64_t at = start; at < branch->addr; at += insn.size) {
		if (code__insn(c, at, &insn))
			return true;
		if (at + insn.size > branch->addr)
			return false;
	}
	return true;
}

int code__branches(const struct code *c, const struct disasm_range *ranges, size_t cnt,
		   struct disasm_branch **out, size_t *out_cnt)
{
	struct disasm_branch *all;
	size_t found, kept = 0;
	int err = disasm__branches(c->disasm, ranges, cnt, &all, &found);

	if (err)
		return err;
	for (size_t i = 0; i < found; i++)
		if (is_real(c, &all[i]))
			all[kept++] = all[i];
	*out = all;
	*out_cnt = kept;
	return 0;
}
