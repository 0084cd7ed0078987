// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/as_user.h"
#include "base/outfile.h"

enum {
	SOME_UID = 4321,
	SOME_GID = 4322
};

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/pyebpf-outfile-XXXXXX");
	if (!mkdtemp(folder) || chdir(folder))
		return -1;
	return 0;
}

static int drop_folder(void **state)
{
	char cmd[128];

	(void)state;
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	if (chdir("/"))
		return -1;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", folder);
	return system(cmd);
}

static unsigned int file_cnt(void)
{
	DIR *d = opendir(".");
	unsigned int n = 0;
	struct dirent *entry;

	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	closedir(d);
	return n;
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_file(const char *name, const char *want)
{
	char got[256] = "";
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(got, want);
}

static struct outfile *begin(const char *name, enum outfile_mode mode, bool force)
{
	struct outfile *f = NULL;
	struct err e;

	assert_int_equal(outfile__open(&f, name, mode, force, &e), 0);
	assert_int_equal(outfile__write(f, "hello", 5), 0);
	assert_int_equal(outfile__bytes(f), 5);
	return f;
}

static void test_outfile__appears_when_complete(void **state)
{
	struct outfile *f = begin("a.json", OUTFILE_ATOMIC, false);
	struct stat st;

	(void)state;
	assert_int_equal(access("a.json", F_OK), -1);
	assert_int_equal(outfile__commit(f, NULL), 0);
	outfile__free(f);
	expect_file("a.json", "hello");
	assert_int_equal(file_cnt(), 1);
	assert_int_equal(stat("a.json", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_outfile__abort_leaves_nothing(void **state)
{
	(void)state;
	outfile__free(begin("a.json", OUTFILE_ATOMIC, false));
	assert_int_equal(file_cnt(), 0);
	outfile__free(NULL);
}

/* However the process ends: there is nothing to remove. */
static void test_outfile__has_no_name_meanwhile(void **state)
{
	struct outfile *f = begin("a.json", OUTFILE_ATOMIC, false);

	(void)state;
	assert_int_equal(file_cnt(), 0);
	outfile__free(f);
}

/* A file system that knows no files without names. */
static int refuse_nameless(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* Which step is wrong, 0: none. In a child: a filter stays. */
static int with_names(void)
{
	struct outfile *f = NULL;
	struct err e = { 0 };

	if (refuse_nameless())
		return 1;
	if (outfile__open(&f, "a", OUTFILE_ATOMIC, false, &e) || outfile__write(f, "hello", 5))
		return 2;
	if (file_cnt() != 1 || !access("a", F_OK))
		return 3;
	if (outfile__commit(f, &e) || access("a", F_OK) || file_cnt() != 1)
		return 4;
	outfile__free(f);
	if (outfile__open(&f, "b", OUTFILE_ATOMIC, false, &e) || file_cnt() != 2)
		return 5;
	outfile__free(f);
	return file_cnt() == 1 ? 0 : 6;
}

static void test_outfile__has_one_where_it_must(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(with_names());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_file("a", "hello");
}

static void test_outfile__never_overwrites_unasked(void **state)
{
	struct outfile *f = begin("b", OUTFILE_ATOMIC, false), *g;
	struct err e;

	(void)state;
	put_file("b", "mine"); /* made by another while we write */
	assert_int_equal(outfile__commit(f, &e), -PYE_EOUTPUT);
	assert_string_equal(e.what, "b exists");
	outfile__free(f);
	expect_file("b", "mine");
	assert_int_equal(file_cnt(), 1);
	assert_int_equal(outfile__open(&g, "b", OUTFILE_ATOMIC, false, &e), -PYE_EOUTPUT);
	assert_int_equal(outfile__open(&g, "b", OUTFILE_DIRECT, false, &e), -PYE_EOUTPUT);
	assert_int_equal(outfile_check("b", false, &e), -PYE_EOUTPUT);
	assert_non_null(strstr(e.hint, "--force"));
	assert_int_equal(outfile_check("b", true, &e), 0);
	expect_file("b", "mine");
}

static void test_outfile__force_replaces_the_name_not_the_inode(void **state)
{
	struct outfile *f;

	(void)state;
	for (int mode = OUTFILE_ATOMIC; mode <= OUTFILE_DIRECT; mode++) {
		put_file("c", "mine");
		assert_int_equal(link("c", "hardlink"), 0);
		f = begin("c", (enum outfile_mode)mode, true);
		assert_int_equal(outfile__commit(f, NULL), 0);
		outfile__free(f);
		expect_file("c", "hello");
		expect_file("hardlink", "mine");
		assert_int_equal(unlink("hardlink"), 0);
	}
}

static void test_outfile__refuses_what_is_no_file(void **state)
{
	static const char *const names[] = { "link", "dangling", "dir", "fifo",	     "/dev/full",
					     "dir/", "",	 ".",	"missing/x", "victim/x" };
	struct outfile *f;
	struct err e;

	(void)state;
	put_file("victim", "mine");
	assert_int_equal(symlink("victim", "link"), 0);
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_int_equal(mkdir("dir", 0700), 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		for (int n = 0; n < 4; n++) {
			assert_int_equal(
				outfile__open(&f, names[i], (enum outfile_mode)(n & 1), n >> 1, &e),
				-PYE_EOUTPUT);
			assert_int_equal(outfile_check(names[i], n >> 1, &e), -PYE_EOUTPUT);
		}
	}
	assert_int_equal(file_cnt(), 5);
	expect_file("victim", "mine");
	assert_int_equal(err_exit_code(-PYE_EOUTPUT), 6);
}

static void test_outfile__direct_is_there_at_once(void **state)
{
	struct outfile *f = begin("d.pyebpf", OUTFILE_DIRECT, false);

	(void)state;
	expect_file("d.pyebpf", "hello");
	outfile__free(f); /* as after a kill */
	expect_file("d.pyebpf", "hello");
	f = begin("e.pyebpf", OUTFILE_DIRECT, false);
	assert_int_equal(outfile__commit(f, NULL), 0);
	outfile__remove(f);
	outfile__free(f);
	assert_int_equal(file_cnt(), 1);
}

static void test_outfile__write_error_has_its_cause(void **state)
{
	struct outfile *f = NULL;
	struct err e;
	int full;

	(void)state;
	assert_int_equal(outfile__open(&f, "f", OUTFILE_ATOMIC, false, &e), 0);
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(full >= 0);
	assert_true(dup3(full, outfile__fd(f), O_CLOEXEC) >= 0);
	close(full);
	assert_int_equal(outfile__write(f, "x", 1), -PYE_EOUTPUT);
	assert_int_equal(outfile__explain(f, &e), -ENOSPC);
	assert_string_equal(e.what, "cannot write f: No space left on device");
	assert_int_equal(outfile__commit(f, &e), -ENOSPC);
	outfile__free(f);
	assert_int_equal(file_cnt(), 0);
}

static void sudo(const char *uid, const char *gid)
{
	setenv("SUDO_UID", uid, 1);
	setenv("SUDO_GID", gid, 1);
}

static void test_outfile__sudo_ids_parse_strictly(void **state)
{
	static const char *const bad[] = {
		"",	" 1",  "1 ",	     "+1",	   "-1",
		"0x10", "1e3", "4294967295", "4294967296", "99999999999999999999"
	};
	uid_t uid;
	gid_t gid;

	(void)state;
	if (geteuid())
		skip();
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		sudo(bad[i], "100");
		assert_false(outfile_invoker(&uid, &gid));
		sudo("100", bad[i]);
		assert_false(outfile_invoker(&uid, &gid));
		assert_int_equal(uid, 0);
	}
	sudo("4321", "4322");
	assert_true(outfile_invoker(&uid, &gid));
	assert_int_equal(uid, SOME_UID);
	assert_int_equal(gid, SOME_GID);
	unsetenv("SUDO_GID");
	assert_false(outfile_invoker(&uid, &gid));
}

static void test_outfile__belongs_to_the_invoking_user(void **state)
{
	struct outfile *f;
	struct stat st;
	struct err e;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(chmod(".", 0755), 0);
	sudo("4321", "4322");
	/* the folder is root's: that user may not write there */
	assert_int_equal(outfile_check("x", false, &e), -PYE_EOUTPUT);
	assert_int_equal(outfile__open(&f, "x", OUTFILE_ATOMIC, false, &e), -PYE_EOUTPUT);
	assert_string_equal(e.what, "cannot write x: Permission denied");
	assert_int_equal(mkdir("theirs", 0700), 0);
	assert_int_equal(chown("theirs", SOME_UID, SOME_GID), 0);
	f = begin("theirs/x", OUTFILE_ATOMIC, false);
	assert_int_equal(outfile__commit(f, NULL), 0);
	outfile__free(f);
	assert_int_equal(stat("theirs/x", &st), 0);
	assert_int_equal(st.st_uid, SOME_UID);
	assert_int_equal(st.st_gid, SOME_GID);
	/* and we are root again */
	put_file("roots", "");
	assert_int_equal(stat("roots", &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, 0);
}

static void test_outfile__default_name(void **state)
{
	char name[128];

	(void)state;
	assert_int_equal(outfile_default_name(name, sizeof(name), "trace", "py thon/\x1b:3", 42,
					      1700000000123456789, ".json.gz"),
			 0);
	assert_string_equal(name, "pyebpf-trace-py_thon___3-42-20231114T221320Z.json.gz");
	outfile_default_name(name, sizeof(name), "trace", "", 1, 0, "");
	assert_string_equal(name, "pyebpf-trace-unknown-1-19700101T000000Z");
	assert_true(outfile_default_name(name, 10, "trace", "x", 1, 0, "") < 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_outfile__##name, make_folder, drop_folder)
	const struct CMUnitTest tests[] = {
		TEST(appears_when_complete),	    TEST(abort_leaves_nothing),
		TEST(has_no_name_meanwhile),	    TEST(has_one_where_it_must),
		TEST(never_overwrites_unasked),	    TEST(force_replaces_the_name_not_the_inode),
		TEST(refuses_what_is_no_file),	    TEST(direct_is_there_at_once),
		TEST(write_error_has_its_cause),    TEST(sudo_ids_parse_strictly),
		TEST(belongs_to_the_invoking_user), TEST(default_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
