// SPDX-License-Identifier: Apache-2.0
/* The agent on a node of Kubernetes: the names of its pods, and what it says of them. */
#define LOG_DOMAIN "agent"
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent_priv.h"
#include "export/json.h"
#include "kube/watch.h"

#define SECOND	  1000000000ull
#define URL_MAX	  512
#define SETTLE_NS (SECOND / 2) /* the longest that a window waits for a pod's name */

static const char node_hint[] =
	"in the container: env: [{name: PYEBPF_NODE_NAME, valueFrom: {fieldRef: {fieldPath: "
	"spec.nodeName}}}]";

int agent_kube_start(struct agent *a, struct err *e)
{
	const struct agent_opts *o = a->opts;
	bool asked = !strcmp(o->kubernetes, "on"), has_node = o->node_name && *o->node_name;
	struct kube_opts opts;
	char url[URL_MAX];

	if (!strcmp(o->kubernetes, "off"))
		return 0;
	if (!kube_where(&o->kube, o->node_name, url, sizeof(url), &opts)) {
		if (!asked)
			return 0;
		err_set(e, 0, "no API server is known");
		err_hint(e, "--kube-api=https://...; in a pod KUBERNETES_SERVICE_HOST says it");
		return -PYE_EUSAGE;
	}
	if (has_node)
		return kube__start(&a->kube, &opts, e);
	if (!asked) {
		log_warn("the name of this node is not known, so pods have no names; %s",
			 node_hint);
		return 0;
	}
	err_set(e, 0, "the name of this node is not known");
	err_hint(e, "--node-name=NAME; %s", node_hint);
	return -PYE_EUSAGE;
}

void agent_kube_set(struct agent *a)
{
	const struct agent_opts *o = a->opts;

	a->pods = (struct pods){ .table = a->kube ? kube__table(a->kube) : NULL,
				 .opt_in = o->opt_in,
				 .include = o->include_ns.items,
				 .include_cnt = o->include_ns.cnt,
				 .exclude = o->exclude_ns.items,
				 .exclude_cnt = o->exclude_ns.cnt,
				 .labels = o->pod_labels.items,
				 .label_cnt = o->pod_labels.cnt,
				 .annotations = o->pod_annotations.items,
				 .annotation_cnt = o->pod_annotations.cnt };
}

void agent_kube_tick(struct agent *a, uint64_t now)
{
	if (a->kube)
		kube__turn(a->kube, now);
}

/* --- before a window is written --- */

static int count_unknown(void *ctx, pid_t pid, const struct service *service)
{
	struct agent *a = ctx;

	(void)pid;
	a->unknown_pods += pods_is_unknown(&a->pods, service);
	return 0;
}

static void count(struct agent *a)
{
	a->unknown_pods = 0;
	services__each(a->services, count_unknown, a);
}

void agent_kube_settle(struct agent *a)
{
	uint64_t end = now_ns() + SETTLE_NS;
	struct kube_health health;

	agent_kube_tick(a, now_ns());
	count(a);
	if (!a->kube)
		return;
	kube__health(a->kube, now_ns(), &health);
	/* a pod that has just begun: its name is on its way */
	for (uint64_t now = now_ns(); health.state.live && a->unknown_pods && now < end;
	     now = now_ns()) {
		struct pollfd p = { .fd = kube__fd(a->kube), .events = POLLIN };

		if (poll(&p, 1, (int)((end - now) / 1000000) + 1) <= 0)
			break;
		kube__turn(a->kube, now_ns());
		count(a);
	}
}

/* --- what is said of it --- */

void agent_kube_text(const struct agent *a, struct outbuf *b)
{
	char shown[4 * sizeof(((struct kube_state *)0)->error)];
	struct kube_health h;

	if (!a->kube)
		return;
	kube__health(a->kube, a->tick_ns, &h);
	outbuf__printf(b, "pods      %u, ", kube_table__cnt(kube__table(a->kube)));
	if (h.state.live)
		outbuf__puts(b, "as they are now");
	else if (h.synced)
		outbuf__printf(b, "as they were %.0f s ago", (double)h.age_ns / 1e9);
	else
		outbuf__puts(b, "not known so far");
	outbuf__printf(b,
		       "; %" PRIu64 " requests, %" PRIu64
		       " failed; %u processes in pods without a name\n",
		       h.state.requests, h.state.failures, a->unknown_pods);
	if (h.state.error[0])
		outbuf__printf(
			b, "          %s\n",
			text_escape(shown, sizeof(shown), h.state.error, strlen(h.state.error)));
}

void agent_kube_json(const struct agent *a, struct outbuf *b)
{
	struct kube_health h;

	if (!a->kube) {
		outbuf__puts(b, "null");
		return;
	}
	kube__health(a->kube, a->tick_ns, &h);
	outbuf__printf(
		b,
		"{\"pods\":%u,\"live\":%s,\"synced\":%s,\"age_seconds\":%.1f,\"requests\":%" PRIu64
		",\"failures\":%" PRIu64 ",\"lists\":%" PRIu64 ",\"events\":%" PRIu64
		",\"unknown_processes\":%u,\"error\":",
		kube_table__cnt(kube__table(a->kube)), h.state.live ? "true" : "false",
		h.synced ? "true" : "false", (double)h.age_ns / 1e9, h.state.requests,
		h.state.failures, h.state.lists, h.state.events, a->unknown_pods);
	json_str(b, h.state.error);
	outbuf__putc(b, '}');
}

static void put(struct outbuf *b, const char *name, const char *type, const char *help,
		double value)
{
	outbuf__printf(b,
		       "# HELP pyebpf_kube_%s %s\n# TYPE pyebpf_kube_%s %s\npyebpf_kube_%s %.0f\n",
		       name, help, name, type, name, value);
}

void agent_kube_metrics(const struct agent *a, struct outbuf *b)
{
	struct kube_health h;

	if (!a->kube)
		return;
	kube__health(a->kube, a->tick_ns, &h);
	put(b, "pods", "gauge", "pods of this node that are known",
	    kube_table__cnt(kube__table(a->kube)));
	put(b, "live", "gauge", "1: what happens to pods is told at once", h.state.live);
	put(b, "age_seconds", "gauge", "for how long pods have not been known to be up to date",
	    (double)h.age_ns / 1e9);
	put(b, "requests_total", "counter", "requests to the API server", (double)h.state.requests);
	put(b, "failures_total", "counter", "of them those that failed", (double)h.state.failures);
	put(b, "lists_total", "counter", "of them whole lists of pods", (double)h.state.lists);
	put(b, "events_total", "counter", "pods that were told of", (double)h.state.events);
	put(b, "refused_total", "counter", "of them those that were not taken", (double)h.refused);
	put(b, "unknown_processes", "gauge",
	    "processes in pods without a name, when the last window was written", a->unknown_pods);
}
