// SPDX-License-Identifier: Apache-2.0
#include "view/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "view/http.h"

enum {
	TOKEN_BYTES = 16,
	TOKEN_CHARS = 2 * TOKEN_BYTES,
	LISTENERS = 2,
	ANSWER_BYTES = 2048,
};

/* Someone who asks: first their request comes in, then the answer goes out. */
struct asker {
	int fd; /* -1: free */
	uint64_t until_ns;
	char head[SERVE_HEAD_BYTES];
	size_t head_len;
	char answer[ANSWER_BYTES];
	size_t answer_len, answer_at; /* answer_len 0: the request is not read yet */
	const struct serve_file *file; /* behind the answer; NULL: none */
	off_t file_at, file_len;
};

struct serve {
	struct serve_opts opts;
	int listeners[LISTENERS]; /* -1: none */
	uint16_t port;
	char token[TOKEN_CHARS + 1];
	char url[128];
	uint64_t asked_ns; /* when somebody last had the token */
	bool delivered;
	struct asker askers[SERVE_CONNECTIONS_MAX];
};

static void hang_up(struct asker *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

void serve__free(struct serve *s)
{
	if (!s)
		return;
	for (int i = 0; i < LISTENERS; i++) {
		if (s->listeners[i] >= 0)
			close(s->listeners[i]);
	}
	for (int i = 0; i < SERVE_CONNECTIONS_MAX; i++)
		hang_up(&s->askers[i]);
	free(s);
}

const char *serve__url(const struct serve *s)
{
	return s->url;
}

uint16_t serve__port(const struct serve *s)
{
	return s->port;
}

static int listen_at(const char *address, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	bool six = strchr(address, ':') != NULL;
	auto_close int fd = -1;
	int yes = 1;

	if (inet_pton(six ? AF_INET6 : AF_INET, address,
		      six ? (void *)&in6.sin6_addr : (void *)&in.sin_addr) != 1)
		return -EINVAL;
	fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (six)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(fd, six ? (void *)&in6 : (void *)&in, six ? sizeof(in6) : sizeof(in)) ||
	    listen(fd, SERVE_CONNECTIONS_MAX))
		return -errno;
	return take_fd(&fd);
}

static int find_port(struct serve *s)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} at = { .in = { 0 } };
	socklen_t len = sizeof(at);

	if (getsockname(s->listeners[0], &at.any, &len))
		return -errno;
	s->port = ntohs(at.any.sa_family == AF_INET6 ? at.in6.sin6_port : at.in.sin_port);
	return 0;
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

int serve__new(struct serve **out, const struct serve_opts *opts, struct err *e)
{
	auto_fn(serve__freep) struct serve *s = calloc(1, sizeof(*s));
	const char *first = opts->address ? opts->address : "127.0.0.1";
	int err;

	if (!s)
		return -ENOMEM;
	s->opts = *opts;
	s->listeners[0] = s->listeners[1] = -1;
	for (int i = 0; i < SERVE_CONNECTIONS_MAX; i++)
		s->askers[i].fd = -1;
	s->listeners[0] = listen_at(first, opts->port);
	if (s->listeners[0] < 0)
		return err_set(e, s->listeners[0], "cannot listen on %s, port %u: %s", first,
			       opts->port, err_str(s->listeners[0]));
	err = find_port(s);
	err = err ? err : make_token(s);
	if (err)
		return err;
	/* "localhost" is that one in some browsers; a machine may have none */
	if (!opts->address)
		s->listeners[1] = listen_at("::1", s->port);
	snprintf(s->url, sizeof(s->url),
		 strchr(first, ':') ? "http://[%s]:%u/%s/" : "http://%s:%u/%s/", first, s->port,
		 s->token);
	*out = take_ptr(s);
	return 0;
}

/* The time that it takes tells nothing of how much of the token is right. */
static bool has_token(const struct serve *s, struct http_text path)
{
	unsigned char differs = 0;

	if (path.len < TOKEN_CHARS + 2 || path.s[TOKEN_CHARS + 1] != '/')
		return false;
	for (int i = 0; i < TOKEN_CHARS; i++)
		differs |= (unsigned char)(path.s[i + 1] ^ s->token[i]);
	return !differs;
}

