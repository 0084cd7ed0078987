/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a pod, in one run of bytes: entries of a letter and two texts, each with its NUL. So a pod goes from the
 * process that asks the API to the agent, and so the agent keeps it. Whoever reads one checks it again: the process that made
 * it has read what others wrote.
 */
#ifndef PYEBPF_KUBE_POD_H
#define PYEBPF_KUBE_POD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KUBE_POD_BYTES	    16384
#define KUBE_TEXT_MAX	    256 /* bytes of a text; a longer one is left out */
#define KUBE_PAIRS_MAX	    64
#define KUBE_CONTAINERS_MAX 32
#define KUBE_ID_MAX	    64 /* of a container's id */

enum kube_entry {
	KUBE_NAMESPACE = 'N',
	KUBE_NAME = 'P',
	KUBE_UID = 'U',
	KUBE_NODE = 'H',
	KUBE_PHASE = 'S',
	KUBE_OWNER = 'O', /* kind, name; of the owner that is the controller */
	KUBE_LABEL = 'L', /* name, value */
	KUBE_ANNOTATION = 'A',
	KUBE_CONTAINER = 'C', /* name, id as "containerd://..." */
	KUBE_IMAGE = 'I' /* name of a container, image as the pod's author wrote it */
};

struct kube_pair {
	const char *name, *value;
};

/* Texts are borrowed from the bytes that it was read from. "": not known. */
struct kube_pod {
	const char *ns, *name, *uid, *node, *phase;
	struct kube_pair owner;
	struct kube_pair labels[KUBE_PAIRS_MAX], annotations[KUBE_PAIRS_MAX];
	struct kube_pair containers
		[KUBE_CONTAINERS_MAX]; /* name, id without its engine; one can have had several */
	struct kube_pair images[KUBE_CONTAINERS_MAX];
	uint32_t label_cnt, annotation_cnt, container_cnt, image_cnt;
};

/* A pod that is being written down. */
struct kube_bytes {
	char at[KUBE_POD_BYTES];
	size_t len;
};

/* kube_bytes_add - one more entry; false: it has no room, or is too long, and is left out. Texts need no NUL. */
bool kube_bytes_add(struct kube_bytes *b, enum kube_entry what, const char *first, size_t first_len,
		    const char *second, size_t second_len);

/* kube_pod_read - what the bytes say. 0; -PYE_EFORMAT: they are no pod with a namespace, a name and a uid. */
int kube_pod_read(const char *bytes, size_t len, struct kube_pod *out);

/* kube_pair_value - of a name; "" when it is not there. */
const char *kube_pair_value(const struct kube_pair *pairs, uint32_t cnt, const char *name);

/* What runs a pod, as people know it. Room for the longest names. */
struct kube_workload {
	const char
		*kind; /* "Deployment", "CronJob", "Pod" when nothing does; of the pod, or static */
	char name[KUBE_TEXT_MAX + 1];
};

/**
 * kube_workload_of - from the owner that the API names
 *
 * A ReplicaSet whose name ends in the pod's template hash is its Deployment's (with the hash of Argo's, its Rollout's). A Job
 * whose name ends in the minute for which it was planned, 8 digits, is its CronJob's. A pod of the node's own files is a Pod,
 * without the name of the node behind its own.
 */
void kube_workload_of(const struct kube_pod *pod, struct kube_workload *out);

/**
 * kube_image_tag - of "registry:5000/team/app:1.2@sha256:...": "1.2"
 * @len: of it; 0: it has none
 *
 * Return: borrowed from @image.
 */
const char *kube_image_tag(const char *image, size_t *len);

#endif
