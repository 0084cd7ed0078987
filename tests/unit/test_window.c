// SPDX-License-Identifier: Apache-2.0
/* A window's capture becomes one profile for each service, in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/window.h"
#include "capture_make.h"

#define SECOND 1000000000ll
#define T0     (1700000000 * SECOND)

struct place {
	char dir[64];
	struct store *store;
	struct services *services;
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	struct err e = { 0 };

	strcpy(p->dir, "/tmp/pyebpf-window-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	assert_int_equal(store__open(&p->store, p->dir, STORE_WRITE, &e), 0);
	assert_int_equal(services__new(&p->services), 0);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	DIR *dir = opendir(p->dir);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	rmdir(p->dir);
	services__free(p->services);
	store__free(p->store);
	free(p);
	return 0;
}

/* Process 1 and 3 are one service, 2 another one, and of 4 nothing was taken down. */
static void name_services(struct services *s)
{
	struct service web, db;

	service_by(&(struct service_facts){ .cgroup = "0::/system.slice/web.service",
					    .cmdline = "",
					    .comm = "x",
					    .exe = "/usr/bin/python3.11",
					    .python = "3.11" },
		   &web);
	service_by(&(struct service_facts){ .cgroup = "",
					    .cmdline = "python3\0/srv/db.py",
					    .cmdline_len = 19,
					    .comm = "x",
					    .exe = "/usr/bin/python3.11",
					    .python = "3.11" },
		   &db);
	assert_int_equal(services__set(s, 1, 1000 + 1, &web), 0);
	assert_int_equal(services__set(s, 2, 1000 + 2, &db), 0);
	assert_int_equal(services__set(s, 3, 1000 + 3, &web), 0);
}

static void put_sample(struct capw *w, uint32_t process, uint64_t ts_ns)
{
	struct trace_frame frame = { .func = process, .line = 3 };
	struct trace_sample sample = { .ts_ns = ts_ns,
				       .weight_ns = 100,
				       .frames = &frame,
				       .frame_cnt = 1,
				       .thread = process };

	assert_int_equal(capw__sample(w, &sample), 0);
}

/* @samples: of each process, from 1 on. Process 5 has none. */
static int make_capture(const unsigned int samples[4])
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	struct trace_totals totals = { .end_ns = 5 + 60 * SECOND, .complete = true };
	struct trace_info info = some_info;
	struct capw *w;
	uint64_t ts_ns = 1000;

	info.engine = "sample";
	info.sample_ns = 100;
	info.start_unix_ns = T0;
	assert_int_equal(capw__new(&w, fd, NULL, &info), 0);
	for (uint32_t id = 1; id <= 5; id++) {
		struct trace_process ended = { .id = id,
					       .pid = 1000 + id,
					       .start_ns = 5,
					       .comm = "python3",
					       .exe = "/usr/bin/python3.11",
					       .python = "3.11",
					       .prefix = "" };

		define_process(w, id, "python3");
		define_thread(w, id, id);
		define_func(w, id, id);
		for (unsigned int i = 0; id <= 4 && i < samples[id - 1]; i++)
			put_sample(w, id, ts_ns += 100);
		ended.end_ns = ts_ns;
		if (id == 2)
			assert_int_equal(capw__process(w, &ended), 0);
	}
	totals.generated = totals.written = capw__written(w);
	totals.generated += totals.lost[LOSS_RING] = 7;
	assert_int_equal(capw__finish(w, &totals), 0);
	capw__free(w);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static int describe(void *ctx, const struct store_window *w)
{
	char *text = ctx;

	assert_int_equal(w->start_ns, T0);
	assert_int_equal(w->end_ns, T0 + 60 * SECOND);
	for (uint32_t i = 0; i < w->label_cnt; i++)
		snprintf(text + strlen(text), 4096 - strlen(text), "%s=%s ", w->labels[i].name,
			 w->labels[i].value);
	strcat(text, "\n");
	return 0;
}

static const struct store_label of_all[] = { { "node", "n1" }, { "zone", "a" } };
static const struct window_opts opts = { .labels = of_all, .label_cnt = 2 };

static int write_window(struct store *s, int fd, struct services *services,
			const struct window_opts *o, struct window_result *got, struct err *e)
{
	struct profiles *w = NULL;
	int err = profiles__make(&w, fd, services, o, got, e);

	err = err ? err : profiles__put(w, s, got, e);
	profiles__free(w);
	return err;
}

