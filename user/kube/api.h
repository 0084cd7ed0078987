/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to the API server, in a process that has no privileges (watch.h starts it). What it learns it sends through a socket that keeps
 * the bounds of messages: a letter, and what belongs to it.
 */
#ifndef PYEBPF_KUBE_API_H
#define PYEBPF_KUBE_API_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/pod.h"

/* Where the API is. Borrowed. */
struct kube_opts {
	const char *url; /* "https://10.96.0.1:443" */
	const char *ca_file; /* whom to trust */
	const char *token_file; /* read for each request: it is replaced from time to time */
	const char *node; /* whose pods */
};

enum kube_message {
	KUBE_MSG_BEGIN = 'b', /* a list of all pods follows */
	KUBE_MSG_POD = 'p', /* struct kube_bytes, as much of it as there is */
	KUBE_MSG_GONE = 'g', /* the same, deleted */
	KUBE_MSG_END = 'e', /* of the list: pods that were not in it are gone */
	KUBE_MSG_STATE = 's' /* struct kube_state */
};

#define KUBE_MSG_BYTES (KUBE_POD_BYTES + 1)

/* How it goes. Counts are since the process began. */
struct kube_state {
	bool live; /* what happens is told at once; else it cannot be reached */
	uint64_t requests, failures, lists, events;
	char error[400], hint[200]; /* of the last failure; "" when there is none. Any bytes */
};

/* kube_watch_pods - list and watch the pods of a node, for ever. Returns when nobody listens any more, or for want of memory. */
void kube_watch_pods(const struct kube_opts *o, int fd);

/* kube_ask_pod - ask for one pod: messages are its own, if it is there, and a last state. */
void kube_ask_pod(const struct kube_opts *o, const char *ns, const char *name, int fd);

#endif
