// SPDX-License-Identifier: Apache-2.0
#include "agent/pods.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"

#define META "__meta_kubernetes_"

static const char *value_of(const struct service *s, const char *name)
{
	return label_value(s->labels, s->label_cnt, name);
}

static bool find(const struct pods *p, const struct service *s, struct kube_pod *pod,
		 const char **container)
{
	return p->table && kube_table__find(p->table, value_of(s, SERVICE_CONTAINER),
					    value_of(s, SERVICE_POD_UID), pod, container);
}

static bool is_wanted(const struct pods *p, const struct kube_pod *pod)
{
	const char *enabled = kube_pair_value(pod->annotations, pod->annotation_cnt, PODS_ENABLED);

	if (p->opt_in ? strcmp(enabled, "true") != 0 : !strcmp(enabled, "false"))
		return false;
	return (!p->include_cnt || glob_any(p->include, p->include_cnt, pod->ns)) &&
	       !glob_any(p->exclude, p->exclude_cnt, pod->ns);
}

static void set(struct service *s, const char *name, const char *value)
{
	if (*value)
		service_set(s, name, value, strlen(value));
}

static void add_meta(struct service *s, const char *name, const char *value)
{
	char full[64];

	snprintf(full, sizeof(full), META "%s", name);
	if (*value)
		service_add(s, full, value, strlen(value));
}

/* "app.kubernetes.io/name" is pod_label_app_kubernetes_io_name to rules. */
static void add_pairs(struct service *s, const char *before, const struct kube_pair *pairs,
		      uint32_t cnt)
{
	char name[KUBE_TEXT_MAX + 64];

	for (uint32_t i = 0; i < cnt; i++) {
		snprintf(name, sizeof(name), META "%s%s", before, pairs[i].name);
		for (char *c = name; *c; c++)
			if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
			      (*c >= 'A' && *c <= 'Z')))
				*c = '_';
		service_add(s, name, pairs[i].value, strlen(pairs[i].value));
	}
}

static void keep_pairs(struct service *s, const struct pods_keep *keep, uint32_t keep_cnt,
		       const struct kube_pair *pairs, uint32_t cnt)
{
	for (uint32_t i = 0; i < keep_cnt; i++)
		set(s, keep[i].as, kube_pair_value(pairs, cnt, keep[i].name));
}

static void name_service(struct service *s, const struct kube_pod *pod,
			 const struct kube_workload *w, const char *container)
{
	const char *ways[] = {
		kube_pair_value(pod->annotations, pod->annotation_cnt, PODS_SERVICE),
		kube_pair_value(pod->labels, pod->label_cnt, "app.kubernetes.io/name"),
		w->name,
		container,
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (*ways[i]) {
			set(s, STORE_SERVICE, ways[i]);
			return;
		}
}

static void add_labels(const struct pods *p, struct service *s, const struct kube_pod *pod,
		       const char *container)
{
	const char *image = kube_pair_value(pod->images, pod->image_cnt, container), *tag;
	struct kube_workload w;
	size_t len;

	kube_workload_of(pod, &w);
	name_service(s, pod, &w, container);
	set(s, "namespace", pod->ns);
	set(s, "pod", pod->name);
	set(s, "container", container);
	set(s, "workload_kind", w.kind);
	set(s, "workload", w.name);
	tag = kube_image_tag(image, &len);
	if (len)
		service_set(s, "image_tag", tag, len);
	set(s, "version",
	    kube_pair_value(pod->labels, pod->label_cnt, "app.kubernetes.io/version"));
	keep_pairs(s, p->labels, p->label_cnt, pod->labels, pod->label_cnt);
	keep_pairs(s, p->annotations, p->annotation_cnt, pod->annotations, pod->annotation_cnt);

	add_meta(s, "namespace", pod->ns);
	add_meta(s, "pod_name", pod->name);
	add_meta(s, "pod_node_name", pod->node);
	add_meta(s, "pod_phase", pod->phase);
	add_meta(s, "pod_container_name", container);
	add_meta(s, "pod_container_id", value_of(s, SERVICE_CONTAINER));
	add_meta(s, "pod_container_image", image);
	add_meta(s, "pod_controller_kind", pod->owner.name);
	add_meta(s, "pod_controller_name", pod->owner.value);
	set(s, SERVICE_POD_UID, pod->uid);
	add_pairs(s, "pod_label_", pod->labels, pod->label_cnt);
	add_pairs(s, "pod_annotation_", pod->annotations, pod->annotation_cnt);
}

bool pods_label(const struct pods *p, struct service *s)
{
	const char *container;
	struct kube_pod pod;

	if (!find(p, s, &pod, &container))
		return !p->opt_in && !p->include_cnt &&
		       !(p->exclude_cnt && *value_of(s, SERVICE_POD_UID));
	if (!is_wanted(p, &pod))
		return false;
	add_labels(p, s, &pod, container);
	return true;
}

bool pods_is_unknown(const struct pods *p, const struct service *s)
{
	const char *container;
	struct kube_pod pod;

	return *value_of(s, SERVICE_POD_UID) && !find(p, s, &pod, &container);
}
