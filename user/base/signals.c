// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

/* The signals whose handling pyebpf changes, here or later, and how it was. */
static struct {
	int number;
	struct sigaction was;
} changed[] = {
	{ .number = SIGINT }, { .number = SIGCHLD }, { .number = SIGPIPE }, { .number = SIGXFSZ }
};

static sigset_t mask;

void signals_begin(void)
{
	sigset_t held;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
		sigaction(changed[i].number, NULL, &changed[i].was);
	signal(SIGINT, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&held);
	sigaddset(&held, SIGUSR1);
	sigprocmask(SIG_BLOCK, &held, NULL);
}

void signals_inherited(void)
{
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++)
		sigaction(changed[i].number, &changed[i].was, NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}
