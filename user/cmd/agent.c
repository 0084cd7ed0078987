// SPDX-License-Identifier: Apache-2.0
/*
 * Continuous profiling of this machine: the run of `record -a` in windows. What comes from the kernel goes into
 * a capture in memory; at the end of a window that becomes one profile for each service, in the store.
 */
#define LOG_DOMAIN "agent"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/services.h"
#include "agent/window.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/run.h"
#include "cmd/select.h"
#include "cmd/session.h"
#include "store/store.h"

#define SECOND	       1000000000ull
#define RATE_MAX       1000u
#define WINDOW_MIN_NS  (10 * SECOND)
#define WINDOW_MAX_NS  (300 * SECOND)
#define FIRST_NS       (10 * SECOND) /* a first profile soon after the start */
#define RING_BYTES     (4u << 20)
#define OPT_LABELS_MAX 16

struct label_list {
	struct store_label items[OPT_LABELS_MAX];
	char names[OPT_LABELS_MAX][64];
	uint32_t cnt;
};

struct agent_opts {
	const char *store;
	uint64_t window_ns, rate, max_age_ns, max_bytes, duration_ns;
	struct label_list labels;
	bool quiet, verbose;
};

static int parse_label(void *field, const char *arg, struct err *e)
{
	struct label_list *list = field;
	const char *equals = strchr(arg, '=');
	char *name = list->names[list->cnt];

	if (list->cnt == OPT_LABELS_MAX)
		return err_set(e, -PYE_EUSAGE, "at most %u labels", OPT_LABELS_MAX);
	if (!equals || (size_t)(equals - arg) >= sizeof(list->names[0]))
		return err_set(e, -PYE_EUSAGE, "want NAME=VALUE: %.60s", arg);
	memcpy(name, arg, (size_t)(equals - arg));
	name[equals - arg] = '\0';
	if (!label_is_name(name) || strlen(equals + 1) > STORE_LABEL_MAX)
		return err_set(e, -PYE_EUSAGE, "no label can be called %.60s", name);
	list->items[list->cnt++] = (struct store_label){ name, equals + 1 };
	return 0;
}

#define AT(member) offsetof(struct agent_opts, member)

/* clang-format off */
static const struct opt_row sampling_rows[] = {
	{ 'r', "rate", "N", OPT_UNSIGNED, AT(rate), "19",
	  "samples of each CPU per second, up to 1000", false, NULL },
	{ 0, "window", "TIME", OPT_DURATION, AT(window_ns), "60s",
	  "time of a profile, 10s to 5m; they begin at its multiples, the first one ends after 10s",
	  false, NULL },
	{ 'd', "duration", "TIME", OPT_DURATION, AT(duration_ns), NULL,
	  "stop after so long; else at SIGTERM or Ctrl-C", false, NULL },
	{ 0 },
};
static const struct opt_row store_rows[] = {
	{ 0, "store", "DIR", OPT_STRING, AT(store), "/var/lib/pyebpf/store",
	  "folder of the profiles", false, NULL },
	{ 0, "max-age", "TIME", OPT_DURATION, AT(max_age_ns), "24h",
	  "profiles that are older are removed", false, NULL },
	{ 0, "max-size", "SIZE", OPT_SIZE, AT(max_bytes), "512M",
	  "the oldest profiles are removed when all have more bytes", false, NULL },
	{ 0, "label", "NAME=VALUE", OPT_CUSTOM, AT(labels), NULL,
	  "put this label on all profiles, beside node, service_name, unit, container_id, executable and "
	  "python; can be repeated", false, parse_label },
	{ 0 },
};
static const struct opt_row other_rows[] = {
	{ 'q', "quiet", NULL, OPT_FLAG, AT(quiet), NULL, "nothing about the windows", false, NULL },
	{ 'v', "verbose", NULL, OPT_FLAG, AT(verbose), NULL, "say what is done", false, NULL },
	{ 0 },
};
static const struct opt_group groups[] = {
	{ "Sampling", sampling_rows, 0 },
	{ "Store", store_rows, 0 },
	{ "Other", other_rows, 0 },
	{ 0 },
};
/* clang-format on */

