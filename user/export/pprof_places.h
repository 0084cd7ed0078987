/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions and locations a pprof file has, and their ids: 1, 2, ... in the order of the tables,
 * as some readers want it. The order is one that compresses well: functions by file and line, so that
 * what neighbours say hardly differs; locations that many stacks hold first, by how many these are,
 * since their ids are then a byte each; all others by function and line.
 */
#ifndef PYEBPF_EXPORT_PPROF_PLACES_H
#define PYEBPF_EXPORT_PPROF_PLACES_H

#include <stdint.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "profile/aggregate.h"

/* The same function of several processes is one. */
struct pprof_function {
	uint32_t func; /* one of those of the aggregate that it is */
	uint32_t file, line, name; /* what they are ordered by; strings of the aggregate */
	uint32_t made; /* as which it was found */
};

struct pprof_location {
	uint32_t function; /* its id */
	uint32_t line;
	uint32_t uses; /* stacks that hold it */
	uint32_t made;
};

/* Zeroed is empty. The entry of an id is at that less 1. */
struct pprof_places {
	struct pprof_function *functions;
	struct pprof_location *locations;
	uint32_t function_cnt, location_cnt;
	uint32_t *function_of; /* id, by the aggregate's functions; 0: of no stack that counts */
	uint32_t *location_of; /* id, by the aggregate's stacks; 0: the same */
	uint32_t function_cap, location_cap;
	struct strpool keys; /* what tells functions apart */
	struct idmap ids; /* function, line -> location */
};

/**
 * pprof_places__gather - those of an aggregate's stacks
 * @p: zeroed; to be released by pprof_places__done(), also on failure
 *
 * Return: 0, -ENOMEM or -EOVERFLOW.
 */
int pprof_places__gather(struct pprof_places *p, const struct agg_result *r);

/* pprof_places__location - id of a line of a function; a new one, the next, if there is none. 0: no memory. */
uint32_t pprof_places__location(struct pprof_places *p, uint32_t function, uint32_t line);

void pprof_places__done(struct pprof_places *p);

#endif
