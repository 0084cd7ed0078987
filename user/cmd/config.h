/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a command from its table of options: what is on the command line goes before what the environment
 * says, and that before what a YAML file says. A row "max-age" is --max-age, PYEBPF_MAX_AGE and "max_age:". A row
 * that can be given several times takes a list in the file (or a map, as NAME=VALUE), and words with commas
 * between them in the environment. What is no single value is a section of the file with a reader of its own.
 */
#ifndef PYEBPF_CMD_CONFIG_H
#define PYEBPF_CMD_CONFIG_H

#include <stddef.h>

#include "base/yaml.h"
#include "cmd/options.h"

/**
 * struct config_section - a part of the file that options have no words for
 * @name: of the key; NULL ends a table
 * @read: into the command's options; nodes live as long as the file. 0, -ENOMEM, or -PYE_EUSAGE as
 *        yaml_refuse() leaves it
 */
struct config_section {
	const char *name;
	int (*read)(void *opts, const struct yaml_node *node, struct err *e);
};

struct config {
	const struct opt_command *command;
	const struct config_section *sections;
	int argc; /* as options_parse() left them */
	char **argv;
	size_t size; /* of the options */
	/* Of all settings: 0, or -PYE_EUSAGE with the option's @name and a sentence about its value. */
	int (*check)(const void *opts, const char **name, struct err *e);
};

/**
 * config_load - all settings anew
 * @path: of the file; NULL: none
 * @opts: zeroed
 * @file: texts in @opts are borrowed from it, from the environment and from argv
 *
 * Return: 0; -PYE_EUSAGE with a sentence that names the file and the line, or the variable; -ENOMEM.
 */
int config_load(const struct config *c, const char *path, void *opts, struct yaml **file,
		struct err *e);

#endif
