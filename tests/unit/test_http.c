// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "view/http.h"
#include "view/serve.h"

/* Exactly its bytes, so that a sanitizer sees a read past them. */
static int parse(const char *text, struct http_request *r, char **copy)
{
	size_t len = strlen(text);

	*copy = malloc(len ? len : 1);
	assert_non_null(*copy);
	memcpy(*copy, text, len);
	return http_parse(*copy, len, r);
}

static void test_http__a_request(void **state)
{
	struct http_request r;
	char *copy;

	(void)state;
	assert_int_equal(
		parse("GET /a/b?c HTTP/1.1\r\nhost: x:1\r\nA: b\r\nOrigin:\to \r\n\r\nrest", &r,
		      &copy),
		1);
	assert_int_equal(r.method, HTTP_GET);
	assert_true(http_is(r.path, "/a/b?c") && http_is(r.host, "X:1") && http_is(r.origin, "o"));
	assert_false(r.asks_for_local);
	free(copy);
}

static void test_http__every_beginning_waits_for_more(void **state)
{
	static const char whole[] = "OPTIONS / HTTP/1.0\r\nHost: localhost:80\r\n\r\n";
	struct http_request r;

	(void)state;
	for (size_t len = 0; len < sizeof(whole) - 1; len++) {
		char *copy = malloc(len + 1);

		assert_non_null(copy);
		memcpy(copy, whole, len);
		assert_int_equal(http_parse(copy, len, &r), 0);
		free(copy);
	}
	assert_int_equal(http_parse(whole, sizeof(whole) - 1, &r), 1);
	assert_int_equal(r.method, HTTP_OPTIONS);
}

static void test_http__what_is_none(void **state)
{
	static const char *const wrong[] = {
		"\r\n\r\n",
		"GET\r\n\r\n",
		"GET /\r\n\r\n",
		"GET / HTTP/3\r\n\r\n",
		"GET x HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\n: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\n x: y\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nx: a\nHost: b\r\n\r\n",
	};
	struct http_request r;
	char *copy;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(parse(wrong[i], &r, &copy), -EINVAL);
		free(copy);
	}
}

static bool host(const char *text, const char *address)
{
	return http_host_is((struct http_text){ text, strlen(text) }, address, 8080);
}

static void test_http__hosts(void **state)
{
	(void)state;
	assert_true(host("127.0.0.1:8080", NULL) && host("LocalHost:8080", NULL) &&
		    host("[::1]:8080", NULL));
	assert_false(host("127.0.0.1", NULL) || host("127.0.0.1:80", NULL) || host("", NULL) ||
		     host("localhost:8080x", NULL) || host("10.0.0.1:8080", NULL));
	assert_true(host("10.0.0.1:8080", "10.0.0.1") && host("[fe80::1]:8080", "fe80::1"));
	assert_false(host("10.0.0.2:8080", "10.0.0.1") || host("evil:8080", "0.0.0.0"));
	assert_true(host("10.0.0.2:8080", "0.0.0.0") && host("[2001:db8::1]:8080", "::"));
	assert_false(host(":8080", "0.0.0.0") || host("[x]:8080", "::") || host("[]:8080", "::"));
}

static void test_serve__ends_when_nobody_asks(void **state)
{
	const struct serve_opts opts = { .idle_ns = 20000000, .policy = "default-src 'none'" };
	struct serve *s = NULL;
	int pipes[2];

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(serve__new(&s, &opts, NULL), 0);
	assert_true(serve__port(s) != 0);
	assert_int_equal(strncmp(serve__url(s), "http://127.0.0.1:", 17), 0);
	assert_int_equal(serve__run(s, pipes[0]), 0);
	serve__free(s);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_http__a_request),
		cmocka_unit_test(test_http__every_beginning_waits_for_more),
		cmocka_unit_test(test_http__what_is_none),
		cmocka_unit_test(test_http__hosts),
		cmocka_unit_test(test_serve__ends_when_nobody_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
