/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions for shells, made of the tables that parsing and --help read. A command's table is its own,
 * so each command prints its part: options_parse() does when it is asked to (COMPLETIONS_ASK).
 */
#ifndef PYEBPF_CMD_COMPLETIONS_H
#define PYEBPF_CMD_COMPLETIONS_H

#include "cmd/options.h"

#define COMPLETIONS_ASK "--print-completions" /* and a shell: the only arguments */

/* What a main table says of a command. */
struct completions_command {
	const char *name;
	const char *about;
	int (*run)(int argc, char **argv); /* NULL: it has no options */
};

/**
 * completions_print - a whole script on stdout
 * @shell:    "bash", "zsh" or "fish"
 * @commands: end with one without a name
 *
 * Return: 0, or -PYE_EUSAGE for another shell.
 */
int completions_print(const char *shell, const struct completions_command *commands);

/* completions_of_command - the part of one command; for options_parse(). */
void completions_of_command(const char *shell, const struct opt_command *cmd);

#endif
