// SPDX-License-Identifier: Apache-2.0
#include "cmd/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/order.h"
#include "cmd/pod_target.h"
#include "proc/cgroup.h"

static int add(void *field, const char *arg, struct err *e)
{
	struct select_list *list = field;

	if (!*arg)
		return err_set(e, -PYE_EUSAGE, "it is empty");
	if (list->cnt == SELECT_ARGS_MAX)
		return err_set(e, -PYE_EUSAGE, "more than %d", SELECT_ARGS_MAX);
	list->items[list->cnt++] = arg;
	return 0;
}

#define AT(member) offsetof(struct select_args, member)

/* clang-format off */
#define CONTAINER_ROWS \
	{ 0, "container", "ID", OPT_CUSTOM, AT(containers), NULL, \
	  "the processes of a container, by the beginning of its id, or with --pod by its name; can be repeated", false, add }, \
	{ 0, "pod", "NS/NAME", OPT_CUSTOM, AT(pods), NULL, \
	  "the processes of a pod of Kubernetes on this node, or of the containers of it that --container names; can be repeated", false, add }

const struct opt_row select_rows[] = {
	{ 'a', "all", NULL, OPT_FLAG, AT(all), NULL,
	  "every Python process of the machine", false, NULL },
	{ 0, "comm", "NAME", OPT_CUSTOM, AT(comms), NULL,
	  "the processes of this name (comm of ps); can be repeated", false, add },
	{ 0, "cgroup", "PATH", OPT_CUSTOM, AT(cgroups), NULL,
	  "the processes in a cgroup (version 1 or 2) and below it; can be repeated", false, add },
	CONTAINER_ROWS,
	{ 0 },
};
const struct opt_row select_container_rows[] = {
	CONTAINER_ROWS,
	{ 0 },
};
/* clang-format on */

bool select_any(const struct select_args *args)
{
	return args->all || args->comms.cnt || args->cgroups.cnt || args->containers.cnt ||
	       args->pods.cnt;
}

int select_check(const struct select_args *args, bool pids, const struct opt_rest *rest,
		 const struct opt_command *command)
{
	if ((pids || select_any(args)) == (rest->command_cnt != 0))
		return options_usage(
			command,
			"want processes (-p PID, -a and the like) or a command (-- CMD), one of the two");
	if (args->all && (pids || args->comms.cnt || args->cgroups.cnt || args->containers.cnt ||
			  args->pods.cnt))
		return options_usage(command, "-a means all processes already");
	return 0;
}

struct found {
	pid_t *pids;
	size_t cnt;
};

static int add_processes(void *ctx, const char *id, struct err *e)
{
	struct found *found = ctx;
	auto_free pid_t *more = NULL;
	size_t cnt;
	pid_t *all;
	int err = container_pids(id, &more, &cnt, e);

	if (err)
		return err;
	all = reallocarray(found->pids, found->cnt + cnt, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all + found->cnt, more, cnt * sizeof(*all));
	found->pids = all;
	found->cnt += cnt;
	return 0;
}

int select_container_pids(const struct select_args *args, pid_t **out, size_t *cnt, struct err *e)
{
	struct found found = { NULL, 0 };
	int err = pod_target_each(args, add_processes, &found, e);
	size_t kept = 0;

	if (err) {
		free(found.pids);
		return err;
	}
	qsort(found.pids, found.cnt, sizeof(*found.pids), order_pid);
	for (size_t i = 0; i < found.cnt; i++)
		if (!kept || found.pids[kept - 1] != found.pids[i])
			found.pids[kept++] = found.pids[i];
	*out = found.pids;
	*cnt = kept;
	return 0;
}
