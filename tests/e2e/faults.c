// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into pyebpf: one of the calls with which it works on a target goes wrong. Counted from the first
 * flock() on, with which that work begins.
 *
 *   FAULT_AT    which one; 0: none
 *   FAULT_WHAT  fail: it fails; die: we are killed; kill: the target is; signal: the target gets a SIGUSR1;
 *               call: the FAULT_AT-th system call that the target makes for us fails
 *               deny: so it does with EPERM
 *               late: so it does, and the thread that made it needs some milliseconds until it goes on; stuck: seconds
 *               force: whatever is written where the target may not write itself fails
 *   FAULT_PID   the target
 *   FAULT_CHILD set: counted from the flock() on that is for another process, a child of that one; it is the target then
 *   FAULT_LOG   file for the number of calls that were counted
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define CALL_WORDS   7 /* number and six arguments; user/inline/remote_call.c */
#define SAVED_BYTES  (16 * 8) /* behind the table of calls */
#define CALLS_MAX    7
#define NO_SUCH_CALL 0xffff
#define LATE	     160 /* 2^20 ticks of the time stamp counter each */
#define STUCK	     16000
#define PARK_BYTES   16 /* before the table: a set of signals, how long */

/* The prototypes of libc, fortified or not, are not those that a table of pointers has. */
#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static struct {
	bool on;
	long at, counted, calls;
	off_t late; /* where the target is told how long it stays in the code of its calls; 0: not known yet */
	const char *what;
	pid_t target;
	bool of_child;
} f;

static void in_child(void)
{
	f.on = false;
}

__attribute__((constructor)) static void begin(void)
{
	const char *at = getenv("FAULT_AT"), *pid = getenv("FAULT_PID");

	f.at = at ? atol(at) : 0;
	f.target = pid ? atoi(pid) : 0;
	f.what = getenv("FAULT_WHAT");
	f.of_child = getenv("FAULT_CHILD") != NULL;
	if (!f.what)
		f.what = "";
	pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("FAULT_LOG");
	FILE *log = path && f.on ? fopen(path, "w") : NULL;

	if (!log)
		return;
	fprintf(log, "%ld %ld\n", f.counted, f.calls);
	fclose(log);
}

static bool is_late(void)
{
	return !strcmp(f.what, "late") || !strcmp(f.what, "stuck");
}

static bool of_target(void)
{
	return !strcmp(f.what, "call") || !strcmp(f.what, "deny") || is_late();
}

/* True: this call fails. */
static bool fault(void)
{
	if (!f.on || ++f.counted != f.at || of_target())
		return false;
	if (!strcmp(f.what, "die"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(f.what, "kill"))
		kill(f.target, SIGKILL);
	else if (!strcmp(f.what, "signal"))
		kill(f.target, SIGUSR1);
	errno = EIO;
	return !strcmp(f.what, "fail");
}

/* Of which process is it the memory? */
static pid_t process_of(int fd)
{
	char link[40], path[40] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) < 0 || strncmp(path, "/proc/", 6) != 0)
		return 0;
	return atoi(path + 6);
}

int flock(int fd, int operation)
{
	pid_t pid = process_of(fd);

	if (!f.of_child)
		f.on = true;
	else if (!f.on && pid && pid != f.target) {
		f.on = true;
		f.target = pid;
	}
	return NEXT(flock)(fd, operation);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;
	pid_t pid;
	void *addr, *data;

	va_start(ap, request);
	pid = va_arg(ap, pid_t);
	addr = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);
	if (fault() ||
	    (is_late() && request == PTRACE_SETSIGMASK)) /* that thread is not put back either */
		return -1;
	return NEXT(ptrace)(request, pid, addr, data);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
	return fault() ? -1 : NEXT(pread)(fd, to, size, at);
}

/* May the target write there? */
static bool is_writable(uint64_t at)
{
	char path[40], line[512], may[5] = "";
	unsigned long long start, end;
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", f.target);
	maps = fopen(path, "r");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%llx-%llx %4s", &start, &end, may) == 3 && at >= start &&
			at < end;
	if (maps)
		fclose(maps);
	return found && may[1] == 'w';
}

/* A table of calls? */
static int calls_in(size_t size)
{
	for (int i = 1; i <= CALLS_MAX; i++)
		if (size == 8UL * CALL_WORDS * (size_t)i + SAVED_BYTES)
			return i;
	return 0;
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
	uint64_t copy[CALL_WORDS * CALLS_MAX + SAVED_BYTES / 8];
	int calls = calls_in(size);

	if (fault())
		return -1;
	if (!strcmp(f.what, "force") && process_of(fd) == f.target && !is_writable((uint64_t)at)) {
		errno = EIO;
		return -1;
	}
	if (f.late && at == f.late && size == PARK_BYTES) {
		memcpy(copy, from, size);
		copy[1] = strcmp(f.what, "late") ? STUCK : LATE;
		f.late = 0;
		return NEXT(pwrite)(fd, copy, size, at);
	}
	if (!f.on || !calls)
		return NEXT(pwrite)(fd, from, size, at);
	memcpy(copy, from, size);
	for (int i = 0; i < calls; i++)
		if (++f.calls == f.at && of_target()) {
			copy[CALL_WORDS * i] = NO_SUCH_CALL;
			if (!strcmp(f.what, "deny")) { /* nobody traces himself */
				copy[CALL_WORDS * i] = SYS_ptrace;
				copy[CALL_WORDS * i + 1] = PTRACE_ATTACH;
				copy[CALL_WORDS * i + 2] = (uint64_t)f.target;
			}
			f.late = is_late() ? at - PARK_BYTES : 0;
		}
	return NEXT(pwrite)(fd, copy, size, at);
}

int ftruncate(int fd, off_t size)
{
	return fault() ? -1 : NEXT(ftruncate)(fd, size);
}

int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return fault() ? -1 : NEXT(fcntl)(fd, cmd, arg);
}

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t at)
{
	return fd >= 0 && fault() ? MAP_FAILED : NEXT(mmap)(addr, size, prot, flags, fd, at);
}
