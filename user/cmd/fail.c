// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/color.h"
#include "base/text.h"
#include "cmd/cmd.h"

/* Names in a sentence come from users and targets; what is escaped already stays as it is. */
static void print_line(const char *before, const char *text, size_t len)
{
	char shown[4 * sizeof(((struct err *)0)->what)];

	fprintf(stderr, "%s%s\n", before, text_escape(shown, sizeof(shown), text, len));
}

/* What to do where the one who failed knows nothing better. */
static const char *usual_hint(int code)
{
	switch (-code) {
	case PYE_ETARGET:
	case PYE_ENOTPYTHON:
		return "pyebpf list shows every Python process";
	case PYE_EVERSION:
	case PYE_EPLAN:
		return "pyebpf list says which engine takes a process, pyebpf list --probes PID what was found in it";
	case PYE_EKERNEL:
	case PYE_EPRIV:
		return "pyebpf doctor says what is missing here, and how to get it";
	default:
		return "";
	}
}

int cmd_fail(const char *name, int code, const struct err *e)
{
	const char *what = e && e->what[0] ? e->what : err_str(code);
	const char *line = e && e->hint[0] ? e->hint : usual_hint(code);
	char before[96];

	snprintf(before, sizeof(before), "%spyebpf %s:%s ", color_begin(stderr, COLOR_BAD), name,
		 color_end(stderr, COLOR_BAD));
	print_line(before, what, strlen(what));
	while (*line) {
		size_t len = strcspn(line, "\n");

		print_line("", line, len);
		line += len + (line[len] != '\0');
	}
	return err_exit_code(code);
}

int cmd_end(const struct opt_command *command, int err, const struct err *e)
{
	if (err == -PYE_EUSAGE)
		return err_exit_code(options_usage(command, "%s", e->what));
	return err ? cmd_fail(command->name, err, e) : 0;
}
