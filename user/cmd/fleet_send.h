/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PYEBPF_CMD_FLEET_SEND_H
#define PYEBPF_CMD_FLEET_SEND_H

#include "sink/spec.h"

/**
 * fleet_send - send what a store owes to sinks, and say how much that was
 * @duration_ns: at most; 0: as long as it takes
 *
 * Return: 0; -PYE_EUSAGE without sinks; -PYE_EOUTPUT with a sentence, also when something is still owed.
 */
int fleet_send(const char *store, const struct sink_list *sinks, uint64_t duration_ns,
	       struct err *e);

#endif
