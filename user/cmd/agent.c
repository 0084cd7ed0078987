// SPDX-License-Identifier: Apache-2.0
/* Continuous profiling of this machine: the command line. What runs is in agent_run.c. */
#include <stdio.h>
#include <string.h>

#include "agent/control.h"
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

struct hearing {
	bool error; /* the answer begins so */
	bool heard, running;
};

static int hear(void *ctx, const char *text, size_t len)
{
	struct hearing *h = ctx;

	/* lines come whole: each is sent at once */
	if (!strncmp(text, "error: ", len < 7 ? len : 7))
		h->error = true;
	h->heard = true;
	fwrite(text, 1, len, h->error ? stderr : stdout);
	fflush(stdout);
	return 0;
}

/* The words are the request: status, or burst with what it is to have. */
static int request_of(const struct agent_opts *o, const struct opt_rest *rest, char *out,
		      size_t size, struct err *e)
{
	struct request parsed;
	size_t at = 0;

	for (int i = 0; i < rest->operand_cnt && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s\n", rest->operands[i]);
	if (at < size && o->json)
		at += (size_t)snprintf(out + at, size - at, "format=json\n");
	if (at + 2 >= size)
		return err_set(e, -PYE_EUSAGE, "the request is too long");
	strcpy(out + at, "\n");
	return request_parse(out, &parsed, e);
}

static int talk(const struct agent_opts *o, const struct opt_rest *rest)
{
	const char *path = o->socket ? o->socket : AGENT_SOCKET;
	struct hearing hearing = { 0 };
	char request[REQUEST_BYTES];
	struct err e = { 0 };
	int err = request_of(o, rest, request, sizeof(request), &e);

	if (err == -PYE_EUSAGE)
		return err_exit_code(options_usage(&agent_command, "%s", e.what));
	err = err ? err : control_ask(path, request, hear, &hearing, &e);
	if (!err && !hearing.heard)
		err = err_set(&e, -PYE_ETARGET, "the agent did not answer");
	if (err)
		return cmd_fail(agent_command.name, err, &e);
	return hearing.error ? 1 : 0;
}

/* With one that runs; what is not said there is not needed for it, but for the socket. */
static bool talks(const struct agent_opts *given, const struct opt_rest *rest)
{
	return !given->check_config && rest->operand_cnt && strcmp(rest->operands[0], "purge") != 0;
}

static int purge(const struct agent_opts *o, const struct opt_rest *rest)
{
	bool wait = rest->operand_cnt == 2 && !strcmp(rest->operands[1], "wait");
	struct err e = { 0 };
	int err;

	if (rest->operand_cnt > 1 && !wait)
		return err_exit_code(options_usage(&agent_command, "purge takes nothing, or wait"));
	err = agent_purge(o, wait, &e);
	return err ? cmd_fail(agent_command.name, err, &e) : 0;
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
	if (rest.command_cnt)
		return err_exit_code(options_usage(&agent_command, "takes no command"));
	settings = agent_settings_load(argc, argv, &given, &err, &e);
	if (!settings && talks(&given, &rest)) {
		log_warn("%s", e.what);
		return talk(&given, &rest); /* the agent runs, with the settings that it had */
	}
	if (!settings)
		return cmd_fail(agent_command.name, err, &e);
	if (given.check_config)
		return say_good(&given);
	if (rest.operand_cnt && !strcmp(rest.operands[0], "purge"))
		return purge(&settings->opts, &rest);
	if (rest.operand_cnt)
		return talk(&settings->opts, &rest);
	log_set_level(settings->opts.verbose ? LOG_DEBUG
		      : settings->opts.quiet ? LOG_WARN
					     : LOG_INFO);
	err = agent_run(&start, take_ptr(settings), &e);
	return err ? cmd_fail(agent_command.name, err, &e) : 0;
}
