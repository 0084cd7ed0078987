/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside the main one, which takes all signals. */
#ifndef PYEBPF_BASE_THREAD_H
#define PYEBPF_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* thread_start - as pthread_create(), with all signals blocked. 0 or a negative errno. */
int thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

/* thread_cond_init - what thread_wait_until() takes */
void thread_cond_init(pthread_cond_t *cond);

/* thread_wait_until - until it is signalled, or now_ns() is @ns. 0 or -ETIMEDOUT. */
int thread_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t ns);

#endif
