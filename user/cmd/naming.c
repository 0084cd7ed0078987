// SPDX-License-Identifier: Apache-2.0
/*
 * What programs call their threads. It is read from outside while they run, so it costs them nothing, and us
 * some 30 us for each thread: rarely enough that rings do not fill meanwhile.
 */
#include "cmd/naming.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "capture/cap_named.h"
#include "cmd/session_priv.h"
#include "cpython/thread_names.h"
#include "proc/mem.h"
#include "proc/threads.h"

#define AGAIN_NS      100000000u /* a thread that is new is not in the program's list at once */
#define RARELY_NS     500000000u
#define SHARE	      20 /* of the time between two looks at a process that one may take */
#define LOOKED_MAX    4096 /* threads; of more the operating system's names do */

#define TELL_AGAIN_NS 1000000000u
#define TOLD_MAX      2

struct naming {
	pid_t pid;
	struct thread_names names;
};

static const char *name_of(void *ctx, uint32_t tid)
{
	const struct naming *n = ctx;
	const struct thread_name *found;
	struct proc_thread thread;

	/* the program knows the number that it has inside of its container */
	if (threads__one(n->pid, (pid_t)tid, &thread))
		return NULL;
	found = thread_names__of_tid(&n->names, (uint32_t)thread.own_tid);
	return found ? found->name : NULL;
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

static void tell_each(struct session *s, const struct target *t, const struct thread_names *names)
{
	auto_free struct proc_thread *threads = NULL;
	size_t cnt = 0;

	if (threads__list(t->pid.pid, &threads, &cnt) < 0)
		return;
	for (size_t i = 0; i < cnt; i++) {
		const struct thread_name *name =
			thread_names__of_tid(names, (uint32_t)threads[i].own_tid);

		if (name)
			cap_bpf__named(s->cap, threads[i].tid, t->pix, name->object);
	}
}

void naming_tell(struct session *s, struct target *t)
{
	struct thread_names names;
	struct proc_mem mem;

	if (!s->opts.filter.thread || proc_mem__open(t->pid.pid, &mem))
		return;
	if (!thread_names__read(&mem, &t->in, 0, &names)) {
		thread_names__by_tid(&names);
		tell_each(s, t, &names);
		cap_bpf__names_changed(s->cap);
		thread_names__done(&names);
	}
	proc_mem__close(&mem);
}

/* Of a thread that began while the probes were placed we saw no beginning, and it is in the program's list
 * some time later. */
static void tell_again(struct session *s, struct target *t)
{
	uint64_t now = now_ns();

	if (!s->opts.filter.thread || t->told == TOLD_MAX || now < t->tell_ns)
		return;
	t->told++;
	t->tell_ns = now + TELL_AGAIN_NS;
	naming_tell(s, t);
}

void naming_look_all(struct session *s, bool last)
{
	/* who looks at the rings rarely has many targets, and seldom a new thread */
	if (s->opts.poll_ms && !last) {
		uint64_t now = now_ns();

		if (now < s->names_ns)
			return;
		s->names_ns = now + RARELY_NS;
	}
	for (size_t i = 0; s->as && i < s->target_cnt; i++) {
		struct target *t = s->targets[i];

		if (!t->pix || !t->has_interp || t->ended)
			continue;
		tell_again(s, t);
		naming_look(s->as, &(struct naming_of){ t->pix, t->pid.pid, &t->in }, &t->naming_ns,
			    last);
	}
}
