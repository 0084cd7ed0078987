// SPDX-License-Identifier: Apache-2.0
/*
 * A live table over the sampler. The run is a flight recorder that keeps a few seconds of samples in
 * memory; at each look it is written as a small capture, which is read as any other.
 */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/text.h"
#include "capfile/writer.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session.h"
#include "cmd/table.h"
#include "decode/decode.h"
#include "export/stats.h"
#include "proc/info.h"
#include "tui/screen.h"

#define RATE_MAX      1000u
#define WINDOW_MAX_NS (3600 * 1000000000ull)
#define KEEP_BYTES    (32u << 20) /* of samples, compressed */
#define RING_BYTES    (8u << 20)
#define KEY_REDRAW    12 /* Ctrl-L */
#define PIPE_WIDTH    160

struct top_opts {
	struct pid_list pids;
	struct select_args select;
	bool subprocesses, once, json, verbose;
	uint64_t duration_ns, rate, window_ns, every_ns, top_cnt;
	enum window_of mode;
	enum ranking_by by;
	enum ranking_sort sort;
};

struct top {
	const struct top_opts *opts;
	struct view view;
	struct table_about about;
	char what[256];
	char note[96];
	int now_fd; /* what was kept at the last look, a capture */
	uint64_t start_ns, now_ns; /* of the run, of the last look */
	struct window *window; /* what is shown; NULL: nothing yet */
	struct table table;
	struct screen *screen; /* NULL: tables go to stdout one after the other */
	unsigned int printed;
};

