// SPDX-License-Identifier: Apache-2.0
#include "agent/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

enum {
	CONNS_MAX = 8
};

#define PATIENCE_NS (10 * 1000000000ull) /* for a request */

struct control_conn {
	int fd; /* -1: free */
	struct control *control;
	char text[REQUEST_BYTES];
	size_t len;
	uint64_t since_ns;
	bool asked;
};

struct control {
	int listen_fd, epoll_fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev;
	ino_t ino; /* of the socket that is ours */
	struct control_conn conns[CONNS_MAX];
	control_fn asked;
	void (*gone)(void *ctx, struct control_conn *conn);
	void *ctx;
};

static int address_of(const char *path, struct sockaddr_un *out, struct err *e)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(out->sun_path))
		return err_set(e, -PYE_EOUTPUT, "the name of the socket is too long");
	strcpy(out->sun_path, path);
	return 0;
}

static int refuse(const char *path, struct err *e, const char *why)
{
	char shown[256];

	return err_set(e, -PYE_EOUTPUT, "the socket %s cannot be made: %s",
		       text_escape(shown, sizeof(shown), path, strlen(path)), why);
}

/* A socket that nobody answers at is that of an agent that was killed. */
static int clear_path(const struct sockaddr_un *address, struct err *e)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (lstat(address->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return refuse(address->sun_path, e, "a file is there");
	if (fd >= 0 && !connect(fd, (const struct sockaddr *)address, sizeof(*address)))
		return refuse(address->sun_path, e, "another agent listens there");
	return unlink(address->sun_path) ? refuse(address->sun_path, e, strerror(errno)) : 0;
}

static int listen_at(struct control *c, const char *path, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct sockaddr_un address;
	struct stat st;
	mode_t mask;
	int err = address_of(path, &address, e);

	err = err ? err : clear_path(&address, e);
	if (err)
		return err;
	c->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->listen_fd < 0 || c->epoll_fd < 0)
		return refuse(path, e, strerror(errno));
	mask = umask(0177);
	err = bind(c->listen_fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	umask(mask);
	if (err || listen(c->listen_fd, CONNS_MAX) || lstat(path, &st) ||
	    epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->listen_fd, &ev))
		return refuse(path, e, strerror(err ? -err : errno));
	strcpy(c->path, path);
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	return 0;
}

int control__new(struct control **out, const char *path, control_fn asked,
		 void (*gone)(void *ctx, struct control_conn *conn), void *ctx, struct err *e)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->listen_fd = c->epoll_fd = -1;
	c->asked = asked;
	c->gone = gone;
	c->ctx = ctx;
	for (int i = 0; i < CONNS_MAX; i++)
		c->conns[i] = (struct control_conn){ .fd = -1, .control = c };
	err = listen_at(c, path, e);
	if (err)
		control__free(c);
	else
		*out = c;
	return err;
}

void control__free(struct control *c)
{
	struct stat st;

	if (!c)
		return;
	for (int i = 0; i < CONNS_MAX; i++)
		control__end(&c->conns[i]);
	if (*c->path && !lstat(c->path, &st) && st.st_dev == c->dev && st.st_ino == c->ino)
		unlink(c->path);
	if (c->listen_fd >= 0)
		close(c->listen_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}

int control__fd(const struct control *c)
{
	return c->epoll_fd;
}

void control__end(struct control_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = -1;
}

void control__say(struct control_conn *conn, const char *text)
{
	size_t len = strlen(text);

	/* an answer is far smaller than a socket's buffer: who does not read it has no use for it */
	if (conn->fd >= 0 && send(conn->fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
		shutdown(conn->fd, SHUT_RDWR);
}

static bool may_ask(int fd)
{
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) &&
	       (!who.uid || who.uid == geteuid());
}

static struct control_conn *free_conn(struct control *c)
{
	for (int i = 0; i < CONNS_MAX; i++)
		if (c->conns[i].fd < 0)
			return &c->conns[i];
	return NULL;
}

static void take_conns(struct control *c, uint64_t now_ns)
{
	struct control_conn *conn = free_conn(c);
	int fd;

	while ((fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		struct epoll_event ev = { .events = EPOLLIN, .data.ptr = conn };

		if (!conn || !may_ask(fd) || epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
			close(fd);
			continue;
		}
		*conn = (struct control_conn){ .fd = fd, .control = c, .since_ns = now_ns };
		conn = free_conn(c);
	}
}

static void ask(struct control_conn *conn)
{
	struct control *c = conn->control;
	struct request request;
	struct err e = { 0 };

	conn->asked = true;
	if (request_parse(conn->text, &request, &e)) {
		control__say(conn, "error: ");
		control__say(conn, e.what);
		control__say(conn, "\n");
		control__end(conn);
		return;
	}
	c->asked(c->ctx, conn, &request);
}

static void read_conn(struct control_conn *conn)
{
	size_t room = sizeof(conn->text) - 1 - conn->len;
	struct control *c = conn->control;
	char rest[64], *end;
	ssize_t n = conn->asked ? read(conn->fd, rest, sizeof(rest))
				: read(conn->fd, conn->text + conn->len, room);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (!conn->asked && (size_t)n == room)) {
		if (conn->asked)
			c->gone(c->ctx, conn);
		control__end(conn);
		return;
	}
	if (conn->asked)
		return;
	conn->len += (size_t)n;
	conn->text[conn->len] = '\0';
	end = strstr(conn->text, "\n\n");
	if (end) {
		*end = '\0';
		ask(conn);
	}
}

void control__turn(struct control *c, uint64_t now_ns)
{
	struct epoll_event events[CONNS_MAX + 1];
	int cnt = epoll_wait(c->epoll_fd, events, CONNS_MAX + 1, 0);

	for (int i = 0; i < cnt; i++) {
		struct control_conn *conn = events[i].data.ptr;

		if (!conn)
			take_conns(c, now_ns);
		else if (conn->fd >= 0)
			read_conn(conn);
	}
	for (int i = 0; i < CONNS_MAX; i++)
		if (!c->conns[i].asked && c->conns[i].fd >= 0 &&
		    now_ns - c->conns[i].since_ns > PATIENCE_NS)
			control__end(&c->conns[i]);
}

int control_ask(const char *path, const char *request,
		int (*answer)(void *ctx, const char *text, size_t len), void *ctx, struct err *e)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[4096], shown[256];
	struct sockaddr_un address;
	ssize_t n;
	int err = fd < 0 ? -errno : address_of(path, &address, e);

	if (err)
		return err;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		err_set(e, -PYE_ETARGET, "no agent answers at %s: %s",
			text_escape(shown, sizeof(shown), path, strlen(path)), strerror(errno));
		err_hint(e, "run this as the agent's user; --socket names another one");
		return -PYE_ETARGET;
	}
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return err_set(e, -PYE_ETARGET, "the agent does not listen: %s", strerror(errno));
	while ((n = read(fd, text, sizeof(text))) > 0 && !err)
		err = answer(ctx, text, (size_t)n);
	return err;
}