static const struct opt_command command = {
	.name = "agent",
	.usage = "agent [options]",
	.about = "Profile every Python process of this machine all the time, and keep one profile "
		 "per service and window in a folder: pprof files, which pyebpf fleet adds up.",
	.groups = groups,
	.examples = "  sudo pyebpf agent\n"
		    "  sudo pyebpf agent --window 10s --store /tmp/profiles --label zone=a\n"
		    "  sudo pyebpf agent -r 99 -d 10m --store ten-minutes\n",
};

struct agent {
	const struct agent_opts *opts;
	struct store *store;
	struct services *services;
	struct store_label labels[OPT_LABELS_MAX + 1]; /* node, then those of the options */
	struct window_opts window;
	char node[HOST_NAME_MAX + 1];
	int capture, before; /* descriptors of captures in memory */
	uint64_t windows, profiles, samples, lost, unwritten;
};

/* --- windows --- */

static int new_capture(void)
{
	int fd = memfd_create("pyebpf-window", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void trim(struct agent *a)
{
	const struct store_limits limits = { .max_bytes = a->opts->max_bytes,
					     .max_age_ns = (int64_t)a->opts->max_age_ns };
	struct store_trimmed removed = { 0 };
	struct err e = { 0 };

	if (store__trim(a->store, wall_ns(), &limits, &removed, &e))
		log_warn("%s", e.what[0] ? e.what : "old profiles cannot be removed");
	if (removed.by_bytes)
		log_warn("%" PRIu64 " profiles were removed before their time: the store is full",
			 removed.by_bytes);
}

static void write_window(struct agent *a, int fd)
{
	struct window_result got = { 0 };
	struct err e = { 0 };
	int err;

	err = lseek(fd, 0, SEEK_SET)
		      ? -errno
		      : window_write(a->store, fd, a->services, &a->window, &got, &e);
	a->windows++;
	a->profiles += got.profiles;
	a->samples += got.samples;
	a->lost += got.lost;
	a->unwritten += got.unwritten + (err != 0);
	if (err || got.unwritten)
		log_warn("a window is not whole: %s", e.what[0] ? e.what : err_str(err));
	if (!a->opts->quiet)
		log_info("window %" PRIu64 ": %" PRIu64 " profiles, %" PRIu64 " samples, %" PRIu64
			 " bytes, %" PRIu64 " lost",
			 a->windows, got.profiles, got.samples, got.bytes, got.lost);
	trim(a);
}

static int next_part(void *ctx)
{
	struct agent *a = ctx;
	int fd = new_capture();

	if (fd < 0) {
		log_warn("no memory for a window: %s", err_str(fd));
		return fd;
	}
	a->before = a->capture;
	a->capture = fd;
	return fd;
}

static void part_done(void *ctx)
{
	struct agent *a = ctx;

	write_window(a, a->before);
	close(a->before);
	a->before = -1;
}

/* --- processes --- */

static void on_process(void *ctx, const struct trace_process *process, pid_t pid)
{
	struct agent *a = ctx;
	struct service service;

	service_of(pid, process->comm, process->exe, process->python, &service);
	if (services__set(a->services, process->id, &service))
		log_warn("no memory for the labels of process %u", process->pid);
}

static void on_forked(void *ctx, uint32_t from, uint32_t process)
{
	struct agent *a = ctx;
	const struct service *service = services__get(a->services, from);
	struct service copy;

	if (!service)
		return;
	service_copy(&copy, service);
	services__set(a->services, process, &copy);
}

/* --- the run --- */

static void agent_done(struct agent *a)
{
	if (a->capture >= 0)
		close(a->capture);
	services__free(a->services);
	store__free(a->store);
}

static void set_labels(struct agent *a)
{
	struct utsname uts = { 0 };

	uname(&uts);
	text_escape(a->node, sizeof(a->node), uts.nodename, strlen(uts.nodename));
	a->labels[a->window.label_cnt++] = (struct store_label){ "node", a->node };
	for (uint32_t i = 0; i < a->opts->labels.cnt; i++)
		a->labels[a->window.label_cnt++] = a->opts->labels.items[i];
	a->window.labels = a->labels;
}

/* So that the machines of a fleet do not end their windows, and send them, at the same moment. */
static uint64_t offset_of(const char *node, uint64_t window_ns)
{
	uint64_t hash = 14695981039346656037ull;

	for (; *node; node++)
		hash = (hash ^ (uint8_t)*node) * 1099511628211ull;
	return hash % (window_ns / SECOND) * SECOND;
}

static int open_agent(struct agent *a, struct err *e)
{
	const struct store_mended *mended;
	int err = store__open(&a->store, a->opts->store, STORE_WRITE, e);

	err = err ? err : services__new(&a->services);
	if (err)
		return err;
	mended = store__mended(a->store);
	if (mended->added || mended->removed || mended->unreadable)
		log_info("the catalogue was mended: %" PRIu64 " added, %" PRIu64 " gone, %" PRIu64
			 " files are no windows",
			 mended->added, mended->removed, mended->unreadable);
	set_labels(a);
	a->capture = new_capture();
	return a->capture < 0 ? a->capture : 0;
}

static int run_agent(const struct agent_opts *o, const char *arguments, struct err *e)
{
	static const struct select_args everybody = { .all = true };
	auto_fn(agent_done) struct agent a = { .opts = o, .capture = -1, .before = -1 };
	auto_fn(session__freep) struct session *session = NULL;
	struct session_result run = { 0 };
	struct session_opts so = {
		.engine = "auto",
		.select = &everybody,
		.duration_ns = o->duration_ns,
		.limits.split = { .every_ns = o->window_ns, .first_ns = FIRST_NS },
		.files = { .ctx = &a, .next_part = next_part, .part_done = part_done },
		.seen = { .ctx = &a, .process = on_process, .forked = on_forked },
		.ring_bytes = RING_BYTES,
		.sample_ns = SECOND / o->rate,
		.on_cpu = true,
		.quiet = true,
		.arguments = arguments,
	};
	int err = open_agent(&a, e);

	if (err)
		return err;
	so.limits.split.offset_ns = offset_of(a.node, o->window_ns);
	err = session__new(&session, &so, e);
	err = err ? err : session__run(session, a.capture, &run, e);
	if (err == -PYE_ENOTPYTHON) { /* of a machine without Python there is nothing to say */
		log_info("no Python process was seen");
		return 0;
	}
	if (err)
		return err;
	write_window(&a, a.capture);
	log_info("%" PRIu64 " windows, %" PRIu64 " profiles, %" PRIu64 " samples, %" PRIu64
		 " lost, %" PRIu64 " profiles not written",
		 a.windows, a.profiles, a.samples, a.lost, a.unwritten);
	return a.unwritten ? err_set(e, -PYE_EOUTPUT, "%" PRIu64 " profiles could not be written",
				     a.unwritten)
			   : 0;
}

static int check(const struct agent_opts *o, const struct opt_rest *rest)
{
	if (rest->operand_cnt || rest->command_cnt)
		return options_usage(&command, "takes no operands");
	if (!o->rate || o->rate > RATE_MAX)
		return options_usage(&command, "--rate: 1 to %u", RATE_MAX);
	if (o->window_ns < WINDOW_MIN_NS || o->window_ns > WINDOW_MAX_NS || o->window_ns % SECOND)
		return options_usage(&command, "--window: 10s to 5m, whole seconds");
	return 0;
}

int cmd_agent(int argc, char **argv)
{
	struct agent_opts opts = { 0 };
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
	log_set_level(opts.verbose ? LOG_DEBUG : opts.quiet ? LOG_WARN : LOG_INFO);
	err = run_agent(&opts, arguments, &e);
	return err ? cmd_fail(command.name, err, &e) : 0;
}
