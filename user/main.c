// SPDX-License-Identifier: Apache-2.0
/* The command table and its dispatch. A sub-command is one file in cmd/ and one line here. */
#include <fcntl.h>
#ifdef PYEBPF_STATIC
#include <nss.h>
#endif
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/color.h"
#include "base/signals.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/completions.h"

#define STACK_MIN (256ull << 10)

static int cmd_completions(int argc, char **argv);
static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name;
	const char *alias;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{ "trace", "attach", cmd_trace, "record every call and return of running programs" },
	{ "record", NULL, cmd_record, "sample the stacks of running programs" },
	{ "agent", NULL, cmd_agent, "profile this machine all the time, into a store of profiles" },
	{ "fleet", NULL, cmd_fleet, "ask a store of profiles: flame graphs, tables, services" },
	{ "convert", NULL, cmd_convert,
	  "turn a capture into firefox, pprof, svg, html or another format" },
	{ "view", "load", cmd_view, "show a capture in a browser, without a network" },
	{ "merge", NULL, cmd_merge, "add up captures into one pprof, collapsed, svg or text file" },
	{ "diff", NULL, cmd_diff, "say what changed between two captures, and what is noise" },
	{ "stats", NULL, cmd_stats, "say what is in a capture, and where the time went" },
	{ "top", NULL, cmd_top, "a live table of where running programs spend their time" },
	{ "dump", NULL, cmd_dump, "print the stack of each thread of a process now" },
	{ "detach", NULL, cmd_detach, "take out what an inline engine that was killed has left" },
	{ "list", NULL, cmd_list, "show every Python process, and where probes would sit" },
	{ "doctor", NULL, cmd_doctor,
	  "try what is needed of this machine, and say what is missing" },
	{ "completions", NULL, cmd_completions,
	  "print what bash, zsh or fish need to complete commands and options" },
	{ "version", "--version", cmd_version, "print the version" },
	{ "help", "--help", cmd_help, "print this, or the help of a command" },
};

enum {
	COMMAND_CNT = sizeof(commands) / sizeof(*commands)
};

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMAND_CNT; i++) {
		if (!strcmp(name, commands[i].name) ||
		    (commands[i].alias && !strcmp(name, commands[i].alias)))
			return &commands[i];
	}
	return NULL;
}

static int unknown_command(const char *name)
{
	char shown[128];

	fprintf(stderr, "%spyebpf:%s no command is called %s\nTry 'pyebpf --help'.\n",
		color_begin(stderr, COLOR_BAD), color_end(stderr, COLOR_BAD),
		text_escape(shown, sizeof(shown), name, strlen(name)));
	return err_exit_code(-PYE_EUSAGE);
}

static void print_commands(FILE *f)
{
	fputs("Usage: pyebpf COMMAND [options]\n\n"
	      "Shows every call and return of running Python programs, from outside.\n\n"
	      "Commands:\n",
	      f);
	for (int i = 0; i < COMMAND_CNT; i++)
		fprintf(f, "  %-11s %s\n", commands[i].name, commands[i].about);
	fputs("\n'pyebpf COMMAND --help' has the options of a command.\n", f);
}

static int cmd_help(int argc, char **argv)
{
	char help[] = "--help";
	char *args[] = { argc > 1 ? argv[1] : NULL, help, NULL };
	const struct command *command;

	if (argc < 2) {
		print_commands(stdout);
		return 0;
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	return command->run == cmd_help ? cmd_help(1, argv) : command->run(2, args);
}

static int say_completions(FILE *f, int code)
{
	fputs("Usage: pyebpf completions bash|zsh|fish\n\n"
	      "Print a script for the shell, made of the same tables as this help. Packages install it.\n\n"
	      "Examples:\n"
	      "  source <(pyebpf completions bash)\n"
	      "  pyebpf completions zsh > ~/.zfunc/_pyebpf\n"
	      "  pyebpf completions fish > ~/.config/fish/completions/pyebpf.fish\n",
	      f);
	return code;
}

static int cmd_completions(int argc, char **argv)
{
	struct completions_command table[COMMAND_CNT + 1] = { 0 };

	for (int i = 0; i < COMMAND_CNT; i++) {
		const struct command *c = &commands[i];
		bool own = c->run == cmd_help || c->run == cmd_version || c->run == cmd_completions;

		table[i] = (struct completions_command){ c->name, c->about, own ? NULL : c->run };
	}
	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return say_completions(stdout, 0);
	if (argc != 2 || completions_print(argv[1], table))
		return say_completions(stderr, err_exit_code(-PYE_EUSAGE));
	return 0;
}

static int cmd_version(int argc, char **argv)
{
	(void)argc, (void)argv;
	puts("pyebpf " PYEBPF_VERSION);
	return 0;
}

/* A full disk or a closed pipe at the last moment is a failure too. */
static int finish(int code)
{
	if (fflush(stdout) || ferror(stdout))
		return code ? code : err_exit_code(-PYE_EOUTPUT);
	return code;
}

#ifdef PYEBPF_STATIC
/* Names of users are looked up in files: the modules of another glibc do not fit into a static program. */
static void look_up_names_in_files(void)
{
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
}
#else
static void look_up_names_in_files(void)
{
}
#endif

/* What we open must not become standard output or error, which messages and data are written to. Those stay closed: writing
 * to them fails, and a command that we start does not have them. */
static void keep_standard_files(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", O_CLOEXEC | (fd ? O_RDONLY : O_WRONLY));
}

/* With less a command would die of it in the middle of its work. */
static int check_stack(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_MIN)
		return 0;
	fprintf(stderr, "pyebpf: a stack of %llu kB is too small, it needs %llu: ulimit -s\n",
		(unsigned long long)limit.rlim_cur >> 10, STACK_MIN >> 10);
	return err_exit_code(-PYE_EUSAGE);
}

int main(int argc, char **argv)
{
	const struct command *command;
	int code = check_stack();

	if (code)
		return code;
	keep_standard_files();
	signals_begin();
	look_up_names_in_files();
	if (argc < 2) {
		print_commands(stderr);
		return err_exit_code(-PYE_EUSAGE);
	}
	command = find_command(!strcmp(argv[1], "-h")	? "help"
			       : !strcmp(argv[1], "-V") ? "version"
							: argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	return finish(command->run(argc - 1, argv + 1));
}