static void test_window__a_profile_for_each_service(void **state)
{
	const struct place *p = *state;
	struct window_result got;
	char text[4096] = "";
	struct err e = { 0 };
	int fd = make_capture((const unsigned int[]){ 10, 5, 3, 1 });

	name_services(p->services);
	assert_int_equal(write_window(p->store, fd, p->services, &opts, &got, &e), 0);
	close(fd);
	assert_int_equal(got.profiles, 3);
	assert_int_equal(got.samples, 19);
	assert_int_equal(got.lost, 7);
	assert_int_equal(got.unwritten, 0);
	assert_int_equal(store__each(p->store, 0, INT64_MAX, NULL, describe, text, &e), 0);
	assert_string_equal(text, "executable=python3.11 node=n1 python=3.11 service_name=db "
				  "zone=a \n"
				  "executable=python3 node=n1 python=3.11 service_name=python3 "
				  "zone=a \n"
				  "executable=python3.11 node=n1 python=3.11 service_name=web "
				  "unit=web.service zone=a \n");
	/* it has ended, and its last window is written */
	assert_null(services__get(p->services, 2));
	assert_non_null(services__get(p->services, 3));
}

static void test_window__without_samples_nothing(void **state)
{
	const struct place *p = *state;
	struct window_result got;
	struct err e = { 0 };
	int fd = make_capture((const unsigned int[]){ 0, 0, 0, 0 });

	assert_int_equal(write_window(p->store, fd, p->services, &opts, &got, &e), 0);
	close(fd);
	assert_int_equal(got.profiles, 0);
	assert_int_equal(got.unwritten, 0);
}

/* The store's files get too large for the process: what cannot be written is counted, and leaves nothing. */
static void test_window__counts_what_cannot_be_written(void **state)
{
	const struct place *p = *state;
	struct rlimit before, none = { 0, 0 };
	struct window_result got;
	struct err e = { 0 };
	char text[4096] = "";
	int fd = make_capture((const unsigned int[]){ 1, 1, 1, 1 });

	name_services(p->services);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(write_window(p->store, fd, p->services, &opts, &got, &e), 0);
	setrlimit(RLIMIT_FSIZE, &before);
	close(fd);
	assert_int_equal(got.profiles, 0);
	assert_int_equal(got.unwritten, 3);
	assert_non_null(strstr(e.what, "File too large"));
	assert_int_equal(store__each(p->store, 0, INT64_MAX, NULL, describe, text, &e), 0);
	assert_string_equal(text, "");
}

/* Each process is a service, and every other one has samples. */
static int make_services(uint32_t cnt)
{
	int fd = memfd_create("capture", MFD_CLOEXEC);
	struct trace_totals totals = { .end_ns = 5 + 60 * SECOND, .complete = true };
	struct trace_info info = some_info;
	struct capw *w;

	info.engine = "sample";
	info.sample_ns = 100;
	info.start_unix_ns = T0;
	assert_int_equal(capw__new(&w, fd, NULL, &info), 0);
	for (uint32_t id = 1; id <= cnt; id++) {
		define_process(w, id, "python3");
		define_thread(w, id, id);
		define_func(w, id, id);
		for (unsigned int i = 0; id % 2 && i < 3; i++)
			put_sample(w, id, 1000 + id * 10 + i);
	}
	totals.generated = totals.written = capw__written(w);
	assert_int_equal(capw__finish(w, &totals), 0);
	capw__free(w);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* What a window takes at its end grows with what was seen, and not with the number of services. */
static void test_window__of_many_services(void **state)
{
	const struct place *p = *state;
	struct window_result got;
	struct rusage before, after;
	struct service service;
	struct err e = { 0 };
	char unit[64];
	int fd = make_services(2000);

	for (uint32_t id = 1; id <= 2000; id++) {
		snprintf(unit, sizeof(unit), "0::/system.slice/unit-%u.service", id);
		service_by(&(struct service_facts){ .cgroup = unit,
						    .cmdline = "",
						    .comm = "x",
						    .exe = "/usr/bin/python3.11",
						    .python = "3.11" },
			   &service);
		assert_int_equal(services__set(p->services, id, (pid_t)id, &service), 0);
	}
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(write_window(p->store, fd, p->services, &opts, &got, &e), 0);
	getrusage(RUSAGE_SELF, &after);
	close(fd);
	assert_int_equal(got.profiles, 1000);
	assert_int_equal(got.samples, 3000);
	assert_int_equal(got.unwritten, 0);
	print_message("%ld kB for each service\n", (after.ru_maxrss - before.ru_maxrss) / 2000);
#ifndef __SANITIZE_ADDRESS__
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 64 << 10);
#endif
}

static void test_window__of_no_capture(void **state)
{
	const struct place *p = *state;
	struct window_result got;
	struct err e = { 0 };
	int fd = memfd_create("capture", MFD_CLOEXEC);

	assert_int_equal(write(fd, "nonsense", 8), 8);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(write_window(p->store, fd, p->services, &opts, &got, &e), -PYE_EFORMAT);
	close(fd);
}

int main(void)
{
#define IN_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		IN_STORE(test_window__a_profile_for_each_service),
		IN_STORE(test_window__without_samples_nothing),
		IN_STORE(test_window__counts_what_cannot_be_written),
		IN_STORE(test_window__of_many_services),
		IN_STORE(test_window__of_no_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
