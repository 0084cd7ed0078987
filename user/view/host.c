// SPDX-License-Identifier: Apache-2.0
#include "view/host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_number(const char *host, size_t len)
{
	char text[64];
	struct in6_addr in6;
	struct in_addr in;

	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
		text[len - 1] = '\0';
		return inet_pton(AF_INET6, text + 1, &in6) == 1;
	}
	return inet_pton(AF_INET, text, &in) == 1;
}

bool host_is_own(const char *host, const char *address, uint16_t port)
{
	static const char *const local[] = { "127.0.0.1", "localhost", "[::1]" };
	size_t len = strlen(host);
	char want[128];
	int tail;

	for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++) {
		snprintf(want, sizeof(want), "%s:%u", local[i], port);
		if (!strcasecmp(host, want))
			return true;
	}
	if (!address)
		return false;
	snprintf(want, sizeof(want), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
	if (!strcasecmp(host, want))
		return true;
	tail = snprintf(want, sizeof(want), ":%u", port);
	return (!strcmp(address, "0.0.0.0") || !strcmp(address, "::")) && len > (size_t)tail &&
	       !memcmp(host + len - tail, want, (size_t)tail) &&
	       is_number(host, len - (size_t)tail);
}
