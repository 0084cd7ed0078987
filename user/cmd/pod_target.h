/* SPDX-License-Identifier: Apache-2.0 */
/* A pod as a target: its name becomes the ids of its containers. The API server is asked where one is known; else, and when it does not answer, the
 * links that kubelet keeps in /var/log/containers say them. */
#ifndef PYEBPF_CMD_POD_TARGET_H
#define PYEBPF_CMD_POD_TARGET_H

#include <stdint.h>

#include "base/err.h"
#include "kube/pod.h"

struct select_list;

struct pod_target {
	char ids[KUBE_CONTAINERS_MAX][KUBE_ID_MAX + 1];
	uint32_t cnt;
	char node[KUBE_TEXT_MAX + 1]; /* that it runs on; "": not known */
};

/**
 * pod_target_find - the containers of a pod
 * @pod:        "namespace/name", or a name in the namespace "default"
 * @containers: by name; none: all of them
 *
 * Return: 0; -PYE_EUSAGE, -PYE_ETARGET with a sentence; -ENOMEM.
 */
int pod_target_find(const char *pod, const struct select_list *containers, struct pod_target *out,
		    struct err *e);

#endif
