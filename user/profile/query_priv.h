/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files of the query. */
#ifndef PYEBPF_PROFILE_QUERY_PRIV_H
#define PYEBPF_PROFILE_QUERY_PRIV_H

#include "profile/query.h"

/* query_same_func - the same function, maybe of two processes. */
bool query_same_func(const struct agg_func *left, const struct agg_func *right);

/**
 * query_relate - find callers and callees of @r->func, and its sums
 *
 * Return: 0 or -ENOMEM.
 */
int query_relate(struct query_result *r);

#endif
