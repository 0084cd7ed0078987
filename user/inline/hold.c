// SPDX-License-Identifier: Apache-2.0
/*
 * A breakpoint at the entry point, set when the program was executed. A program that is given to the
 * dynamic loader as an argument is mapped by that: there the system calls are watched until it is. Gently, they are watched until
 * the first one that is the program's own: a breakpoint would end it when pyebpf ends before it is met, or is busy with another process.
 */
#include "inline/hold.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inline/engine_priv.h"
#include "inline/interrupted.h"
#include "inline/scratch.h"
#include "proc/maps.h"

#define BREAKPOINT 0xcc
#define HEADERS	   64 /* program headers that are looked at */
#define LOOK_NS	   2000000
#define LOOKS_MAX  4096 /* stops in which a loader has mapped and started its program long ago */
#define START	   128 /* bytes of _start up to its call, at most */
#define BELOW	   64 /* that it pushes on its stack, at most */
#define ABOVE	   128 /* that a loader takes off that before, for its own arguments */

int hold__seize(pid_t pid)
{
	return ptrace(PTRACE_SEIZE, pid, 0,
		      PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD)
		       ? -errno
		       : 0;
}

static int put(const struct hold *h, const void *bytes, size_t size, uint64_t at)
{
	if (pwrite(h->mem, bytes, size, (off_t)at) == (ssize_t)size)
		return 0;
	return remote__poke(h->pid, at, bytes, size);
}

static int set_breakpoint(struct hold *h, uint64_t at)
{
	static const uint8_t breakpoint = BREAKPOINT;

	if (pread(h->mem, h->code, sizeof(h->code), (off_t)at) != sizeof(h->code) ||
	    put(h, &breakpoint, 1, at))
		return -EFAULT;
	h->entry = at;
	return 0;
}

static int meet_at(struct hold *h, uint64_t at)
{
	if (!h->gently)
		return set_breakpoint(h, at);
	h->entry = at;
	h->watch = true;
	return 0;
}

/* The entry point of a program that has its own loader named in it; 0: not one. */
static uint64_t program_entry(const struct hold *h, uint64_t start)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	uint64_t low = UINT64_MAX;
	bool interp = false;

	if (pread(h->mem, &e, sizeof(e), (off_t)start) != sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (unsigned int i = 0; i < e.e_phnum && i < HEADERS; i++) {
		if (pread(h->mem, &p, sizeof(p), (off_t)(start + e.e_phoff + i * sizeof(p))) !=
		    sizeof(p))
			return 0;
		interp |= p.p_type == PT_INTERP;
		if (p.p_type == PT_LOAD && p.p_vaddr < low)
			low = p.p_vaddr;
	}
	return interp && low != UINT64_MAX ? start - (low & ~0xfffull) + e.e_entry : 0;
}

/* Has the loader mapped the program by now? Its code too: the last thing that is. */
static void look_for_program(struct hold *h)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	const struct mapping *code;
	uint64_t entry = 0;

	if (maps__read(h->pid, &maps))
		return;
	for (size_t i = 0; !entry && i < maps.cnt; i++)
		if (maps.items[i].ino && !maps.items[i].offset)
			entry = program_entry(h, maps.items[i].start);
	code = entry ? maps__find(&maps, entry) : NULL;
	if (code && code->flags & MAPPING_EXEC && !meet_at(h, entry))
		h->watch = h->gently;
}

/* glibc's has a file of its own. That of musl is the C library as well, by that name on some systems. */
static bool is_only_loader(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return !strncmp(name, "ld", 2) && !strstr(name, "musl");
}

/* All mappings of the loader's file, where that is no more. */
static bool find_loader(struct hold *h)
{
	auto_fn(maps__done) struct maps maps = { 0 };
	uint64_t base = inline_auxiliary(h->pid, AT_BASE);
	const struct mapping *first;

	h->loader = 0;
	if (!base || maps__read(h->pid, &maps))
		return false;
	first = maps__find(&maps, base);
	for (size_t i = 0; first && is_only_loader(first->path) && i < maps.cnt; i++) {
		if (maps.items[i].ino != first->ino || maps.items[i].dev != first->dev)
			continue;
		h->loader = h->loader ? h->loader : maps.items[i].start;
		h->loader_end = maps.items[i].end;
	}
	return h->loader != 0;
}

/* Is it in what _start has called? That never returns, so the address behind the call stays where the stack begins. */
static bool is_in_start(const struct hold *h)
{
	uint64_t words[(BELOW + ABOVE) / 8];

	if (!h->entry || pread(h->mem, words, sizeof(words), (off_t)((h->stack & ~7ull) - BELOW)) !=
				 sizeof(words))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] > h->entry && words[i] - h->entry <= START)
			return true;
	return false;
}

