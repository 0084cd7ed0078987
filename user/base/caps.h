/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The capabilities of this process, and what is said when one is missing: which, which rule of the
 * kernel asks for it with its value now, and how to get it where this process runs.
 */
#ifndef PYEBPF_BASE_CAPS_H
#define PYEBPF_BASE_CAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/capability.h>

#include "base/err.h"

#define CAPS(capability) (1ull << (capability))

/* Loading the programs and placing the probes. */
#define CAPS_BPF (CAPS(CAP_BPF) | CAPS(CAP_PERFMON))
/* Looking into another user's process. */
#define CAPS_PROC (CAPS(CAP_SYS_PTRACE) | CAPS(CAP_DAC_READ_SEARCH) | CAPS(CAP_CHECKPOINT_RESTORE))

/**
 * caps_missing - those of @wanted that this process lacks
 *
 * A capability that includes another one counts for it (CAP_SYS_ADMIN for CAP_BPF). What concerns the
 * whole machine is missing in a user namespace, whatever the process has in there.
 */
uint64_t caps_missing(uint64_t wanted);

/**
 * caps_keep - give up all capabilities but these, for good
 * @keep: those of them that this process has stay
 * @test: true: only until the next call; they can be taken up again
 *
 * Of the calling thread: to be called while there is no other one. For good means out of the permitted,
 * inheritable, ambient and (where that is allowed) the bounding set, and no execve() gets any back.
 *
 * Return: 0 when the kernel says, asked again, that the others are gone; a negative errno.
 */
int caps_keep(uint64_t keep, bool test);

/* caps_text - "CAP_BPF and CAP_PERFMON are missing"; of those that this program knows. Return: @out. */
char *caps_text(char *out, size_t size, uint64_t missing);

/**
 * caps_ways - how to get what @missing names, where this process runs
 * @out: one or two lines without a newline at the end: sudo and setcap for a user who could get them so,
 *	 docker, podman or Kubernetes for whoever is in a container without them
 */
void caps_ways(char *out, size_t size, uint64_t missing);

/**
 * caps_advise - put into the hint of an error what @missing needs: the kernel's rules, one line, and
 * ways to get it, one line each, at most three
 */
void caps_advise(struct err *e, uint64_t missing);

#endif