static const struct serve_file *find_file(const struct serve *s, struct http_text path)
{
	const struct serve_file *f = s->opts.files, *end = f + s->opts.file_cnt;

	path.s += TOKEN_CHARS + 2;
	path.len -= TOKEN_CHARS + 2;
	for (; f < end; f++) {
		if (strlen(f->name) == path.len && !memcmp(f->name, path.s, path.len))
			return f;
	}
	return NULL;
}

static void add(struct asker *a, const char *line)
{
	size_t len = strlen(line);

	if (sizeof(a->answer) - a->answer_len < len)
		return; /* never: they are few and short */
	memcpy(a->answer + a->answer_len, line, len);
	a->answer_len += len;
}

/* What another site may see: a file that is meant for it, if it is the one that it says. */
static void add_sharing(const struct serve *s, struct asker *a, const struct http_request *r,
			const struct serve_file *file)
{
	bool share = s->opts.origin && file && file->shared;

	add(a, share ? "Cross-Origin-Resource-Policy: cross-origin\r\nVary: Origin\r\n"
		     : "Cross-Origin-Resource-Policy: same-origin\r\n");
	if (!share || !r || !http_is(r->origin, s->opts.origin))
		return;
	add(a, "Access-Control-Allow-Origin: ");
	add(a, s->opts.origin);
	add(a, "\r\n");
	if (r->method != HTTP_OPTIONS)
		return;
	add(a, "Access-Control-Allow-Methods: GET\r\n");
	if (r->asks_for_local)
		add(a, "Access-Control-Allow-Private-Network: true\r\n");
}

/* @file: NULL, or what the answer is about; its bytes follow if @body. */
static void answer(const struct serve *s, struct asker *a, const struct http_request *r,
		   const char *status, const struct serve_file *file, bool body)
{
	bool sized = r && (r->method == HTTP_GET || r->method == HTTP_HEAD);
	struct stat st = { 0 };
	char line[128];

	if (file && sized && fstat(file->fd, &st))
		st.st_size = 0;
	a->answer_len = 0;
	snprintf(line, sizeof(line), "HTTP/1.1 %s\r\nConnection: close\r\n", status);
	add(a, line);
	snprintf(line, sizeof(line), "Content-Length: %lld\r\n", (long long)st.st_size);
	add(a, line);
	if (file) {
		snprintf(line, sizeof(line), "Content-Type: %s\r\n", file->type);
		add(a, line);
	}
	add(a, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
	       "Referrer-Policy: no-referrer\r\nContent-Security-Policy: ");
	add(a, s->opts.policy);
	add(a, "\r\n");
	add_sharing(s, a, r, file);
	if (file && !sized)
		add(a, "Allow: GET, HEAD, OPTIONS\r\n");
	add(a, "\r\n");
	a->file = body ? file : NULL;
	a->file_len = st.st_size;
}

static void decide(struct serve *s, struct asker *a, const struct http_request *r)
{
	const struct serve_file *file;

	if (!http_host_is(r->host, s->opts.address, s->port)) {
		answer(s, a, NULL, "403 Forbidden", NULL, false);
		return;
	}
	file = has_token(s, r->path) ? find_file(s, r->path) : NULL;
	if (!file) {
		answer(s, a, NULL, "404 Not Found", NULL, false);
		return;
	}
	s->asked_ns = now_ns();
	switch (r->method) {
	case HTTP_GET:
		answer(s, a, r, "200 OK", file, true);
		break;
	case HTTP_HEAD:
		answer(s, a, r, "200 OK", file, false);
		break;
	case HTTP_OPTIONS:
		answer(s, a, r, "204 No Content", file, false);
		break;
	case HTTP_OTHER:
		answer(s, a, r, "405 Method Not Allowed", file, false);
		break;
	}
}

