// SPDX-License-Identifier: Apache-2.0
#include "cmd/select.h"

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
const struct opt_row select_rows[] = {
	{ 'a', "all", NULL, OPT_FLAG, AT(all), NULL,
	  "every Python process of the machine", false, NULL },
	{ 0, "comm", "NAME", OPT_CUSTOM, AT(comms), NULL,
	  "the processes of this name (comm of ps); can be repeated", false, add },
	{ 0, "cgroup", "PATH", OPT_CUSTOM, AT(cgroups), NULL,
	  "the processes in a cgroup (version 1 or 2) and below it; can be repeated", false, add },
	{ 0, "container", "ID", OPT_CUSTOM, AT(containers), NULL,
	  "the processes of a container, by the beginning of its id, or with --pod by its name; can be repeated", false, add },
	{ 0, "pod", "NS/NAME", OPT_CUSTOM, AT(pods), NULL,
	  "the processes of a pod of Kubernetes on this node, or of the containers of it that --container names; can be repeated", false, add },
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
