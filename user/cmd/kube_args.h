/* SPDX-License-Identifier: Apache-2.0 */
/* Where the API server is, and how to log in: what was given, else what every pod finds in its environment and its files. */
#ifndef PYEBPF_CMD_KUBE_ARGS_H
#define PYEBPF_CMD_KUBE_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/api.h"

#define KUBE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/* Members are NULL where nothing was given. */
struct kube_args {
	const char *api, *ca, *token;
};

/**
 * kube_where - complete what was given
 * @url:  holds the address, @size bytes
 * @node: may be NULL
 *
 * By plain HTTP, as of kubectl proxy, no token is sent.
 *
 * Return: false: there is no API server, as far as is known.
 */
bool kube_where(const struct kube_args *args, const char *node, char *url, size_t size,
		struct kube_opts *out);

#endif