static int parse_mode(void *field, const char *arg, struct err *e)
{
	static const char *const names[] = {
		[WINDOW_CPU] = "cpu", [WINDOW_WAITS] = "offcpu", [WINDOW_WALL] = "wall", NULL
	};
	int i = opt_word(names, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want cpu, offcpu or wall");
	*(enum window_of *)field = (enum window_of)i;
	return 0;
}

static int parse_sort(void *field, const char *arg, struct err *e)
{
	int i = opt_word(view_sort_names, arg);

	if (i < 0)
		return err_set(e, -PYE_EUSAGE, "want self, total or samples");
	*(enum ranking_sort *)field = (enum ranking_sort)i;
	return 0;
}

#define AT(member) offsetof(struct top_opts, member)

/* clang-format off */
static const struct opt_row target_rows[] = {
	{ 'p', "pid", "PID[,PID]", OPT_CUSTOM, AT(pids), NULL,
	  "look at these processes; can be repeated", false, run_parse_pids },
	{ 's', "subprocesses", NULL, OPT_FLAG, AT(subprocesses), NULL,
	  "and at their children: those that run already, and others from their first moment on", false, NULL },
	{ 0, "children", NULL, OPT_FLAG, AT(subprocesses), NULL, "", true, NULL },
	{ 0 },
};
static const struct opt_row view_rows[] = {
	{ 0, "by", "WHAT", OPT_CUSTOM, AT(by), "function",
	  "a row per function, line, module, thread or process", false, table_parse_by },
	{ 0, "sort", "WHAT", OPT_CUSTOM, AT(sort), "self",
	  "most self, total or samples first", false, parse_sort },
	{ 0, "mode", "NAME", OPT_CUSTOM, AT(mode), "cpu",
	  "time on the CPU (cpu), waiting (offcpu), or both (wall). With -a and cpu waits are not\n"
	  "looked at", false, parse_mode },
	{ 0, "window", "TIME", OPT_DURATION, AT(window_ns), "10s",
	  "the table is of so long before now", false, NULL },
	{ 0, "every", "TIME", OPT_DURATION, AT(every_ns), "1s", "a new table so often", false, NULL },
	{ 'r', "rate", "N", OPT_UNSIGNED, AT(rate), "99",
	  "samples of each CPU per second, up to 1000", false, NULL },
	{ 0 },
};
static const struct opt_row output_rows_top[] = {
	{ 0, "once", NULL, OPT_FLAG, AT(once), NULL,
	  "print one table after the time of the window, or of -d", false, NULL },
	{ 'd', "duration", "TIME", OPT_PERIOD, AT(duration_ns), NULL,
	  "stop after 30, 30s, 5m; else at the end of the targets, q or Ctrl-C", false, NULL },
	{ 'n', "top", "N", OPT_UNSIGNED, AT(top_cnt), "20",
	  "rows of a table that goes to no screen, 0 for all", false, NULL },
	{ 0, "json", NULL, OPT_FLAG, AT(json), NULL, "print JSON objects, no screen", false, NULL },
	{ 'v', "verbose", NULL, OPT_FLAG, AT(verbose), NULL, "say what is done", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Targets", target_rows, 0 },
	{ "More targets", select_rows, AT(select) },
	{ "Table", view_rows, 0 },
	{ "Output", output_rows_top, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "top",
	.usage = "top [options] -p PID[,PID]\n"
		 "top [options] PID\n"
		 "top [options] -a|--comm NAME|--cgroup PATH|--container ID",
	.about =
		"Show where running processes spend their time now: a live table on the terminal, "
		"with keys to sort, filter, group and freeze it (? shows them). Where stdout is no "
		"terminal, one table follows the other. The targets are neither stopped nor written "
		"to.",
	.groups = groups,
	.examples = "  sudo pyebpf top 1234\n"
		    "  sudo pyebpf top -a --by process\n"
		    "  sudo pyebpf top --by line --mode wall -p 1234 -s\n"
		    "  sudo pyebpf top --once -d 5s -p 1234 | head\n"
		    "  sudo pyebpf top --once --json -p 1234 | jq '.rows[0]'\n",
};

/* What was kept at the last look, as the view wants it. */
static int read_kept(struct top *t, int fd)
{
	const struct window_opts opts = { .of = t->view.of,
					  .from_ns = t->now_ns - t->about.window_ns,
					  .until_ns = t->now_ns };
	struct window *window;
	int err = window__new(&window, &opts);

	if (err)
		return err;
	if (lseek(fd, 0, SEEK_SET) < 0)
		err = -errno;
	err = err ? err : decode_file(fd, &window_consumer, window, NULL);
	if (err) {
		window__free(window);
		return err;
	}
	table__done(&t->table);
	window__free(t->window);
	t->window = window;
	return 0;
}

static int rank(struct top *t)
{
	table__done(&t->table);
	return table__init(&t->table, t->window, &t->view);
}

static int print_json(const struct top *t)
{
	auto_fn(outbuf__done) struct outbuf b = { 0 };
	int err = table_begin(&b);

	if (err || !t->window)
		return err;
	stats_json(&b, lines__result(window__lines(t->window)), &t->table.rows,
		   t->opts->top_cnt ? (uint32_t)t->opts->top_cnt : UINT32_MAX);
	return outbuf__flush(&b) || fflush(stdout) ? -PYE_EOUTPUT : 0;
}

static void put_line(const struct table_line *line)
{
	size_t len = strlen(line->text);

	while (len && line->text[len - 1] == ' ')
		len--;
	printf("%.*s\n", (int)len, line->text);
}

/* @rows: at most. */
static int print_table(struct top *t, int width, uint32_t first, uint32_t rows)
{
	struct table_line line, head[TABLE_HEAD_LINES];

	table_head(&t->table, &t->view, &t->about, width, head);
	for (int i = 0; i < TABLE_HEAD_LINES; i++)
		put_line(&head[i]);
	for (uint32_t i = 0; i < rows && first + i < t->table.cnt; i++) {
		table_line(&t->table, &t->view, &t->about, first + i, width, &line);
		put_line(&line);
	}
	if (!t->table.cnt && t->about.note)
		puts(t->about.note);
	return fflush(stdout) ? -PYE_EOUTPUT : 0;
}

static int print(struct top *t)
{
	if (t->opts->json)
		return print_json(t);
	if (t->printed++)
		putchar('\n');
	return print_table(t, PIPE_WIDTH, 0,
			   t->opts->top_cnt ? (uint32_t)t->opts->top_cnt : UINT32_MAX);
}

static int draw(struct top *t, bool anew)
{
	auto_free struct table_line *lines = NULL;
	int width, height;

	screen__size(t->screen, &width, &height);
	lines = calloc((size_t)height + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	table_screen(&t->table, &t->view, &t->about, width, height, lines);
	screen__draw(t->screen, lines, height, anew);
	return 0;
}

static void set_clock(struct top *t, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - t->start_ns;

	t->now_ns = now_ns;
	t->about.elapsed_ns = elapsed_ns;
	/* at first there is less than a whole window */
	t->about.window_ns = elapsed_ns < t->opts->window_ns ? elapsed_ns : t->opts->window_ns;
	if (!t->about.window_ns)
		t->about.window_ns = 1;
}

/* A look at what is kept now. */
static int on_show(void *ctx, struct capw *w, uint64_t now_ns)
{
	struct top *t = ctx;
	int err = 0;

	if (!t->start_ns)
		t->start_ns = now_ns;
	if (!w || t->opts->once || t->view.frozen || now_ns == t->start_ns)
		return t->screen ? draw(t, false) : 0;
	set_clock(t, now_ns);
	if (ftruncate(t->now_fd, 0) || lseek(t->now_fd, 0, SEEK_SET) < 0)
		err = -errno;
	err = err ? err : capw__dump(w, t->now_fd);
	err = err ? err : read_kept(t, t->now_fd);
	err = err ? err : rank(t);
	if (err)
		return err;
	return t->screen ? draw(t, false) : print(t);
}

static int on_change(struct top *t, enum view_change change, bool anew)
{
	int err = 0;

	if (change >= VIEW_READ && t->window)
		err = read_kept(t, t->now_fd);
	if (change >= VIEW_RANK)
		err = err ? err : rank(t);
	return err ? err : change >= VIEW_DRAW || anew ? draw(t, anew) : 0;
}

static int on_input(void *ctx)
{
	struct top *t = ctx;
	int key;

	while (t->screen && (key = screen__key(t->screen))) {
		int err = key < 0 ? 1
				  : on_change(t, view__key(&t->view, (uint32_t)key),
					      key == KEY_REDRAW);

		if (err)
			return err;
		if (t->view.quit)
			return 1;
	}
	return 0;
}

/* The last table, of the samples up to the end, unless another one was frozen. */
static int finish(struct top *t, int end_fd, const struct session_result *run)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	bool was_screen = t->screen;
	int err = 0;

	screen__close(t->screen);
	t->screen = NULL;
	if (!t->view.frozen || !t->window) {
		if (!t->start_ns)
			t->start_ns = run->totals.end_ns - run->duration_ns;
		set_clock(t, run->totals.end_ns);
		err = read_kept(t, end_fd);
		err = err ? err : rank(t);
	}
	t->view.frozen = t->view.typing = false;
	if (err)
		return err;
	if (!was_screen)
		return print(t);
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	/* the prompt wants a line, too */
	return print_table(t, size.ws_col ? size.ws_col : 80, t->view.first,
			   size.ws_row > TABLE_HEAD_LINES + 2 ? size.ws_row - TABLE_HEAD_LINES - 2u
							      : 1);
}

static void describe(struct top *t)
{
	const struct pid_list *pids = &t->opts->pids;
	struct proc_info info;
	char comm[128];

	if (select_any(&t->opts->select))
		snprintf(t->what, sizeof(t->what), "%s",
			 t->opts->select.all ? "all Python processes" : "chosen processes");
	else if (pids->cnt > 1)
		snprintf(t->what, sizeof(t->what), "%zu processes", pids->cnt);
	else if (pids->cnt && !proc_info__read(pids->pids[0], &info))
		snprintf(t->what, sizeof(t->what), "%s %d",
			 text_escape(comm, sizeof(comm), info.comm, strlen(info.comm)),
			 (int)pids->pids[0]);
	snprintf(t->note, sizeof(t->note), "No Python function was %s.",
		 t->view.of == WINDOW_CPU ? "on a CPU" : "seen");
	t->about.what = t->what;
	t->about.note = t->note;
}

/* The screen comes after the checks: what is refused is said on the terminal as it was. */
static int look(struct top *t, struct session *session, int end_fd, struct session_result *run,
		struct err *e)
{
	bool screen = !t->opts->once && !t->opts->json && isatty(STDIN_FILENO) &&
		      isatty(STDOUT_FILENO);
	int err = screen ? screen__open(&t->screen, e) : 0;

	if (err)
		return err;
	err = session__run(session, end_fd, run, e);
	if (err) {
		screen__close(t->screen);
		t->screen = NULL;
		return err;
	}
	return finish(t, end_fd, run);
}

static int top(const struct top_opts *o, const char *arguments, struct session_result *run,
	       struct err *e)
{
	/* the scheduler's events of the whole machine are too many to take unasked */
	const bool waits = o->mode != WINDOW_CPU || !o->select.all;
	struct top t = { .opts = o,
			 .view = { .by = o->by, .sort = o->sort, .of = o->mode, .waits = waits },
			 .about = { .rate = o->rate, .window_ns = o->window_ns } };
	const struct session_view view = { .ctx = &t,
					   .fd = isatty(STDIN_FILENO) ? STDIN_FILENO : -1,
					   .every_ns = o->every_ns,
					   .input = on_input,
					   .show = on_show };
	const struct session_opts so = {
		.engine = "auto",
		.select = select_any(&o->select) ? &o->select : NULL,
		.pids = o->pids.pids,
		.pid_cnt = o->pids.cnt,
		.subprocesses = o->subprocesses,
		.duration_ns = o->once && !o->duration_ns ? o->window_ns : o->duration_ns,
		.limits = { .keep_ns = o->window_ns, .max_bytes = KEEP_BYTES },
		.ring_bytes = RING_BYTES,
		.view = &view,
		.sample_ns = 1000000000ull / o->rate,
		.on_cpu = true,
		.off_cpu = waits,
		.quiet = true,
		.arguments = arguments,
	};
	auto_close int now_fd = memfile_open("top");
	auto_close int end_fd = memfile_open("top");
	auto_fn(session__freep) struct session *session = NULL;
	int err = now_fd < 0 || end_fd < 0 ? -errno : 0;

	describe(&t);
	t.now_fd = now_fd;
	err = err ? err : session__new(&session, &so, e);
	err = err ? err : look(&t, session, end_fd, run, e);
	table__done(&t.table);
	window__free(t.window);
	return err;
}

static int check(struct top_opts *o, const struct opt_rest *rest)
{
	if (run_operands(&command, rest, &o->pids))
		return -PYE_EUSAGE;
	if (rest->command_cnt || (!o->pids.cnt && !select_any(&o->select)))
		return options_usage(&command, "want processes (-p PID, -a and the like)");
	if (select_check(&o->select, o->pids.cnt != 0, rest, &command))
		return -PYE_EUSAGE;
	if (!o->rate || o->rate > RATE_MAX)
		return options_usage(&command, "--rate: 1 to %u", RATE_MAX);
	if (o->window_ns < 100000000u || o->window_ns > WINDOW_MAX_NS)
		return options_usage(&command, "--window: 100ms to 1h");
	if (o->every_ns < 100000000u)
		return options_usage(&command, "--every: at least 100ms");
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct top_opts opts = { 0 };
	struct session_result run = { 0 };
	char arguments[1024];
	struct opt_rest rest;
	struct err e = { 0 };
	int err;

	run_arguments(argc, argv, arguments, sizeof(arguments));
	err = options_parse(&command, argc, argv, &opts, &rest);
	if (err)
		return err == OPTIONS_DONE ? 0 : err_exit_code(err);
	err = check(&opts, &rest);
	if (err)
		return err_exit_code(err);
	setlocale(LC_CTYPE, "");
	if (opts.verbose)
		log_set_level(LOG_DEBUG);
	err = top(&opts, arguments, &run, &e);
	return run_finish(&command, &rest, &run, NULL, err, &e);
}
