// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "agent"
#include "cmd/agent_problems.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/agent_opts.h"
#include "cmd/doctor_check.h"
#include "cmd/run.h"
#include "net/httpd.h"

static void add(struct agent_problems *p, const char *what, const char *fix)
{
	size_t room = sizeof(p->text) - p->len, fix_len = strcspn(fix, "\n");
	char shown[sizeof(((struct err *)0)->what) * 2], mend[sizeof(((struct check *)0)->fix) * 2];
	int n;

	text_escape(shown, sizeof(shown), what, strlen(what));
	text_escape(mend, sizeof(mend), fix, fix_len);
	/* several features can want for the same thing */
	if (*mend && strstr(p->text, mend))
		return;
	n = snprintf(p->text + p->len, room, "%s%s%s\n", shown, *mend ? "\n    " : "", mend);
	if (n < 0 || (size_t)n >= room) {
		p->text[p->len] = '\0';
		return;
	}
	p->len += (size_t)n;
	log_warn("%s%s%s", shown, *mend ? "; " : "", mend);
}

static bool is_problem(const struct check *c)
{
	return c->state == CHECK_MISSING ||
	       (c->state != CHECK_OK && c->fix[0] &&
		(!strcmp(c->name, "pid_namespace") || !strcmp(c->name, "perf_events") ||
		 !strcmp(c->name, "store") || !strcmp(c->name, "admission")));
}

static void gather(struct agent_problems *p, const struct checkup *c)
{
	for (size_t i = 0; i < c->cnt; i++) {
		char what[sizeof(c->items[i].text) + 64];

		if (!is_problem(&c->items[i]))
			continue;
		snprintf(what, sizeof(what), "%s: %s", c->items[i].name, c->items[i].text);
		add(p, what, c->items[i].fix);
	}
}

void agent_problems_look(struct agent_problems *p, const struct agent_opts *o)
{
	struct checkup c = { .where = where_are_we() };

	*p = (struct agent_problems){ .len = 0 };
	if (c.where != WHERE_KUBERNETES)
		return;
	checkup__place(&c);
	checkup__capabilities(&c);
	checkup__pod(&c, o->store);
	gather(p, &c);
}

/* --- an agent that cannot begin --- */

static void on_http(void *ctx, const struct httpd_request *r)
{
	static const struct httpd_header headers[] = { { "Content-Type",
							 "text/plain; charset=utf-8" },
						       { "X-Content-Type-Options", "nosniff" } };
	static const char metrics[] =
		"# HELP pyebpf_blocked 1: the agent cannot begin, /readyz says why\n"
		"# TYPE pyebpf_blocked gauge\npyebpf_blocked 1\n";
	const struct agent_problems *p = ctx;
	bool reads = r->method == HTTPD_GET || r->method == HTTPD_HEAD;
	bool ready = !strcmp(r->path, "/readyz"), health = !strcmp(r->path, "/healthz");
	const char *text = !reads ? "GET only\n" : ready ? p->text : health ? "ok\n" : metrics;

	if (reads && !ready && !health && strcmp(r->path, "/metrics") != 0)
		return;
	httpd_answer(r, &(struct httpd_answer){ .status = !reads  ? 405
							  : ready ? 503
								  : 200,
						.headers = headers,
						.header_cnt = 2,
						.text = text,
						.text_len = strlen(text) });
}

static bool is_over(int signals)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
			return true;
	return false;
}

static void serve(struct httpd *h, int signals)
{
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
				{ .fd = h ? httpd__fd(h) : -1, .events = POLLIN } };

	while (!is_over(signals)) {
		poll(fds, 2, h ? httpd__timeout_ms(h) : -1);
		if (h)
			httpd__turn(h);
	}
}

static struct httpd *listen_on(const struct agent_problems *p, const struct agent_opts *o)
{
	const char *listen = o->listen ? o->listen : AGENT_LISTEN;
	struct httpd_opts opts = { .answer = on_http, .ctx = (void *)p };
	struct httpd *h = NULL;
	char address[64];
	struct err e = { 0 };
	int err = *listen ? agent_listen_parse(listen, address, sizeof(address), &opts.port, &e)
			  : -PYE_EUSAGE;

	opts.addresses[0] = address;
	if (!err && httpd__new(&h, &opts, &e))
		log_warn("%s", e.what);
	return h;
}

void agent_problems_stay(struct agent_problems *p, const struct agent_opts *o, int err,
			 const struct err *e)
{
	struct checkup c = { .where = where_are_we() };
	auto_close int signals = -1;
	struct httpd *h;

	if (c.where != WHERE_KUBERNETES ||
	    (err != -PYE_EPRIV && err != -PYE_EKERNEL && err != -PYE_EOUTPUT))
		return;
	checkup__place(&c);
	checkup__capabilities(&c);
	checkup__pod(&c, o->store);
	if (err != -PYE_EOUTPUT)
		checkup__kernel(&c);
	gather(p, &c);
	if (!p->len)
		add(p, e->what[0] ? e->what : err_str(err), e->hint);
	log_err("nothing is profiled: %s", e->what[0] ? e->what : err_str(err));
	signals = run_signals(false);
	if (signals < 0)
		return;
	h = listen_on(p, o);
	serve(h, signals);
	httpd__free(h);
}
