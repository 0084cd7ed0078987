// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "kube"
#include "cmd/pod_target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/kube_args.h"
#include "cmd/select.h"
#include "kube/pod.h"
#include "kube/watch.h"

#define LINKS	 "/var/log/containers"
#define LINK_END ".log"
#define URL_MAX	 512

struct pod_target {
	char ids[KUBE_CONTAINERS_MAX][KUBE_ID_MAX + 1];
	uint32_t cnt;
	char node[KUBE_TEXT_MAX + 1]; /* that it runs on; "": not known */
};

struct wanted {
	char ns[KUBE_TEXT_MAX + 1];
	const char *name;
	const struct select_list *containers;
	char shown[4 * KUBE_TEXT_MAX];
};

static bool wants(const struct wanted *w, const char *container, size_t len)
{
	for (size_t i = 0; i < w->containers->cnt; i++)
		if (strlen(w->containers->items[i]) == len &&
		    !memcmp(w->containers->items[i], container, len))
			return true;
	return !w->containers->cnt;
}

static void add_id(struct pod_target *out, const char *id, size_t len)
{
	if (!len || len > KUBE_ID_MAX || out->cnt == KUBE_CONTAINERS_MAX)
		return;
	memcpy(out->ids[out->cnt], id, len);
	out->ids[out->cnt++][len] = '\0';
}

static int none_of_these(const struct wanted *w, const struct kube_pod *pod, struct err *e)
{
	char shown[4 * KUBE_TEXT_MAX];
	size_t at = 0;

	if (!w->containers->cnt || !pod->image_cnt) {
		err_set(e, 0, "no container of pod %s has begun", w->shown);
		err_hint(e, "kubectl describe pod says what it waits for");
		return -PYE_ETARGET;
	}
	shown[0] = '\0';
	for (uint32_t i = 0; i < pod->image_cnt && at + 64 < sizeof(shown); i++)
		at += (size_t)snprintf(shown + at, sizeof(shown) - at, "%s%.60s", i ? ", " : "",
				       pod->images[i].name);
	err_set(e, 0, "pod %s has no such container that has begun", w->shown);
	err_hint(e, "it has %s", shown);
	return -PYE_ETARGET;
}

static int by_api(const struct kube_opts *opts, const struct wanted *w, struct pod_target *out,
		  struct err *e)
{
	struct kube_bytes bytes;
	struct kube_pod pod;
	int err = kube_ask(opts, w->ns, w->name, &bytes, e);

	if (err)
		return err;
	if (kube_pod_read(bytes.at, bytes.len, &pod))
		return err_set(e, -PYE_ETARGET, "what the API server says of pod %s makes no sense",
			       w->shown);
	snprintf(out->node, sizeof(out->node), "%s", pod.node);
	for (uint32_t i = 0; i < pod.container_cnt; i++)
		if (wants(w, pod.containers[i].name, strlen(pod.containers[i].name)))
			add_id(out, pod.containers[i].value, strlen(pod.containers[i].value));
	return out->cnt ? 0 : none_of_these(w, &pod, e);
}

/* "NAME_NAMESPACE_CONTAINER-ID.log"; none of the names has a "_" in it. */
static void take_link(const struct wanted *w, const char *link, struct pod_target *out)
{
	size_t len = strlen(link), end = strlen(LINK_END), n = strlen(w->name);
	const char *at = link, *dash;

	if (len <= end || strcmp(link + len - end, LINK_END) != 0)
		return;
	if (strncmp(at, w->name, n) != 0 || at[n] != '_')
		return;
	at += n + 1;
	n = strlen(w->ns);
	if (strncmp(at, w->ns, n) != 0 || at[n] != '_')
		return;
	at += n + 1;
	dash = strrchr(at, '-');
	if (dash && wants(w, at, (size_t)(dash - at)))
		add_id(out, dash + 1, (size_t)(link + len - end - dash - 1));
}

static void by_links(const struct wanted *w, struct pod_target *out)
{
	DIR *dir = opendir(LINKS);

	for (const struct dirent *d; dir && (d = readdir(dir));)
		take_link(w, d->d_name, out);
	if (dir)
		closedir(dir);
}

static int read_name(const char *pod, struct wanted *w, struct err *e)
{
	const char *slash = strchr(pod, '/');
	size_t len = slash ? (size_t)(slash - pod) : 0;

	w->name = slash ? slash + 1 : pod;
	text_escape(w->shown, sizeof(w->shown), pod, strlen(pod));
	if ((slash && !len) || len >= sizeof(w->ns) || !*w->name || strchr(w->name, '/') ||
	    strlen(w->name) > KUBE_TEXT_MAX)
		return err_set(e, -PYE_EUSAGE, "--pod: want NAMESPACE/NAME, not %.200s", w->shown);
	snprintf(w->ns, sizeof(w->ns), "%.*s", (int)len, pod);
	if (!slash)
		strcpy(w->ns, "default");
	return 0;
}

/* @pod: "namespace/name", or a name in the namespace "default". @containers: by name; none: all of them. */
static int find(const char *pod, const struct select_list *containers, struct pod_target *out,
		struct err *e)
{
	const struct kube_args args = { .api = secure_getenv("PYEBPF_KUBE_API"),
					.ca = secure_getenv("PYEBPF_KUBE_CA"),
					.token = secure_getenv("PYEBPF_KUBE_TOKEN") };
	struct wanted w = { .containers = containers };
	struct kube_opts opts;
	char url[URL_MAX];
	int err = read_name(pod, &w, e);

	out->cnt = 0;
	out->node[0] = '\0';
	if (err)
		return err;
	if (!kube_where(&args, NULL, url, sizeof(url), &opts)) {
		by_links(&w, out);
		if (out->cnt)
			return 0;
		err_set(e, 0, "no API server is known, and " LINKS " has no container of pod %s",
			w.shown);
		err_hint(e, "in a pod the API server is known; else PYEBPF_KUBE_API=https://..., "
			    "PYEBPF_KUBE_CA and PYEBPF_KUBE_TOKEN (files) say it");
		return -PYE_ETARGET;
	}
	err = by_api(&opts, &w, out, e);
	if (err != -PYE_ETARGET)
		return err;
	by_links(&w, out);
	if (!out->cnt)
		return err;
	log_warn("%s; the containers are those in " LINKS, e->what);
	return 0;
}

static int each_of_pod(const char *pod, const struct select_list *containers, pod_take_fn take,
		       void *ctx, struct err *e)
{
	struct pod_target target;
	char shown[512];
	int err = find(pod, containers, &target, e), found = 0;

	for (uint32_t i = 0; !err && i < target.cnt; i++) {
		err = take(ctx, target.ids[i], e);
		found += !err;
		err = err == -PYE_ETARGET ? 0 : err;
	}
	if (err || found)
		return err;
	text_escape(shown, sizeof(shown), pod, strlen(pod));
	err_set(e, 0, "no process of pod %s is seen here%s%s", shown,
		target.node[0] ? "; it is on node " : "", target.node);
	err_hint(e, "pyebpf has to run on that node, in a pod with hostPID: true");
	return -PYE_ETARGET;
}

int pod_target_each(const struct select_args *args, pod_take_fn take, void *ctx, struct err *e)
{
	int err = 0;

	for (size_t i = 0; i < args->pods.cnt && !err; i++)
		err = each_of_pod(args->pods.items[i], &args->containers, take, ctx, e);
	for (size_t i = 0; i < args->containers.cnt && !args->pods.cnt && !err; i++)
		err = take(ctx, args->containers.items[i], e);
	return err;
}
