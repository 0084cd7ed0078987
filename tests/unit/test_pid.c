// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "proc/file.h"
#include "proc/info.h"
#include "proc/mapped_file.h"
#include "proc/maps.h"
#include "proc/mem.h"
#include "proc/pid.h"
#include "proc/threads.h"

/* A child that waits until it is killed; its name is @comm, its root @root if that is not NULL. */
static pid_t start_in(const char *comm, const char *root)
{
	int pipes[2];
	pid_t pid;
	char ready;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, comm);
		if (root && (chroot(root) || chdir("/")))
			_exit(1);
		if (write(pipes[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &ready, 1), 1);
	close(pipes[0]);
	return pid;
}

static pid_t start(const char *comm)
{
	return start_in(comm, NULL);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_pid__a_process_is_held(void **state)
{
	pid_t pid = start("a) b\n(c");
	struct proc_pid held;
	uint64_t ticks;

	(void)state;
	assert_int_equal(proc_pid__open(pid, &held, NULL), 0);
	assert_int_equal(held.given, pid);
	assert_int_equal(held.pid, pid);
	assert_int_equal(proc_start_ticks(pid, &ticks), 0);
	assert_true(ticks > 0 && ticks == held.start_ticks);
	assert_true(proc_pid__alive(&held));
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT);
	assert_false(proc_pid__alive(&held)); /* a zombie */
	stop(pid);
	assert_false(proc_pid__alive(&held));
	proc_pid__close(&held);
	assert_false(proc_pid__alive(&held));
}

static void test_pid__what_is_none_is_refused(void **state)
{
	static const pid_t bad[] = { 0, -1, 0x7ffffffe };
	struct proc_pid held;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(proc_pid__open(bad[i], &held, &e), -PYE_ETARGET);
		assert_non_null(strstr(e.what, "no process"));
	}
	assert_int_equal(proc_start_ticks(0x7ffffffe, &(uint64_t){ 0 }), -ESRCH);
}

static void test_pid__what_it_has_open(void **state)
{
	int pipes[2], ours;
	pid_t pid;
	char got;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = start("has-a-pipe");
	close(pipes[0]);
	ours = proc_pid_take_fd(pid, pipes[0]);
	assert_true(ours >= 0);
	assert_int_equal(write(pipes[1], "x", 1), 1);
	assert_int_equal(read(ours, &got, 1), 1);
	close(ours);
	close(pipes[1]);
	assert_int_equal(proc_pid_take_fd(pid, 9999), -1);
	stop(pid);
	assert_int_equal(proc_pid_take_fd(pid, 0), -1);
	assert_int_equal(proc_pid_take_fd(0, 0), -1);
}

