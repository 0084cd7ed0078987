// SPDX-License-Identifier: Apache-2.0
#include "cmd/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/color.h"
#include "base/text.h"
#include "cmd/completions.h"

enum {
	MAX_ROWS = 96,
	HELP_ROW = MAX_ROWS,
	FIRST_VALUE = 256, /* of getopt: FIRST_VALUE + row; letters are below */
	WIDTH = 80,
	HELP_COLUMN = 26,
};

#define UNKNOWN	    "is not an option of this command"
#define NO_ARGUMENT "needs an argument"

/* The rows of all groups, side by side, as getopt_long() wants them. */
struct flat {
	const struct opt_row *rows[MAX_ROWS];
	void *fields[MAX_ROWS];
	struct option longs[MAX_ROWS + 2];
	char letters[2 * MAX_ROWS + 4];
	int cnt;
};

static bool takes_arg(const struct opt_row *row)
{
	return row->arg != NULL;
}

static int take_color(void *field, const char *arg, struct err *e)
{
	static const char *const names[] = {
		[COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never", NULL
	};
	int i = opt_word(names, arg);

	(void)field;
	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want auto, always or never");
	color_choose((enum color_when)i);
	return 0;
}

const struct opt_row options_common[] = {
	{ 0, "color", "WHEN", OPT_CUSTOM, 0, NULL, "auto, always or never (default auto)", false,
	  take_color },
	{ 0 },
};

static const struct opt_group common = { NULL, options_common, 0 };

/* The groups of a command, then what all have; NULL at the end. */
static const struct opt_group *next_group(const struct opt_command *cmd, const struct opt_group *at)
{
	if (at == &common)
		return NULL;
	at = at ? at + 1 : cmd->groups;
	return at->rows ? at : &common;
}

static void flatten(const struct opt_command *cmd, char *opts, struct flat *f)
{
	const struct opt_group *g = NULL;
	size_t letter = 0;

	f->cnt = 0;
	f->letters[letter++] = ':'; /* report a missing argument apart */
	f->letters[letter++] = 'h';
	while ((g = next_group(cmd, g)) != NULL) {
		for (const struct opt_row *row = g->rows; row->name && f->cnt < MAX_ROWS; row++) {
			int i = f->cnt++;

			f->rows[i] = row;
			f->fields[i] = opts + g->offset + row->offset;
			f->longs[i] = (struct option){ .name = row->name,
						       .has_arg = takes_arg(row),
						       .val = FIRST_VALUE + i };
			if (!row->letter)
				continue;
			f->letters[letter++] = row->letter;
			if (takes_arg(row))
				f->letters[letter++] = ':';
		}
	}
	f->letters[letter] = '\0';
	f->longs[f->cnt] = (struct option){ .name = "help", .val = FIRST_VALUE + HELP_ROW };
	f->longs[f->cnt + 1] = (struct option){ 0 };
}

static int read_field(const struct opt_row *row, void *field, const char *arg, struct err *e)
{
	bool is_time = row->type == OPT_DURATION || row->type == OPT_PERIOD;
	uint64_t value = 0;
	int err = 0;

	switch (row->type) {
	case OPT_FLAG:
		*(bool *)field = true;
		return 0;
	case OPT_STRING:
		*(const char **)field = arg;
		return 0;
	case OPT_CUSTOM:
		return row->parse(field, arg, e);
	case OPT_UNSIGNED:
	case OPT_LIMIT:
		err = opt_unsigned(arg, &value);
		break;
	case OPT_SIZE:
		err = opt_size(arg, &value);
		break;
	case OPT_DURATION:
	case OPT_PERIOD:
		err = opt_duration(arg, &value);
		break;
	}
	if (err)
		return err_set(e, err, "%s",
			       err == -ERANGE	       ? "the number is too large"
			       : is_time	       ? "want 30, 30s, 5m, 2h, 7d or 250ms"
			       : row->type == OPT_SIZE ? "want a size such as 512M"
						       : "want a number");
	if (!value && (row->type == OPT_LIMIT || row->type == OPT_PERIOD))
		return err_set(e, -PYE_EUSAGE, "want more than 0");
	*(uint64_t *)field = value;
	return 0;
}

static int complain(const char *name, const char *fmt, va_list ap)
{
	char text[512], shown[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "%spyebpf %s:%s %s\n", color_begin(stderr, COLOR_BAD), name,
		color_end(stderr, COLOR_BAD),
		text_escape(shown, sizeof(shown), text, strlen(text)));
	fprintf(stderr, "Try 'pyebpf %s --help'.\n", name);
	return -PYE_EUSAGE;
}

int options_usage(const struct opt_command *cmd, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = complain(cmd->name, fmt, ap);
	va_end(ap);
	return err;
}

/* What is said of an argument may go to a log: not the name and password of an address in it. */
static int shown_len(const char *arg)
{
	const char *address = arg ? strstr(arg, "://") : NULL;

	if (address && strchr(address, '@'))
		return (int)(address - arg);
	return arg ? (int)strlen(arg) : 0;
}

static int take_option(const struct opt_command *cmd, const struct flat *f, int row,
		       const char *arg)
{
	struct err e = { 0 };
	int err = read_field(f->rows[row], f->fields[row], arg, &e);

	if (err == -ENOMEM)
		return err;
	if (err)
		return options_usage(cmd, "--%s %.*s: %s", f->rows[row]->name, shown_len(arg),
				     arg ? arg : "", e.what[0] ? e.what : err_str(err));
	return 0;
}

static int row_by_letter(const struct flat *f, int letter)
{
	for (int i = 0; i < f->cnt; i++) {
		if (f->rows[i]->letter == letter)
			return i;
	}
	return -1;
}

/* getopt takes the beginning of a long name for the whole; a script that counts on that breaks with the
 * next option. @value: of the option that getopt took @typed for. */
static bool is_whole_name(const struct flat *f, int value, const char *typed)
{
	int row = value - FIRST_VALUE;
	const char *name = row == HELP_ROW ? "help" : f->longs[row].name;
	size_t len = strlen(name);

	return !strncmp(typed, "--", 2) && !strncmp(typed + 2, name, len) &&
	       (!typed[2 + len] || typed[2 + len] == '=');
}

static int refuse(const struct opt_command *cmd, const char *typed, const char *why)
{
	return options_usage(cmd, "%.*s %s", (int)strcspn(typed, "="), typed, why);
}

static int unknown_option(const struct opt_command *cmd, const struct flat *f, char **argv, int got)
{
	const char *typed = argv[optind - 1];
	bool letter = optopt > 0 && optopt < FIRST_VALUE;

	if (letter)
		return options_usage(cmd, "-%c %s", optopt, got == ':' ? NO_ARGUMENT : UNKNOWN);
	if (!optopt || !is_whole_name(f, optopt, typed))
		return refuse(cmd, typed, UNKNOWN);
	return refuse(cmd, typed, got == ':' ? NO_ARGUMENT : "takes no argument");
}

/* What was typed for the long option that getopt has just read: its argument may be a word of its own. */
static const char *typed_option(char **argv)
{
	return argv[optind - (optarg && optarg == argv[optind - 1] ? 2 : 1)];
}

/* What is before "--"; the command to launch is after it. */
static int split_command(int argc, char **argv, struct opt_rest *rest)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		rest->command = argv + i + 1;
		rest->command_cnt = argc - i - 1;
		return i;
	}
	return argc;
}

