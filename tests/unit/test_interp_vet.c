// SPDX-License-Identifier: Apache-2.0
/* What a sandboxed reader answers may be any bytes: only what can be true is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cpython/interp.h"
#include "cpython/interp_file.h"
#include "cpython/layouts.h"

#define FILE_SIZE 4096

static int file_fd;

/* The answer of a reader that works, about a file of which byte n is n. */
static void good(struct interp_file *f, unsigned int minor)
{
	struct err e;

	memset(f, 0, sizeof(*f));
	f->plan.minor = (uint8_t)minor;
	strcpy(f->plan.engine, "uprobe");
	strcpy(f->version, "3.12.1");
	f->plan.site_cnt = 2;
	for (unsigned int i = 0; i < 2; i++) {
		f->plan.sites[i] = (struct probe_site){ .vaddr = 0x1000 + 32 * i,
							.offset = 64 + 32 * i,
							.kind = PROBE_RESUME,
							.reg = PREG_RBX,
							.value_reg = PREG_NONE,
							.name = "RESUME" };
		f->code_len[i] = INTERP_CODE_SIZE;
		assert_int_equal(pread(file_fd, f->code[i], INTERP_CODE_SIZE, 64 + 32 * i),
				 INTERP_CODE_SIZE);
	}
	assert_int_equal(interp__layout(&f->plan, NULL, &f->layout, &e), 0);
}

static int vet(struct interp_file *f)
{
	return interp_file__vet(f, file_fd, "auto");
}

static void set_byte(void *at, uint8_t value)
{
	memcpy(at, &value, 1);
}

static void test_good_ones(void **state)
{
	struct interp_file f;

	(void)state;
	for (unsigned int minor = 6; minor <= 15; minor++) {
		good(&f, minor);
		assert_int_equal(vet(&f), 0);
	}
	memset(&f, 0, sizeof(f));
	f.err = -PYE_EPLAN;
	strcpy(f.e.what, "what\x1b[31m\nnext");
	assert_int_equal(vet(&f), 0);
	assert_string_equal(f.e.what, "what\\x1b[31m\\x0anext");
}

#define REFUSED(change)                              \
	do {                                         \
		good(&f, 12);                        \
		change;                              \
		if (vet(&f) != -EBADMSG)             \
			fail_msg("taken: " #change); \
	} while (0)

static void test_bad_ones(void **state)
{
	struct interp_file f;

	(void)state;
	REFUSED(f.err = 1);
	REFUSED(f.err = -5000);
	REFUSED(memset(f.e.what, 'x', sizeof(f.e.what)));
	REFUSED(memset(f.version, 'x', sizeof(f.version)));
	REFUSED(memset(f.plan.notes, 'x', sizeof(f.plan.notes)));
	REFUSED(memset(f.plan.sites[1].insn, 'x', sizeof(f.plan.sites[1].insn)));
	REFUSED(set_byte(&f.is_executable, 2));
	REFUSED(set_byte(&f.plan.debug, 255));
	REFUSED(set_byte(&f.plan.sites[0].single_step, 7));
	REFUSED(strcpy(f.plan.engine, "inline"));
	REFUSED(f.plan.minor = 5);
	REFUSED(f.plan.minor = 200);
	REFUSED(f.plan.site_cnt = 0);
	REFUSED(f.plan.site_cnt = PLAN_SITES_MAX + 1);
	REFUSED(f.plan.site_cnt = UINT32_MAX);
	REFUSED(f.plan.sites[0].kind = (enum probe_kind)0);
	REFUSED(f.plan.sites[0].kind = (enum probe_kind)99);
	REFUSED(f.plan.sites[0].source = (enum probe_source)4);
	REFUSED(f.plan.sites[0].reg = 16);
	REFUSED(f.plan.sites[0].value_reg = 200);
	REFUSED(f.plan.sites[0].cond = 0x20);
	REFUSED(f.plan.sites[0].offset = 0);
	REFUSED(f.plan.sites[0].offset = FILE_SIZE);
	REFUSED(f.plan.sites[0].offset = UINT64_MAX);
	REFUSED(f.plan.sites[0].semaphore = UINT64_MAX);
	REFUSED(f.plan.sites[0].offset++); /* other code stands there */
	REFUSED(f.code[1][3] ^= 1);
	REFUSED(f.code_len[0] = 0);
	REFUSED(f.code_len[0] = INTERP_CODE_SIZE + 1);
	REFUSED(f.layout.minor = 13);
	REFUSED(f.layout.f_code++);
	REFUSED(f.layout.idle_ops[0] ^= 1);
	good(&f, 12);
	assert_int_equal(interp_file__vet(&f, file_fd, "usdt"), -EBADMSG);
}

/* From 3.13 on the file says offsets, and may say others than usual, but not any. */
static void test_layouts_that_a_file_states(void **state)
{
	struct interp_file f;

	(void)state;
	good(&f, 14);
	f.layout.ts_frame += 1024;
	f.layout.co_name += 400;
	assert_int_equal(vet(&f), 0);
	good(&f, 14);
	f.layout.f_previous = 0xfff8; /* past what is read of a frame */
	assert_int_equal(vet(&f), -EBADMSG);
	good(&f, 14);
	f.layout.f_previous = f.layout.f_code;
	assert_int_equal(vet(&f), -EBADMSG);
	good(&f, 14);
	f.layout.str_kind_mask = 0;
	assert_int_equal(vet(&f), -EBADMSG);
}

/* 3.6 has its lock among its file's variables; others have it elsewhere. */
static void test_where_variables_lie(void **state)
{
	struct interp_file f;

	(void)state;
	good(&f, 6);
	f.layout.gil_before = 1 << 20;
	f.layout.gil_behind = 4096;
	assert_int_equal(vet(&f), 0);
	good(&f, 8);
	f.layout.gil_behind = 4096;
	assert_int_equal(vet(&f), -EBADMSG);
}

/* Whatever is taken is in bounds; what is not taken does no harm either. */
static void test_any_bytes(void **state)
{
	struct interp_file f;
	unsigned int taken = 0;

	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		good(&f, 6 + (unsigned int)i % 10);
		for (int n = 1 + rand() % 4; n; n--)
			((uint8_t *)&f)[(size_t)rand() % sizeof(f)] = (uint8_t)rand();
		if (vet(&f) || f.err)
			continue;
		taken++;
		assert_in_range(f.plan.site_cnt, 1, PLAN_SITES_MAX);
		for (uint32_t k = 0; k < f.plan.site_cnt; k++) {
			assert_in_range(f.plan.sites[k].offset, 1, FILE_SIZE - 1);
			assert_in_range(strlen(f.plan.sites[k].name), 0, 39);
		}
		assert_non_null(layout_find(f.plan.minor, f.plan.free_threaded));
	}
	assert_in_range(taken, 1, 19999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_ones),
		cmocka_unit_test(test_bad_ones),
		cmocka_unit_test(test_layouts_that_a_file_states),
		cmocka_unit_test(test_where_variables_lie),
		cmocka_unit_test(test_any_bytes),
	};
	uint8_t bytes[FILE_SIZE];
	FILE *f = tmpfile();

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	if (!f || fwrite(bytes, 1, sizeof(bytes), f) != sizeof(bytes) || fflush(f))
		return 1;
	file_fd = fileno(f);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