static void test_info__names_of_any_bytes(void **state)
{
	pid_t pid = start("x)\n\x1b[1m (\xff");
	struct proc_info info;
	struct proc_thread *threads;
	size_t cnt;

	(void)state;
	assert_int_equal(proc_info__read(pid, &info), 0);
	assert_string_equal(info.comm, "x)\n\x1b[1m (\xff");
	assert_int_equal(info.parent, getpid());
	assert_int_equal(info.uid, geteuid());
	assert_int_equal(info.own_pid, pid);
	assert_int_equal(info.depth, 0);
	assert_non_null(strstr(info.exe, "test_pid"));
	assert_int_equal(threads__list(pid, &threads, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(threads[0].tid, pid);
	assert_int_equal(threads[0].own_tid, pid);
	assert_string_equal(threads[0].comm, info.comm);
	free(threads);
	assert_true(threads__has(pid, pid));
	assert_false(threads__has(pid, getpid()));
	stop(pid);
	assert_false(threads__has(pid, pid));
	assert_int_equal(proc_info__read(pid, &info), -ESRCH);
	assert_int_equal(threads__list(pid, &threads, &cnt), -ESRCH);
}

static void test_info__descendants(void **state)
{
	pid_t pid = start("child"), found[4];
	int cnt = proc_descendants(getpid(), found, 4);

	(void)state;
	assert_int_equal(cnt, 1);
	assert_int_equal(found[0], pid);
	assert_int_equal(proc_descendants(pid, found, 4), 0);
	stop(pid);
}

static void test_info__cmdline_and_environment(void **state)
{
	char *line, value[8];
	size_t len;

	(void)state;
	assert_int_equal(proc_cmdline(getpid(), &line, &len), 0);
	assert_int_equal(line[len - 1], '\0');
	assert_non_null(strstr(line, "test_pid"));
	free(line);
	assert_int_equal(proc_environ(getpid(), "NO_SUCH_VARIABLE", value, sizeof(value)), -ENOENT);
}

static void test_file__fields(void **state)
{
	static const char status[] =
		"Name:\tUid:\\n\nUid:\t1\t2\t3\t4\nNSpid:\t7\t1\nEmpty:\t\n12\nX:\tz\n";
	long long value;

	(void)state;
	assert_int_equal(proc_file__field(status, "Uid", 1, &value), 0);
	assert_int_equal(value, 2);
	assert_int_equal(proc_file__field(status, "Uid", 4, &value), -ENOENT);
	assert_int_equal(proc_file__field(status, "NSpid", -1, &value), 0);
	assert_int_equal(value, 1);
	assert_int_equal(proc_file__field(status, "Empty", 0, &value), -ENOENT);
	assert_int_equal(proc_file__field(status, "X", 0, &value), -ENOENT);
	assert_int_equal(proc_file__field(status, "No", 0, &value), -ENOENT);
}

static void test_file__the_cap_holds(void **state)
{
	char *text;
	size_t len;

	(void)state;
	assert_int_equal(proc_file__read(getpid(), "maps", 100, &text, &len), 1);
	assert_int_equal(len, 100);
	assert_int_equal(strlen(text), 100);
	free(text);
	assert_int_equal(proc_file__read(getpid(), "maps", 1 << 20, &text, &len), 0);
	assert_true(len > 1000);
	free(text);
}

static void test_mem__reads(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct proc_mem ways[2] = { { .fd = -1, .pid = getpid() } };
	char out[8];

	(void)state;
	assert_int_equal(munmap(two + page, page), 0);
	memcpy(two + page - 4, "abcd", 4);
	assert_int_equal(proc_mem__open(getpid(), &ways[1]), 0);
	for (int i = 0; i < 2; i++) {
		uint64_t end = (uint64_t)(uintptr_t)two + page;

		assert_int_equal(proc_mem__read(&ways[i], end - 4, out, 4), 0);
		assert_memory_equal(out, "abcd", 4);
		assert_int_equal(proc_mem__read(&ways[i], end - 4, out, 5), -EFAULT);
		assert_int_equal(proc_mem__read_some(&ways[i], end - 4, out, 8), 4);
		assert_int_equal(proc_mem__read(&ways[i], 0, out, 1), -EFAULT);
		assert_int_equal(proc_mem__read(&ways[i], UINT64_MAX - 3, out, 8), -EFAULT);
		assert_int_equal(proc_mem__read(&ways[i], (uint64_t)INT64_MAX + 1, out, 8),
				 -EFAULT);
		assert_int_equal(proc_mem__read(&ways[i], end, out, 0), 0);
	}
	proc_mem__close(&ways[1]);
	munmap(two, page);
}

static void test_mem__what_is_near_is_read_once(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *two =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t end = (uint64_t)(uintptr_t)two + page;
	struct proc_near near;
	struct proc_mem mem;
	char out[512];

	(void)state;
	assert_int_equal(munmap(two + page, page), 0);
	assert_int_equal(proc_mem__open(getpid(), &mem), 0);
	memset(two, 'x', page);
	memcpy(two + page - 8, "abcdefgh", 8);
	proc_near__look(&near, &mem, end - 8);
	two[page - 1] = '!';
	assert_int_equal(proc_near__read(&near, end - 8, out, 8), 0);
	assert_memory_equal(out, "abcdefgh", 8); /* as it was */
	assert_int_equal(proc_near__read(&near, end - 9, out, 9), 0);
	assert_memory_equal(out, "xabcdefg!", 9); /* reaches out of it: read now */
	assert_int_equal(proc_near__read(&near, end - 8, out, 9), -EFAULT);
	assert_int_equal(proc_near__read(&near, end - 512, out, 512), 0);
	assert_int_equal(proc_near__read(&near, UINT64_MAX - 3, out, 8), -EFAULT);
	proc_near__look(&near, &mem, end); /* nothing there */
	assert_int_equal(proc_near__read(&near, end, out, 1), -EFAULT);
	assert_int_equal(proc_near__read(&near, end - 1, out, 1), 0);
	proc_near__look(&near, &mem, end - sizeof(near.bytes) - 16);
	assert_int_equal(proc_near__read(&near, end - 17, out, 2), 0);
	assert_memory_equal(out, "xx", 2);
	proc_mem__close(&mem);
	munmap(two, page);
}

static void test_mem__a_dead_process(void **state)
{
	pid_t pid = start("dies");
	struct proc_mem mem;
	char out[8];

	(void)state;
	assert_int_equal(proc_mem__open(pid, &mem), 0);
	stop(pid);
	assert_int_equal(proc_mem__read(&mem, (uintptr_t)out, out, 8), -ESRCH);
	proc_mem__close(&mem);
	assert_int_equal(proc_mem__open(pid, &mem), -ESRCH);
}

static const struct mapping *own_code(const struct maps *m)
{
	return maps__find(m, (uint64_t)(uintptr_t)own_code);
}

static void test_mapped_file__is_the_mapped_inode(void **state)
{
	struct mapped_file f;
	struct mapping wrong;
	struct maps m;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(maps__read(getpid(), &m), 0);
	assert_int_equal(mapped_file__open(getpid(), own_code(&m), &f), 0);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_ino, own_code(&m)->ino);
	mapped_file__close(&f);
	fd = mapped_file_by_path(getpid(), own_code(&m));
	assert_true(fd >= 0);
	close(fd);
	/* what lies at the path is not what is mapped */
	wrong = *own_code(&m);
	wrong.ino++;
	assert_int_equal(mapped_file_by_path(getpid(), &wrong), -ENOENT);
	wrong = *own_code(&m);
	wrong.path = "/etc/passwd";
	assert_int_equal(mapped_file_by_path(getpid(), &wrong), -ENOENT);
	wrong.path = "relative";
	assert_int_equal(mapped_file_by_path(getpid(), &wrong), -ENOENT);
	maps__done(&m);
}

static void test_mapped_file__only_regular_files(void **state)
{
	void *zero;
	int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	struct mapped_file f;
	struct maps m;

	(void)state;
	zero = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(zero != MAP_FAILED);
	assert_int_equal(maps__read(getpid(), &m), 0);
	assert_true(mapped_file__open(getpid(), maps__find(&m, (uintptr_t)zero), &f) < 0);
	maps__done(&m);
	munmap(zero, 4096);
	close(fd);
}

/* A target that lives in a folder and has put a link at the path of the mapping: followed in the usual
 * way it leads to a file of the host. */
static void test_mapped_file__links_stay_inside_of_the_root(void **state)
{
	char folder[] = "/tmp/pyebpf-root-XXXXXX", path[64], up[64];
	struct mapping m = { .start = 4096, .end = 8192, .path = "/link" };
	struct stat st;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/link", folder);
	snprintf(up, sizeof(up), "%s/up", folder);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(symlink("../../../../../../etc/passwd", up), 0);
	pid = start_in("jailed", folder);
	assert_int_equal(stat("/etc/passwd", &st), 0);
	m.dev = st.st_dev;
	m.ino = st.st_ino; /* even where the inode is the one that is asked for */
	assert_int_equal(mapped_file_by_path(pid, &m), -ENOENT);
	m.path = "/up";
	assert_int_equal(mapped_file_by_path(pid, &m), -ENOENT);
	m.path = "/proc/self/root/etc/passwd";
	assert_int_equal(mapped_file_by_path(pid, &m), -ENOENT);
	stop(pid);
	unlink(path);
	unlink(up);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pid__a_process_is_held),
		cmocka_unit_test(test_pid__what_is_none_is_refused),
		cmocka_unit_test(test_pid__what_it_has_open),
		cmocka_unit_test(test_info__names_of_any_bytes),
		cmocka_unit_test(test_info__descendants),
		cmocka_unit_test(test_info__cmdline_and_environment),
		cmocka_unit_test(test_file__fields),
		cmocka_unit_test(test_file__the_cap_holds),
		cmocka_unit_test(test_mem__reads),
		cmocka_unit_test(test_mem__what_is_near_is_read_once),
		cmocka_unit_test(test_mem__a_dead_process),
		cmocka_unit_test(test_mapped_file__is_the_mapped_inode),
		cmocka_unit_test(test_mapped_file__only_regular_files),
		cmocka_unit_test(test_mapped_file__links_stay_inside_of_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
