// SPDX-License-Identifier: Apache-2.0
#include "cmd/completions.h"

#include <stdio.h>
#include <string.h>

#include "export/export.h"

/* What can stand behind an option, or as an operand. */
enum what {
	WHAT_ANYTHING,
	WHAT_FILE,
	WHAT_PID,
	WHAT_FORMAT
};

static bool is_format(const struct opt_row *row)
{
	return !strcmp(row->name, "format");
}

static enum what what_of(const struct opt_row *row)
{
	if (is_format(row))
		return WHAT_FORMAT;
	if (strstr(row->arg, "FILE") || strstr(row->arg, "PATH") || strstr(row->arg, "DIR"))
		return WHAT_FILE;
	return !strncmp(row->arg, "PID", 3) ? WHAT_PID : WHAT_ANYTHING;
}

static enum what operand_of(const struct opt_command *cmd)
{
	return strstr(cmd->usage, " PID") || strstr(cmd->usage, "-p ") ? WHAT_PID
	       : strstr(cmd->usage, " IN") || strstr(cmd->usage, " FILE") ||
			       strstr(cmd->usage, " BEFORE")
		       ? WHAT_FILE
		       : WHAT_ANYTHING;
}

static void put_formats(void)
{
	for (size_t i = 0; exporter_at(i); i++)
		printf("%s%s", i ? " " : "", exporter_at(i)->name);
}

typedef void (*row_fn)(const struct opt_command *cmd, const struct opt_row *row);

static void each_row(const struct opt_command *cmd, row_fn fn)
{
	static const struct opt_row help = { .letter = 'h', .name = "help", .help = "show this" };

	for (const struct opt_group *g = cmd->groups; g->rows; g++) {
		for (const struct opt_row *row = g->rows; row->name; row++) {
			if (!row->hidden)
				fn(cmd, row);
		}
	}
	for (const struct opt_row *row = options_common; row->name; row++)
		fn(cmd, row);
	fn(cmd, &help);
}

/* --- bash --- */

static void bash_names(const struct opt_command *cmd, const struct opt_row *row)
{
	(void)cmd;
	if (row->letter)
		printf("-%c ", row->letter);
	printf("--%s ", row->name);
}

static void bash_value(const struct opt_command *cmd, const struct opt_row *row)
{
	static const char *const calls[] = { [WHAT_ANYTHING] = "",
					     [WHAT_FILE] = "_pyebpf_files",
					     [WHAT_PID] = "_pyebpf_pids",
					     [WHAT_FORMAT] = "_pyebpf_formats" };

	(void)cmd;
	if (!row->arg)
		return;
	printf("\t\t");
	if (row->letter)
		printf("-%c | ", row->letter);
	printf("--%s) %s; return ;;\n", row->name,
	       *calls[what_of(row)] ? calls[what_of(row)] : ":");
}

static void bash_command(const struct opt_command *cmd)
{
	static const char *const operands[] = { [WHAT_ANYTHING] = ":",
						[WHAT_FILE] = "_pyebpf_files",
						[WHAT_PID] = "_pyebpf_pids",
						[WHAT_FORMAT] = ":" };

	printf("\t%s)\n\t\tcase $prev in\n", cmd->name);
	each_row(cmd, bash_value);
	printf("\t\tesac\n\t\toptions=\"");
	each_row(cmd, bash_names);
	printf("\"\n\t\toperand=%s\n\t\t;;\n", operands[operand_of(cmd)]);
}

static void bash_begin(const struct completions_command *commands)
{
	fputs("# bash completion for pyebpf, made by `pyebpf completions bash`\n\n"
	      "_pyebpf_files() {\n\tcompopt -o filenames 2>/dev/null\n"
	      "\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n}\n\n"
	      "_pyebpf_pids() {\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$(pgrep python)\" -- \"$cur\")\n}\n\n"
	      "_pyebpf_formats() {\n\tmapfile -t COMPREPLY < <(compgen -W \"",
	      stdout);
	put_formats();
	fputs("\" -- \"$cur\")\n}\n\n"
	      "_pyebpf() {\n\tlocal cur prev options= operand=: i\n"
	      "\tcur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tCOMPREPLY=()\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do # a command after -- completes itself\n"
	      "\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n"
	      "\t\t\tif declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); fi\n"
	      "\t\t\treturn\n\t\tfi\n\tdone\n"
	      "\tif ((COMP_CWORD == 1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"",
	      stdout);
	for (int i = 0; commands[i].name; i++)
		printf("%s%s", i ? " " : "", commands[i].name);
	fputs("\" -- \"$cur\")\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n", stdout);
}

static void bash_end(void)
{
	fputs("\tcompletions) mapfile -t COMPREPLY < <(compgen -W \"bash zsh fish\" -- \"$cur\"); return ;;\n"
	      "\tesac\n\tif [[ $cur == -* ]]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	      "\telse\n\t\t$operand\n\tfi\n}\n\ncomplete -F _pyebpf pyebpf\n",
	      stdout);
}

/* --- zsh and fish: a text in single quotes --- */

