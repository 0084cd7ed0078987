// SPDX-License-Identifier: Apache-2.0
#include "view/origin.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Length of a host's name, or of an IPv6 number in its brackets; 0: it is none. */
static size_t host_len(const char *s)
{
	size_t len;

	if (*s != '[') {
		len = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
		return *s == '.' || *s == '-' ? 0 : len;
	}
	len = 1 + strspn(s + 1, "0123456789abcdefABCDEF:.");
	return len > 2 && s[len] == ']' ? len + 1 : 0;
}

int origin_of(char *out, size_t size, const char *url)
{
	static const struct {
		const char *start;
		unsigned long port; /* that a browser leaves out */
	} schemes[] = { { "https://", 443 }, { "http://", 80 } };
	size_t scheme = strncasecmp(url, "http://", 7) ? 0 : 1, len;
	const char *start = schemes[scheme].start, *host = url + strlen(start);
	unsigned long port = schemes[scheme].port;
	char *end;
	int n;

	if (strncasecmp(url, start, strlen(start)) != 0)
		return -EINVAL;
	len = host_len(host);
	end = (char *)host + len;
	if (*end == ':' && isdigit((unsigned char)end[1]))
		port = strtoul(end + 1, &end, 10);
	if (!len || strcmp(end, *end == '/' ? "/" : "") != 0 || !port || port > 65535)
		return -EINVAL;
	n = port == schemes[scheme].port
		    ? snprintf(out, size, "%s%.*s", start, (int)len, host)
		    : snprintf(out, size, "%s%.*s:%lu", start, (int)len, host, port);
	for (char *at = out; n < (int)size && *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return n < (int)size ? 0 : -EINVAL;
}