static void hear(struct serve *s, struct asker *a)
{
	ssize_t n = recv(a->fd, a->head + a->head_len, sizeof(a->head) - a->head_len, 0);
	struct http_request r;
	int got;

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			hang_up(a);
		return;
	}
	a->head_len += (size_t)n;
	got = http_parse(a->head, a->head_len, &r);
	if (got < 0)
		answer(s, a, NULL, "400 Bad Request", NULL, false);
	else if (got)
		decide(s, a, &r);
	else if (a->head_len == sizeof(a->head))
		answer(s, a, NULL, "431 Request Header Fields Too Large", NULL, false);
	if (a->answer_len)
		a->until_ns = now_ns() + SERVE_PATIENCE_S * 1000000000ull;
}

/* Return: bytes sent of what is next, 0 when there is nothing left, or -1. */
static ssize_t send_some(struct asker *a)
{
	ssize_t n;

	if (a->answer_at < a->answer_len) {
		n = send(a->fd, a->answer + a->answer_at, a->answer_len - a->answer_at,
			 MSG_NOSIGNAL);
		a->answer_at += n > 0 ? (size_t)n : 0;
		return n;
	}
	if (!a->file || a->file_at >= a->file_len)
		return 0;
	return sendfile(a->fd, a->file->fd, &a->file_at, (size_t)(a->file_len - a->file_at));
}

static void tell(struct serve *s, struct asker *a)
{
	ssize_t n = send_some(a);

	if (n > 0)
		a->until_ns = now_ns() + SERVE_PATIENCE_S * 1000000000ull;
	else if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && (a->answer_at < a->answer_len || (a->file && a->file_at < a->file_len)))
		return;
	if (n >= 0) {
		s->delivered |= a->file && a->file->goal;
		/* so that a reset, for what we did not read, does not overtake the answer */
		shutdown(a->fd, SHUT_WR);
	}
	hang_up(a);
}

static struct asker *free_one(struct serve *s)
{
	for (int i = 0; i < SERVE_CONNECTIONS_MAX; i++) {
		if (s->askers[i].fd < 0)
			return &s->askers[i];
	}
	return NULL;
}

static void welcome(struct serve *s, int listener)
{
	struct asker *a = free_one(s);
	int fd = a ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

	if (fd < 0)
		return;
	*a = (struct asker){ .fd = fd, .until_ns = now_ns() + SERVE_PATIENCE_S * 1000000000ull };
}

enum {
	FDS = 1 + LISTENERS + SERVE_CONNECTIONS_MAX
};

/* Return: ms until something is too late. */
static int watch(struct serve *s, int stop_fd, struct pollfd *fds)
{
	uint64_t now = now_ns(), until = s->asked_ns + s->opts.idle_ns;

	fds[0] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
	for (int i = 0; i < SERVE_CONNECTIONS_MAX; i++) {
		struct asker *a = &s->askers[i];

		if (a->fd >= 0 && a->until_ns <= now)
			hang_up(a);
		fds[1 + LISTENERS + i] =
			(struct pollfd){ .fd = a->fd, .events = a->answer_len ? POLLOUT : POLLIN };
		if (a->fd >= 0 && a->until_ns < until)
			until = a->until_ns;
	}
	for (int i = 0; i < LISTENERS; i++)
		fds[1 + i] = (struct pollfd){ .fd = free_one(s) ? s->listeners[i] : -1,
					      .events = POLLIN };
	return until <= now ? 0 : (int)((until - now) / 1000000) + 1;
}

int serve__run(struct serve *s, int stop_fd)
{
	struct pollfd fds[FDS];

	s->asked_ns = now_ns();
	while (!(s->opts.once && s->delivered)) {
		if (poll(fds, FDS, watch(s, stop_fd, fds)) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (fds[0].revents || now_ns() - s->asked_ns >= s->opts.idle_ns)
			return 0;
		for (int i = 0; i < SERVE_CONNECTIONS_MAX; i++) {
			struct asker *a = &s->askers[i];

			if (!fds[1 + LISTENERS + i].revents)
				continue;
			if (a->answer_len)
				tell(s, a);
			else
				hear(s, a);
		}
		for (int i = 0; i < LISTENERS; i++) {
			if (fds[1 + i].revents)
				welcome(s, s->listeners[i]);
		}
	}
	return 0;
}
