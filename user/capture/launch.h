/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a command of our own, as the user who typed sudo, waiting at the start line until the
 * kernel side knows its pid.
 */
#ifndef PYEBPF_CAPTURE_LAUNCH_H
#define PYEBPF_CAPTURE_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct launch {
	pid_t pid;
	int go_fd; /* closing it lets the child execute the command */
	int failed_fd; /* says why it could not */
};

/**
 * launch__fork - make the child; it waits
 * @argv:    of the command, NULL-terminated
 * @as_root: keep our own ids although SUDO_UID names a user
 *
 * Return: 0 or a negative errno with its sentence.
 */
int launch__fork(struct launch *l, char *const *argv, bool as_root, struct err *e);

/* launch__go - let it execute the command. */
void launch__go(struct launch *l);

/* launch__failed - after the child's end: the errno with which its exec failed, 0 if it did not. */
int launch__failed(struct launch *l);
void launch__close(struct launch *l);

#endif
