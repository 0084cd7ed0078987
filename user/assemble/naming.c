// SPDX-License-Identifier: Apache-2.0
/* Names that a program gives its threads, which no record has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assemble/assemble_priv.h"

#define ASKED_MAX 4 /* a thread that C code has started never has an answer */

static struct asm_process *find(struct assembler *a, uint32_t pix)
{
	struct asm_process *p;

	HASH_FIND(hh, a->processes, &pix, sizeof(pix), p);
	return p;
}

uint32_t assembler__unnamed(struct assembler *a, uint32_t pix)
{
	const struct asm_process *p = find(a, pix);

	return p ? p->unnamed : 0;
}

static int name_one(struct assembler *a, struct asm_thread *t, const char *name)
{
	char *given;

	if (!strcmp(name, t->trace.name))
		return 0;
	given = strdup(name);
	if (!given)
		return -ENOMEM;
	free(t->given);
	t->given = given;
	t->trace.name = given;
	return capw__thread(a->w, &t->trace);
}

void asm_name_again(struct asm_thread *t)
{
	if (!t->process->unnamed)
		t->process->unnamed = 1;
	t->asked = 0;
}

int assembler__name_threads(struct assembler *a, uint32_t pix,
			    const char *(*name_of)(void *ctx, uint32_t tid), void *ctx)
{
	struct asm_process *p = find(a, pix);
	struct asm_thread *t, *next;
	int err = 0;

	if (!p)
		return 0;
	p->unnamed = 0;
	HASH_ITER(hh, a->threads, t, next)
	{
		const char *name;

		if (t->process != p || t->trace.is_main || t->asked == ASKED_MAX)
			continue;
		name = name_of(ctx, t->trace.tid);
		t->asked = name ? ASKED_MAX : t->asked + 1;
		p->unnamed += t->asked < ASKED_MAX;
		if (name)
			err = asm_first(err, name_one(a, t, name));
	}
	return err;
}