/* Behind a system call that is not the loader's? */
static bool is_started(const struct hold *h)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, h->pid, 0, &regs) || (int64_t)regs.rax == -ENOSYS ||
	    regs.orig_rax == SYS_execve || regs.orig_rax == SYS_execveat)
		return false;
	if (h->loader)
		return regs.rip - h->loader >= h->loader_end - h->loader;
	return h->is_static || is_in_start(h);
}

/* Does its dynamic section say that it is a program? That of a loader does not. */
static bool says_program(const struct hold *h, uint64_t at)
{
	Elf64_Dyn d;

	for (unsigned int i = 0; i < HEADERS; i++) {
		if (pread(h->mem, &d, sizeof(d), (off_t)(at + i * sizeof(d))) != sizeof(d) ||
		    d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_FLAGS_1)
			return d.d_un.d_val & DF_1_PIE;
	}
	return false;
}

/* What no loader is named in: a static program, or a loader itself, which maps one? UNKNOWN: nothing that could be traced, as
 * a program of 32 bits. */
enum sort {
	UNKNOWN,
	STATIC,
	LOADER
};

static enum sort sort_of(const struct hold *h)
{
	uint64_t headers = inline_auxiliary(h->pid, AT_PHDR),
		 entry = inline_auxiliary(h->pid, AT_ENTRY);
	Elf64_Ehdr e;
	Elf64_Phdr p;

	/* the headers follow the file's, which is mapped with them */
	if (!headers || pread(h->mem, &e, sizeof(e), (off_t)(headers - sizeof(e))) != sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64)
		return UNKNOWN;
	for (unsigned int i = 0; i < e.e_phnum && i < HEADERS; i++) {
		if (pread(h->mem, &p, sizeof(p), (off_t)(headers + i * sizeof(p))) != sizeof(p))
			return UNKNOWN;
		if (p.p_type == PT_DYNAMIC)
			return says_program(h, p.p_vaddr + entry - e.e_entry) ? STATIC : LOADER;
	}
	return STATIC;
}

/* What cannot be held would run to its end untraced, where we have too few descriptors: an error. */
static int on_exec(struct hold *h)
{
	struct user_regs_struct regs;
	uint64_t entry;

	hold__done(h);
	h->mem = inline_open_memory(h->pid, O_RDWR);
	if (h->mem < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return -errno;
	h->entry = h->loader = 0;
	h->stack = ptrace(PTRACE_GETREGS, h->pid, 0, &regs) ? 0 : regs.rsp;
	h->watch = h->is_static = h->runs = false;
	h->looks = 0;
	if (h->gently && find_loader(h)) {
		h->watch = true;
		return 0;
	}
	if (!inline_auxiliary(h->pid, AT_BASE)) {
		enum sort sort = sort_of(h);

		h->is_static = h->gently && sort == STATIC;
		h->watch = h->is_static || sort == LOADER;
		if (h->watch || sort == UNKNOWN) /* else it can have a breakpoint like all others */
			return 0;
	}
	entry = inline_auxiliary(h->pid, AT_ENTRY);
	if (entry)
		(void)meet_at(h, entry); /* it ends, or is none of those that may be held */
	return 0;
}

/* Is this stop the breakpoint? Then the program is at its entry point again, as if there was none. */
static bool is_at_entry(struct hold *h)
{
	struct user_regs_struct regs;

	if (!h->entry || h->gently || ptrace(PTRACE_GETREGS, h->pid, 0, &regs) ||
	    regs.rip != h->entry + 1)
		return false;
	regs.rip = h->entry;
	ptrace(PTRACE_SETREGS, h->pid, 0, &regs);
	return !put(h, h->code, 1, h->entry);
}

static int spin(struct hold *h, struct held *out)
{
	static const uint8_t self[2] = { 0xeb, 0xfe }; /* jmp to itself */

	if (put(h, self, sizeof(self), h->entry))
		return -EFAULT;
	*out = (struct held){ .pid = h->pid, .entry = h->entry };
	memcpy(out->code, h->code, sizeof(out->code));
	return ptrace(PTRACE_CONT, h->pid, 0, 0) ? -errno : 0;
}

static bool maps_code(const struct hold *h)
{
	struct user_regs_struct regs;

	return !ptrace(PTRACE_GETREGS, h->pid, 0, &regs) &&
	       (regs.orig_rax == SYS_mmap || regs.orig_rax == SYS_mprotect) && regs.rdx & PROT_EXEC;
}

/* Where a program begins: is it the one? */
static int ask(struct hold *h, int (*wanted)(void *ctx), void *ctx)
{
	int err = wanted(ctx);

	if (err != -PYE_ENOTPYTHON)
		return err;
	hold__done(h);
	h->entry = h->loader = 0;
	h->watch = h->is_static = false;
	hold__runs(h);
	return HOLD_GO_ON;
}

int hold__on_stop(struct hold *h, int status, int (*wanted)(void *ctx), void *ctx, int *sig)
{
	int what = status >> 8, err;

	*sig = 0;
	if (what == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
		err = on_exec(h);
		if (err)
			return err;
	} else if (what == SYSCALL_STOP) {
		if (h->watch && is_started(h))
			return ask(h, wanted, ctx);
		if (h->watch && !h->loader && !h->entry && maps_code(h))
			look_for_program(h);
		if (h->watch && !h->loader && ++h->looks == LOOKS_MAX) {
			h->watch = false;
			hold__runs(h);
		}
	} else if (what == SIGTRAP && is_at_entry(h)) {
		return ask(h, wanted, ctx);
	} else if (status >> 16 != PTRACE_EVENT_STOP) {
		*sig = WSTOPSIG(status);
	}
	return HOLD_GO_ON;
}

static bool stat_program(const struct hold *h, struct stat *st)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/exe", h->pid);
	return !stat(path, st);
}

