/* SPDX-License-Identifier: Apache-2.0 */
/* A pod as a target: its name becomes the ids of its containers. The API server is asked where one is known; else, and when it does not answer, the
 * links that kubelet keeps in /var/log/containers say them. */
#ifndef PYEBPF_CMD_POD_TARGET_H
#define PYEBPF_CMD_POD_TARGET_H

#include "base/err.h"

struct select_list;
struct select_args;

/* What is done with a container: 0; -PYE_ETARGET: no process is in it; another error ends it. */
typedef int (*pod_take_fn)(void *ctx, const char *id, struct err *e);

/**
 * pod_target_each - the containers of pods, by --pod and --container
 *
 * Without pods those that are named by their ids. Of those that have run in a pod some have ended.
 *
 * Return: 0; -PYE_EUSAGE, -PYE_ETARGET with a sentence; -ENOMEM; what @take returned.
 */
int pod_target_each(const struct select_args *args, pod_take_fn take, void *ctx, struct err *e);

#endif
