/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program calls its threads: threading.Thread(name="worker-1"), read from outside while it runs on.
 * The operating system knows that name from 3.14 on only, and 15 bytes of it.
 */
#ifndef PYEBPF_CPYTHON_THREAD_NAMES_H
#define PYEBPF_CPYTHON_THREAD_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define THREAD_NAME_SIZE 128

struct interp;
struct proc_mem;

struct thread_name {
	uint64_t thread_id; /* pthread_self() */
	uint64_t object; /* address of its threading.Thread */
	uint32_t native_id; /* gettid() as the thread sees it; to 3.7 as glibc has it; 0: not known */
	char name[THREAD_NAME_SIZE]; /* as pystr_decode() makes it: UTF-8, long ones cut with a hash */
};

struct thread_names {
	struct thread_name *names; /* sorted by thread_id */
	size_t cnt;
};

/**
 * thread_names__read - the names of all threads that the module threading knows
 * @interp: address of the PyInterpreterState; 0: the first one
 * @out:    release with thread_names__done(); written only on success. Empty when nothing has imported
 *          threading
 *
 * A thread that begins, ends or is renamed meanwhile may be missing. All that is read may be torn or hostile:
 * counts are bounded, and what makes no sense is left out.
 *
 * Return: 0; -ESRCH when the process is gone; -EFAULT; -ENOMEM.
 */
int thread_names__read(const struct proc_mem *mem, const struct interp *in, uint64_t interp,
		       struct thread_names *out);
void thread_names__done(struct thread_names *n);

/* thread_names__find - borrowed; NULL: it has none. */
const char *thread_names__find(const struct thread_names *n, uint64_t thread_id);

/* thread_names__by_tid - sort them by native_id; then it is thread_names__of_tid() that finds (borrowed, or
 * NULL). */
void thread_names__by_tid(struct thread_names *n);
const struct thread_name *thread_names__of_tid(const struct thread_names *n, uint32_t native_id);

#endif
