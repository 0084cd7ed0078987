// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/maps.h"

static struct maps parse(const char *text, size_t len)
{
	char *copy = malloc(len + 1);
	struct maps m;

	assert_non_null(copy);
	memcpy(copy, text, len);
	copy[len] = '\0';
	assert_int_equal(maps__parse(copy, len, &m), 0);
	return m;
}

static void test_maps__usual_lines(void **state)
{
	static const char text[] =
		"00400000-0041f000 r--p 00000000 fe:01 131                        /usr/bin/python3.11\n"
		"0041f000-006cf000 r-xp 0001f000 fe:01 131                        /usr/bin/python3.11\n"
		"7ffc0e5e2000-7ffc0e603000 rw-p 00000000 00:00 0                  [stack]\n"
		"7ffc0e6aa000-7ffc0e6ac000 r-xp 00000000 00:00 0                  [vdso]\n"
		"7f0000000000-7f0000001000 rw-s 00000000 00:05 7 /dev/shm/a b (deleted)\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]\n";
	struct maps m = parse(text, sizeof(text) - 1);

	(void)state;
	assert_int_equal(m.cnt, 5); /* the fifth line lies before the fourth */
	assert_int_equal(m.items[0].start, 0x400000);
	assert_int_equal(m.items[0].flags, MAPPING_READ);
	assert_int_equal(m.items[1].flags, MAPPING_READ | MAPPING_EXEC);
	assert_int_equal(m.items[1].offset, 0x1f000);
	assert_true(m.items[1].dev == makedev(0xfe, 1));
	assert_int_equal(m.items[1].ino, 131);
	assert_string_equal(m.items[1].path, "/usr/bin/python3.11");
	assert_true(mapping_same_file(&m.items[0], &m.items[1]));
	assert_false(mapping_same_file(&m.items[2], &m.items[2]));
	assert_ptr_equal(maps__find(&m, 0x41f000), &m.items[1]);
	assert_ptr_equal(maps__find(&m, 0x41efff), &m.items[0]);
	assert_null(maps__find(&m, 0x6cf000));
	assert_null(maps__find(&m, 0));
	assert_ptr_equal(maps__find(&m, 0xffffffffff600fff), &m.items[4]);
	assert_ptr_equal(maps__vdso(&m), &m.items[3]);
	maps__done(&m);
}

static void test_maps__names_of_any_bytes(void **state)
{
	static const char text[] = "1000-2000 r-xp 0 0:1 1 /tmp/\\012a\xff\x1b[31m b\n"
				   "2000-3000 r-xp 0 0:1 1 /tmp/x (deleted)\n"
				   "3000-4000 rwxs 0 0:1 2 \n"
				   "4000-5000 r-xp 0 0:1 3";
	struct maps m = parse(text, sizeof(text) - 1);

	(void)state;
	assert_int_equal(m.cnt, 4);
	assert_string_equal(m.items[0].path, "/tmp/\\012a\xff\x1b[31m b");
	assert_string_equal(m.items[1].path, "/tmp/x (deleted)");
	assert_int_equal(m.items[2].flags, 15);
	assert_string_equal(m.items[2].path, "");
	assert_string_equal(m.items[3].path, "");
	assert_null(maps__vdso(&m));
	maps__done(&m);
}

static void test_maps__hostile_lines_are_left_out(void **state)
{
	static const char *const bad[] = {
		"",
		"\n\n\n",
		"1000",
		"1000-",
		"1000-2000",
		"2000-1000 r-xp 0 0:0 0\n",
		"1000-1000 r-xp 0 0:0 0\n",
		"g000-2000 r-xp 0 0:0 0\n",
		"1000-2000 rxwp 0 0:0 0\n",
		"1000-2000 r-x\n",
		"1000-2000 r-xq 0 0:0 0\n",
		"1000-2000 r-xp 0 0-0 0\n",
		"1000-2000 r-xp 0 0:0 \n",
		"11111111111111111-22222222222222222 r-xp 0 0:0 0\n",
		"1000-2000 r-xp 0 0:0 99999999999999999999999\n",
		"1000-2000 r-xp 0 100000000:0 1\n",
		"-1000-2000 r-xp 0 0:0 0\n",
		" 1000-2000 r-xp 0 0:0 0\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct maps m = parse(bad[i], strlen(bad[i]));

		assert_int_equal(m.cnt, 0);
		maps__done(&m);
	}
}

static void test_maps__a_nul_ends_no_number(void **state)
{
	static const char text[] = "1000-2000 r-xp 0 0:1 1\0/a\n2000-3000 r-xp 0 0:1 1 /b\0c\n";
	struct maps m = parse(text, sizeof(text) - 1);

	(void)state;
	assert_int_equal(m.cnt, 2);
	assert_string_equal(m.items[1].path, "/b");
	maps__done(&m);
}

static void test_maps__own_process(void **state)
{
	struct maps m;
	const struct mapping *here;

	(void)state;
	assert_int_equal(maps__read(getpid(), &m), 0);
	here = maps__find(&m, (uint64_t)(uintptr_t)test_maps__own_process);
	assert_non_null(here);
	assert_true(here->flags & MAPPING_EXEC);
	assert_non_null(strstr(here->path, "test_maps"));
	assert_false(m.truncated);
	maps__done(&m);
	assert_int_equal(maps__read(0x7ffffffe, &m), -3 /* ESRCH */);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps__usual_lines),
		cmocka_unit_test(test_maps__names_of_any_bytes),
		cmocka_unit_test(test_maps__hostile_lines_are_left_out),
		cmocka_unit_test(test_maps__a_nul_ends_no_number),
		cmocka_unit_test(test_maps__own_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
