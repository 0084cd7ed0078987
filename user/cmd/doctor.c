// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/color.h"
#include "base/err.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/doctor_check.h"
#include "cmd/options.h"
#include "cmd/table.h"
#include "export/json.h"

struct doctor_opts {
	bool json;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 0, "json", NULL, OPT_FLAG, offsetof(struct doctor_opts, json), NULL,
	  "print a JSON object", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Options", rows, 0 },
	{ 0 },
};

static const char *const state_names[] = {
	[CHECK_OK] = "ok", [CHECK_NOTE] = "note", [CHECK_LIMITED] = "limited",
	[CHECK_UNTRIED] = "untried", [CHECK_MISSING] = "missing",
};
/* clang-format on */

static const enum color state_colors[] = {
	[CHECK_OK] = COLOR_GOOD,      [CHECK_NOTE] = COLOR_NONE,   [CHECK_LIMITED] = COLOR_WARN,
	[CHECK_UNTRIED] = COLOR_NONE, [CHECK_MISSING] = COLOR_BAD,
};

static const struct opt_command command = {
	.name = "doctor",
	.usage = "doctor [--json]",
	.about =
		"Try what pyebpf needs of this machine, and say what is missing and the command that "
		"gets it where this runs: sudo, setcap, docker or Kubernetes. Exit status 3: a "
		"privilege is missing; 5: the kernel lacks something.",
	.groups = groups,
	.examples = "  pyebpf doctor\n"
		    "  sudo pyebpf doctor\n"
		    "  sudo pyebpf doctor --json\n",
};

struct check *checkup__add(struct checkup *c, const char *group, const char *name,
			   enum check_state state, const char *fmt, ...)
{
	struct check *check = &c->items[c->cnt < CHECKS_MAX ? c->cnt++ : CHECKS_MAX - 1];
	va_list ap;

	*check = (struct check){ .group = group, .name = name, .state = state };
	va_start(ap, fmt);
	vsnprintf(check->text, sizeof(check->text), fmt, ap);
	va_end(ap);
	return check;
}

void check_fix(struct check *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(check->fix, sizeof(check->fix), fmt, ap);
	va_end(ap);
}

int checkup__err(const struct checkup *c)
{
	int err = 0;

	for (size_t i = 0; i < c->cnt; i++) {
		if (c->items[i].state != CHECK_MISSING)
			continue;
		if (c->items[i].cause == -PYE_EPRIV)
			return -PYE_EPRIV;
		err = c->items[i].cause;
	}
	return err;
}

static void print_checks(const struct checkup *c)
{
	const char *group = "";

	for (size_t i = 0; i < c->cnt; i++) {
		const struct check *check = &c->items[i];
		char shown[4 * sizeof(check->text)];

		if (strcmp(group, check->group) != 0)
			printf("%s%s\n", i ? "\n" : "", check->group);
		group = check->group;
		printf("  %s%-8s%s %-26s %s\n", color_begin(stdout, state_colors[check->state]),
		       state_names[check->state], color_end(stdout, state_colors[check->state]),
		       check->name,
		       text_escape(shown, sizeof(shown), check->text, strlen(check->text)));
	}
}

/* Five missing capabilities have one cure. */
static bool is_first(const struct checkup *c, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (!strcmp(c->items[i].fix, c->items[index].fix))
			return false;
	return true;
}

static void print_lines(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		char shown[4 * sizeof(((struct check *)0)->fix)];

		printf("  %s\n", text_escape(shown, sizeof(shown), text, len));
		text += len + (text[len] != '\0');
	}
}

static void print_fixes(const struct checkup *c)
{
	int err = checkup__err(c);
	bool any = false;

	for (size_t i = 0; i < c->cnt; i++) {
		if (!c->items[i].fix[0] || !is_first(c, i))
			continue;
		if (!any)
			puts("\nwhat to do");
		any = true;
		print_lines(c->items[i].fix);
	}
	printf("\n%s\n", !err ? "trace works here"
			 : err == -PYE_EPRIV
				 ? "trace does not work here: a privilege is missing"
				 : "trace does not work here: the kernel lacks something");
}

static void json_field(struct outbuf *out, const char *name, const char *value)
{
	outbuf__puts(out, ",\"");
	outbuf__puts(out, name);
	outbuf__puts(out, "\":");
	json_str(out, value);
}

static void json_fixes(struct outbuf *out, const char *text)
{
	outbuf__puts(out, ",\"fix\":[");
	for (bool first = true; *text; first = false) {
		size_t len = strcspn(text, "\n");

		if (!first)
			outbuf__putc(out, ',');
		json_strn(out, text, len);
		text += len + (text[len] != '\0');
	}
	outbuf__putc(out, ']');
}

static void json_check(struct outbuf *out, const struct check *check)
{
	outbuf__puts(out, "{\"name\":");
	json_str(out, check->name);
	json_field(out, "group", check->group);
	json_field(out, "state", state_names[check->state]);
	json_field(out, "text", check->text);
	json_fixes(out, check->fix);
	outbuf__putc(out, '}');
}

static int print_json(const struct checkup *c)
{
	struct outbuf out;
	int err = table_begin(&out);

	if (err)
		return err;
	outbuf__puts(&out, "{\"works\":");
	json_bool(&out, !checkup__err(c));
	outbuf__puts(&out, ",\"exit_code\":");
	json_i64(&out, err_exit_code(checkup__err(c)));
	json_field(&out, "version", PYEBPF_VERSION);
	json_field(&out, "where", where_name(c->where));
	outbuf__puts(&out, ",\"checks\":[");
	for (size_t i = 0; i < c->cnt; i++) {
		outbuf__puts(&out, i ? ",\n" : "\n");
		json_check(&out, &c->items[i]);
	}
	outbuf__puts(&out, "]}\n");
	err = outbuf__flush(&out);
	outbuf__done(&out);
	return err;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_opts opts = { 0 };
	struct opt_rest rest;
	struct checkup c = { .where = where_are_we() };
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.command_cnt || rest.operand_cnt)
		return err_exit_code(options_usage(&command, "it takes no operands"));
	checkup__around(&c);
	checkup__pod(&c, NULL);
	checkup__privilege(&c);
	checkup__kernel(&c);
	if (opts.json && print_json(&c))
		return cmd_fail(command.name, -PYE_EOUTPUT, NULL);
	if (!opts.json) {
		print_checks(&c);
		print_fixes(&c);
	}
	if (fflush(stdout))
		return cmd_fail(command.name, -PYE_EOUTPUT, NULL);
	return err_exit_code(checkup__err(&c));
}
