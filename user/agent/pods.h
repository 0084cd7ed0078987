/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process is called by Kubernetes. Profiles get namespace, pod, container, workload_kind, workload, image_tag, version (of the label
 * app.kubernetes.io/version) and what the settings ask for. service_name becomes, the first of these that is there: the annotation
 * pyebpf.io/service-name, the label app.kubernetes.io/name, the workload, the container.
 *
 * Rules see, besides: __meta_kubernetes_namespace, __meta_kubernetes_pod_name, _pod_uid, _pod_node_name, _pod_phase, _pod_container_name,
 * _pod_container_id, _pod_container_image, _pod_controller_kind, _pod_controller_name, _pod_label_NAME and _pod_annotation_NAME, in
 * which _ stands for what no label can have.
 */
#ifndef PYEBPF_AGENT_PODS_H
#define PYEBPF_AGENT_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/service.h"
#include "kube/table.h"

#define PODS_ENABLED "pyebpf.io/enabled" /* annotation: "false" keeps a pod out, "true" in */
#define PODS_SERVICE "pyebpf.io/service-name"

/* A label or an annotation that becomes a label of profiles. */
struct pods_keep {
	const char *name; /* of Kubernetes */
	const char *as; /* of the profile */
};

/* Members may be NULL or empty. All is borrowed. */
struct pods {
	const struct kube_table *table;
	bool opt_in; /* only pods that are annotated so */
	const char *const *include, *const *exclude; /* namespaces; * and ? stand for others */
	uint32_t include_cnt, exclude_cnt;
	const struct pods_keep *labels, *annotations;
	uint32_t label_cnt, annotation_cnt;
};

/**
 * pods_label - add to the labels of a process those of its pod
 *
 * Return: false: no profile of it is wanted. Where pods are chosen, by their namespace or as they ask for it, what is in none, or in one that
 * is not known, is not.
 */
bool pods_label(const struct pods *p, struct service *s);

/* pods_is_unknown - is it in a pod that nothing is known of so far? */
bool pods_is_unknown(const struct pods *p, const struct service *s);

#endif
