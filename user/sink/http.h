/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests by HTTP, with libcurl, which no other file here sees. What holds for all of them is in net/easy.h; answers are cut, secrets come from files that are read for each request.
 */
#ifndef PYEBPF_SINK_HTTP_H
#define PYEBPF_SINK_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "sink/sink.h"

struct http; /* all requests of a process */
struct http_call; /* one after the other, over one connection if the server keeps it */

int http__new(struct http **out, struct err *e);
void http__free(struct http *h);

/**
 * http_call__new - what requests of a sink go through
 * @spec:      borrowed
 * @reply_max: bytes of an answer that are kept; a longer one is cut, or with @whole an error
 */
int http_call__new(struct http_call **out, struct http *h, const struct sink_spec *spec,
		   size_t reply_max, bool whole);
void http_call__free(struct http_call *c);

/**
 * http_call__start - send a request
 * @url_number: of the addresses of the sink
 * @r:          borrowed until the end
 *
 * Return: 0; -PYE_EUSAGE with a sentence: a file with a secret cannot be used, nothing was sent; -ENOMEM.
 */
int http_call__start(struct http_call *c, unsigned int url_number, const struct sink_request *r,
		     struct err *e);

/* http_call__stop - forget a request. */
void http_call__stop(struct http_call *c);

struct http_result {
	struct http_call *call;
	struct sink_reply reply; /* borrowed until the next start; status 0: none came */
	uint64_t took_ns;
	int64_t retry_after_s; /* -1: it does not say */
	const char *why; /* no answer came; static or of the call */
};

/* http__next - a request that has come to its end. */
bool http__next(struct http *h, struct http_result *out);

/* http__wait - until something happens, on @fd (-1: none) too, or @ms are over. 0 or a negative errno. */
int http__wait(struct http *h, const int *fds, unsigned int fd_cnt, int ms);

#endif
