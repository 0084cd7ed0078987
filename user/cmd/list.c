// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outbuf.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/columns.h"
#include "cmd/list_probes.h"
#include "cmd/list_row.h"
#include "cmd/options.h"
#include "cmd/select.h"
#include "cmd/table.h"
#include "cpython/interp.h"
#include "cpython/interp_file.h"
#include "cpython/interp_names.h"
#include "proc/info.h"
#include "proc/pid.h"

struct list_opts {
	struct select_args select;
	bool json;
	const char *probes;
	const char *engine;
};

/* clang-format off */
static const struct opt_row rows[] = {
	{ 0, "json", NULL, OPT_FLAG, offsetof(struct list_opts, json), NULL,
	  "print a JSON array", false, NULL },
	{ 0, "probes", "PID|ELF", OPT_STRING, offsetof(struct list_opts, probes), NULL,
	  "print where probes would sit in the interpreter of a process, or in a file", false, NULL },
	{ 0, "engine", "ENGINE", OPT_STRING, offsetof(struct list_opts, engine), "auto",
	  "for this engine: auto, uprobe, usdt", false, NULL },
	{ 0 },
};

static const struct opt_group groups[] = {
	{ "Targets", select_container_rows, offsetof(struct list_opts, select) },
	{ "Options", rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "list",
	.usage = "list [PID...] [--pod NS/NAME|--container ID] [--json]\nlist --probes PID|ELF",
	.about = "Show every Python process: version, build, the engine that would trace it, the "
		 "container it is in, or why it cannot be traced.",
	.groups = groups,
	.examples = "  sudo pyebpf list\n"
		    "  sudo pyebpf list --pod shop/web\n"
		    "  sudo pyebpf list --probes 1234\n"
		    "  pyebpf list --probes /usr/bin/python3.11\n",
};

/* One run over processes. */
struct listing {
	const struct list_opts *opts;
	struct interp_cache *cache, *sampled;
	struct outbuf json;
	FILE *rows; /* of columns_print() */
	unsigned int shown, refused; /* refused: may not be looked at */
	struct err refusal;
	/* a directory service may be asked for names: once for each run of processes of one user */
	bool has_user;
	uid_t uid;
	char user[64];
};

static void name_user(struct listing *l, struct list_row *row)
{
	if (!l->has_user || l->uid != row->info.uid)
		proc_user(row->info.uid, l->user, sizeof(l->user));
	l->has_user = true;
	l->uid = row->info.uid;
	memcpy(row->user, l->user, sizeof(row->user));
}

static void show(struct listing *l, struct list_row *row)
{
	name_user(l, row);
	if (l->opts->json) {
		outbuf__puts(&l->json, l->shown ? ",\n" : "[");
		list_row__json(row, &l->json);
	} else {
		if (!l->shown)
			list_row_print_head(l->rows);
		list_row__print(row, l->rows);
	}
	l->shown++;
}

static int list_one(struct listing *l, pid_t pid, bool given, struct err *e)
{
	auto_fn(list_row__freep) struct list_row *row = NULL;
	int err = list_row__new(pid, given, l->opts->engine, l->cache, l->sampled, &row, e);

	if (!err)
		show(l, row);
	return err;
}

static int find_pids(const struct listing *l, pid_t **pids, size_t *cnt, struct err *e)
{
	int err;

	if (select_any(&l->opts->select))
		return select_container_pids(&l->opts->select, pids, cnt, e);
	err = proc_pids(pids, cnt);
	return err ? err_set(e, -PYE_EKERNEL, "/proc cannot be read: %s", err_str(err)) : 0;
}

static int list_all(struct listing *l, struct err *e)
{
	auto_free pid_t *pids = NULL;
	size_t cnt;
	int err = find_pids(l, &pids, &cnt, e);

	if (err)
		return err;
	for (size_t i = 0; i < cnt; i++) {
		struct err one = { 0 };

		err = list_one(l, pids[i], false, &one);
		if (err == -ENOMEM)
			return err;
		if (err == -PYE_EPRIV) {
			l->refused++;
			l->refusal = one;
		}
	}
	return 0;
}

static int parse_pid(const char *text, pid_t *pid)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (end == text || *end || errno || value <= 0 || value > INT32_MAX)
		return -EINVAL;
	*pid = (pid_t)value;
	return 0;
}

static int list_given(struct listing *l, const struct opt_rest *rest, struct err *e)
{
	for (int i = 0; i < rest->operand_cnt; i++) {
		struct proc_pid held;
		pid_t pid;
		int err;

		if (parse_pid(rest->operands[i], &pid))
			return -PYE_EUSAGE;
		err = proc_pid__open(pid, &held, e);
		if (err)
			return err;
		err = list_one(l, held.pid, true, e);
		proc_pid__close(&held);
		if (err == -PYE_ENOTPYTHON)
			interp_hint_children(pid, l->opts->engine, l->cache, e);
		if (err)
			return err;
	}
	return 0;
}