static int parse_all(const struct opt_command *cmd, const struct flat *f, int argc, char **argv)
{
	int got, row, err = 0;

	optind = 0; /* glibc: begin anew */
	opterr = 0;
	while (!err && (got = getopt_long(argc, argv, f->letters, f->longs, NULL)) != -1) {
		if (got == '?' || got == ':')
			return unknown_option(cmd, f, argv, got);
		if (got >= FIRST_VALUE && !is_whole_name(f, got, typed_option(argv)))
			return refuse(cmd, typed_option(argv), UNKNOWN);
		if (got == 'h' || got == FIRST_VALUE + HELP_ROW) {
			options_help(cmd);
			return OPTIONS_DONE;
		}
		row = got < FIRST_VALUE ? row_by_letter(f, got) : got - FIRST_VALUE;
		err = row < 0 ? -EINVAL : take_option(cmd, f, row, optarg);
	}
	return err;
}

int options_defaults(const struct opt_command *cmd, void *opts)
{
	struct flat f;
	int err = 0;

	flatten(cmd, opts, &f);
	for (int i = 0; i < f.cnt && !err; i++) {
		if (f.rows[i]->fallback)
			err = take_option(cmd, &f, i, f.rows[i]->fallback);
	}
	return err;
}

int options_over(const struct opt_command *cmd, int argc, char **argv, void *opts,
		 struct opt_rest *rest)
{
	struct flat f;
	int err;

