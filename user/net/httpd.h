/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server within somebody's poll loop, on libmicrohttpd: no thread, one descriptor to wait for. Each
 * connection carries one request, whose body is not read. What is asked for and by whom is looked at by the
 * owner's function, that of a request which is none (two Hosts, no path) is not asked.
 */
#ifndef PYEBPF_NET_HTTPD_H
#define PYEBPF_NET_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	HTTPD_ADDRESSES_MAX = 2,
	HTTPD_CONNECTIONS_MAX = 32, /* for each address; more wait until one ends */
	HTTPD_HEAD_BYTES = 8192, /* of a request, and again of an answer */
	HTTPD_PATIENCE_S = 10, /* for a request's head, and for each step of an answer */
};

enum httpd_method {
	HTTPD_GET,
	HTTPD_HEAD,
	HTTPD_OPTIONS,
	HTTPD_OTHER,
};

struct httpd_conn;

/* What came; borrowed for the time of the call. */
struct httpd_request {
	enum httpd_method method;
	const char *path; /* as it was sent, with its query; begins with a slash */
	const char *host, *origin; /* "": there was none */
	struct httpd_conn *conn;
};

/* httpd_header_of - another header's value, "" if there is none; borrowed for the time of the call. */
const char *httpd_header_of(const struct httpd_request *r, const char *name);

struct httpd_header {
	const char *name, *value;
};

/**
 * struct httpd_answer - what goes back
 * @text: the body; NULL: that of @fd
 * @fd:   a regular file or memfd, sent from its beginning; 0: no body
 * @goal: tell httpd_opts.sent when all of the body has been sent, to a GET
 */
struct httpd_answer {
	unsigned int status;
	const struct httpd_header *headers;
	size_t header_cnt;
	const char *text;
	size_t text_len;
	int fd;
	bool goal;
};

/**
 * httpd_answer - answer a request, once
 * @a: copied, the descriptor too
 *
 * Return: 0; -ENOMEM or that of fstat(): the connection is then closed.
 */
int httpd_answer(const struct httpd_request *r, const struct httpd_answer *a);

/* What asks for an answer; a request that it does not answer gets 404. */
typedef void (*httpd_answer_fn)(void *ctx, const struct httpd_request *r);

/**
 * struct httpd_opts - copied, but what it points to is borrowed while httpd__new() runs
 * @addresses: of this machine, as numbers; the first has to be there, the others may not
 * @port:      0: any that is free, the same for all
 * @sent:      may be NULL
 */
struct httpd_opts {
	const char *addresses[HTTPD_ADDRESSES_MAX];
	uint16_t port;
	httpd_answer_fn answer;
	void (*sent)(void *ctx);
	void *ctx;
};

struct httpd;

/**
 * httpd__new - listen
 *
 * Return: 0; -errno with a sentence.
 */
int httpd__new(struct httpd **out, const struct httpd_opts *opts, struct err *e);

/* httpd__free - hang up on everybody; NULL is fine. */
void httpd__free(struct httpd *h);

static inline void httpd__freep(struct httpd **h)
{
	httpd__free(*h);
}

uint16_t httpd__port(const struct httpd *h);

/* httpd__fd - readable when httpd__turn() has something to do; the server's own. */
int httpd__fd(const struct httpd *h);

/* httpd__timeout_ms - when httpd__turn() is due even if that is not readable; at most a minute. */
int httpd__timeout_ms(const struct httpd *h);

/* httpd__turn - do all that can be done without waiting; calls opts.answer and opts.sent. */
void httpd__turn(struct httpd *h);

#endif
