/* SPDX-License-Identifier: Apache-2.0 */
/* From the capture of a window to the store: one profile for each service. */
#ifndef PYEBPF_AGENT_WINDOW_H
#define PYEBPF_AGENT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/relabel.h"
#include "agent/services.h"
#include "store/store.h"

struct window_opts {
	const struct store_label
		*labels; /* that all profiles get: node, zone; not those of a service */
	uint32_t label_cnt;
	const struct service_rules
		*rules; /* what services are called, which are wanted; NULL: none */
	uint64_t off_min_ns; /* shorter waits are left out */
	bool by_pid; /* services are of another capture: looked up by pid, none is forgotten */
};

struct window_result {
	uint64_t profiles, samples, lost, bytes; /* samples, or calls and what ends them */
	char busiest[1024]; /* the service with the most samples; "" */
	uint64_t unwanted; /* samples of services that rules leave out */
	uint64_t unwritten; /* profiles that could not be written; the others are there */
	bool full; /* for want of room on the disk */
	struct store_trimmed evicted; /* older profiles, to make room for these */
};

struct profiles; /* its profiles, in memory */

/**
 * profiles__make - the profiles of a window
 * @fd:       of its capture, at its beginning
 * @services: of its processes; those that have ended are forgotten
 * @result:   lost, unwanted and busiest; the rest is 0
 *
 * Return: 0 with a heap object that needs none of these any more; -PYE_EFORMAT, -ENOMEM.
 */
int profiles__make(struct profiles **out, int fd, struct services *services,
		   const struct window_opts *opts, struct window_result *result, struct err *e);

/**
 * profiles__put - write them, which may take long
 * @s:      NULL: there is none, since the disk is full
 * @result: added to
 * @e:      the last of what could not be written
 *
 * A service without samples has no profile.
 *
 * Return: 0, also when some could not be written; -PYE_EFORMAT, -ENOMEM.
 */
int profiles__put(struct profiles *w, struct store *s, struct window_result *result, struct err *e);

uint64_t profiles__bytes(const struct profiles *w); /* of the profiles */
uint32_t profiles__cnt(const struct profiles *w); /* that are to be written */
void profiles__free(struct profiles *w); /* NULL is fine */

#endif
