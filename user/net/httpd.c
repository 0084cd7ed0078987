// SPDX-License-Identifier: Apache-2.0
#include "net/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define TURN_MAX_MS 60000
#define PATIENCE_NS (HTTPD_PATIENCE_S * 1000000000ull)

/* A connection. libmicrohttpd's patience begins anew with each byte, ours for a request does not. */
struct httpd_conn {
	struct httpd *h;
	int fd; /* -1: free */
	uint64_t until_ns; /* 0: the request has come */
	char *path; /* owned; as it was sent: libmicrohttpd's own is decoded */
	struct MHD_Connection *mhd; /* while the request is looked at */
	bool answered, goal;
};

struct httpd {
	struct httpd_opts opts;
	struct MHD_Daemon *daemons[HTTPD_ADDRESSES_MAX]; /* NULL: none */
	struct httpd_conn conns[HTTPD_ADDRESSES_MAX * HTTPD_CONNECTIONS_MAX];
	int epoll_fd;
	uint16_t port;
};

static struct httpd_conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct httpd_conn *c = *socket_context;
	struct httpd *h = cls;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (c) {
			free(c->path);
			*c = (struct httpd_conn){ .fd = -1 };
		}
		return;
	}
	for (size_t i = 0; i < sizeof(h->conns) / sizeof(*h->conns) && info; i++) {
		if (h->conns[i].fd >= 0)
			continue;
		h->conns[i] = (struct httpd_conn){ .h = h,
						   .fd = info->connect_fd,
						   .until_ns = now_ns() + PATIENCE_NS };
		*socket_context = &h->conns[i];
		return;
	}
}

static void *on_path(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct httpd_conn *c = conn_of(mhd);

	(void)cls;
	if (c && !c->path)
		c->path = strdup(uri);
	return NULL;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **request_context,
			 enum MHD_RequestTerminationCode how)
{
	const struct httpd_conn *c = conn_of(mhd);
	struct httpd *h = cls;

	(void)request_context;
	if (c && c->goal && how == MHD_REQUEST_TERMINATED_COMPLETED_OK && h->opts.sent)
		h->opts.sent(h->opts.ctx);
}

const char *httpd_header_of(const struct httpd_request *r, const char *name)
{
	const char *value = MHD_lookup_connection_value(r->conn->mhd, MHD_HEADER_KIND, name);

	return value ? value : "";
}

static struct MHD_Response *make_response(const struct httpd_answer *a)
{
	struct MHD_Response *response;
	struct stat st;
	int fd;

	/* what is not const is not written to either */
	if (a->text || a->fd <= 0)
		return MHD_create_response_from_buffer(a->text ? a->text_len : 0, (void *)a->text,
						       MHD_RESPMEM_MUST_COPY);
	fd = fstat(a->fd, &st) ? -1 : fcntl(a->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return NULL;
	response = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
	if (!response)
		close(fd);
	return response;
}

int httpd_answer(const struct httpd_request *r, const struct httpd_answer *a)
{
	struct httpd_conn *c = r->conn;
	struct MHD_Response *response;
	enum MHD_Result ok = MHD_YES;

	if (c->answered)
		return -EALREADY;
	response = make_response(a);
	if (!response)
		return -ENOMEM;
	ok = MHD_add_response_header(response, "Connection", "close");
	for (size_t i = 0; i < a->header_cnt && ok == MHD_YES; i++)
		ok = MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
	if (ok == MHD_YES)
		ok = MHD_queue_response(c->mhd, a->status, response);
	MHD_destroy_response(response);
	c->answered = ok == MHD_YES;
	c->goal = a->goal && r->method == HTTPD_GET;
	return c->answered ? 0 : -ENOMEM;
}

static enum httpd_method method_of(const char *name)
{
	/* they are told apart by capitals, too */
	return !strcmp(name, "GET")	  ? HTTPD_GET
	       : !strcmp(name, "HEAD")	  ? HTTPD_HEAD
	       : !strcmp(name, "OPTIONS") ? HTTPD_OPTIONS
					  : HTTPD_OTHER;
}

/* Twice the same one of these is an attempt to be taken for another. */
struct seen {
	unsigned int hosts, origins, empty;
};

static enum MHD_Result see(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct seen *seen = cls;
	bool host = !strcasecmp(name, "Host"), origin = !strcasecmp(name, "Origin");

	(void)kind;
	seen->hosts += host;
	seen->origins += origin;
	seen->empty += (host || origin) && !(value && *value);
	return MHD_YES;
}

static bool is_request(struct httpd_conn *c, const char *version)
{
	struct seen seen = { 0 };

	if (!c->path || c->path[0] != '/' ||
	    (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0))
		return false;
	for (const char *at = c->path; *at; at++) {
		if (*at <= ' ' || *at == 0x7f)
			return false;
	}
	MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, see, &seen);
	return seen.hosts <= 1 && seen.origins <= 1 && !seen.empty;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **request_context)
{
	struct httpd_conn *c = conn_of(mhd);
	struct httpd *h = cls;
	struct httpd_request r = { .method = method_of(method), .conn = c };

	(void)url;
	(void)upload;
	(void)request_context;
	*upload_len = 0; /* a body is not read */
	if (!c || c->answered)
		return MHD_NO;
	c->mhd = mhd;
	c->until_ns = 0;
	if (!is_request(c, version)) {
		httpd_answer(&r, &(struct httpd_answer){ .status = MHD_HTTP_BAD_REQUEST });
	} else {
		r.path = c->path;
		r.host = httpd_header_of(&r, "Host");
		r.origin = httpd_header_of(&r, "Origin");
		h->opts.answer(h->opts.ctx, &r);
		if (!c->answered)
			httpd_answer(&r, &(struct httpd_answer){ .status = MHD_HTTP_NOT_FOUND });
	}
	c->mhd = NULL;
	return c->answered ? MHD_YES : MHD_NO;
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
	    listen(fd, HTTPD_CONNECTIONS_MAX))
		return -errno;
	return take_fd(&fd);
}

