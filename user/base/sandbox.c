// SPDX-License-Identifier: Apache-2.0
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/where.h"

#define NOBODY 65534
/* and what errno says: the child could not give up everything, so it did not look */
#define STATUS_BARE 128

enum {
	FILE_FD = 0,
	ANSWER_FD = 1
};

const struct sandbox_limits sandbox_usual = { .memory_bytes = SANDBOX_MEMORY_BYTES,
					      .cpu_s = SANDBOX_CPU_S,
					      .wall_ms = SANDBOX_WALL_MS };

/* --- the child --- */

/* AddressSanitizer maps terabytes. */
#if defined(__SANITIZE_ADDRESS__)
#define BOUND_MEMORY 0
#elif defined(__clang__)
#define BOUND_MEMORY (!__has_feature(address_sanitizer))
#else
#define BOUND_MEMORY 1
#endif

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field)	 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW		 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL		 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW_CALL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ALLOW

/* Memory must not become code: with PROT_EXEC in the third argument it is the end. */
#define ALLOW_DATA(name)                                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOAD(args[2]), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1), KILL, ALLOW

static int filter_calls(void)
{
	struct sock_filter code[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
		KILL,
		LOAD(nr),
		ALLOW_CALL(pread64),
		ALLOW_CALL(read),
		ALLOW_CALL(write),
		ALLOW_CALL(fstat),
		ALLOW_CALL(lseek),
		ALLOW_CALL(brk),
		ALLOW_CALL(munmap),
		ALLOW_CALL(mremap),
		ALLOW_CALL(madvise),
		ALLOW_CALL(futex),
		ALLOW_CALL(clock_gettime),
		ALLOW_CALL(sched_yield),
		ALLOW_CALL(sysinfo), /* qsort() asks how much memory there is */
		ALLOW_CALL(getrandom),
		ALLOW_CALL(sigaltstack), /* AddressSanitizer at the end */
		ALLOW_CALL(rt_sigreturn),
		ALLOW_CALL(rt_sigprocmask),
		ALLOW_CALL(exit),
		ALLOW_CALL(exit_group),
#ifdef SYS_newfstatat
		ALLOW_CALL(newfstatat), /* fstat() of newer C libraries */
#endif
		ALLOW_DATA(mmap),
		ALLOW_DATA(mprotect),
		KILL,
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -errno : 0;
}

/* What is mapped already counts against the limit, so it comes on top. */
static uint64_t mapped_bytes(void)
{
	char text[64];
	auto_close int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int set_limits(const struct sandbox_limits *limits)
{
	const struct rlimit none = { 0, 0 };
	uint64_t bytes = mapped_bytes();
	struct rlimit memory, own;
	struct rlimit cpu = { limits->cpu_s, limits->cpu_s + 1 };

	if (setrlimit(RLIMIT_CPU, &cpu) || setrlimit(RLIMIT_CORE, &none) ||
	    setrlimit(RLIMIT_FSIZE, &none))
		return -errno;
	memory.rlim_cur = memory.rlim_max = bytes + limits->memory_bytes;
	if (!getrlimit(RLIMIT_AS, &own) && own.rlim_max < memory.rlim_max)
		return 0; /* we may not have that much */
	if (BOUND_MEMORY && bytes && setrlimit(RLIMIT_AS, &memory))
		return -errno;
	return 0;
}

/* In a user namespace nobody may have no number, and groups may be fixed. */
static bool is_nobody(void)
{
	uid_t uids[3];
	gid_t gids[3];

	if (where_user_ns())
		return true;
	if (getresuid(&uids[0], &uids[1], &uids[2]) || getresgid(&gids[0], &gids[1], &gids[2]))
		return false;
	for (int i = 0; i < 3; i++)
		if (uids[i] != NOBODY || gids[i] != NOBODY)
			return false;
	return getgroups(0, NULL) == 0;
}

/*
 * What the calls return is not trusted: who it is afterwards counts. A container's root may have no capability to become
 * someone else; it is no more than anybody once it has none at all, and the filter lets it open nothing.
 */
static int become_nobody(void)
{
	int failed;

	if (geteuid() || (!where_user_ns() && caps_missing(CAPS(CAP_SETUID) | CAPS(CAP_SETGID))))
		return 0;
	/* a service that was given a few capabilities and not these: it stays a root that has none of them, and
	 * opens nothing, by the filter */
	if (caps_missing(CAPS(CAP_SETUID) | CAPS(CAP_SETGID)) && !where_user_ns())
		return 0;
	failed = setgroups(0, NULL);
	failed |= setresgid(NOBODY, NOBODY, NOBODY);
	failed |= setresuid(NOBODY, NOBODY, NOBODY);
	if (failed && !where_user_ns())
		return -EPERM;
	return is_nobody() ? 0 : -EPERM;
}

static int keep_two_files(int fd, int answer)
{
	int high = fcntl(answer, F_DUPFD, 3);

	if (high < 0 || dup2(fd, FILE_FD) < 0 || dup2(high, ANSWER_FD) < 0 ||
	    syscall(SYS_close_range, 2, ~0u, 0))
		return -errno;
	return 0;
}

/* Again after the change of user, which clears it. */
static int die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

/* A handler of the parent's would run on in here. */
static void default_signals(void)
{
	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP)
			signal(s, SIG_DFL);
}

static int confine(int fd, int answer, pid_t parent, const struct sandbox_limits *limits)
{
	int err = set_limits(limits);

	default_signals();
	if (!err)
		err = keep_two_files(fd, answer);
	if (!err)
		err = become_nobody();
	if (!err)
		err = caps_keep(
			0, false); /* sets no_new_privs too, without which there is no filter */
	if (!err)
		err = die_with(parent);
	return err ? err : filter_calls();
}

static void write_all(const char *at, size_t size)
{
	while (size) {
		ssize_t n = write(ANSWER_FD, at, size);

		if (n <= 0)
			_exit(1);
		at += n;
		size -= (size_t)n;
	}
}

static void child(sandbox_fn fn, const void *arg, void *out, size_t size)
{
	memset(out, 0, size);
	fn(FILE_FD, arg, out);
	write_all(out, size);
	_exit(0);
}

/* --- the parent --- */

/* Bytes until the end of the answer, at most one more than fits; -ETIMEDOUT. */
static ssize_t read_answer(int fd, char *out, size_t size, unsigned int wall_ms)
{
	uint64_t end = now_ns() / 1000000 + wall_ms;
	size_t len = 0;

	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		uint64_t now = now_ns() / 1000000;
		char extra;
		ssize_t n;

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&poll_fd, 1, (int)(end - now)) <= 0)
			continue;
		n = len < size ? read(fd, out + len, size - len) : read(fd, &extra, 1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0) {
			if (!n)
				return (ssize_t)len;
			continue;
		}
		len += (size_t)n;
		if (len > size)
			return (ssize_t)len;
	}
}

