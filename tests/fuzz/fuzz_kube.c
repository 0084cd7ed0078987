// SPDX-License-Identifier: Apache-2.0
/* The first byte says which answer of the API server the rest is, and how it is cut into pieces; or that it is what the process that asks it
 * has sent. */
#include "fuzz.h"
#include "kube/parse.h"
#include "kube/table.h"

static void check_pod(const struct kube_pod *pod)
{
	struct kube_workload w;
	size_t len;

	demand(*pod->ns && *pod->name && *pod->uid);
	demand(pod->label_cnt <= KUBE_PAIRS_MAX && pod->annotation_cnt <= KUBE_PAIRS_MAX);
	demand(pod->container_cnt <= KUBE_CONTAINERS_MAX && pod->image_cnt <= KUBE_CONTAINERS_MAX);
	for (uint32_t i = 0; i < pod->container_cnt; i++)
		demand(*pod->containers[i].value &&
		       strlen(pod->containers[i].value) <= KUBE_ID_MAX);
	for (uint32_t i = 0; i < pod->image_cnt; i++) {
		const char *image = pod->images[i].value, *tag = kube_image_tag(image, &len);

		demand(tag >= image && tag + len <= image + strlen(image));
	}
	kube_workload_of(pod, &w);
	demand(*w.kind && strlen(w.name) <= KUBE_TEXT_MAX);
}

/* What is told fits, and can be read again by whoever it is told. */
static int take(void *ctx, const struct kube_bytes *bytes, bool gone)
{
	struct kube_table *t = ctx;
	const char *container;
	struct kube_pod pod;

	demand(bytes->len <= sizeof(bytes->at));
	if (kube_pod_read(bytes->at, bytes->len, &pod)) {
		demand(kube_table__put(t, bytes->at, bytes->len, gone, 1));
		return 0;
	}
	check_pod(&pod);
	if (kube_table__put(t, bytes->at, bytes->len, gone, 1))
		return 0;
	demand(kube_table__find(t, "", pod.uid, &pod, &container));
	if (pod.container_cnt)
		demand(kube_table__find(t, pod.containers[0].value, "", &pod, &container));
	return 0;
}

static int on_pod(void *ctx, const struct kube_bytes *bytes)
{
	return take(ctx, bytes, false);
}

static int on_gone(void *ctx, const struct kube_bytes *bytes)
{
	return take(ctx, bytes, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int how = size ? data[0] : 0;
	struct kube_parse *p = NULL;
	struct kube_table *t = NULL;
	struct err e = { 0 };
	struct kube_pod pod;
	size_t piece = (how >> 2) + 1;
	int err = 0;

	if (!size)
		return 0;
	data++;
	size--;
	if ((how & 3) == 3) {
		if (!kube_pod_read((const char *)data, size, &pod))
			check_pod(&pod);
		return 0;
	}
	demand(!kube_table__new(&t));
	demand(!kube_parse__new(&p, (enum kube_answer)(how & 3),
				&(struct kube_listener){ t, on_pod, on_gone }, &e));
	for (size_t at = 0; at < size && !err; at += piece)
		err = kube_parse__put(p, data + at, size - at < piece ? size - at : piece);
	if (!err)
		kube_parse__end(p);
	demand(strlen(kube_parse__version(p)) < KUBE_VERSION_MAX);
	kube_parse__free(p);
	kube_table__free(t);
	return 0;
}