static int port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} at = { .in = { 0 } };
	socklen_t len = sizeof(at);

	if (getsockname(fd, &at.any, &len))
		return -errno;
	return ntohs(at.any.sa_family == AF_INET6 ? at.in6.sin6_port : at.in.sin_port);
}

/* @fd: owned. */
static int start(struct httpd *h, int i, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	const union MHD_DaemonInfo *info;

	h->daemons[i] = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)HTTPD_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)HTTPD_PATIENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTPD_HEAD_BYTES, MHD_OPTION_URI_LOG_CALLBACK, on_path, h,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, h, MHD_OPTION_END);
	if (!h->daemons[i]) {
		close(fd);
		return -ENOMEM;
	}
	info = MHD_get_daemon_info(h->daemons[i], MHD_DAEMON_INFO_EPOLL_FD);
	if (!info || epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event))
		return -EIO;
	return 0;
}

static int listen_all(struct httpd *h, struct err *e)
{
	for (int i = 0; i < HTTPD_ADDRESSES_MAX && h->opts.addresses[i]; i++) {
		const char *address = h->opts.addresses[i];
		int fd = listen_at(address, i ? h->port : h->opts.port), err;

		if (fd < 0 && i)
			continue; /* a machine may have no such one */
		if (fd < 0)
			return err_set(e, fd, "cannot listen on %s, port %u: %s", address,
				       h->opts.port, err_str(fd));
		err = i ? h->port : port_of(fd);
		if (err < 0) {
			close(fd);
			return err;
		}
		h->port = (uint16_t)err;
		err = start(h, i, fd);
		if (err)
			return err_set(e, err, "cannot serve on %s, port %u: %s", address, h->port,
				       err_str(err));
	}
	return 0;
}

int httpd__new(struct httpd **out, const struct httpd_opts *opts, struct err *e)
{
	auto_fn(httpd__freep) struct httpd *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->opts = *opts;
	for (size_t i = 0; i < sizeof(h->conns) / sizeof(*h->conns); i++)
		h->conns[i].fd = -1;
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0)
		return -errno;
	err = listen_all(h, e);
	if (err)
		return err;
	memset(h->opts.addresses, 0, sizeof(h->opts.addresses));
	*out = take_ptr(h);
	return 0;
}

void httpd__free(struct httpd *h)
{
	if (!h)
		return;
	for (int i = 0; i < HTTPD_ADDRESSES_MAX; i++) {
		if (h->daemons[i])
			MHD_stop_daemon(h->daemons[i]);
	}
	if (h->epoll_fd >= 0)
		close(h->epoll_fd);
	free(h);
}

uint16_t httpd__port(const struct httpd *h)
{
	return h->port;
}

int httpd__fd(const struct httpd *h)
{
	return h->epoll_fd;
}

int httpd__timeout_ms(const struct httpd *h)
{
	uint64_t now = now_ns(), wait_ms = TURN_MAX_MS;

	for (int i = 0; i < HTTPD_ADDRESSES_MAX; i++) {
		MHD_UNSIGNED_LONG_LONG ms;

		if (h->daemons[i] && MHD_get_timeout(h->daemons[i], &ms) == MHD_YES && ms < wait_ms)
			wait_ms = ms;
	}
	for (size_t i = 0; i < sizeof(h->conns) / sizeof(*h->conns); i++) {
		uint64_t until = h->conns[i].until_ns;

		if (h->conns[i].fd >= 0 && until &&
		    (until <= now || (until - now) / 1000000 < wait_ms))
			wait_ms = until <= now ? 0 : (until - now) / 1000000 + 1;
	}
	return (int)wait_ms;
}

void httpd__turn(struct httpd *h)
{
	uint64_t now = now_ns();

	for (size_t i = 0; i < sizeof(h->conns) / sizeof(*h->conns); i++) {
		struct httpd_conn *c = &h->conns[i];

		if (c->fd < 0 || !c->until_ns || c->until_ns > now)
			continue;
		/* libmicrohttpd then sees that there is nothing more to come */
		shutdown(c->fd, SHUT_RDWR);
		c->until_ns = 0;
	}
	for (int i = 0; i < HTTPD_ADDRESSES_MAX; i++) {
		if (!h->daemons[i])
			continue;
		MHD_run(h->daemons[i]);
		/* a full one does not listen until it is run again with room in it */
		MHD_run(h->daemons[i]);
	}
}
