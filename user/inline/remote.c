// SPDX-License-Identifier: Apache-2.0
/* The memory of another process, and what its threads are at; waiting for them. */
#include "inline/remote_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cpython/interp_names.h"
#include "inline/engine_priv.h"
#include "inline/partial.h"
#include "inline/permit.h"
#include "inline/remote_stop.h"
#include "inline/sock_time_out.h"
#include "proc/mem.h"
#include "proc/pid.h"
#include "proc/threads.h"

#define AROUND_BYTES 65536ull /* what the kernel maps around a fault, unless told otherwise */
#define TOUCH_MAX    512 /* places at once */
#define EXITING	     0x4u /* PF_EXITING, one of the kernel's flags of a task */
#define FLAGS_FIELD  9 /* of stat(5) */
#define USER_CS	     0x33
#define USER_SS	     0x2b
#define OUT_TRIES    20 /* before others wait for who comes out of code of ours */
#define PAUSE_NS     10000u
#define PAUSE_MAX_NS 80000u
#define SEEN_US	     50 /* between two looks */

int inline_open_memory(pid_t pid, int flags)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, flags | O_CLOEXEC);
}

int remote__open(struct remote *r, pid_t pid, struct err *e)
{
	int err;

	memset(r, 0, sizeof(*r));
	r->pid = pid;
	prctl(PR_SET_TIMERSLACK, 1UL); /* of pauses, which are 50 us longer else */
	r->mem = inline_open_memory(pid, O_RDWR);
	if (r->mem >= 0 && flock(r->mem, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(r->mem);
		r->mem = -1;
		return -EBUSY;
	}
	if (r->mem >= 0)
		return 0;
	err = errno;
	if (err == ESRCH || remote__is_dead(pid, pid)) /* a kernel thread, a zombie */
		return interp_refuse_other(pid, e);
	if (err == EACCES || err == EPERM)
		return inline_bar(e, pid, "written to");
	return err_set(e, -PYE_ETARGET, "process %d: %s", pid, strerror(err));
}

int remote__read(const struct remote *r, uint64_t at, void *to, size_t size)
{
	return pread(r->mem, to, size, (off_t)at) == (ssize_t)size ? 0 : -EFAULT;
}

struct proc_mem remote__memory(const struct remote *r)
{
	return (struct proc_mem){ .fd = r->mem, .pid = r->pid };
}

ssize_t remote__read_some(const struct remote *r, uint64_t at, void *to, size_t size)
{
	const struct proc_mem mem = remote__memory(r);

	return proc_mem__read_held(&mem, at, to, size);
}

bool remote_is_asleep(char state)
{
	return state == 'D' || state == 'I';
}

pid_t remote__blocked_one(pid_t pid)
{
	auto_fn(threads__closep) DIR *threads = threads__open(pid);
	pid_t tid;

	while ((tid = threads__next(threads)) && !remote_is_asleep(remote__state(pid, tid)))
		;
	return tid;
}

long remote_count_threads(const struct remote *r)
{
	return inline_status_number(r->pid, "Threads");
}

static const struct remote_thread *a_stopped_one(const struct remote *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->threads[i].is == REMOTE_STANDS)
			return &r->threads[i];
	return NULL;
}

int remote__poke(pid_t tid, uint64_t at, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	while (size) {
		size_t skip = at % sizeof(long), n = sizeof(long) - skip;
		uint8_t *word = (uint8_t *)(uintptr_t)(at - skip);
		long value;

		n = n < size ? n : size;
		errno = 0;
		value = ptrace(PTRACE_PEEKDATA, tid, word, 0);
		if (errno)
			return -EFAULT;
		memcpy((uint8_t *)&value + skip, from, n);
		if (ptrace(PTRACE_POKEDATA, tid, word, value))
			return -EFAULT;
		at += n;
		from += n;
		size -= n;
	}
	return 0;
}

/* A kernel can forbid that the file writes where the process itself may not (proc_mem.force_override). */
int remote__write(const struct remote *r, uint64_t at, const void *from, size_t size)
{
	const struct remote_thread *t;

	if (pwrite(r->mem, from, size, (off_t)at) == (ssize_t)size)
		return 0;
	t = errno == EIO ? a_stopped_one(r) : NULL;
	return t ? remote__poke(t->tid, at, from, size) : -EFAULT;
}

