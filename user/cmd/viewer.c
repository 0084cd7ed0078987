// SPDX-License-Identifier: Apache-2.0
#include "cmd/viewer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/outfile.h"
#include "cmd/browse.h"
#include "cmd/run.h"
#include "export/page.h"
#include "view/origin.h"

#define FIREFOX	   "https://profiler.firefox.com"
#define IDLE_NS	   (15 * 60ull * 1000000000)

#define AT(member) offsetof(struct viewer_opts, member)

/* clang-format off */
const struct opt_row viewer_rows[] = {
	{ 0, "firefox", NULL, OPT_FLAG, AT(firefox), NULL,
	  "hand the profile to " FIREFOX ", which asks the browser for leave to reach this machine",
	  false, NULL },
	{ 0, "firefox-url", "URL", OPT_STRING, AT(firefox_url), NULL,
	  "the same with an instance of one's own, like https://profiler.example.com", false, NULL },
	{ 0, "no-open", NULL, OPT_FLAG, AT(no_open), NULL,
	  "print the address, start no browser", false, NULL },
	{ 0, "once", NULL, OPT_FLAG, AT(once), NULL,
	  "end when the profile was delivered", false, NULL },
	{ 0, "port", "N", OPT_UNSIGNED, AT(port), "0", "to listen on, 0 for any that is free", false, NULL },
	{ 0, "address", "ADDRESS", OPT_STRING, AT(address), NULL,
	  "to listen on in place of the loopback addresses; others can then connect", false, NULL },
	{ 0 },
};
/* clang-format on */

void viewer__done(struct viewer *c)
{
	while (c->cnt)
		close(c->files[--c->cnt].fd);
}

