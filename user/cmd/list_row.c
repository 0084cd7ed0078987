// SPDX-License-Identifier: Apache-2.0
#include "cmd/list_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cpython/inline_plan.h"
#include "cpython/interp_names.h"
#include "export/json.h"
#include "inline/engine.h"
#include "inline/permit.h"

/* Of a command line in the table; all of it is in the JSON. */
#define COMMAND_SHOWN 256

/* Of the path of an interpreter; all of it is in the JSON. */
#define PATH_SHOWN 256

#define ROW_FORMAT "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n"

static bool is_python(int err)
{
	return !err || err == -PYE_EPLAN || err == -PYE_EVERSION;
}

static void describe(struct list_row *row)
{
	uint64_t mnt_ns, pid_ns;

	if (proc_cmdline(row->info.pid, &row->cmdline, &row->cmdline_len) < 0)
		row->cmdline = NULL;
	proc_container(row->info.pid, row->container, sizeof(row->container));
	proc_info_own_ns(&mnt_ns, &pid_ns);
	row->other_mounts = row->info.mnt_ns && mnt_ns && row->info.mnt_ns != mnt_ns;
	row->has_stubs = inline__is_left(row->info.pid, &row->stubs_read);
	row->inline_barred = inline__owner_barred(row->info.pid);
	row->other_pids = row->info.pid_ns && pid_ns && row->info.pid_ns != pid_ns;
}

/* What is known of it then is more than without a plan. */
static bool can_be_sampled(struct list_row *row, pid_t pid, struct interp_cache *sampled)
{
	auto_free struct interp *in = malloc(sizeof(*in));

	if (!in || interp__find_cached(pid, "sample", sampled, in, NULL))
		return false;
	interp__done(in);
	row->in = *in;
	return true;
}

/* What is proven for the other engines is not all that this one needs of a file. */
static void ask_inline(struct list_row *row, struct interp_cache *cache)
{
	auto_free struct inline_plan *plan = malloc(sizeof(*plan));
	struct err why = { 0 };

	if (plan && inline_plan_load_cached(cache, row->in.open_path, plan, &why) == -PYE_EPLAN)
		row->inline_why_not = why;
}

int list_row__new(pid_t pid, bool given, const char *engine, struct interp_cache *cache,
		  struct interp_cache *sampled, struct list_row **out, struct err *e)
{
	struct list_row *row = calloc(1, sizeof(*row));
	int err;

	if (!row)
		return -ENOMEM;
	row->in.fd = -1;
	row->err =
		(given ? interp__find_soon : interp__find_cached)(pid, engine, cache, &row->in, e);
	row->e = *e;
	row->sampled = row->err == -PYE_EPLAN && can_be_sampled(row, pid, sampled);
	err = is_python(row->err) ? proc_info__read(pid, &row->info) : row->err;
	if (err) {
		list_row__free(row);
		return err == -ESRCH ? -PYE_ETARGET : err;
	}
	describe(row);
	if (!row->err)
		ask_inline(row, cache);
	*out = row;
	return 0;
}

void list_row__free(struct list_row *row)
{
	if (!row)
		return;
	if (!row->err)
		interp__done(&row->in);
	free(row->cmdline);
	free(row);
}

static void add(char *text, size_t size, const char *word)
{
	size_t at = strlen(text);

	snprintf(text + at, size - at, "%s%s", at ? " " : "", word);
}

static void build_text(const struct list_row *row, char *out, size_t size)
{
	const struct probe_plan *plan = &row->in.plan;

	out[0] = '\0';
	if (!row->in.version[0]) {
		add(out, size, "?");
		return;
	}
	add(out, size, row->in.in_executable ? "static" : "shared");
	add(out, size, plan->free_threaded ? "free-threaded" : "gil");
	if (plan->debug)
		add(out, size, "debug");
	if (plan->tail_call)
		add(out, size, "tail-call");
	if (row->in.has_jit)
		add(out, size, row->err ? "jit" : "jit-off"); /* an active one is refused */
}

static void where_text(const struct list_row *row, char *out, size_t size)
{
	char inside[32];

	out[0] = '\0';
	if (row->container[0])
		add(out, size, row->container);
	else if (row->other_mounts || row->other_pids)
		add(out, size, "namespace");
	if (row->other_pids && row->info.depth) {
		snprintf(inside, sizeof(inside), "pid %d", row->info.own_pid);
		add(out, size, inside);
	}
	if (!out[0])
		add(out, size, "-");
}

static void command_text(const struct list_row *row, char *out, size_t size)
{
	char joined[COMMAND_SHOWN + 1];
	size_t len = row->cmdline_len;

	if (!row->cmdline || !len) {
		text_escape(out, size, row->info.comm, strlen(row->info.comm));
		return;
	}
	len--; /* the last NUL */
	if (len > COMMAND_SHOWN)
		len = COMMAND_SHOWN;
	for (size_t i = 0; i < len; i++)
		joined[i] = row->cmdline[i] ? row->cmdline[i] : ' ';
	text_escape(out, size, joined, len);
	if (row->cmdline_len - 1 > len)
		add(out, size, "...");
}

void list_row_print_head(FILE *out)
{
	fprintf(out, ROW_FORMAT, "PID", "USER", "PYTHON", "BUILD", "ENGINE", "INLINE", "WHERE",
		"INTERPRETER", "COMMAND");
}

