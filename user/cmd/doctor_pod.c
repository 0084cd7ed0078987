// SPDX-License-Identifier: Apache-2.0
/* What a pod of Kubernetes can lack beside privileges, with the line of its manifest that mends it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/agent_opts.h"
#include "cmd/doctor_check.h"
#include "cmd/kube_args.h"

#define GROUP "pod"

static const char *variable(const char *name, const char *fallback)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : fallback;
}

/* The folder, or the first one above it that is there. */
static void first_that_is(char *path)
{
	char *slash;

	while (access(path, F_OK) && (slash = strrchr(path, '/')) && slash != path)
		*slash = '\0';
	if (access(path, F_OK))
		strcpy(path, "/");
}

/* Not access(): what the store makes is made with open(). */
static int try_write(const char *folder)
{
	auto_close int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	return fd < 0 && errno != EOPNOTSUPP && errno != EISDIR ? -errno : 0;
}

static void check_store(struct checkup *c, const char *store)
{
	struct check *check;
	char path[512];
	int err;

	store = store ? store : variable("PYEBPF_STORE", AGENT_STORE);
	if ((size_t)snprintf(path, sizeof(path), "%s", store) >= sizeof(path))
		return;
	first_that_is(path);
	err = try_write(path);
	if (!err) {
		checkup__add(c, GROUP, "store", CHECK_OK, "%s can be written", store);
		return;
	}
	check = checkup__add(c, GROUP, "store", CHECK_LIMITED,
			     "%s cannot be written (%s): the agent has nowhere to keep profiles",
			     store, err_str(err));
	check_fix(
		check,
		"in the pod: volumes: [{name: store, hostPath: {path: /var/lib/pyebpf, type: "
		"DirectoryOrCreate}}], where no hostPath is allowed {name: store, emptyDir: {sizeLimit: 1Gi}}; "
		"in the container: volumeMounts: [{name: store, mountPath: %s}]",
		store);
}

static void check_api(struct checkup *c)
{
	const char *token = variable("PYEBPF_KUBE_TOKEN", KUBE_ACCOUNT "/token");
	struct check *check;

	if (*variable("PYEBPF_NODE_NAME", "")) {
		checkup__add(c, GROUP, "node_name", CHECK_OK, "PYEBPF_NODE_NAME says it");
	} else {
		check = checkup__add(c, GROUP, "node_name", CHECK_NOTE,
				     "not known: the agent gives pods no names");
		check_fix(check, "in the container: env: [{name: PYEBPF_NODE_NAME, valueFrom: "
				 "{fieldRef: {fieldPath: spec.nodeName}}}]");
	}
	if (!access(token, R_OK)) {
		checkup__add(c, GROUP, "api_token", CHECK_OK, "%s can be read", token);
		return;
	}
	check = checkup__add(c, GROUP, "api_token", CHECK_NOTE,
			     "%s cannot be read: the API server cannot be asked about pods", token);
	check_fix(check,
		  "in the pod: serviceAccountName: pyebpf-agent, automountServiceAccountToken: "
		  "true");
}

/* Nothing at all of what a manifest asks for: it is no slip of the manifest's. */
static void check_admission(struct checkup *c)
{
	const uint64_t all = CAPS_BPF | CAPS_PROC;
	struct check *check;

	if (!where_pid_ns() || caps_missing(all) != all)
		return;
	check = checkup__add(
		c, GROUP, "admission", CHECK_LIMITED,
		"neither hostPID nor any capability is there: the pod is not the shipped one, or this "
		"cluster forbids what profiling a node takes, as GKE Autopilot and AWS Fargate do");
	check_fix(
		check,
		"where it is the namespace that forbids it, in the Namespace: metadata: {labels: "
		"{pod-security.kubernetes.io/enforce: privileged}}; else a cluster with nodes of its own");
}

void checkup__pod(struct checkup *c, const char *store)
{
	if (c->where != WHERE_KUBERNETES)
		return;
	check_admission(c);
	check_store(c, store);
	check_api(c);
}