int viewer_write(void *ctx, const void *data, size_t len)
{
	const int *fd = ctx;
	const char *at = data;

	while (len) {
		ssize_t n = write(*fd, at, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Return: the descriptor, for writing; closed by viewer__done(). */
static int add_file(struct viewer *c, const char *name, const char *type)
{
	int fd = memfile_open("pyebpf-view");

	if (fd < 0)
		return -errno;
	c->files[c->cnt++] = (struct serve_file){ .name = name, .type = type, .fd = fd };
	return fd;
}

static int add_part(struct viewer *c, const char *name, const char *type,
		    const enum page_part *parts, size_t part_cnt)
{
	int fd = add_file(c, name, type), err = fd < 0 ? fd : 0;

	for (size_t i = 0; i < part_cnt && !err; i++)
		err = page_put(parts[i], viewer_write, &fd);
	return err;
}

static int add_page(struct viewer *c)
{
	static const char html[] =
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pyebpf</title>"
		"<link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"style.css\"></head>"
		"<body><script src=\"script.js\"></script></body></html>\n";
	const enum page_part script[] = { PAGE_SERVE, PAGE_SCRIPT };
	const enum page_part style[] = { PAGE_STYLE };
	int fd = add_file(c, "", "text/html; charset=utf-8");
	int err = fd < 0 ? fd : viewer_write(&fd, html, sizeof(html) - 1);

	err = err ? err : add_part(c, "script.js", "text/javascript; charset=utf-8", script, 2);
	return err ? err : add_part(c, "style.css", "text/css; charset=utf-8", style, 1);
}

int viewer__add(struct viewer *c, bool firefox)
{
	int fd = add_file(c, firefox ? "profile.json.gz" : "profile", "application/octet-stream");

	if (fd < 0)
		return fd;
	c->files[c->cnt - 1].goal = true;
	c->files[c->cnt - 1].shared = firefox;
	return fd;
}

/* What ends the server. A browser that ends does not. */
static int stop_signals(void)
{
	auto_close int fd = run_signals(false);
	sigset_t set;

	if (fd < 0)
		return fd;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signal(SIGCHLD, SIG_IGN);
	return signalfd(fd, &set, 0) < 0 ? -errno : take_fd(&fd);
}

static int refuse_root(struct err *e)
{
	err_set(e, -PYE_EPRIV, "a server for a browser does not run as root");
	err_hint(e,
		 "run it as a user, or make one page of it: pyebpf convert FILE -o FILE.html, or "
		 "pyebpf fleet flame -o FILE.html");
	return -PYE_EPRIV;
}

int viewer_leave_root(struct err *e)
{
	int err = as_user_for_good();

	if (err)
		return err_set(e, -PYE_EPRIV, "cannot become the user who typed sudo: %s",
			       err_str(err));
	return geteuid() != 0 && getuid() != 0 ? 0 : refuse_root(e);
}

/* What to open: the page, or the Firefox Profiler with the profile's address in its own. */
static void make_url(char *out, size_t size, const struct serve *s, const struct viewer_opts *opts)
{
	const char *own = serve__url(s);
	size_t at;

	if (!opts->firefox) {
		snprintf(out, size, "%s", own);
		return;
	}
	at = (size_t)snprintf(out, size, "%s/from-url/", opts->site);
	for (; *own && at + 4 < size; own++)
		at += (size_t)snprintf(out + at, size - at,
				       *own == ':' || *own == '/' ? "%%%02X" : "%c", *own);
	snprintf(out + at, size - at, "profile.json.gz");
}

static void explain_firefox(const char *site)
{
	fprintf(stderr,
		"The browser asks whether %s may reach this machine (its local network, its own\n"
		"apps and services): allow it, the page fetches the profile from here. If loading fails: the site's\n"
		"settings, local network access. The profile has paths, names of functions and the command line; it\n"
		"stays in the browser unless you press Upload.\n",
		strstr(site, "://") + 3);
}

static void explain_ssh(const struct serve *s)
{
	char server[64];

	fprintf(stderr,
		"This is a session of ssh. On the machine with the browser run\n"
		"    ssh -L %u:127.0.0.1:%u %s\n"
		"and open the address there.\n",
		serve__port(s), serve__port(s), browse_ssh_server(server, sizeof(server)));
}

static int serve(const struct viewer *c, const struct viewer_opts *opts, struct err *e)
{
	const struct serve_opts serve_opts = {
		.address = opts->address,
		.port = (uint16_t)opts->port,
		.once = opts->once,
		.idle_ns = IDLE_NS,
		.files = c->files,
		.file_cnt = c->cnt,
		.origin = opts->firefox ? opts->site : NULL,
		.policy = opts->firefox
				  ? "default-src 'none'"
				  : "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
				    "style-src 'self' 'unsafe-inline'; img-src data: blob:; "
				    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
				    "frame-ancestors 'none'",
	};
	auto_fn(serve__freep) struct serve *s = NULL;
	auto_close int stop_fd = stop_signals();
	char url[1024];
	int err = stop_fd < 0 ? stop_fd : serve__new(&s, &serve_opts, e);

	if (err)
		return err;
	if (opts->address)
		log_warn("others can connect to %s: whoever has the address below sees the profile",
			 opts->address);
	make_url(url, sizeof(url), s, opts);
	if (opts->firefox)
		explain_firefox(opts->site);
	puts(url);
	fflush(stdout);
	if (browse_is_ssh())
		explain_ssh(s);
	else if (!opts->no_open && browse_open(url))
		fputs("No browser could be started here: open this address.\n", stderr);
	return serve__run(s, stop_fd);
}

int viewer_check(struct viewer_opts *opts, struct err *e)
{
	const char *site = opts->firefox_url ? opts->firefox_url : FIREFOX;
	unsigned char number[16];
	uid_t uid;
	gid_t gid;

	if (opts->port > UINT16_MAX)
		return err_set(e, -PYE_EUSAGE, "--port: want a number up to 65535");
	if (opts->address && inet_pton(AF_INET, opts->address, number) != 1 &&
	    inet_pton(AF_INET6, opts->address, number) != 1)
		return err_set(e, -PYE_EUSAGE, "--address: want an address as a number");
	if (origin_of(opts->site, sizeof(opts->site), site))
		return err_set(e, -PYE_EUSAGE,
			       "--firefox-url: want a site, like https://profiler.example.com");
	opts->firefox = opts->firefox || opts->firefox_url;
	if (!opts->firefox && !page_built_in())
		return err_set(e, -PYE_EUSAGE, PAGE_MISSING);
	if (!geteuid() && !(outfile_invoker(&uid, &gid) && uid))
		return refuse_root(e);
	return 0;
}

int viewer__run(struct viewer *c, const struct viewer_opts *opts, struct err *e)
{
	int err = opts->firefox ? 0 : add_page(c);

	return err ? err : serve(c, opts, e);
}