static void put_quoted(const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (*text == '\n')
			putchar(' ');
		else if (strchr(escaped, *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_value(const struct opt_row *row)
{
	if (!row->arg)
		return;
	putchar(':');
	put_quoted(row->arg, ":[]\\");
	putchar(':');
	switch (what_of(row)) {
	case WHAT_FILE:
		fputs("_files", stdout);
		break;
	case WHAT_PID:
		fputs("_pids", stdout);
		break;
	case WHAT_FORMAT:
		putchar('(');
		put_formats();
		putchar(')');
		break;
	case WHAT_ANYTHING:
		break;
	}
}

static void zsh_spec(const struct opt_row *row, bool letter)
{
	if (letter)
		printf("\t\t\t'-%c[", row->letter);
	else
		printf("\t\t\t'--%s%s[", row->name, row->arg ? "=" : "");
	put_quoted(row->help, ":[]\\");
	putchar(']');
	zsh_value(row);
	fputs("' \\\n", stdout);
}

static void zsh_row(const struct opt_command *cmd, const struct opt_row *row)
{
	(void)cmd;
	if (row->letter)
		zsh_spec(row, true);
	zsh_spec(row, false);
}

static void zsh_command(const struct opt_command *cmd)
{
	static const char *const operands[] = {
		[WHAT_ANYTHING] = "", [WHAT_FILE] = "_files", [WHAT_PID] = "_pids", [WHAT_FORMAT] = ""
	};

	printf("\t\t%s)\n\t\t\t_arguments -S \\\n", cmd->name);
	each_row(cmd, zsh_row);
	printf("\t\t\t'*::operand:%s'\n\t\t\t;;\n", operands[operand_of(cmd)]);
}

static void zsh_begin(const struct completions_command *commands)
{
	fputs("#compdef pyebpf\n# zsh completion for pyebpf, made by `pyebpf completions zsh`\n\n"
	      "_pyebpf() {\n\tlocal -a commands\n\tcommands=(\n",
	      stdout);
	for (int i = 0; commands[i].name; i++) {
		printf("\t\t'%s:", commands[i].name);
		put_quoted(commands[i].about, ":\\");
		fputs("'\n", stdout);
	}
	fputs("\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n"
	      "\tlocal command=$words[2] at=${words[(i)--]}\n"
	      "\tif ((at < CURRENT)); then # a command after -- completes itself\n"
	      "\t\twords=(\"${(@)words[at + 1,-1]}\")\n\t\t((CURRENT -= at))\n\t\t_normal\n\t\treturn\n\tfi\n"
	      "\twords=(\"${(@)words[2,-1]}\")\n\t((CURRENT--))\n"
	      "\tcase $command in\n",
	      stdout);
}

static void zsh_end(void)
{
	fputs("\t\tcompletions)\n\t\t\t_values shell bash zsh fish\n\t\t\t;;\n\tesac\n}\n\n"
	      "if [[ $funcstack[1] == _pyebpf ]]; then\n\t_pyebpf \"$@\"\nelse\n"
	      "\tcompdef _pyebpf pyebpf\nfi\n",
	      stdout);
}

static void fish_row(const struct opt_command *cmd, const struct opt_row *row)
{
	printf("complete -c pyebpf -n '__pyebpf_in %s'", cmd->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	printf(" -l %s", row->name);
	if (row->arg) {
		switch (what_of(row)) {
		case WHAT_FILE:
			fputs(" -r -F", stdout);
			break;
		case WHAT_PID:
			fputs(" -x -a '(pgrep python)'", stdout);
			break;
		case WHAT_FORMAT:
			fputs(" -x -a '", stdout);
			put_formats();
			putchar('\'');
			break;
		case WHAT_ANYTHING:
			fputs(" -x", stdout);
			break;
		}
	}
	fputs(" -d '", stdout);
	put_quoted(row->help, "\\");
	fputs("'\n", stdout);
}

static void fish_command(const struct opt_command *cmd)
{
	enum what operand = operand_of(cmd);

	printf("complete -c pyebpf -n '__pyebpf_in %s' %s\n", cmd->name,
	       operand == WHAT_FILE  ? "-F"
	       : operand == WHAT_PID ? "-f -a '(pgrep python)'"
				     : "-f");
	each_row(cmd, fish_row);
}

static void fish_begin(const struct completions_command *commands)
{
	fputs("# fish completion for pyebpf, made by `pyebpf completions fish`\n\n"
	      "function __pyebpf_in # in this command, and not after --\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -ge 2; and test $words[2] = $argv[1]; and not contains -- -- $words\n"
	      "end\n\n"
	      "complete -c pyebpf -n '__fish_use_subcommand' -f\n",
	      stdout);
	for (int i = 0; commands[i].name; i++) {
		printf("complete -c pyebpf -n '__fish_use_subcommand' -f -a %s -d '",
		       commands[i].name);
		put_quoted(commands[i].about, "\\");
		fputs("'\n", stdout);
	}
	fputs("complete -c pyebpf -n '__pyebpf_in completions' -f -a 'bash zsh fish'\n", stdout);
}

static void nothing(void)
{
}

static const struct shell {
	const char *name;
	void (*begin)(const struct completions_command *commands);
	void (*command)(const struct opt_command *cmd);
	void (*end)(void);
} shells[] = {
	{ "bash", bash_begin, bash_command, bash_end },
	{ "zsh", zsh_begin, zsh_command, zsh_end },
	{ "fish", fish_begin, fish_command, nothing },
};

static const struct shell *find_shell(const char *name)
{
	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells); i++) {
		if (!strcmp(shells[i].name, name))
			return &shells[i];
	}
	return NULL;
}

void completions_of_command(const char *shell, const struct opt_command *cmd)
{
	const struct shell *found = find_shell(shell);

	if (found)
		found->command(cmd);
}

int completions_print(const char *shell, const struct completions_command *commands)
{
	const struct shell *found = find_shell(shell);
	char ask[] = COMPLETIONS_ASK, name[16];

	if (!found)
		return -PYE_EUSAGE;
	snprintf(name, sizeof(name), "%s", shell);
	found->begin(commands);
	for (; commands->name; commands++) {
		char *argv[] = { name, ask, name, NULL };

		if (commands->run)
			commands->run(3, argv);
	}
	found->end();
	return 0;
}
