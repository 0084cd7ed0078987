// SPDX-License-Identifier: Apache-2.0
/* Continuous profiling of this machine: the command line. What runs is in agent_run.c. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent_opts.h"
#include "cmd/agent_run.h"
#include "cmd/cmd.h"
#include "cmd/run.h"

static int say_good(const struct agent_opts *given)
{
	const char *path = agent_settings_file(given);
	char shown[512];

	printf("%s: the settings are good\n",
	       path ? text_escape(shown, sizeof(shown), path, strlen(path)) : "no file");
	return 0;
}

int cmd_agent(int argc, char **argv)
{
	auto_fn(agent_settings_freep) struct agent_settings *settings = NULL;
	struct agent_opts given = { 0 };
	struct agent_start start = { argc, argv, &given, NULL };
	char arguments[1024];
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	run_arguments(argc, argv, arguments, sizeof(arguments));
	start.arguments = arguments;
	err = options_parse(&agent_command, argc, argv, &given, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.operand_cnt || rest.command_cnt)
		return err_exit_code(options_usage(&agent_command, "takes no operands"));
	settings = agent_settings_load(argc, argv, &given, &err, &e);
	if (!settings)
		return cmd_fail(agent_command.name, err, &e);
	if (given.check_config)
		return say_good(&given);
	log_set_level(settings->opts.verbose ? LOG_DEBUG
		      : settings->opts.quiet ? LOG_WARN
					     : LOG_INFO);
	err = agent_run(&start, take_ptr(settings), &e);
	return err ? cmd_fail(agent_command.name, err, &e) : 0;
}
