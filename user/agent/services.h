/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that are being sampled, and the labels of each: taken down while it runs, used when its window is
 * written, forgotten when that has seen its end. */
#ifndef PYEBPF_AGENT_SERVICES_H
#define PYEBPF_AGENT_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/service.h"

struct services;

/* services__new - 0 or -ENOMEM. services__free - NULL is fine. */
int services__new(struct services **out);
void services__free(struct services *s);

/* services__set - the labels of a process, by its id in the capture; copied. @pid: as /proc shows it, or 0. 0 or
 * -ENOMEM. */
int services__set(struct services *s, uint32_t process, pid_t pid, const struct service *service);

/* services__get - NULL when it is not known. Borrowed until the next call. */
const struct service *services__get(const struct services *s, uint32_t process);

/* services__cnt - how many. */
uint32_t services__cnt(const struct services *s);

/* services__by_pid - the latest of that number; NULL when it is not known. */
const struct service *services__by_pid(const struct services *s, pid_t pid);

/* services__each - all of them; ends when @fn returns other than 0, and returns that. */
int services__each(const struct services *s,
		   int (*fn)(void *ctx, pid_t pid, const struct service *service), void *ctx);

/* What becomes of processes. */
struct services_judge {
	bool (*wants)(void *ctx, const struct service *service);
	/* how it is from now on, when it was otherwise or not known before */
	void (*tell)(void *ctx, uint32_t process, pid_t pid, bool wanted);
};

/* services__judge - each of them whose labels are new, or all of them. */
void services__judge(struct services *s, bool all, const struct services_judge *judge, void *ctx);

/* services__forget - its window is written. */
void services__forget(struct services *s, uint32_t process);

#endif