/*
 * Of memory that nobody has any more 0 bytes are read, without an error. Somebody else, a child of vfork(), may still
 * have that of a program that is gone: then the new one has nothing in this place, or something else. Any other error
 * says nothing: a program that is taken for gone keeps what we put into it.
 */
bool remote__has_executed(const struct remote *r, uint64_t at)
{
	uint64_t ours, theirs;
	struct iovec here = { &theirs, 8 }, there = { (void *)(uintptr_t)at, 8 };
	ssize_t got = pread(r->mem, &ours, 8, (off_t)at);

	if (got == 8 && process_vm_readv(r->pid, &here, 1, &there, 1, 0) == 8)
		return ours != theirs;
	if (got < 0 || (got == 8 && errno != EFAULT))
		return false;
	/* memory is given back before a process is seen to have ended */
	return inline_status_number(r->pid, "VmSize") > 0;
}

int remote__check_program(const struct remote *r, uint64_t at)
{
	const struct remote_thread *t = a_stopped_one(r);
	uint64_t ours;
	ssize_t got = pread(r->mem, &ours, 8, (off_t)at);
	long theirs;

	if (got != 8)
		return got ? -EFAULT : -ESRCH;
	if (!t)
		return remote__has_executed(r, at) ? -ESRCH : 0;
	for (int i = 0; i < 2; i++) { /* once more: what fails by chance is no sign either */
		errno = 0;
		theirs = ptrace(PTRACE_PEEKDATA, t->tid, at, 0);
		if (!errno)
			return ours == (uint64_t)theirs ? 0 : -ESRCH;
	}
	return -ESRCH;
}

void remote__touch(const struct remote *r, uint64_t at, uint64_t bytes)
{
	struct iovec places[TOUCH_MAX];
	uint8_t read[TOUCH_MAX];
	uint64_t i = 0;

	while (i < bytes) {
		struct iovec here = { .iov_base = read };

		for (; here.iov_len < TOUCH_MAX && i < bytes; i += AROUND_BYTES)
			places[here.iov_len++] = (struct iovec){ (void *)(uintptr_t)(at + i), 1 };
		if (process_vm_readv(r->pid, &here, 1, places, here.iov_len, 0) < 0)
			return;
	}
}

/* What stat(5) says of a thread, into @line, from its state on; NULL: it is not there. "?": that could not be read. */
static const char *read_stat(pid_t pid, pid_t tid, char *line, int size)
{
	auto_close int fd = -1;
	const char *name_end;
	char path[64];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT && errno != ESRCH)
		return "?";
	/* no line: its name can have several */
	got = fd < 0 ? -1 : read(fd, line, (size_t)size - 1);
	if (got <= 0)
		return NULL;
	line[got] = 0;
	name_end = strrchr(line, ')');
	return name_end && name_end[1] == ' ' ? name_end + 2 : "?";
}

char remote__state(pid_t pid, pid_t tid)
{
	char line[256];
	const char *stat = read_stat(pid, tid, line, sizeof(line));

	return stat ? stat[0] : 'X';
}

bool remote__is_ending(pid_t pid, pid_t tid)
{
	char line[256] = "";
	const char *stat = read_stat(pid, tid, line, sizeof(line));
	uint64_t flags;

	if (!stat || stat[0] == 'Z' || stat[0] == 'X')
		return true;
	return !proc_stat_number(line, FLAGS_FIELD, &flags) && flags & EXITING;
}

/* It is said to sleep; where it does so tells. */
static bool is_frozen(pid_t pid, pid_t tid)
{
	char path[64], where[64] = "";
	auto_fclose FILE *f = NULL;

	if (remote__state(pid, tid) != 'S')
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/wchan", pid, tid);
	f = fopen(path, "re");
	return f && fgets(where, sizeof(where), f) &&
	       (!strcmp(where, "do_freezer_trap") || !strcmp(where, "get_signal"));
}