void hold__runs(struct hold *h)
{
	struct stat st = { 0 };

	h->file.ino = stat_program(h, &st) ? st.st_ino : 0;
	h->file.dev = st.st_dev;
	h->runs = true;
	h->began_ns = h->look_ns = now_ns();
}

bool hold__is_due(struct hold *h)
{
	uint64_t now = now_ns(), wait = (now - h->began_ns) / 8;

	if (!h->runs || now < h->look_ns)
		return false;
	h->look_ns = now + (wait > LOOK_NS ? wait : LOOK_NS);
	return true;
}

bool hold__has_executed(const struct hold *h)
{
	struct stat st;

	return h->file.ino && stat_program(h, &st) &&
	       (st.st_ino != h->file.ino || st.st_dev != h->file.dev);
}

void hold__done(struct hold *h)
{
	if (h->mem >= 0)
		close(h->mem);
	h->mem = -1;
}

/* That it stops again is told by SIGCHLD, which is blocked. */
static void wait_for_stop(void)
{
	sigset_t stopped;

	sigemptyset(&stopped);
	sigaddset(&stopped, SIGCHLD);
	sigtimedwait(&stopped, NULL, &(struct timespec){ .tv_nsec = LOOK_NS });
}

/* Does a program that runs have by now what is wanted? Then it is asked to stop, to be let go. One that is refused is not asked for again. */
static bool look_again(struct hold *h, int (*wanted)(void *ctx), void *ctx)
{
	int err = wanted(ctx);

	h->runs = err == -PYE_ENOTPYTHON;
	return !err && !ptrace(PTRACE_INTERRUPT, h->pid, 0, 0);
}

/* No stop is waited for any more but that in which it is let go. */
static bool is_over(const struct hold *h, bool (*over)(void *ctx), void *ctx)
{
	return over(ctx) && !ptrace(PTRACE_INTERRUPT, h->pid, 0, 0);
}

int hold__find(pid_t pid, int (*wanted)(void *ctx), bool (*over)(void *ctx), void *ctx,
	       struct held *out, int *status)
{
	struct hold h = { .pid = pid, .mem = -1 };
	bool found = false, leave = false;
	int err, sig;

	for (;;) {
		pid_t got = waitpid(pid, status, __WALL | WNOHANG);

		if (!got) {
			wait_for_stop();
			leave = leave || is_over(&h, over, ctx);
			found |= !leave && hold__is_due(&h) && look_again(&h, wanted, ctx);
			continue;
		}
		if (got != pid || !WIFSTOPPED(*status)) {
			err = -ECHILD;
			break;
		}
		if ((found || leave) && *status >> 16 == PTRACE_EVENT_STOP) {
			err = leave ? HOLD_OVER : HOLD_RUNS;
			err = ptrace(PTRACE_DETACH, pid, 0, 0) ? -errno : err;
			break;
		}
		if (interrupted__is_group_stop(*status)) {
			ptrace(PTRACE_LISTEN, pid, 0, 0); /* SIGSTOP: until SIGCONT */
			continue;
		}
		found &= *status >> 16 != PTRACE_EVENT_EXEC;
		err = hold__on_stop(&h, *status, wanted, ctx, &sig);
		if (!err)
			err = spin(&h, out);
		if (err != HOLD_GO_ON)
			break;
		if (leave) /* with any other stop it forgets that it was asked */
			ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		interrupted__go_on(h.watch ? PTRACE_SYSCALL : PTRACE_CONT, pid, sig);
	}
	hold__done(&h);
	return err;
}
