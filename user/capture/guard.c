// SPDX-License-Identifier: Apache-2.0
#include "capture/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "abi/limits.h"
#include "abi/proc.h"
#include "base/caps.h"
#include "proc/info.h"

enum {
	FD_LIFE = 3,
	FD_PROCS = 4
};
/* Who was about to be stopped when it was let go, and who had just been born: these are looked for again. */
#define ROUNDS	 20
#define ROUND_NS 25000000

static bool is_stopped(uint32_t pid)
{
	struct proc_info info;

	return !proc_info__read((pid_t)pid, &info) && info.state == 'T';
}

/* The kernel takes the programs out some time after our death: until then they hold whom the map names. */
static void let_one_go(int procs_fd, uint32_t key)
{
	struct pye_proc proc;

	if (bpf_map_lookup_elem(procs_fd, &key, &proc))
		return;
	if (proc.flags & PYE_PROC_LAUNCHED) {
		proc.flags = (proc.flags & ~PYE_PROC_LAUNCHED) | PYE_PROC_LET_GO;
		if (bpf_map_update_elem(procs_fd, &key, &proc, BPF_EXIST))
			return; /* it has ended */
	}
	if (proc.flags & PYE_PROC_LET_GO && is_stopped(key))
		kill((pid_t)key, SIGCONT);
}

static void let_go(int procs_fd)
{
	uint32_t key, *last = NULL;

	for (uint32_t i = 0; i < PYE_PROCS_MAX && !bpf_map_get_next_key(procs_fd, last, &key);
	     i++) {
		last = &key;
		let_one_go(procs_fd, key);
	}
}

/* Nothing of ours may stay open here: the probes are in place as long as anybody holds them. */
static void keep_two(int life, int procs)
{
	int life_copy = fcntl(life, F_DUPFD_CLOEXEC, FD_PROCS + 1);
	int procs_copy = fcntl(procs, F_DUPFD_CLOEXEC, FD_PROCS + 1);

	dup2(life_copy, FD_LIFE);
	dup2(procs_copy, FD_PROCS);
	syscall(SYS_close_range, 0, FD_LIFE - 1, 0);
	syscall(SYS_close_range, FD_PROCS + 1, ~0U, 0);
}

static void run(int life, int procs)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	char byte;

	setsid(); /* what is sent to our group must not reach it */
	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD)
			signal(s, SIG_IGN);
	prctl(PR_SET_NAME, "pyebpf-guard");
	keep_two(life, procs);
	caps_keep(CAPS(CAP_BPF) | CAPS(CAP_SYS_ADMIN) | CAPS(CAP_KILL), false);
	if (read(FD_LIFE, &byte, 1) == 1) /* a clean end: nobody is held any more */
		_exit(0);
	for (int i = 0; i < ROUNDS; i++) {
		let_go(FD_PROCS);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

int guard__start(struct guard *g, int procs_fd, struct err *e)
{
	int life[2];

	if (pipe2(life, O_CLOEXEC))
		return err_set(e, -errno, "no pipe: %s", strerror(errno));
	g->pid = fork();
	if (!g->pid) {
		close(life[1]);
		run(life[0], procs_fd);
	}
	close(life[0]);
	g->fd = life[1];
	if (g->pid > 0)
		return 0;
	g->pid = 0;
	close(g->fd);
	return err_set(e, -errno, "cannot start a process: %s", strerror(errno));
}

void guard__stop(struct guard *g)
{
	if (g->pid <= 0)
		return;
	if (write(g->fd, "", 1) != 1)
		kill(g->pid, SIGKILL);
	close(g->fd);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	g->pid = 0;
}
