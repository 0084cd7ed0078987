// SPDX-License-Identifier: Apache-2.0
/*
 * What programs call their threads. It is read from outside while they run, so it costs them nothing, and us
 * some 30 us for each thread: rarely enough that rings do not fill meanwhile.
 */
#include "cmd/naming.h"

#include "base/clock.h"
#include "cmd/session_priv.h"
#include "cpython/thread_names.h"
#include "proc/mem.h"
#include "proc/threads.h"

#define AGAIN_NS   100000000u /* a thread that is new is not in the program's list at once */
#define SHARE	   20 /* of the time between two looks at a process that one may take */
#define LOOKED_MAX 4096 /* threads; of more the operating system's names do */

struct naming {
	pid_t pid;
	struct thread_names names;
};

static const char *name_of(void *ctx, uint32_t tid)
{
	const struct naming *n = ctx;
	struct proc_thread thread;

	/* the program knows the number that it has inside of its container */
	if (threads__one(n->pid, (pid_t)tid, &thread))
		return NULL;
	return thread_names__of_tid(&n->names, (uint32_t)thread.own_tid);
}

static void look(struct assembler *as, const struct naming_of *of)
{
	struct naming n = { .pid = of->pid };
	struct proc_mem mem;

	if (assembler__unnamed(as, of->pix) > LOOKED_MAX || proc_mem__open(of->pid, &mem))
		return;
	if (!thread_names__read(&mem, of->in, 0, &n.names)) {
		thread_names__by_tid(&n.names);
		(void)assembler__name_threads(as, of->pix, name_of, &n); /* else the system's */
	}
	thread_names__done(&n.names);
	proc_mem__close(&mem);
}

void naming_look(struct assembler *as, const struct naming_of *of, uint64_t *next_ns, bool last)
{
	uint64_t begin;

	if (!assembler__unnamed(as, of->pix))
		return;
	begin = now_ns();
	if (begin < *next_ns && !last)
		return;
	look(as, of);
	*next_ns = now_ns();
	*next_ns += AGAIN_NS + SHARE * (*next_ns - begin);
}

void naming_look_all(struct session *s, bool last)
{
	for (size_t i = 0; s->as && i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (t->pix && t->has_interp && !t->ended)
			naming_look(s->as, &(struct naming_of){ t->pix, t->pid.pid, &t->in },
				    &t->naming_ns, last);
	}
}
