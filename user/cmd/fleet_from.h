/* SPDX-License-Identifier: Apache-2.0 */
/* Where the profiles come from that fleet is asked about: a store, or the engine that agents send to. */
#ifndef PYEBPF_CMD_FLEET_FROM_H
#define PYEBPF_CMD_FLEET_FROM_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/sum.h"

#define FLEET_STORES_MAX 256

struct fleet_stores {
	const char *dirs[FLEET_STORES_MAX];
	uint32_t cnt;
};

struct fleet_choice {
	struct fleet_stores stores; /* one at least */
	const char *server; /* NULL: the stores */
	const char *query, *service; /* NULL: any */
	const char *type; /* of profiles; NULL: cpu for sums, any for services */
	uint64_t since_ns, until_ns; /* ago */
	bool partial;
};

/**
 * fleet_sum - add up what is chosen
 * @sum: initialised
 *
 * Return: 0; -PYE_ETARGET with a sentence when there is none; what the store or the server returned.
 */
int fleet_sum(const struct fleet_choice *choice, struct sum *sum, uint64_t *profiles,
	      struct err *e);

struct fleet_service {
	char *name;
	uint64_t profiles, bytes; /* bytes 0: not known */
	int64_t first_ns, last_ns;
};

struct fleet_services {
	struct fleet_service *v; /* by name */
	uint32_t cnt, cap;
};

/* fleet_services - of what is chosen; fleet_services_done() releases them, a zeroed one is fine. */
int fleet_services(const struct fleet_choice *choice, struct fleet_services *out, struct err *e);
void fleet_services_done(struct fleet_services *s);

#endif
