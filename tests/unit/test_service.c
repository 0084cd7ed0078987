// SPDX-License-Identifier: Apache-2.0
/* The labels of a process, by what /proc says of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/relabel.h"

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct want {
	const char *cgroup;
	const char *cmdline; /* | for the end of an argument */
	const char *comm, *exe;
	const char *labels; /* without executable and python */
};

static const struct want wants[] = {
	{ "0::/system.slice/web.service\n", "/usr/bin/python3|/srv/app.py|", "python3",
	  "/usr/bin/python3.11", "service_name=web unit=web.service" },
	{ "0::/system.slice/system-web.slice/web@blue.service\n", "", "x", "/usr/bin/python3.11",
	  "service_name=web unit=web@blue.service" },
	/* the unit is that of the container's engine, the login that of a user */
	{ "0::/system.slice/docker.service/docker-" ID64 ".scope\n", "python|-m|shop.api|--port|1|",
	  "python", "/usr/local/bin/python3.12",
	  "service_name=shop.api container_id=0123456789ab" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", "python3|app.py|",
	  "python3", "/usr/bin/python3.11", "service_name=app" },
	{ "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service\n", "", "sync",
	  "/usr/bin/python3.11", "service_name=sync unit=sync.service" },
	/* version 1: many hierarchies */
	{ "12:pids:/docker/" ID64 "\n1:name=systemd:/docker/" ID64 "\n0::/\n",
	  "/usr/bin/python3.9|-X|dev|-W|error|/srv/job.py|", "python3.9", "/usr/bin/python3.9",
	  "service_name=job container_id=0123456789ab" },
	{ "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID64 ".scope\n",
	  "gunicorn: worker [app:app]|", "gunicorn", "/usr/bin/python3.12",
	  "service_name=gunicorn container_id=0123456789ab" },
	{ "", "/venv/bin/python3|/venv/bin/celery|worker|", "celery", "/usr/bin/python3.12",
	  "service_name=celery" },
	{ "",
	  "/lib/ld-linux-x86-64.so.2|--inhibit-cache|--library-path|/x|/opt/bin/python3.14|app.py|",
	  "python3.14", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "service_name=app" },
	{ "", "/lib/ld.so|--argv0|", "ld.so", "/lib/ld.so", "service_name=ld.so" },
	{ "", "python3|-Im|shop.api|x|", "python3", "/usr/bin/python3.11",
	  "service_name=shop.api" },
	{ "", "python3|-W|error|-Xdev|/srv/job.py|", "python3", "/usr/bin/python3.11",
	  "service_name=job" },
	{ "", "python3|-", "python3", "/usr/bin/python3.11", "service_name=python3.11" },
	{ "", "/opt/bin/uwsgi|--ini|x|", "uwsgi", "/opt/bin/uwsgi", "service_name=uwsgi" },
	{ "", "python3|-c|print(1)|", "python3", "/usr/bin/python3.11", "service_name=python3.11" },
	{ "", "python3|", "python3", "", "service_name=python3" },
	{ "", "", "", "", "service_name=unknown" },
	/* any bytes, and arguments without an end */
	{ "\n//::\n.service\n", "python3|/tmp/a\x1b[31m\xff.py|", "a", "/usr/bin/python3.11",
	  "service_name=a\\x1b[31m\\xff" },
};

static void test_service__by(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		const struct want *w = &wants[i];
		char cmdline[256], got[2048] = "";
		struct service facts, s;

		snprintf(cmdline, sizeof(cmdline), "%s", w->cmdline);
		for (size_t at = 0; w->cmdline[at]; at++)
			if (cmdline[at] == '|')
				cmdline[at] = '\0';
		service_by(&(struct service_facts){ .cgroup = w->cgroup,
						    .cmdline = cmdline,
						    .cmdline_len = strlen(w->cmdline),
						    .comm = w->comm,
						    .exe = w->exe,
						    .python = "3.12" },
			   &facts);
		assert_true(service_apply(NULL, &facts, &s));
		for (uint32_t n = 0; n < s.label_cnt; n++) {
			size_t at = strlen(got);

			if (!strcmp(s.labels[n].name, "executable") ||
			    !strcmp(s.labels[n].name, "python"))
				continue;
			snprintf(got + at, sizeof(got) - at, "%s%s=%s", at ? " " : "",
				 s.labels[n].name, s.labels[n].value);
		}
		if (strcmp(got, w->labels) != 0)
			fail_msg("%zu: %s, not %s", i, got, w->labels);
	}
}

static void test_service__is_bounded(void **state)
{
	char comm[8000], cgroup[9000];
	struct service s, copy;

	(void)state;
	memset(comm, '\x01', sizeof(comm));
	comm[sizeof(comm) - 1] = '\0';
	snprintf(cgroup, sizeof(cgroup), "0::/%s.service", comm);
	service_by(&(struct service_facts){ .cgroup = cgroup,
					    .cmdline = comm,
					    .cmdline_len = sizeof(comm),
					    .show_cmdline = true,
					    .comm = comm,
					    .exe = comm,
					    .python = comm },
		   &s);
	assert_true(s.label_cnt > 1);
	service_copy(&copy, &s);
	memset(&s, 0xff, sizeof(s));
	for (uint32_t i = 0; i < copy.label_cnt; i++) {
		assert_true(copy.labels[i].value >= copy.text &&
			    copy.labels[i].value < copy.text + sizeof(copy.text));
		assert_true(!strncmp(copy.labels[i].value, "\\x01", 4) ||
			    copy.labels[i].value[0] == '/');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_service__by),
		cmocka_unit_test(test_service__is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