static void say_rest(const struct listing *l, bool all)
{
	if (l->refused)
		fprintf(stderr, "%u process%s left out, the last one since %s%s%s\n", l->refused,
			l->refused == 1 ? "" : "es", l->refusal.what,
			l->refusal.hint[0] ? "\n" : "", l->refusal.hint);
	else if (!l->shown && all)
		fprintf(stderr, "no Python process is running%s\n",
			proc_pid_is_ours() ? "" : " in the pid namespace that /proc shows");
}

static int list(const struct list_opts *opts, const struct opt_rest *rest, struct err *e)
{
	struct listing l = { .opts = opts };
	auto_free char *table = NULL;
	size_t size = 0;
	int err = interp_cache__new(&l.cache);

	if (!err)
		err = interp_cache__new(&l.sampled);
	if (!err)
		err = table_begin(&l.json);
	l.rows = err ? NULL : open_memstream(&table, &size);
	if (!err && !l.rows)
		err = -ENOMEM;
	if (!err)
		err = rest->operand_cnt ? list_given(&l, rest, e) : list_all(&l, e);
	if (l.rows && fclose(l.rows))
		err = err ? err : -ENOMEM;
	else if (l.rows)
		columns_print(table, stdout);
	if (opts->json && l.json.mem) {
		outbuf__puts(&l.json, l.shown ? "]\n" : "[]\n");
		if (outbuf__flush(&l.json) && !err)
			err = -PYE_EOUTPUT;
	}
	if (!err)
		say_rest(&l, !rest->operand_cnt);
	outbuf__done(&l.json);
	interp_cache__free(l.cache);
	interp_cache__free(l.sampled);
	return err;
}

static int probes_of_process(pid_t given, const char *engine, struct err *e)
{
	auto_free struct interp *in = malloc(sizeof(*in));
	auto_fn(proc_pid__close) struct proc_pid held = { .fd = -1 };
	char title[1024];
	int err;

	if (!in)
		return -ENOMEM;
	err = proc_pid__open(given, &held, e);
	if (!err)
		err = interp__find(held.pid, engine, in, e);
	if (err)
		return err;
	text_escape(title, sizeof(title), in->path, strlen(in->path));
	err = list_probes(&in->plan, title, stdout);
	interp__done(in);
	return err;
}

/* Puts "FILE: " before the sentence of an error. */
static int name_file(const char *title, int err, struct err *e)
{
	const struct err inner = *e;

	if (err)
		err_set(e, err, "%.200s: %s", title, inner.what[0] ? inner.what : err_str(err));
	if (err)
		err_hint(e, "%s", inner.hint);
	return err;
}

static int probes_of_file(const char *path, const char *engine, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_free struct interp_file *file = malloc(sizeof(*file));
	char title[1024];

	if (!file)
		return -ENOMEM;
	text_escape(title, sizeof(title), path, strlen(path));
	if (fd < 0) {
		int err = -errno;

		return err_set(e, err == -EACCES ? -PYE_EPRIV : -PYE_ETARGET, "cannot open %s: %s",
			       title, err_str(err));
	}
	interp_file__read(fd, path, engine, file);
	*e = file->e;
	if (file->err)
		return file->err == -PYE_EFORMAT ? file->err : name_file(title, file->err, e);
	return list_probes(&file->plan, title, stdout);
}

static bool is_engine(const char *name)
{
	return !strcmp(name, "auto") || !strcmp(name, "uprobe") || !strcmp(name, "usdt");
}

int cmd_list(int argc, char **argv)
{
	struct list_opts opts = { 0 };
	struct opt_rest rest;
	struct err e = { 0 };
	pid_t pid;
	int err = options_parse(&command, argc, argv, &opts, &rest);

	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	if (rest.command_cnt)
		return err_exit_code(options_usage(&command, "no command is run here"));
	if (!is_engine(opts.engine))
		return err_exit_code(
			options_usage(&command, "the engine is one of auto, uprobe and usdt"));
	if (select_any(&opts.select) && (opts.probes || rest.operand_cnt))
		return err_exit_code(options_usage(
			&command, "want processes, containers or probes, one of the three"));
	if (opts.probes && rest.operand_cnt)
		return err_exit_code(options_usage(&command, "--probes takes one process or file"));
	if (!opts.probes)
		err = list(&opts, &rest, &e);
	else if (!parse_pid(opts.probes, &pid))
		err = probes_of_process(pid, opts.engine, &e);
	else
		err = probes_of_file(opts.probes, opts.engine, &e);
	if (!err && fflush(stdout))
		err = -PYE_EOUTPUT;
	if (err == -PYE_EUSAGE)
		return err_exit_code(options_usage(&command, "a process is given by its number"));
	return err ? cmd_fail(command.name, err, &e) : 0;
}
