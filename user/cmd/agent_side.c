// SPDX-License-Identifier: Apache-2.0
/* What the agent does beside sampling, in the loop of its run: requests, settings, limits, health. */
#define LOG_DOMAIN "agent"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent_priv.h"
#include "kube/watch.h"
#include "net/httpd.h"
#include "sink/sender.h"

#define LOOK_NS	     1000000000ull
#define MEMORY_BELOW 0.9 /* of the ceiling: it is over */

/* --- settings --- */

uint32_t agent_cpu_limit(const struct agent_opts *o)
{
	uint64_t pct = o->max_cpu_pct * (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);

	return pct > UINT32_MAX ? UINT32_MAX : (uint32_t)pct;
}

/* A profile has each name once: the later value goes before. */
static void put_label(struct agent *a, uint32_t *cnt, struct store_label label)
{
	uint32_t at = 0;

	while (at < *cnt && strcmp(a->labels[at].name, label.name) != 0)
		at++;
	a->labels[at] = label;
	*cnt += at == *cnt;
}

void agent_set_labels(struct agent *a)
{
	const struct agent_opts *o = a->opts;
	uint32_t cnt = 0;

	agent_kube_set(a);
	put_label(a, &cnt, (struct store_label){ "node", a->node });
	for (uint32_t i = 0; i < o->labels.cnt; i++)
		put_label(a, &cnt, o->labels.items[i]);
	put_label(a, &cnt, (struct store_label){ AGENT_TYPE_LABEL, "cpu" });
	a->rules = (struct service_rules){ .relabel = o->relabel,
					   .include = o->include.items,
					   .include_cnt = o->include.cnt,
					   .exclude = o->exclude.items,
					   .exclude_cnt = o->exclude.cnt,
					   .pods = &a->pods };
	a->judge_all = true;
	a->window = (struct window_opts){ .labels = a->labels,
					  .label_cnt = cnt,
					  .rules = &a->rules,
					  .off_min_ns = o->off_cpu_ns };
}

/* What is known of its pod may still change: the window that it is in tells. */
static bool is_wanted(void *ctx, const struct service *service)
{
	const struct agent *a = ctx;
	struct service shaped;

	if (a->kube && pods_is_unknown(&a->pods, service))
		return true;
	return service_apply(&a->rules, service, &shaped);
}

static void want(void *ctx, uint32_t process, pid_t pid, bool wanted)
{
	session__want(((struct agent *)ctx)->session, process, pid, wanted);
}

/* Processes whose profiles nobody wants are not sampled. */
static void judge(struct agent *a)
{
	static const struct services_judge by_rules = { is_wanted, want };

	if (a->session && (a->judge_new || a->judge_all)) {
		services__judge(a->services, a->judge_all, &by_rules, a);
		a->judge_new = a->judge_all = false;
	}
}

/* A file that is not good changes nothing. */
static void reload(struct agent *a)
{
	struct agent_settings *next;
	char fixed[128];
	struct err e = { 0 };
	int err;

	a->reload = false;
	next = agent_settings_load(a->start->argc, a->start->argv, a->start->given, &err, &e);
	if (!next) {
		a->totals.reloads_failed++;
		log_warn("%s; the settings stay as they are", e.what[0] ? e.what : err_str(err));
		return;
	}
	if (agent_settings_fixed(&a->first->opts, &next->opts, fixed, sizeof(fixed)))
		log_warn("a new %s takes a new start of the agent", fixed);
	agent_settings_keep(&next->opts, &a->first->opts);
	if (a->settings != a->first)
		agent_settings_free(a->settings);
	a->settings = next;
	a->opts = &next->opts;
	a->totals.reloads++;
	agent_set_labels(a);
	if (a->session && a->opts->off_cpu_ns)
		session__wait_min(a->session, a->opts->off_cpu_ns);
	log_info("the settings were read again");
}

bool agent_side_signal(void *ctx, int number)
{
	struct agent *a = ctx;

	a->reload |= number == SIGHUP;
	a->burst_asked |= number == SIGUSR1;
	return number == SIGHUP || number == SIGUSR1;
}

/* --- files that say what to do --- */