static const char *engine_text(const struct list_row *row)
{
	if (row->err)
		return row->sampled ? "sample" : "-";
	return row->in.plan.engine;
}

/* By its owner, without a privilege; NULL: nothing bars it. */
static const char *why_not_inline(const struct list_row *row)
{
	return row->inline_why_not.what[0] ? row->inline_why_not.what : row->inline_barred;
}

void list_row__print(const struct list_row *row, FILE *out)
{
	char pid[16], build[64], where[128], user[64], file[PATH_SHOWN];
	char command[8 * COMMAND_SHOWN];

	snprintf(pid, sizeof(pid), "%d", row->info.pid);
	build_text(row, build, sizeof(build));
	where_text(row, where, sizeof(where));
	command_text(row, command, sizeof(command));
	text_escape(user, sizeof(user), row->user, strlen(row->user));
	interp_show_path(row->in.path, file, sizeof(file));
	fprintf(out, ROW_FORMAT, pid, user, row->in.version[0] ? row->in.version : "?", build,
		engine_text(row), row->err || why_not_inline(row) ? "-" : "own", where,
		file[0] ? file : "?", command);
	if (row->err)
		fprintf(out, "%9s%s: %s%s%s\n", "",
			row->sampled ? "record, top and dump take it; trace not" : "why not",
			row->e.what, row->e.hint[0] ? "; " : "", row->e.hint);
	if (row->inline_why_not.what[0])
		fprintf(out, "%9snot for --engine inline: %s\n", "", row->inline_why_not.what);
	if (row->has_stubs && row->stubs_read)
		fprintf(out, "%9sthe inline engine of a pyebpf is at work on it\n", "");
	else if (row->has_stubs)
		fprintf(out,
			"%9sa pyebpf that was killed has left its stubs there: pyebpf detach %d\n",
			"", row->info.pid);
	if (!row->err && row->in.other[0])
		fprintf(out, "%9sleft out: a second interpreter in it, %s\n", "", row->in.other);
}

static void key(struct outbuf *out, const char *name)
{
	outbuf__puts(out, ",\"");
	outbuf__puts(out, name);
	outbuf__puts(out, "\":");
}

static void string(struct outbuf *out, const char *name, const char *value)
{
	key(out, name);
	json_str(out, value);
}

static void number(struct outbuf *out, const char *name, int64_t value)
{
	key(out, name);
	json_i64(out, value);
}

static void boolean(struct outbuf *out, const char *name, bool value)
{
	key(out, name);
	json_bool(out, value);
}

static void json_command(const struct list_row *row, struct outbuf *out)
{
	const char *end = row->cmdline + row->cmdline_len;

	key(out, "command");
	outbuf__putc(out, '[');
	for (const char *at = row->cmdline; at && at < end; at += strlen(at) + 1) {
		if (at > row->cmdline)
			outbuf__putc(out, ',');
		json_str(out, at);
	}
	outbuf__putc(out, ']');
}

static void json_python(const struct list_row *row, struct outbuf *out)
{
	const struct interp *in = &row->in;
	unsigned int single = 0;
	char build[64];

	for (uint32_t i = 0; i < in->plan.site_cnt; i++)
		single += in->plan.sites[i].single_step;
	string(out, "version", in->version);
	if (!row->err || row->sampled)
		string(out, "record_engine", "sample");
	if (!row->err) {
		string(out, "engine", in->plan.engine);
		boolean(out, "inline_by_owner", !why_not_inline(row));
		if (why_not_inline(row))
			string(out, "inline_by_owner_why_not", why_not_inline(row));
		if (row->in.other[0])
			string(out, "left_out", row->in.other);
	}
	boolean(out, "shared", !in->in_executable);
	boolean(out, "debug", in->plan.debug);
	boolean(out, "free_threaded", in->plan.free_threaded);
	boolean(out, "gil", !in->plan.free_threaded);
	boolean(out, "tail_call", in->plan.tail_call);
	boolean(out, "jit_built", in->has_jit);
	if (!in->has_jit || !row->err) /* else the reason says what is known */
		string(out, "jit", in->has_jit ? "off" : "none");
	build_text(row, build, sizeof(build));
	string(out, "build", build);
	number(out, "sites", in->plan.site_cnt);
	number(out, "single_step_sites", single);
	string(out, "notes", in->plan.notes);
}

void list_row__json(const struct list_row *row, struct outbuf *out)
{
	outbuf__puts(out, "{\"pid\":");
	json_i64(out, row->info.pid);
	number(out, "pid_inside", row->info.own_pid);
	number(out, "parent", row->info.parent);
	number(out, "uid", row->info.uid);
	string(out, "user", row->user);
	string(out, "comm", row->info.comm);
	string(out, "exe", row->info.exe);
	json_command(row, out);
	string(out, "container", row->container);
	boolean(out, "other_mount_namespace", row->other_mounts);
	boolean(out, "other_pid_namespace", row->other_pids);
	boolean(out, "supported", !row->err);
	if (row->has_stubs)
		string(out, "inline_engine", row->stubs_read ? "at work" : "left behind");
	if (row->err) {
		number(out, "exit_code", err_exit_code(row->err));
		string(out, "why_not", row->e.what);
		string(out, "hint", row->e.hint);
	}
	if (row->in.path[0])
		string(out, "file", row->in.path);
	if (row->in.version[0])
		json_python(row, out);
	outbuf__putc(out, '}');
}
