// SPDX-License-Identifier: Apache-2.0
#include "cmd/kube_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *given(const char *text, const char *fallback)
{
	return text ? text : fallback;
}

bool kube_where(const struct kube_args *args, const char *node, char *url, size_t size,
		struct kube_opts *out)
{
	const char *host = secure_getenv("KUBERNETES_SERVICE_HOST");
	const char *port = secure_getenv("KUBERNETES_SERVICE_PORT");
	bool six = host && strchr(host, ':');
	int n;

	if (args->api && *args->api)
		n = snprintf(url, size, "%s", args->api);
	else if (host && *host)
		n = snprintf(url, size, "https://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "",
			     port && *port ? port : "443");
	else
		return false;
	while (n > 0 && (size_t)n < size && url[n - 1] == '/')
		url[--n] = '\0';
	*out = (struct kube_opts){ .url = url,
				   .ca_file = given(args->ca, KUBE_ACCOUNT "/ca.crt"),
				   .token_file = given(args->token, KUBE_ACCOUNT "/token"),
				   .node = given(node, "") };
	if (strncmp(url, "https://", 8) != 0)
		out->token_file = "";
	return n > 0 && (size_t)n < size;
}
