// SPDX-License-Identifier: Apache-2.0
/* A reader that crashes, hangs, asks for too much or tries to get out ends as a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/err.h"
#include "base/sandbox.h"

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

struct answer {
	uint64_t value;
	char text[200000]; /* more than a pipe holds */
};

static const struct sandbox_limits brief = { .memory_bytes = 64u << 20,
					     .cpu_s = 1,
					     .wall_ms = 800 };

static int file_fd;

static int run(sandbox_fn fn, const void *arg, struct answer *out, struct err *e)
{
	*e = (struct err){ 0 };
	return sandbox_run(fn, file_fd, arg, out, sizeof(*out), &brief, e);
}

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int cnt = 0;

	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt;
}

static void assert_refused(sandbox_fn fn, const char *words)
{
	struct answer *out = malloc(sizeof(*out));
	unsigned int before = open_files();
	struct err e;

	assert_non_null(out);
	assert_int_equal(run(fn, NULL, out, &e), -PYE_EPLAN);
	if (!strstr(e.what, words))
		fail_msg("'%s' is not in '%s'", words, e.what);
	assert_int_equal(open_files(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	free(out);
}

/* --- what works --- */

static void reads(int fd, const void *arg, void *answer)
{
	struct answer *out = answer;
	char *copy = malloc(100);

	out->value = copy && pread(fd, copy, 4, 0) == 4 && !memcmp(copy, "\177ELF", 4);
	memcpy(out->text + sizeof(out->text) - 8, arg, 8);
	free(copy);
}

static void test_an_answer(void **state)
{
	struct answer *out = malloc(sizeof(*out));
	struct err e;

	(void)state;
	assert_non_null(out);
	for (int i = 0; i < 20; i++) {
		memset(out, 0xff, sizeof(*out));
		assert_int_equal(run(reads, "as told", out, &e), 0);
		assert_int_equal(out->value, 1);
		assert_int_equal(out->text[0], 0);
		assert_string_equal(out->text + sizeof(out->text) - 8, "as told");
	}
	free(out);
}

/* --- crashes, hangs, sizes --- */

static void crashes(int fd, const void *arg, void *answer)
{
	static volatile uintptr_t address = 16;

	(void)fd, (void)arg, (void)answer;
	*(volatile int *)address = 1;
}

static void aborts(int fd, const void *arg, void *answer)
{
	(void)fd, (void)arg, (void)answer;
	abort();
}

static void traps(int fd, const void *arg, void *answer)
{
	(void)fd, (void)arg, (void)answer;
	__builtin_trap();
}

static void spins(int fd, const void *arg, void *answer)
{
	volatile unsigned int i = 0;

	(void)fd, (void)arg, (void)answer;
	for (;;)
		i++;
}

static void waits(int fd, const void *arg, void *answer)
{
	int word = 0;

	(void)fd, (void)arg, (void)answer;
	syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
}

static void takes_memory(int fd, const void *arg, void *answer)
{
	struct answer *out = answer;

	(void)fd, (void)arg;
	while (out->value < 4096) {
		char *block = malloc(1 << 20);

		if (!block)
			return;
		memset(block, 1, 1 << 20);
		out->value++;
	}
}

static void says_much(int fd, const void *arg, void *answer)
{
	(void)fd, (void)arg;
	for (int i = 0; i < 4; i++)
		if (write(1, answer, sizeof(struct answer)) < 0)
			return;
}

static void says_little(int fd, const void *arg, void *answer)
{
	(void)fd, (void)arg;
	if (write(1, answer, 100) == 100)
		_exit(0);
}

static void says_nothing(int fd, const void *arg, void *answer)
{
	(void)fd, (void)arg, (void)answer;
	_exit(0);
}

static void test_crashes(void **state)
{
	(void)state;
	assert_refused(crashes, "looking into it ");
	assert_refused(aborts, "looking into it ");
	assert_refused(traps, SANITIZED ? "looking into it " : "crashed (signal 4)");
}

static void test_hangs(void **state)
{
	struct timespec a, b;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_refused(spins, "takes more than 0.8 s");
	assert_refused(spins, ", state R)");
	assert_refused(waits, "takes more than 0.8 s (");
	assert_refused(waits, ", state S)");
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_in_range(b.tv_sec - a.tv_sec, 1, 30);
}

static void test_memory(void **state)
{
	struct answer *out;
	struct err e;

	(void)state;
	if (SANITIZED) /* which maps terabytes: no bound */
		skip();
	out = malloc(sizeof(*out));
	assert_non_null(out);
	assert_int_equal(run(takes_memory, NULL, out, &e), 0);
	assert_in_range(out->value, 16, 64);
	free(out);
}

/* ulimit -v, of somebody who may not have more: that is the bound. */
static void test_less_memory_than_is_given(void **state)
{
	const struct rlimit little = { 256u << 20, 256u << 20 };
	struct answer *out;
	struct err e;
	pid_t child;
	int status;

	(void)state;
	if (SANITIZED)
		skip();
	child = fork();
	if (!child) {
		out = malloc(sizeof(*out));
		/* of the 256 MB there is less than the sandbox would give */
		if (!out ||
		    mmap(NULL, 200u << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			    MAP_FAILED ||
		    setrlimit(RLIMIT_AS, &little) || (!geteuid() && setuid(65534)) ||
		    run(takes_memory, NULL, out, &e))
			_exit(1);
		_exit(out->value >= 1 && out->value <= 64 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_answers_of_another_size(void **state)
{
	(void)state;
	assert_refused(says_much, "makes no sense");
	assert_refused(says_little, "makes no sense");
	assert_refused(says_nothing, "makes no sense");
}

/* --- ways out --- */

#define TRIES(name, what)                                            \
	static void name(int fd, const void *arg, void *answer)      \
	{                                                            \
		(void)fd, (void)arg;                                 \
		((struct answer *)answer)->value = (uint64_t)(what); \
	}

TRIES(opens, open("/etc/passwd", O_RDONLY))
TRIES(connects, socket(AF_INET, SOCK_STREAM, 0))
TRIES(traces, ptrace(PTRACE_TRACEME, 0, NULL, NULL))
TRIES(forks, syscall(SYS_fork))
TRIES(executes, execl("/bin/true", "true", (char *)NULL))
TRIES(signals, kill(getppid(), SIGTERM))
TRIES(reads_others, syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0))
TRIES(makes_code,
      (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
TRIES(turns_to_code, mprotect((void *)((uintptr_t)answer & ~4095ul), 4096, PROT_READ | PROT_EXEC))
TRIES(loads_programs, syscall(SYS_bpf, 0, NULL, 0))

static void test_ways_out(void **state)
{
	const sandbox_fn ways[] = {
		opens,	 connects,     traces,	   forks,	  executes,
		signals, reads_others, makes_code, turns_to_code, loads_programs
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		assert_refused(ways[i], "tried what its sandbox does not allow");
}

/* --- what it is while it works --- */

static void read_text(char *out, size_t size, pid_t pid, const char *name)
{
	char path[96];
	FILE *f;

	/* of the thread, since only that has a list of children */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, pid, name);
	f = fopen(path, "re");
	assert_non_null(f);
	out[fread(out, 1, size - 1, f)] = '\0';
	fclose(f);
}

/* A process with the capabilities @keep that has a reader which never ends; the reader's pid. */
static pid_t start_reader(pid_t *parent, uint64_t keep)
{
	static const struct sandbox_limits long_ones = { 64u << 20, 60, 60000 };
	char text[64] = "";

	*parent = fork();
	assert_true(*parent >= 0);
	if (!*parent) {
		struct answer out;

		if (~keep && caps_keep(keep, false))
			_exit(1);
		sandbox_run(spins, file_fd, NULL, &out, sizeof(out), &long_ones, NULL);
		_exit(0);
	}
	for (int i = 0; i < 1000; i++) {
		char status[4096];
		pid_t pid;

		usleep(10000);
		read_text(text, sizeof(text), *parent, "children");
		pid = (pid_t)strtol(text, NULL, 10);
		if (!pid)
			continue;
		read_text(status, sizeof(status), pid, "status");
		if (strstr(status, "\nSeccomp:\t2\n"))
			return pid;
	}
	fail_msg("no reader with a filter was seen");
	return 0;
}

static void assert_files(pid_t pid)
{
	char path[64];
	unsigned int cnt = 0;
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		cnt += entry->d_name[0] != '.';
	closedir(dir);
	assert_int_equal(cnt, 2);
}

static void assert_powerless(const char *status)
{
	assert_non_null(strstr(status, "\nNoNewPrivs:\t1\n"));
	assert_non_null(strstr(status, "\nCapEff:\t0000000000000000\n"));
	assert_non_null(strstr(status, "\nCapPrm:\t0000000000000000\n"));
}

static void test_what_it_has(void **state)
{
	char status[4096];
	pid_t parent, reader;

	(void)state;
	reader = start_reader(&parent, ~0ull);
	read_text(status, sizeof(status), reader, "status");
	assert_powerless(status);
	if (!geteuid()) {
		assert_non_null(strstr(status, "\nUid:\t65534\t65534\t65534\t65534\n"));
		assert_non_null(strstr(status, "\nGid:\t65534\t65534\t65534\t65534\n"));
		assert_files(reader);
	}
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	/* it goes with who started it */
	for (int i = 0; i < 1000 && !kill(reader, 0); i++)
		usleep(10000);
	assert_int_equal(kill(reader, 0), -1);
}

/* A container's root with the five capabilities of a profiler cannot become anybody else. */
static void test_root_of_a_container(void **state)
{
	char status[4096];
	pid_t parent, reader;

	(void)state;
	if (geteuid())
		skip();
	reader = start_reader(&parent, CAPS_BPF | CAPS_PROC);
	read_text(status, sizeof(status), reader, "status");
	assert_powerless(status);
	assert_non_null(strstr(status, "\nUid:\t0\t0\t0\t0\n"));
	assert_files(reader);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer),
		cmocka_unit_test(test_crashes),
		cmocka_unit_test(test_hangs),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_less_memory_than_is_given),
		cmocka_unit_test(test_answers_of_another_size),
		cmocka_unit_test(test_ways_out),
		cmocka_unit_test(test_what_it_has),
		cmocka_unit_test(test_root_of_a_container),
	};

	file_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return file_fd < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
