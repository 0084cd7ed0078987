// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memfile.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

/* A kernel that knows no such files, before 6.3, gives one all the same. */
static void test_memfile__is_no_program(void **state)
{
	bool can = memfile_flags() & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = memfile_open("x");
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text", 4), 4);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(!(st.st_mode & 0111), can);
	assert_int_equal((fcntl(fd, F_GET_SEALS) & F_SEAL_EXEC) != 0, can);
	if (can) {
		assert_int_equal(fchmod(fd, 0700), -1);
		assert_int_equal(errno, EPERM);
	}
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memfile__is_no_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
