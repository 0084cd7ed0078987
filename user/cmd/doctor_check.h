/* SPDX-License-Identifier: Apache-2.0 */
/* What `pyebpf doctor` finds: a list of checks, each with its state and what to do. */
#ifndef PYEBPF_CMD_DOCTOR_CHECK_H
#define PYEBPF_CMD_DOCTOR_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/where.h"

struct outbuf;

enum check_state {
	CHECK_OK,
	CHECK_NOTE, /* good to know; nothing is missing */
	CHECK_LIMITED, /* another way is taken, and it is worse */
	CHECK_UNTRIED, /* what is missing elsewhere hides it */
	CHECK_MISSING,
};

struct check {
	const char *group, *name; /* static; the name is stable, for scripts */
	enum check_state state;
	int cause; /* CHECK_MISSING: -PYE_EPRIV or -PYE_EKERNEL */
	char text[384]; /* one sentence; may hold names of processes, raw */
	char fix[512]; /* what to do, a line for each way; "" */
};

#define CHECKS_MAX 48

struct checkup {
	enum where where;
	struct check items[CHECKS_MAX];
	size_t cnt;
};

/* checkup__add - one more, with its sentence. Never NULL; past the end the last one is overwritten. */
struct check *checkup__add(struct checkup *c, const char *group, const char *name,
			   enum check_state state, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* check_fix - what to do about it. */
void check_fix(struct check *check, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The checks themselves, a group each. */
void checkup__kernel(struct checkup *c); /* features, each by using it */
void checkup__privilege(struct checkup *c); /* capabilities, rules, filters */
void checkup__around(struct checkup *c); /* namespaces, file systems, limits, other tracers */

/* Parts of these that the agent looks at, too. */
void checkup__place(struct checkup *c);
void checkup__capabilities(struct checkup *c);

/* checkup__pod - what only a pod of Kubernetes can lack; elsewhere nothing. @store: of the agent; NULL: the variable says it, or the usual one. */
void checkup__pod(struct checkup *c, const char *store);

/* checkup__err - 0; -PYE_EPRIV when a privilege is missing, else -PYE_EKERNEL when the kernel lacks
 * something that cannot be done without. */
int checkup__err(const struct checkup *c);

#endif