bool remote__is_frozen(pid_t pid, pid_t tid, unsigned int ms)
{
	while (!is_frozen(pid, tid)) {
		if (!ms--)
			return false;
		usleep(1000);
	}
	return true;
}

int remote__await_thaw(pid_t pid)
{
	uint64_t deadline = now_ns() + REMOTE_THAW_NS;

	while (remote__is_frozen(pid, pid, 0)) {
		if (now_ns() > deadline)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return 0;
}

bool remote__is_dead(pid_t pid, pid_t tid)
{
	char state = remote__state(pid, tid);

	return state == 'Z' || state == 'X';
}

/* In one piece: all stand still, and with many threads the calls are what takes the time. */
const uint64_t *remote_stack(const struct remote *r, const struct remote_thread *t, uint64_t *room,
			     size_t *cnt)
{
	ssize_t got;

	*cnt = t->stack_words;
	if (t->stack)
		return t->stack;
	got = remote__read_some(r, t->sp & ~7ull, room, REMOTE_STACK_BYTES);
	*cnt = got > 0 ? (size_t)got / 8 : 0;
	return room;
}

bool remote_is_signal_frame(const uint64_t *pc)
{
	return (pc[2] & 0xffff) == USER_CS && pc[2] >> 48 == USER_SS;
}

static bool leads_inside(const uint64_t *pc, uint64_t start, uint64_t bytes)
{
	for (int i = -REMOTE_FRAME_REGS; i <= 0; i++)
		if (pc[i] - start < bytes)
			return true;
	return false;
}

bool remote__is_inside(const struct remote *r, const struct remote_thread *t, uint64_t start,
		       uint64_t bytes)
{
	uint64_t room[REMOTE_STACK_BYTES / 8];
	const uint64_t *words;
	size_t cnt;

	if (t->pc - start < bytes)
		return true;
	words = remote_stack(r, t, room, &cnt);
	for (size_t i = REMOTE_FRAME_REGS; i + 2 < cnt; i++)
		if (remote_is_signal_frame(words + i) && leads_inside(words + i, start, bytes))
			return true;
	return false;
}

static long times_off_cpu(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

/*
 * Not sched_yield(): on a busy machine that gives milliseconds away. In a virtual machine to set a timer can take longer than the pause:
 * it is over before the CPU is given up, and whoever is waited for never gets it. Such a machine has longer ones from then on.
 */
void remote_pause(void)
{
	static unsigned int pause_ns = PAUSE_NS;
	unsigned int ns = __atomic_load_n(&pause_ns, __ATOMIC_RELAXED);
	long before = times_off_cpu();

	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	if (ns < PAUSE_MAX_NS && times_off_cpu() == before)
		__atomic_store_n(&pause_ns, 2 * ns, __ATOMIC_RELAXED);
}

/* Each signal stops one that is followed: it would stand still for it, and more may come than there are such pauses. */
void remote_leave_time(const struct remote *r, unsigned int us)
{
	uint64_t end = now_ns() + us * 1000ull;

	if (!r->follow || r->park.on) {
		usleep(us);
		return;
	}
	while (now_ns() < end && follow__serve(r->follow, r->pid))
		remote_pause();
}

void remote_let_out(struct remote *r, pid_t tid, unsigned int tries, unsigned int us)
{
	uint64_t end = now_ns() + us * 1000ull;
	bool hurried = r->hurry.first;

	if (tries < OUT_TRIES || r->park.on) {
		remote_leave_time(r, us);
		return;
	}
	remote_hurry(r, true);
	do {
		hurry__lend_call(&r->hurry, tid);
		remote_pause();
	} while (now_ns() < end && (!r->follow || follow__serve(r->follow, r->pid)));
	if (!hurried)
		remote_hurry(r, false);
}

void remote_settle(struct remote *r)
{
	uint64_t until = now_ns() + SOCK_TIME_OUT_NS;

	if (r->caller.at_work) { /* the others are looked at while its calls are waited for */
		sock_time_outs__give_back_seen(r->slept.socks);
		return;
	}
	while (!sock_time_outs__give_back_seen(r->slept.socks) && now_ns() < until)
		remote_leave_time(r, SEEN_US);
	sock_time_outs__give_back(r->slept.socks);
	partial__await(r);
}
