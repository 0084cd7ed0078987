/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules over labels, as Prometheus writes them: {source_labels: [a, b], separator: ";", regex: ..., target_label: c,
 * replacement: $1, action: replace}. Actions: replace, keep, drop, labeldrop, labelkeep. Expressions are POSIX
 * extended ones, as in queries, and match the whole value; $1 to $9, ${1} and $$ are known in a replacement.
 */
#ifndef PYEBPF_AGENT_RELABEL_H
#define PYEBPF_AGENT_RELABEL_H

#include "agent/service.h"
#include "base/yaml.h"

struct pods;
struct relabel;

/* relabel__read - from a list of rules. 0; -PYE_EUSAGE, with the line; -ENOMEM. */
int relabel__read(struct relabel **out, const struct yaml_node *list, struct err *e);
void relabel__free(struct relabel *r); /* NULL is fine */

/* What becomes of the labels of a process. Members may be NULL or empty. */
struct service_rules {
	const struct relabel *relabel;
	const char *const *include, *const *exclude; /* service names; * and ? stand for others */
	uint32_t include_cnt, exclude_cnt;
	const struct pods *pods; /* what is known of the pods of this node */
};

/**
 * service_apply - add what is known of its pod, relabel, and take away what is for rules only
 * @rules: NULL: none
 *
 * Return: false: no profile of it is wanted. A service has its name in any case.
 */
bool service_apply(const struct service_rules *rules, const struct service *from,
		   struct service *out);

#endif
