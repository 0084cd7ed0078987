// SPDX-License-Identifier: Apache-2.0
#include "capture/apart.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>

#define STACK_BYTES ((size_t)64 << 10)

struct job {
	void (*call)(void *arg);
	void *arg;
};

static int run(void *arg)
{
	const struct job *job = arg;

	job->call(job->arg);
	return 0;
}

void apart(void (*call)(void *arg), void *arg)
{
	struct job job = { .call = call, .arg = arg };
	sigset_t all, before;
	pid_t pid = -1;
	char *stack;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	/* as vfork() does, this thread stands still meanwhile: they share its errno, too. No signal at its end */
	if (stack != MAP_FAILED)
		pid = clone(run, stack + STACK_BYTES, CLONE_VM | CLONE_FILES | CLONE_VFORK, &job);
	if (pid < 0)
		call(arg);
	else
		while (waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	if (stack != MAP_FAILED)
		munmap(stack, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
