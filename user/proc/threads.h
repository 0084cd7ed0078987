/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a process. They come and go meanwhile: the list is one that was true piece by piece. */
#ifndef PYEBPF_PROC_THREADS_H
#define PYEBPF_PROC_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Most threads that are listed; Linux has no more than 4,194,304 tasks in all. */
#define THREADS_MAX (1u << 18)

struct proc_thread {
	pid_t tid; /* as /proc shows it */
	pid_t own_tid; /* as the thread itself sees it (gettid()); = tid where they agree */
	char comm[64]; /* any bytes but NUL */
};

/**
 * threads__list - threads of a process, in rising order of their tid
 * @pid: as /proc shows it
 * @out: owned by the caller (free)
 *
 * Return: 0; 1 when there are more than THREADS_MAX; -ESRCH when the process is gone; -ENOMEM;
 * another negative errno.
 */
int threads__list(pid_t pid, struct proc_thread **out, size_t *cnt);

/*
 * threads__open, threads__next - only their numbers, in no order, one at a time: for who may not wait for all of them
 *
 * threads__open() returns NULL and sets errno; ENOENT, when the process is gone. What it returns is for closedir(). threads__next()
 * returns 0 after the last one, and for NULL.
 */
DIR *threads__open(pid_t pid);
pid_t threads__next(DIR *threads);

/* threads__has - is it a thread of this process now? */
bool threads__has(pid_t pid, pid_t tid);

static inline void threads__closep(DIR **threads)
{
	if (*threads)
		closedir(*threads);
}

/* threads__one - one of them, that is no other process's: -ESRCH when it has ended. */
int threads__one(pid_t pid, pid_t tid, struct proc_thread *out);

#endif
