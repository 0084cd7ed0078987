// SPDX-License-Identifier: Apache-2.0
#include "kube/pod.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define PLANNED_DIGITS 8 /* minutes since 1970, from 1989 on and for 150 years */

bool kube_bytes_add(struct kube_bytes *b, enum kube_entry what, const char *first, size_t first_len,
		    const char *second, size_t second_len)
{
	char *at = b->at + b->len;

	if (first_len > KUBE_TEXT_MAX || second_len > KUBE_TEXT_MAX ||
	    first_len + second_len + 3 > sizeof(b->at) - b->len)
		return false;
	if (memchr(first, '\0', first_len) || memchr(second, '\0', second_len))
		return false;
	*at++ = (char)what;
	memcpy(at, first, first_len);
	at += first_len;
	*at++ = '\0';
	memcpy(at, second, second_len);
	at += second_len;
	*at++ = '\0';
	b->len = (size_t)(at - b->at);
	return true;
}

static void put_pair(struct kube_pair *pairs, uint32_t *cnt, uint32_t max,
		     const struct kube_pair *pair)
{
	if (*cnt < max)
		pairs[(*cnt)++] = *pair;
}

/* "containerd://0123..." is the id behind the slashes; of what looks like none nothing is kept. */
static void put_container(struct kube_pod *pod, const struct kube_pair *pair)
{
	const char *slashes = strstr(pair->value, "://");
	struct kube_pair made = { pair->name, slashes ? slashes + 3 : pair->value };
	size_t len = strlen(made.value);

	if (len && len <= KUBE_ID_MAX && strspn(made.value, "0123456789abcdef") == len)
		put_pair(pod->containers, &pod->container_cnt, KUBE_CONTAINERS_MAX, &made);
}

static bool take(struct kube_pod *pod, char what, const struct kube_pair *pair)
{
	switch (what) {
	case KUBE_NAMESPACE:
		pod->ns = pair->name;
		return true;
	case KUBE_NAME:
		pod->name = pair->name;
		return true;
	case KUBE_UID:
		pod->uid = pair->name;
		return true;
	case KUBE_NODE:
		pod->node = pair->name;
		return true;
	case KUBE_PHASE:
		pod->phase = pair->name;
		return true;
	case KUBE_OWNER:
		pod->owner = *pair;
		return true;
	case KUBE_LABEL:
		put_pair(pod->labels, &pod->label_cnt, KUBE_PAIRS_MAX, pair);
		return true;
	case KUBE_ANNOTATION:
		put_pair(pod->annotations, &pod->annotation_cnt, KUBE_PAIRS_MAX, pair);
		return true;
	case KUBE_CONTAINER:
		put_container(pod, pair);
		return true;
	case KUBE_IMAGE:
		put_pair(pod->images, &pod->image_cnt, KUBE_CONTAINERS_MAX, pair);
		return true;
	default:
		return false;
	}
}

int kube_pod_read(const char *bytes, size_t len, struct kube_pod *out)
{
	const char *end = bytes + len;

	*out = (struct kube_pod){
		.ns = "", .name = "", .uid = "", .node = "", .phase = "", .owner = { "", "" }
	};
	if (!len || end[-1])
		return -PYE_EFORMAT;
	while (bytes < end) {
		char what = *bytes++;
		struct kube_pair pair = { bytes, NULL };

		pair.value = memchr(bytes, '\0', (size_t)(end - bytes));
		if (!pair.value || ++pair.value == end)
			return -PYE_EFORMAT;
		bytes = pair.value + strlen(pair.value) + 1; /* the last byte is a NUL */
		if (strlen(pair.name) > KUBE_TEXT_MAX || strlen(pair.value) > KUBE_TEXT_MAX ||
		    !take(out, what, &pair))
			return -PYE_EFORMAT;
	}
	return *out->ns && *out->name && *out->uid ? 0 : -PYE_EFORMAT;
}

const char *kube_pair_value(const struct kube_pair *pairs, uint32_t cnt, const char *name)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (!strcmp(pairs[i].name, name))
			return pairs[i].value;
	return "";
}

/* @name without "-" and @end behind it; false: it does not end so. */
static bool strip_end(const char *name, const char *end, char *out, size_t size)
{
	size_t len = strlen(name), n = strlen(end);

	if (!n || len < n + 2 || name[len - n - 1] != '-' || strcmp(name + len - n, end) != 0)
		return false;
	snprintf(out, size, "%.*s", (int)(len - n - 1), name);
	return true;
}

static bool strip_planned(const char *name, char *out, size_t size)
{
	size_t len = strlen(name);

	return len > PLANNED_DIGITS &&
	       strspn(name + len - PLANNED_DIGITS, "0123456789") == PLANNED_DIGITS &&
	       strip_end(name, name + len - PLANNED_DIGITS, out, size);
}

void kube_workload_of(const struct kube_pod *pod, struct kube_workload *out)
{
	const char *kind = pod->owner.name, *name = pod->owner.value;
	const char *hash = kube_pair_value(pod->labels, pod->label_cnt, "pod-template-hash");
	const char *rollout =
		kube_pair_value(pod->labels, pod->label_cnt, "rollouts-pod-template-hash");

	out->kind = *kind ? kind : "Pod";
	if (!strcmp(kind, "ReplicaSet") && strip_end(name, rollout, out->name, sizeof(out->name))) {
		out->kind = "Rollout";
		return;
	}
	if (!strcmp(kind, "ReplicaSet") && strip_end(name, hash, out->name, sizeof(out->name))) {
		out->kind = "Deployment";
		return;
	}
	if (!strcmp(kind, "Job") && strip_planned(name, out->name, sizeof(out->name))) {
		out->kind = "CronJob";
		return;
	}
	if (!strcmp(kind, "Node")) {
		out->kind = "Pod";
		if (strip_end(pod->name, name, out->name, sizeof(out->name)))
			return;
	}
	snprintf(out->name, sizeof(out->name), "%s",
		 *kind && strcmp(kind, "Node") != 0 ? name : pod->name);
}

const char *kube_image_tag(const char *image, size_t *len)
{
	const char *digest = strchr(image, '@');
	const char *end = digest ? digest : image + strlen(image), *at = end;

	/* a colon before the last slash is a port's */
	while (at > image && at[-1] != ':' && at[-1] != '/')
		at--;
	*len = at > image && at[-1] == ':' ? (size_t)(end - at) : 0;
	return at;
}
