/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File access with the rights of the user who typed sudo, for the calling thread only: its
 * file-system ids and its groups change by raw system calls, which other threads do not see.
 */
#ifndef PYEBPF_BASE_AS_USER_H
#define PYEBPF_BASE_AS_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What to go back to. */
struct as_user {
	bool changed;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int group_cnt;
};

/**
 * as_user__enter - act on files as the invoking user (outfile_invoker())
 *
 * Does nothing when that is who we are. Calls between enter and leave must be made by the same
 * thread and be few.
 *
 * Return: 0, -ENOMEM, or -EPERM when the kernel did not let us; then nothing is changed.
 */
int as_user__enter(struct as_user *was);

/* as_user__leave - back to what we were. */
void as_user__leave(struct as_user *was);

/**
 * as_user_for_good - become the invoking user: ids, groups, HOME and its likes, of the whole process
 *
 * Checked by reading back. Does nothing when nobody typed sudo.
 *
 * Return: 0 or a negative errno; then the process must not go on.
 */
int as_user_for_good(void);

#endif
