/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options from tables. A row says everything about an option; parsing and --help read
 * the same rows. A group of rows is shared by commands: it fills a struct of its own, which a
 * command embeds in the struct of its options.
 */
#ifndef PYEBPF_CMD_OPTIONS_H
#define PYEBPF_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/optvalue.h"

enum opt_type {
	OPT_FLAG, /* bool: true when given */
	OPT_STRING, /* const char *: borrowed from argv */
	OPT_UNSIGNED, /* uint64_t: a count; k, M, G are powers of 1000 */
	OPT_SIZE, /* uint64_t: bytes; K, M, G are powers of 1024 */
	OPT_DURATION, /* uint64_t: ns; 30, 30s, 5m, 2h, 250ms, 1.5s */
	OPT_LIMIT, /* as OPT_UNSIGNED, but not 0, which stands for no limit given */
	OPT_PERIOD, /* as OPT_DURATION, likewise */
	OPT_CUSTOM, /* parse() gets a pointer to the field; for what is repeated or checked */
};

/**
 * struct opt_row - one option
 * @letter:   0: none
 * @name:     long name, without the dashes
 * @arg:      name of the argument in --help; NULL for OPT_FLAG, and for OPT_CUSTOM without one
 * @offset:   of the field in the group's struct
 * @fallback: the default, parsed as if it had been given; NULL: the field stays as it is
 * @help:     one or more lines; the default is appended to it
 * @hidden:   not in --help (an alias)
 */
struct opt_row {
	char letter;
	const char *name;
	const char *arg;
	enum opt_type type;
	size_t offset;
	const char *fallback;
	const char *help;
	bool hidden;
	int (*parse)(void *field, const char *arg, struct err *e);
};

/* @title: NULL goes on under the one before. @rows end with one that has no name. @offset: of the group's struct in that of the command. */
struct opt_group {
	const char *title;
	const struct opt_row *rows;
	size_t offset;
};

/**
 * struct opt_command - what a command takes
 * @name:     "convert"
 * @usage:    one line per form, without "pyebpf": "convert IN -o OUT [options]"
 * @about:    what it does; wrapped by --help
 * @groups:   end with one that has no rows; --help itself is added
 * @examples: printed as it is
 */
struct opt_command {
	const char *name;
	const char *usage;
	const char *about;
	const struct opt_group *groups;
	const char *examples;
};

/* What every command takes beside its own: --color. Like a group's rows; they set no field. */
extern const struct opt_row options_common[];

/* What is left after the options; borrowed from argv. */
struct opt_rest {
	char **operands;
	int operand_cnt;
	char **command; /* after "--", NULL when there was none */
	int command_cnt;
};

enum {
	OPTIONS_DONE = 1
};

/**
 * options_parse - fill a command's options
 * @argc, @argv: from the command's name on; operands are moved behind the options
 * @opts:        the command's struct, initialised by the caller
 *
 * Return: 0; OPTIONS_DONE after --help, which is then on stdout; -PYE_EUSAGE after what is wrong
 * was said on stderr, with the way to --help.
 */
int options_parse(const struct opt_command *cmd, int argc, char **argv, void *opts,
		  struct opt_rest *rest);

/* options_defaults - what every option has when it is not given. 0, -ENOMEM or -PYE_EUSAGE, said. */
int options_defaults(const struct opt_command *cmd, void *opts);

/* options_over - options_parse() over what @opts holds already; the command line has passed that before. */
int options_over(const struct opt_command *cmd, int argc, char **argv, void *opts,
		 struct opt_rest *rest);

/* options_set - one option by its row, as if it had been given. @arg: "true" or "false" for an OPT_FLAG. 0, -ENOMEM,
 * or -PYE_EUSAGE with a sentence in @e. */
int options_set(const struct opt_group *group, const struct opt_row *row, void *opts,
		const char *arg, struct err *e);

/* options_usage - say what is wrong with the operands, as options_parse() does. -PYE_EUSAGE. */
int options_usage(const struct opt_command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* options_help - print the help of a command. */
void options_help(const struct opt_command *cmd);

#endif
