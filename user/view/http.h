/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request as HTTP/1.1 has it, read strictly: what is unusual is refused. */
#ifndef PYEBPF_VIEW_HTTP_H
#define PYEBPF_VIEW_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_OPTIONS,
	HTTP_OTHER,
};

/* Pieces of the bytes that were parsed; no NUL behind them. */
struct http_text {
	const char *s;
	size_t len;
};

struct http_request {
	enum http_method method;
	struct http_text path; /* as it was sent, with its query */
	struct http_text host, origin; /* len 0: there was none */
	bool asks_for_local; /* a preflight of a page that is not local */
};

/**
 * http_parse - read a request's head
 * @data: borrowed for the life of @r
 *
 * Return: 1; 0: it is not complete yet; -EINVAL: it is no request.
 */
int http_parse(const char *data, size_t len, struct http_request *r);

/* http_is - whether a piece is a word, in capitals or not. */
bool http_is(struct http_text text, const char *word);

/**
 * http_host_is - whether a Host header means this server
 * @address: that it listens on, beside 127.0.0.1, localhost and [::1]; NULL: those only. Of 0.0.0.0 and ::
 *           every address without a name, since another site can have its name mean any address.
 */
bool http_host_is(struct http_text host, const char *address, uint16_t port);

#endif