/* Only root, or the agent's user, can have put it there: the folder is theirs, too. */
static bool is_trusted(const char *path)
{
	auto_free char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	struct stat st, of;

	if (!slash)
		return false;
	*(slash == folder ? slash + 1 : slash) = '\0';
	if (lstat(path, &st) || lstat(folder, &of) || !S_ISREG(st.st_mode))
		return false;
	return (!st.st_uid || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (!of.st_uid || of.st_uid == geteuid()) && !(of.st_mode & (S_IWGRP | S_IWOTH));
}

static void ask_burst(struct agent *a, const struct request *r, const char *whose)
{
	struct err e = { 0 };
	int err = agent_burst(a, r, NULL, &e);

	if (err)
		log_warn("no burst for %s: %s", whose, e.what[0] ? e.what : err_str(err));
}

/* The file is gone when it was taken. */
static void look_for_burst(struct agent *a)
{
	const char *path = a->opts->burst_file;
	auto_close int fd = -1;
	char text[REQUEST_BYTES];
	struct request r;
	struct err e = { 0 };
	ssize_t n;

	if (!*path || access(path, F_OK) || !is_trusted(path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0 || unlink(path))
		return;
	text[n] = '\0';
	if (request_parse(text, &r, &e) || r.kind != REQUEST_BURST)
		log_warn("%s is no request for a burst", path);
	else
		ask_burst(a, &r, "the file");
}

/* --- limits --- */

static const char *const state_said[AGENT_STATE_CNT] = {
	[AGENT_RUNNING] = "sampling goes on",
	[AGENT_OFF] = "switched off: nothing is sampled while the file of kill_switch is there",
	[AGENT_OVER_MEMORY] = "above max_memory: nothing is sampled until it is below that",
};

/* @own: without what is in files, which the agent has as well. 0: it has ended. */
static uint64_t resident_bytes(pid_t pid, bool own)
{
	unsigned long long all = 0, in_files = 0;
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*u %llu %llu", &all, &in_files) != 2) // NOLINT(cert-err34-c)
		all = in_files = 0;
	if (f)
		fclose(f);
	return (all - (own && in_files < all ? in_files : 0)) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static enum agent_state state_now(struct agent *a)
{
	const struct agent_opts *o = a->opts;
	bool was_over = a->state == AGENT_OVER_MEMORY;

	a->sender_bytes = sender__pid(a->sender) ? resident_bytes(sender__pid(a->sender), true) : 0;
	a->rss_bytes = resident_bytes(getpid(), false) + a->sender_bytes;
	if (*o->kill_switch && is_trusted(o->kill_switch))
		return AGENT_OFF;
	if ((double)a->rss_bytes > (double)o->max_memory * (was_over ? MEMORY_BELOW : 1))
		return AGENT_OVER_MEMORY;
	return AGENT_RUNNING;
}

static void obey(struct agent *a)
{
	enum agent_state state = state_now(a);
	uint32_t limit = state == AGENT_RUNNING ? agent_cpu_limit(a->opts) : 0;

	if (state != a->state)
		log_warn("%s", state_said[state]);
	if (state != AGENT_RUNNING)
		agent_burst_stop(a);
	if (limit != a->max_cpu_pct)
		session__limit(a->session, limit);
	a->max_cpu_pct = limit;
	a->state = state;
}

/* --- who asks --- */

static void say_status(struct agent *a, struct control_conn *conn, bool json)
{
	auto_fn(membuf__done) struct membuf text = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };

	if (!outbuf__init(&b, 4096, membuf__write, &text)) {
		(json ? agent_status_json : agent_status_text)(a, &b);
		outbuf__putc(&b, '\0');
		if (!outbuf__flush(&b) && text.data)
			control__say(conn, text.data);
	}
	control__end(conn);
}

static void on_asked(void *ctx, struct control_conn *conn, const struct request *request)
{
	struct agent *a = ctx;
	struct err e = { 0 };
	int err;

	if (request->kind == REQUEST_STATUS) {
		say_status(a, conn, request->json);
		return;
	}
	err = agent_burst(a, request, conn, &e);
	if (!err)
		return; /* he hears of it */
	control__say(conn, "error: ");
	control__say(conn, e.what[0] ? e.what : err_str(err));
	control__say(conn, "\n");
	control__end(conn);
}

static void on_gone(void *ctx, struct control_conn *conn)
{
	struct agent *a = ctx;

	if (a->burst_conn == conn)
		a->burst_conn = NULL;
}

static void answer_text(const struct httpd_request *r, unsigned int status, const char *type,
			const char *text, size_t len)
{
	const struct httpd_header headers[] = { { "Content-Type", type },
						{ "X-Content-Type-Options", "nosniff" } };

	httpd_answer(r, &(struct httpd_answer){ .status = status,
						.headers = headers,
						.header_cnt = 2,
						.text = text,
						.text_len = len });
}

static void answer_metrics(const struct agent *a, const struct httpd_request *r)
{
	auto_fn(membuf__done) struct membuf text = { 0 };
	auto_fn(outbuf__done) struct outbuf b = { 0 };

	if (outbuf__init(&b, 8192, membuf__write, &text))
		return;
	agent_metrics(a, &b);
	if (!outbuf__flush(&b))
		answer_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", text.data,
			    text.len);
}

static void on_http(void *ctx, const struct httpd_request *r)
{
	const struct agent *a = ctx;
	bool health = !strcmp(r->path, "/healthz"), ready = !strcmp(r->path, "/readyz");
	static const char
		full[] = "the disk of the store is full or read-only: profiles are not written\n",
		stuck[] = "the file system of the store does not answer: windows wait in memory\n";

	if (r->method != HTTPD_GET && r->method != HTTPD_HEAD)
		answer_text(r, 405, "text/plain", "GET only\n", 9);
	else if (!strcmp(r->path, "/metrics"))
		answer_metrics(a, r);
	else if (ready && a->problems.len)
		answer_text(r, 503, "text/plain; charset=utf-8", a->problems.text, a->problems.len);
	else if (ready && a->full)
		answer_text(r, 503, "text/plain", full, sizeof(full) - 1);
	else if (ready && agent_store_is_stuck(a))
		answer_text(r, 503, "text/plain", stuck, sizeof(stuck) - 1);
	else if (health || ready)
		(health ? agent_is_alive(a) : agent_is_ready(a))
			? answer_text(r, 200, "text/plain", "ok\n", 3)
			: answer_text(r, 503, "text/plain", "not yet\n", 8);
}

/* --- set-up --- */

int agent_wait_for(struct agent *a, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* What was asked for has to be there; of the default another agent may have it. */
static int or_without(int err, bool asked, struct err *e)
{
	if (!err || asked || err == -ENOMEM)
		return err;
	log_warn("%s", e->what);
	*e = (struct err){ 0 };
	return 0;
}

static int open_control(struct agent *a, struct err *e)
{
	const char *path = a->opts->socket ? a->opts->socket : AGENT_SOCKET;
	int err;

	if (!*path)
		return 0;
	if (!a->opts->socket)
		mkdir(AGENT_RUN_DIR, 0755);
	err = control__new(&a->control, path, on_asked, on_gone, a, e);
	err = or_without(err, a->opts->socket != NULL, e);
	return err || !a->control ? err : agent_wait_for(a, control__fd(a->control));
}

static int open_http(struct agent *a, struct err *e)
{
	const char *listen = a->opts->listen ? a->opts->listen : AGENT_LISTEN;
	struct httpd_opts opts = { .answer = on_http, .ctx = a };
	char address[64];
	int err;

	if (!*listen)
		return 0;
	err = agent_listen_parse(listen, address, sizeof(address), &opts.port, e);
	opts.addresses[0] = address;
	err = err ? err : httpd__new(&a->httpd, &opts, e);
	err = or_without(err, a->opts->listen != NULL, e);
	return err || !a->httpd ? err : agent_wait_for(a, httpd__fd(a->httpd));
}

int agent_side_open(struct agent *a, struct err *e)
{
	static const struct rlimit none = { 0, 0 };
	int err;

	/* what targets' stacks say, and tokens, would be in a core file */
	if (setrlimit(RLIMIT_CORE, &none))
		return -errno;
	a->start_ns = a->tick_ns = a->burst_filled_ns = now_ns();
	a->burst_tokens_ns = (int64_t)a->opts->burst_budget_ns;
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll_fd < 0)
		return -errno;
	err = a->kube ? agent_wait_for(a, kube__fd(a->kube)) : 0;
	err = err ? err : open_control(a, e);
	return err ? err : open_http(a, e);
}

void agent_side_close(struct agent *a)
{
	agent_burst_stop(a);
	control__free(a->control);
	a->control = NULL;
	httpd__free(a->httpd);
	a->httpd = NULL;
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	a->epoll_fd = -1;
}

void agent_side_tick(void *ctx, uint64_t now)
{
	struct agent *a = ctx;

	a->tick_ns = now;
	session__beside(a->session, sender__cpu_ns(a->sender));
	if (a->control)
		control__turn(a->control, now);
	if (a->httpd)
		httpd__turn(a->httpd);
	agent_store_turn(a);
	agent_kube_tick(a, now);
	if (a->reload)
		reload(a);
	judge(a);
	if (a->burst_asked)
		ask_burst(a, &(struct request){ .kind = REQUEST_BURST }, "SIGUSR1");
	a->burst_asked = false;
	agent_burst_tick(a, now);
	if (now < a->next_look_ns)
		return;
	a->next_look_ns = now + LOOK_NS;
	obey(a);
	look_for_burst(a);
}
