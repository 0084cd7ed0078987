// SPDX-License-Identifier: Apache-2.0
/*
 * Where handlers are functions that call each other last, a compiler with a profile asks for the most likely next one before it
 * jumps through the table: it compares the table's word with that handler's address, and has a copy of the
 * handler behind the comparison. A probe in the handler would miss those. (The inline engine's words are other ones: no such
 * comparison holds, and the copies are not run.)
 */
#include "cpython/handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define TESTS_MAX 256

static int refuse(struct planner *p, uint64_t at, const char *why)
{
	return err_set(
		p->e, -PYE_EPLAN,
		"3.%u: at 0x%lx the address of a handler is taken, %s: there may be a copy of "
		"the handler, whose events would be missed",
		p->plan->minor, at, why);
}

static const struct handler *handler_at(const struct handlers *h, size_t cnt, uint64_t start)
{
	for (size_t i = 0; i < cnt; i++)
		if (h->items[i].start == start)
			return &h->items[i];
	return NULL;
}

/* Is it no copy, but the way to the handler itself? */
static bool goes_to(const struct planner *p, uint64_t at, uint64_t handler)
{
	struct insn insn;

	return !code__insn(&p->code, at, &insn) && insn.target == handler &&
	       (insn.flow == FLOW_CALL || insn.flow == FLOW_JUMP);
}

static int add_copy(struct planner *p, struct handlers *h, size_t cnt, uint64_t at)
{
	const struct handler *of = NULL;
	struct insn test, branch;
	uint64_t start, with;

	if (code__around(&p->code, at, &test))
		return refuse(p, at, "or something like it, in code that cannot be read");
	if (!insn__has_address(&test, at))
		return 0;
	if (insn__compares_word(&test, p->table.vaddr, &with))
		of = handler_at(h, cnt, with);
	at = test.addr;
	if (!of || code__insn(&p->code, at + test.size, &branch) || branch.flow != FLOW_COND)
		return refuse(p, at, "and not compared with a word of the dispatch table");
	if (branch.cond == (COND_X86 | 4)) /* je */
		start = branch.target;
	else if (branch.cond == (COND_X86 | 5)) /* jne */
		start = branch.addr + branch.size;
	else
		return refuse(p, at, "and not asked whether it is equal");
	if (start == of->start || goes_to(p, start, of->start)) {
		if (h->guarded_cnt == GUARDED_MAX)
			return refuse(p, at, "in more places than a plan can hold");
		h->guarded[h->guarded_cnt++] = start == of->start ? branch.addr : start;
		return 0;
	}
	if (of->op->kind == PROBE_RETURN) {
		if (p->return_copy_cnt == PLANNER_RETURN_COPIES)
			return refuse(p, at, "in more places than a plan can hold");
		p->return_copies[p->return_copy_cnt++] = start;
		return 0;
	}
	if (h->cnt == HANDLER_MAX)
		return refuse(p, at, "in more places than a plan can hold");
	h->items[h->cnt++] = (struct handler){ .op = of->op, .start = start, .guard = branch.addr };
	return 0;
}

static bool is_followed(const struct handler *it)
{
	return it->op->kind != 0;
}

int handlers__add_copies(struct planner *p, struct handlers *h)
{
	auto_free uint64_t *tests = calloc(TESTS_MAX, sizeof(*tests));
	uint64_t wanted[HANDLER_MAX];
	size_t cnt = h->cnt, wanted_cnt = 0, test_cnt = 0;
	int err;

	if (!tests)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		if (is_followed(&h->items[i]))
			wanted[wanted_cnt++] = h->items[i].start;
	err = disasm__address_uses(p->code.disasm, wanted, wanted_cnt, tests, TESTS_MAX, &test_cnt);
	if (err == -E2BIG)
		return refuse(p, p->table.vaddr, "in more places than can be looked at");
	for (size_t i = 0; !err && i < test_cnt; i++)
		err = add_copy(p, h, cnt, tests[i]);
	return err;
}
