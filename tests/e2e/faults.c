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
 *   FAULT_DETACH set: counted from where the first word is put back
 *   FAULT_LOG   file for the numbers of calls that were counted, of those of the target, and where the first word was put back
 *   FAULT_HIT   file for the name of the call that went wrong
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_WORDS   7 /* number and six arguments; user/inline/remote_call.c */
#define SAVED_BYTES  (16 * 8) /* behind the table of calls */
#define CALLS_MAX    7
#define NO_SUCH_CALL 0xffff
#define ATTACH_CALLS 13
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
	bool of_child, of_detach;
	long detach; /* at which step the first word was put back; 0: not yet */
	unsigned int words; /* that were written since the target has made all calls of the attach */
	off_t first; /* where the first one is */
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
	f.of_detach = getenv("FAULT_DETACH") != NULL;
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
	fprintf(log, "%ld %ld %ld\n", f.counted, f.calls, f.detach);
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

/* At once: we may not live on. */
static void tell_hit(const char *call)
{
	const char *path = getenv("FAULT_HIT");
	int fd = path ? NEXT(open)(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s\n", call);
	close(fd);
}

/* True: this call fails. */
static bool fault(const char *call)
{
	if (!f.on || (f.of_detach && !f.detach) || ++f.counted != f.at || of_target())
		return false;
	tell_hit(call);
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
	if (fault("ptrace") ||
	    (is_late() && request == PTRACE_SETSIGMASK)) /* that thread is not put back either */
		return -1;
	return NEXT(ptrace)(request, pid, addr, data);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
	return fault("pread") ? -1 : NEXT(pread)(fd, to, size, at);
}

/* May the target write there? */
static bool is_writable(pid_t pid, uint64_t at)
{
	char path[40], line[512], may[5] = "";
	unsigned long long start, end;
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
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

/* What tells that the results were read is the first small piece, then the words follow. */
static void note_word(off_t at, size_t size)
{
	if (!f.on || f.calls != ATTACH_CALLS || size > 8)
		return;
	if (++f.words == 2)
		f.first = at;
	else if (f.words > 2 && at == f.first && !f.detach)
		f.detach = f.counted + 1;
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
	uint64_t copy[CALL_WORDS * CALLS_MAX + SAVED_BYTES / 8];
	int calls = calls_in(size);

	note_word(at, size);
	if (fault("pwrite"))
		return -1;
	if (!strcmp(f.what, "force") && process_of(fd) &&
	    (!f.target || process_of(fd) == f.target) &&
	    !is_writable(process_of(fd), (uint64_t)at)) {
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

/* That of a process alone: our own files are none of this. */
int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	return !strncmp(path, "/proc/", 6) && fault("open") ? -1 : NEXT(open)(path, flags, mode);
}

/* It fails for no living thread of ours. */
pid_t waitpid(pid_t pid, int *status, int options)
{
	(void)fault("waitpid");
	return NEXT(waitpid)(pid, status, options);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_cnt,
			 const struct iovec *from, unsigned long from_cnt, unsigned long flags)
{
	return fault("process_vm_readv")
		       ? -1
		       : NEXT(process_vm_readv)(pid, to, to_cnt, from, from_cnt, flags);
}

int ftruncate(int fd, off_t size)
{
	return fault("ftruncate") ? -1 : NEXT(ftruncate)(fd, size);
}

int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return fault("fcntl") ? -1 : NEXT(fcntl)(fd, cmd, arg);
}

void *mmap(void *addr, size_t size, int prot, int flags, int fd, off_t at)
{
	return fd >= 0 && fault("mmap") ? MAP_FAILED : NEXT(mmap)(addr, size, prot, flags, fd, at);
}