/* How it ended. What took it so long, the machine or the file, is seen by these. */
struct ending {
	int status;
	char state; /* when its time was up, as /proc has it */
	double cpu_s;
};

static char state_of(pid_t pid)
{
	char path[32], state = '?';
	auto_fclose FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	return f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 ? state : '?';
}

static struct ending end_child(pid_t pid, bool at_once)
{
	struct ending end = { .state = '?' };
	struct rusage used = { 0 };

	if (at_once) {
		end.state = state_of(pid);
		kill(pid, SIGKILL);
	}
	while (wait4(pid, &end.status, 0, &used) < 0 && errno == EINTR)
		;
	end.cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		    (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	return end;
}

static int judge(ssize_t len, size_t size, const struct ending *end,
		 const struct sandbox_limits *limits, struct err *e)
{
	int status = end->status, sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (len > (ssize_t)size)
		return err_set(e, -PYE_EPLAN, "the sandboxed reader's answer makes no sense");
	if (len == -ETIMEDOUT)
		return err_set(
			e, -PYE_EPLAN,
			"looking into it takes more than %g s (%.3g s of CPU time, state %c)",
			limits->wall_ms / 1000.0, end->cpu_s, end->state);
	if (sig == SIGXCPU || (sig == SIGKILL && len == 0))
		return err_set(e, -PYE_EPLAN, "looking into it takes more than %u s of CPU time",
			       limits->cpu_s);
	if (sig == SIGSYS)
		return err_set(e, -PYE_EPLAN,
			       "looking into it tried what its sandbox does not allow");
	if (sig)
		return err_set(e, -PYE_EPLAN,
			       "looking into it failed: the sandboxed reader crashed "
			       "(signal %d)",
			       sig);
	if (WIFEXITED(status) && WEXITSTATUS(status) >= STATUS_BARE)
		return err_set(e, -PYE_EKERNEL, "a sandbox to look into it could not be made: %s",
			       strerror(WEXITSTATUS(status) - STATUS_BARE));
	if (len != (ssize_t)size || status)
		return err_set(e, -PYE_EPLAN, "the sandboxed reader's answer makes no sense");
	return 0;
}

int sandbox_run(sandbox_fn fn, int fd, const void *arg, void *out, size_t size,
		const struct sandbox_limits *limits, struct err *e)
{
	auto_close int answer = -1;
	ssize_t len;
	struct ending end;
	int ends[2], err;
	pid_t parent = getpid(), pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	answer = ends[0];
	pid = fork();
	if (!pid) {
		err = die_with(parent);
		if (!err)
			err = confine(fd, ends[1], parent, limits);
		if (err)
			_exit(STATUS_BARE | (-err & (STATUS_BARE - 1)));
		child(fn, arg, out, size);
	}
	err = -errno;
	close(ends[1]);
	if (pid < 0)
		return err;
	len = read_answer(answer, out, size, limits->wall_ms);
	end = end_child(pid, len < 0 || len > (ssize_t)size);
	return judge(len, size, &end, limits, e);
}
