// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/httpd.h"

struct seen {
	int fd, asked, sent;
	char path[64], accept[64];
};

static void answer(void *ctx, const struct httpd_request *r)
{
	const struct httpd_header header = { "X-Own", "yes" };
	struct seen *seen = ctx;
	struct httpd_answer a = { .status = 200, .headers = &header, .header_cnt = 1 };

	seen->asked++;
	snprintf(seen->path, sizeof(seen->path), "%s", r->path);
	snprintf(seen->accept, sizeof(seen->accept), "%s", httpd_header_of(r, "accept"));
	if (!strcmp(r->path, "/text")) {
		a.text = "some text\n";
		a.text_len = 10;
	} else if (!strcmp(r->path, "/file")) {
		a.fd = seen->fd;
		a.goal = true;
	} else {
		return;
	}
	assert_int_equal(httpd_answer(r, &a), 0);
	assert_int_equal(httpd_answer(r, &a), -EALREADY);
}

static void sent(void *ctx)
{
	struct seen *seen = ctx;

	seen->sent++;
}

static int start(struct httpd **h, struct seen *seen)
{
	const struct httpd_opts opts = {
		.addresses = { "127.0.0.1" }, .answer = answer, .sent = sent, .ctx = seen
	};

	return httpd__new(h, &opts, NULL);
}

/* Everything that comes back for some bytes, the server taking its turns here. */
static const char *ask(struct httpd *h, const char *request, char *got, size_t size)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(httpd__port(h)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = 0;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	while (len < size - 1) {
		struct pollfd fds[] = { { .fd = httpd__fd(h), .events = POLLIN },
					{ .fd = fd, .events = POLLIN } };
		ssize_t n;

		assert_true(poll(fds, 2, httpd__timeout_ms(h)) >= 0);
		httpd__turn(h);
		n = recv(fd, got + len, size - 1 - len, MSG_DONTWAIT);
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	got[len] = '\0';
	return got;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool ends(const char *text, const char *with)
{
	return strlen(text) >= strlen(with) && !strcmp(text + strlen(text) - strlen(with), with);
}

static void test_httpd__a_text_a_file_and_nothing(void **state)
{
	struct seen seen = { .fd = memfd_create("x", MFD_CLOEXEC) };
	struct httpd *h = NULL;
	char got[4096];

	(void)state;
	assert_int_equal(write(seen.fd, "of a file", 9), 9);
	assert_int_equal(start(&h, &seen), 0);
	ask(h, "GET /text HTTP/1.1\r\nHost: x\r\nAccept: a/b\r\n\r\n", got, sizeof(got));
	assert_true(begins(got, "HTTP/1.1 200 OK\r\n") && ends(got, "\r\n\r\nsome text\n"));
	assert_non_null(strstr(got, "\r\nX-Own: yes\r\n"));
	assert_string_equal(seen.accept, "a/b");
	assert_int_equal(seen.sent, 0);
	for (int i = 1; i <= 2; i++) {
		assert_true(ends(ask(h, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n", got, sizeof(got)),
				 "\r\n\r\nof a file"));
		assert_int_equal(seen.sent, i);
	}
	ask(h, "HEAD /file HTTP/1.1\r\nHost: x\r\n\r\n", got, sizeof(got));
	assert_true(ends(got, "\r\n\r\n") && strstr(got, "Content-Length: 9\r\n"));
	assert_int_equal(seen.sent, 2);
	ask(h, "GET /else%41?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", got, sizeof(got));
	assert_true(begins(got, "HTTP/1.1 404 ") && ends(got, "\r\n\r\n"));
	assert_string_equal(seen.path, "/else%41?x=1");
	assert_string_equal(seen.accept, "");
	httpd__free(h);
	close(seen.fd);
}

static void test_httpd__what_is_no_request_is_not_asked(void **state)
{
	static const char *const wrong[] = {
		"GET x HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost:\r\n\r\n",
		"GET /text HTTP/1.1\r\nHost: a\r\nOrigin: b\r\nOrigin: b\r\n\r\n",
		"GET /te\177xt HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /text HTTP/1.1\r\nno colon\r\n\r\n",
	};
	struct seen seen = { .fd = -1 };
	struct httpd *h = NULL;
	char got[4096];

	(void)state;
	assert_int_equal(start(&h, &seen), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_true(begins(ask(h, wrong[i], got, sizeof(got)), "HTTP/1.1 400 "));
		assert_int_equal(seen.asked, 0);
	}
	httpd__free(h);
}

static void test_httpd__an_address_that_is_taken(void **state)
{
	struct seen seen = { .fd = -1 };
	struct httpd *h = NULL, *other = NULL;
	struct httpd_opts opts = { .addresses = { "127.0.0.1" }, .answer = answer, .ctx = &seen };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(start(&h, &seen), 0);
	opts.port = httpd__port(h);
	assert_int_equal(httpd__new(&other, &opts, &e), -EADDRINUSE);
	assert_null(other);
	assert_true(begins(e.what, "cannot listen on 127.0.0.1, port "));
	httpd__free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_httpd__a_text_a_file_and_nothing),
		cmocka_unit_test(test_httpd__what_is_no_request_is_not_asked),
		cmocka_unit_test(test_httpd__an_address_that_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
