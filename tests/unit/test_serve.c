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

#include "view/host.h"
#include "view/origin.h"
#include "view/serve.h"

static bool host(const char *text, const char *address)
{
	return host_is_own(text, address, 8080);
}

static void test_host__own(void **state)
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

static const char *origin(const char *url)
{
	static char text[64];

	return origin_of(text, sizeof(text), url) ? "none" : text;
}

static void test_origin__as_a_browser_says_it(void **state)
{
	static const char *const none[] = {
		"",
		"profiler.example",
		"ftp://x",
		"http:/x",
		"http://",
		"http://:80",
		"http://x:",
		"http://x:0",
		"http://x:65536",
		"http://x:99999999999999999999",
		"http://x:+1",
		"http://x/path",
		"http://x//",
		"http://x?",
		"http://user@x",
		"http://x\r\ny",
		"http://x y",
		"http://[::1",
		"http://[]",
		"http://[::1]x",
		"http://.x",
		"https://a-name-that-is-much-too-long-for-what-is-there-to-hold-it.example"
	};

	(void)state;
	assert_string_equal(origin("https://Profiler.Example:443/"), "https://profiler.example");
	assert_string_equal(origin("HTTP://profiler.example:80"), "http://profiler.example");
	assert_string_equal(origin("http://127.0.0.1:4243"), "http://127.0.0.1:4243");
	assert_string_equal(origin("https://x:80/"), "https://x:80");
	assert_string_equal(origin("http://[::1]:8080/"), "http://[::1]:8080");
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_string_equal(origin(none[i]), "none");
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
		cmocka_unit_test(test_host__own),
		cmocka_unit_test(test_origin__as_a_browser_says_it),
		cmocka_unit_test(test_serve__ends_when_nobody_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
