// SPDX-License-Identifier: Apache-2.0
#include "view/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/httpd.h"
#include "view/host.h"

enum {
	TOKEN_BYTES = 16,
	TOKEN_CHARS = 2 * TOKEN_BYTES,
	HEADERS_MAX = 12,
};

struct serve {
	struct serve_opts opts;
	struct httpd *httpd;
	char token[TOKEN_CHARS + 1];
	char url[128];
	uint64_t asked_ns; /* when somebody last had the token */
	bool delivered;
};

void serve__free(struct serve *s)
{
	if (!s)
		return;
	httpd__free(s->httpd);
	free(s);
}

const char *serve__url(const struct serve *s)
{
	return s->url;
}

uint16_t serve__port(const struct serve *s)
{
	return httpd__port(s->httpd);
}

static int make_token(struct serve *s)
{
	unsigned char random[TOKEN_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (int i = 0; i < TOKEN_BYTES; i++)
		snprintf(s->token + (size_t)2 * i, 3, "%02x", random[i]);
	return 0;
}

/* The time that it takes tells nothing of how much of the token is right. */
static bool has_token(const struct serve *s, const char *path)
{
	unsigned char differs = 0;

	if (strlen(path) < TOKEN_CHARS + 2 || path[TOKEN_CHARS + 1] != '/')
		return false;
	for (int i = 0; i < TOKEN_CHARS; i++)
		differs |= (unsigned char)(path[i + 1] ^ s->token[i]);
	return !differs;
}

static const struct serve_file *find_file(const struct serve *s, const char *path)
{
	const struct serve_file *f = s->opts.files, *end = f + s->opts.file_cnt;

	for (; f < end; f++) {
		if (!strcmp(f->name, path + TOKEN_CHARS + 2))
			return f;
	}
	return NULL;
}

/* The headers of an answer; there is room for all that are said here. */
struct said {
	struct httpd_header headers[HEADERS_MAX];
	size_t cnt;
};

static void say(struct said *said, const char *name, const char *value)
{
	said->headers[said->cnt++] = (struct httpd_header){ name, value };
}

/* What another site may see: a file that is meant for it, if it is the one that it says. */
static void say_sharing(struct said *said, const struct serve *s, const struct httpd_request *r,
			const struct serve_file *file)
{
	bool share = s->opts.origin && file && file->shared;

	say(said, "Cross-Origin-Resource-Policy", share ? "cross-origin" : "same-origin");
	if (!share)
		return;
	say(said, "Vary", "Origin");
	if (strcmp(r->origin, s->opts.origin) != 0)
		return;
	say(said, "Access-Control-Allow-Origin", s->opts.origin);
	if (r->method != HTTPD_OPTIONS)
		return;
	say(said, "Access-Control-Allow-Methods", "GET");
	if (!strcmp(httpd_header_of(r, "Access-Control-Request-Private-Network"), "true"))
		say(said, "Access-Control-Allow-Private-Network", "true");
}

/* @file: NULL, or what the answer is about. */
static void answer(const struct serve *s, const struct httpd_request *r, unsigned int status,
		   const struct serve_file *file)
{
	bool reads = r->method == HTTPD_GET || r->method == HTTPD_HEAD;
	struct said said = { 0 };

	if (file)
		say(&said, "Content-Type", file->type);
	say(&said, "Cache-Control", "no-store");
	say(&said, "X-Content-Type-Options", "nosniff");
	say(&said, "Referrer-Policy", "no-referrer");
	say(&said, "Content-Security-Policy", s->opts.policy);
	say_sharing(&said, s, r, file);
	if (file && !reads)
		say(&said, "Allow", "GET, HEAD, OPTIONS");
	/* if it fails, the connection is closed: there is nobody else to tell */
	httpd_answer(r, &(struct httpd_answer){ .status = status,
						.headers = said.headers,
						.header_cnt = said.cnt,
						.fd = file && reads ? file->fd : 0,
						.goal = file && file->goal });
}

static void decide(void *ctx, const struct httpd_request *r)
{
	static const unsigned int status[] = {
		[HTTPD_GET] = 200, [HTTPD_HEAD] = 200, [HTTPD_OPTIONS] = 204, [HTTPD_OTHER] = 405
	};
	const struct serve_file *file;
	struct serve *s = ctx;

	if (!host_is_own(r->host, s->opts.address, serve__port(s))) {
		answer(s, r, 403, NULL);
		return;
	}
	file = has_token(s, r->path) ? find_file(s, r->path) : NULL;
	if (file)
		s->asked_ns = now_ns();
	answer(s, r, file ? status[r->method] : 404, file);
}

static void delivered(void *ctx)
{
	struct serve *s = ctx;

	s->delivered = true;
}

int serve__new(struct serve **out, const struct serve_opts *opts, struct err *e)
{
	auto_fn(serve__freep) struct serve *s = calloc(1, sizeof(*s));
	const char *first = opts->address ? opts->address : "127.0.0.1";
	const struct httpd_opts httpd_opts = {
		/* "localhost" is that one in some browsers */
		.addresses = { first, opts->address ? NULL : "::1" },
		.port = opts->port,
		.answer = decide,
		.sent = delivered,
		.ctx = s,
	};
	int err;

	if (!s)
		return -ENOMEM;
	s->opts = *opts;
	err = make_token(s);
	err = err ? err : httpd__new(&s->httpd, &httpd_opts, e);
	if (err)
		return err;
	snprintf(s->url, sizeof(s->url),
		 strchr(first, ':') ? "http://[%s]:%u/%s/" : "http://%s:%u/%s/", first,
		 serve__port(s), s->token);
	*out = take_ptr(s);
	return 0;
}

static int timeout_ms(const struct serve *s)
{
	uint64_t now = now_ns(), until = s->asked_ns + s->opts.idle_ns;
	int ms = httpd__timeout_ms(s->httpd);

	if (until <= now)
		return 0;
	return (until - now) / 1000000 < (uint64_t)ms ? (int)((until - now) / 1000000) + 1 : ms;
}

int serve__run(struct serve *s, int stop_fd)
{
	struct pollfd fds[] = { { .fd = stop_fd, .events = POLLIN },
				{ .fd = httpd__fd(s->httpd), .events = POLLIN } };

	s->asked_ns = now_ns();
	while (!(s->opts.once && s->delivered)) {
		if (poll(fds, 2, timeout_ms(s)) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents || now_ns() - s->asked_ns >= s->opts.idle_ns)
			return 0;
		httpd__turn(s->httpd);
	}
	return 0;
}