	*rest = (struct opt_rest){ 0 };
	flatten(cmd, opts, &f);
	argc = split_command(argc, argv, rest);
	err = parse_all(cmd, &f, argc, argv);
	rest->operands = argv + optind;
	rest->operand_cnt = argc - optind;
	return err;
}

int options_parse(const struct opt_command *cmd, int argc, char **argv, void *opts,
		  struct opt_rest *rest)
{
	int err;

	if (argc == 3 && !strcmp(argv[1], COMPLETIONS_ASK)) {
		*rest = (struct opt_rest){ 0 };
		completions_of_command(argv[2], cmd);
		return OPTIONS_DONE;
	}
	err = options_defaults(cmd, opts);
	return err ? err : options_over(cmd, argc, argv, opts, rest);
}

int options_set(const struct opt_group *group, const struct opt_row *row, void *opts,
		const char *arg, struct err *e)
{
	void *field = (char *)opts + group->offset + row->offset;
	int err;

	if (row->type == OPT_FLAG) {
		if (strcmp(arg, "true") != 0 && strcmp(arg, "false") != 0)
			return err_set(e, -PYE_EUSAGE, "want true or false");
		*(bool *)field = !strcmp(arg, "true");
		return 0;
	}
	err = read_field(row, field, arg, e);
	return err && err != -ENOMEM ? -PYE_EUSAGE : err;
}

/* Prints words between two columns; the cursor is at @at. */
static void wrap(const char *text, int at, int column)
{
	while (*text) {
		int len = (int)strcspn(text, " \n");

		if (at > column && at + 1 + len > WIDTH - 1) {
			printf("\n%*s", column, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		printf("%.*s", len, text);
		at += len;
		text += len;
		if (*text == '\n') {
			printf("\n%*s", text[1] ? column : 0, "");
			at = column;
		}
		text += *text != '\0';
	}
	putchar('\n');
}

static void help_row(const struct opt_row *row)
{
	char left[64], text[640];
	int n;

	n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
		     row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
		     row->arg ? " " : "", row->arg ? row->arg : "");
	snprintf(text, sizeof(text), "%s%s%s%s", row->help, row->fallback ? " (default " : "",
		 row->fallback ? row->fallback : "", row->fallback ? ")" : "");
	if (n + 2 > HELP_COLUMN)
		printf("%s\n%*s", left, HELP_COLUMN, "");
	else
		printf("%-*s", HELP_COLUMN, left);
	wrap(text, HELP_COLUMN, HELP_COLUMN);
}

void options_help(const struct opt_command *cmd)
{
	static const struct opt_row help = { .letter = 'h', .name = "help", .help = "show this" };
	const struct opt_group *g = NULL;
	const char *line = cmd->usage;

	for (const char *head = "Usage:"; *line; head = "      ") {
		int len = (int)strcspn(line, "\n");

		printf("%s pyebpf %.*s\n", head, len, line);
		line += len + (line[len] == '\n');
	}
	putchar('\n');
	wrap(cmd->about, 0, 0);
	while ((g = next_group(cmd, g)) != NULL) {
		if (g->title)
			printf("\n%s%s:%s\n", color_begin(stdout, COLOR_HEAD), g->title,
			       color_end(stdout, COLOR_HEAD));
		for (const struct opt_row *row = g->rows; row->name; row++) {
			if (!row->hidden)
				help_row(row);
		}
	}
	help_row(&help);
	printf("\n%sExamples:%s\n%s", color_begin(stdout, COLOR_HEAD),
	       color_end(stdout, COLOR_HEAD), cmd->examples);
}
