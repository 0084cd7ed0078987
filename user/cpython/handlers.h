/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode handlers of one file on which probes are planned, while they are (plan_handlers.c), and who
 * else jumps into them (handlers_inbound.c). */
#ifndef PYEBPF_CPYTHON_HANDLERS_H
#define PYEBPF_CPYTHON_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpython/planner.h"

#define HANDLER_MAX 56 /* copies included */
#define GUARDED_MAX 256

struct handler {
	const struct opcode_handler *op;
	uint64_t start, point; /* of the handler, of the probe in it */
	uint64_t guard; /* of a copy: the jump by which control comes to it; else 0 */
	struct flow_place frame; /* at the probe */
};

struct handlers {
	struct handler items[HANDLER_MAX];
	size_t cnt;
	struct flow_place home; /* of the frame at every handler's start */
	/* jumps to the start of a handler, behind a comparison of the table's word with it */
	uint64_t guarded[GUARDED_MAX];
	size_t guarded_cnt;
	struct disasm_branch *inbound; /* owned: jumps to what lies between start and probe */
	size_t inbound_cnt;
	bool *is_entrys; /* owned, of each: some entry handler leads to it. With tail calls only */
};

/**
 * handlers__add_copies - the copies of entry and yield handlers, where a compiler expects them to come next; those of return
 * handlers go to planner.return_copies
 *
 * Return: 0; -PYE_EPLAN when there may be some that cannot be made out; -ENOMEM, -EFAULT.
 */
int handlers__add_copies(struct planner *p, struct handlers *h);

/* handlers__find_inbound - fill in inbound, once every probe has its place. As code__branches. */
int handlers__find_inbound(struct planner *p, struct handlers *h);

/* handlers__intruder - an address from which control comes to a handler's probe by another way than
 * dispatch, so that events would be counted that are none; 0 if there is none. */
uint64_t handlers__intruder(struct planner *p, const struct handlers *h, const struct handler *it);

#endif
