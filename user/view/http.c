// SPDX-License-Identifier: Apache-2.0
#include "view/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool http_is(struct http_text text, const char *word)
{
	return strlen(word) == text.len && !strncasecmp(text.s, word, text.len);
}

static bool is_token(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int parse_line(struct http_text line, struct http_request *r)
{
	const char *end = line.s + line.len, *space = memchr(line.s, ' ', line.len);
	struct http_text method;

	if (!space)
		return -EINVAL;
	method = (struct http_text){ line.s, (size_t)(space - line.s) };
	/* methods are told apart by capitals, too */
	r->method = method.len == 3 && !memcmp(method.s, "GET", 3)	 ? HTTP_GET
		    : method.len == 4 && !memcmp(method.s, "HEAD", 4)	 ? HTTP_HEAD
		    : method.len == 7 && !memcmp(method.s, "OPTIONS", 7) ? HTTP_OPTIONS
									 : HTTP_OTHER;
	r->path.s = space + 1;
	space = memchr(r->path.s, ' ', (size_t)(end - r->path.s));
	if (!space || r->path.s[0] != '/')
		return -EINVAL;
	r->path.len = (size_t)(space - r->path.s);
	for (size_t i = 0; i < r->path.len; i++) {
		if (r->path.s[i] <= ' ' || r->path.s[i] == 0x7f)
			return -EINVAL;
	}
	line = (struct http_text){ space + 1, (size_t)(end - space - 1) };
	return http_is(line, "HTTP/1.1") || http_is(line, "HTTP/1.0") ? 0 : -EINVAL;
}

/* Twice the same one of these is an attempt to be taken for another. */
static int keep(struct http_text *into, struct http_text value)
{
	if (into->s || !value.len)
		return -EINVAL;
	*into = value;
	return 0;
}

static int parse_header(struct http_text line, struct http_request *r)
{
	const char *colon = memchr(line.s, ':', line.len);
	struct http_text name, value;

	if (!colon || colon == line.s)
		return -EINVAL;
	name = (struct http_text){ line.s, (size_t)(colon - line.s) };
	value = (struct http_text){ colon + 1, line.len - name.len - 1 };
	for (size_t i = 0; i < name.len; i++) {
		if (!is_token(name.s[i]))
			return -EINVAL;
	}
	for (; value.len && (*value.s == ' ' || *value.s == '\t'); value.s++)
		value.len--;
	while (value.len && (value.s[value.len - 1] == ' ' || value.s[value.len - 1] == '\t'))
		value.len--;
	if (memchr(value.s, '\0', value.len) || memchr(value.s, '\r', value.len))
		return -EINVAL;
	if (http_is(name, "Host"))
		return keep(&r->host, value);
	if (http_is(name, "Origin"))
		return keep(&r->origin, value);
	if (http_is(name, "Access-Control-Request-Private-Network"))
		r->asks_for_local = http_is(value, "true");
	return 0;
}

int http_parse(const char *data, size_t len, struct http_request *r)
{
	const char *end = memmem(data, len, "\r\n\r\n", 4), *at, *next;
	int err;

	*r = (struct http_request){ 0 };
	if (!end)
		return memmem(data, len, "\n\n", 2) ? -EINVAL : 0;
	end += 2;
	next = memmem(data, (size_t)(end - data), "\r\n", 2);
	err = parse_line((struct http_text){ data, (size_t)(next - data) }, r);
	for (at = next + 2; at < end && !err; at = next + 2) {
		next = memmem(at, (size_t)(end - at), "\r\n", 2);
		if (memchr(at, '\n', (size_t)(next - at)))
			return -EINVAL;
		err = parse_header((struct http_text){ at, (size_t)(next - at) }, r);
	}
	return err ? err : 1;
}

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

bool http_host_is(struct http_text host, const char *address, uint16_t port)
{
	static const char *const local[] = { "127.0.0.1", "localhost", "[::1]" };
	char want[128];
	int tail;

	for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++) {
		snprintf(want, sizeof(want), "%s:%u", local[i], port);
		if (http_is(host, want))
			return true;
	}
	if (!address)
		return false;
	snprintf(want, sizeof(want), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
	if (http_is(host, want))
		return true;
	tail = snprintf(want, sizeof(want), ":%u", port);
	return (!strcmp(address, "0.0.0.0") || !strcmp(address, "::")) && host.len > (size_t)tail &&
	       !memcmp(host.s + host.len - tail, want, (size_t)tail) &&
	       is_number(host.s, host.len - (size_t)tail);
}
