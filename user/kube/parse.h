/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API answers, in pieces as they come: a list of pods, one pod, or a watch, which is one event after the other. Nothing is
 * kept but what is told of the pod at hand, in bounds, whatever is sent.
 */
#ifndef PYEBPF_KUBE_PARSE_H
#define PYEBPF_KUBE_PARSE_H

#include "kube/pod.h"

#include "base/err.h"

enum kube_answer {
	KUBE_LIST, /* {"items": [pod, ...], "metadata": {"resourceVersion": ...}} */
	KUBE_WATCH, /* {"type": "ADDED", "object": pod} {"type": ...} ... */
	KUBE_ONE /* a pod */
};

#define KUBE_VERSION_MAX 64

/* What is told. Return of the functions: 0, or a negative number, which ends the answer. */
struct kube_listener {
	void *ctx;
	int (*pod)(void *ctx, const struct kube_bytes *pod);
	int (*gone)(void *ctx, const struct kube_bytes *pod); /* its last state */
};

struct kube_parse;

/**
 * kube_parse__new - for one answer
 * @listener: copied
 *
 * Return: 0 or -ENOMEM.
 */
int kube_parse__new(struct kube_parse **out, enum kube_answer answer,
		    const struct kube_listener *listener, struct err *e);
void kube_parse__free(struct kube_parse *p); /* NULL is fine */

/* kube_parse__put - the next bytes. 0; -PYE_EFORMAT with a sentence; -ESTALE: the version that was asked from is too old, and all
 * has to be listed again; what the listener said. */
int kube_parse__put(struct kube_parse *p, const void *data, size_t len);

/* kube_parse__end - the answer is whole: of a list, and of a pod. The same results. */
int kube_parse__end(struct kube_parse *p);

/* kube_parse__version - the newest resource version so far, for the next watch; "": none. */
const char *kube_parse__version(const struct kube_parse *p);

/* kube_parse__reason - of an answer that is a Status: what it says, "" if it is none. Not escaped. */
const char *kube_parse__reason(const struct kube_parse *p);

#endif
