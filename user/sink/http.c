// SPDX-License-Identifier: Apache-2.0
#include "sink/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "net/easy.h"

#define SECRET_MAX 4096
#define HEADER_MAX (SECRET_MAX + 64)
#define FDS_MAX	   4

struct http {
	CURLM *multi;
};

struct http_call {
	struct http *http;
	const struct sink_spec *spec;
	CURL *easy;
	struct curl_slist *headers;
	struct membuf reply;
	size_t reply_max;
	bool whole, running;
	long grpc_status;
	char why[CURL_ERROR_SIZE];
};

int http__new(struct http **out, struct err *e)
{
	struct http *h;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return err_set(e, -PYE_EOUTPUT, "libcurl cannot be used");
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->multi = curl_multi_init();
	*out = h;
	return h->multi ? 0 : -ENOMEM;
}

void http__free(struct http *h)
{
	if (!h)
		return;
	curl_multi_cleanup(h->multi);
	free(h);
	curl_global_cleanup();
}

/* --- an answer --- */

static size_t take_body(char *data, size_t size, size_t cnt, void *ctx)
{
	struct http_call *c = ctx;
	size_t len = size * cnt, room = c->reply_max - c->reply.len;

	if (len > room && c->whole)
		return 0;
	if (room && membuf__write(&c->reply, data, len < room ? len : room))
		return 0;
	return len;
}

static size_t take_header(char *data, size_t size, size_t cnt, void *ctx)
{
	static const char name[] = "grpc-status:";
	struct http_call *c = ctx;
	size_t len = size * cnt;
	char value[16];

	if (len > strlen(name) && !strncasecmp(data, name, strlen(name))) {
		snprintf(value, sizeof(value), "%.*s", (int)(len - strlen(name)),
			 data + strlen(name));
		c->grpc_status = strtol(value, NULL, 10);
	}
	return len;
}

/* --- what all requests of a sink have in common --- */

static int set_up(struct http_call *c)
{
	const struct sink_spec *s = c->spec;
	CURL *h = c->easy;
	CURLcode bad = CURLE_OK;

	bad |= curl_easy_setopt(h, CURLOPT_POST, 1L);
	bad |= curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)(s->timeout_ns / 1000000));
	bad |= curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	bad |= curl_easy_setopt(h, CURLOPT_WRITEDATA, c);
	bad |= curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
	bad |= curl_easy_setopt(h, CURLOPT_HEADERDATA, c);
	bad |= curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->why);
	bad |= curl_easy_setopt(h, CURLOPT_PRIVATE, c);
	return bad ? -ENOMEM : 0;
}

int http_call__new(struct http_call **out, struct http *h, const struct sink_spec *spec,
		   size_t reply_max, bool whole)
{
	struct http_call *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	c->http = h;
	c->spec = spec;
	c->reply_max = reply_max;
	c->whole = whole;
	c->easy = easy_new(&(struct easy_tls){ .ca_file = spec->ca_file,
					       .cert_file = spec->cert_file,
					       .key_file = spec->key_file,
					       .insecure = spec->insecure });
	err = c->easy ? set_up(c) : -ENOMEM;
	if (err)
		http_call__free(c);
	else
		*out = c;
	return err;
}

void http_call__stop(struct http_call *c)
{
	if (c->running)
		curl_multi_remove_handle(c->http->multi, c->easy);
	c->running = false;
	curl_slist_free_all(c->headers);
	c->headers = NULL;
}

void http_call__free(struct http_call *c)
{
	if (!c)
		return;
	http_call__stop(c);
	curl_easy_cleanup(c->easy);
	membuf__done(&c->reply);
	free(c);
}

/* --- a request --- */

/* A secret is one line. A file that others can read is none. */
static int read_secret(const char *path, char *out, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t len;

	if (fd < 0 || fstat(fd, &st))
		return err_set(e, -PYE_EUSAGE, "%s cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, -PYE_EUSAGE, "%s is no file", path);
	if (st.st_mode & (S_IRWXO | S_IWGRP)) {
		err_set(e, 0, "%s holds a secret, and every user may read it", path);
		err_hint(e, "chmod 0600 %s", path);
		return -PYE_EUSAGE;
	}
	len = read(fd, out, SECRET_MAX);
	if (len < 0)
		return err_set(e, -PYE_EUSAGE, "%s cannot be read: %s", path, strerror(errno));
	while (len && strchr("\r\n", out[len - 1]))
		len--;
	out[len < SECRET_MAX ? len : 0] = '\0';
	if (!*out || len == SECRET_MAX || strpbrk(out, "\r\n"))
		return err_set(e, -PYE_EUSAGE, "%s does not hold one line", path);
	return 0;
}

static int add_header(struct http_call *c, const char *text)
{
	struct curl_slist *grown = curl_slist_append(c->headers, text);

	if (!grown)
		return -ENOMEM;
	c->headers = grown;
	return 0;
}

static int __attribute__((format(printf, 2, 3))) header(struct http_call *c, const char *fmt, ...)
{
	char text[HEADER_MAX];
	va_list ap;
	int err;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err = add_header(c, text);
	explicit_bzero(text, sizeof(text));
	return err;
}

static int add_login(struct http_call *c, struct err *e)
{
	const struct sink_spec *s = c->spec;
	char secret[SECRET_MAX + 1] = "";
	const char *file = *s->token_file ? s->token_file : s->password_file;
	int err = *file ? read_secret(file, secret, e) : 0;

	if (!err && *s->token_file)
		err = header(c, "Authorization: Bearer %s", secret);
	if (!err && *s->user && s->ops->user_header) {
		err = header(c, "%s: %s", s->ops->user_header, s->user);
		err = err || !*secret ? err : header(c, "%s: %s", s->ops->key_header, secret);
	} else if (!err && *s->user) {
		if (curl_easy_setopt(c->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC) ||
		    curl_easy_setopt(c->easy, CURLOPT_USERNAME, s->user) ||
		    curl_easy_setopt(c->easy, CURLOPT_PASSWORD, secret))
			err = -ENOMEM;
	}
	if (!err && *s->tenant)
		err = header(c, "X-Scope-OrgID: %s", s->tenant);
	explicit_bzero(secret, sizeof(secret));
	return err;
}

static int add_headers(struct http_call *c, const struct sink_request *r, struct err *e)
{
	/* no waiting for leave to send what is large */
	int err = add_header(c, "Expect:");

	for (uint32_t i = 0; i < r->header_cnt && !err; i++)
		err = add_header(c, r->headers[i]);
	return err ? err : add_login(c, e);
}

int http_call__start(struct http_call *c, unsigned int url_number, const struct sink_request *r,
		     struct err *e)
{
	char url[sizeof(c->spec->url) + sizeof(r->path)];
	size_t len;
	int err;

	http_call__stop(c);
	c->reply.len = 0;
	c->why[0] = '\0';
	c->grpc_status = -1;
	sink_spec__url(c->spec, url_number, url, sizeof(c->spec->url));
	len = strlen(url);
	snprintf(url + len, sizeof(url) - len, "%s", r->path);
	err = add_headers(c, r, e);
	if (err)
		return err;
	if (curl_easy_setopt(c->easy, CURLOPT_URL, url) ||
	    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers) ||
	    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len) ||
	    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, r->body.len ? r->body.data : "") ||
	    curl_multi_add_handle(c->http->multi, c->easy))
		return -ENOMEM;
	c->running = true;
	return 0;
}

static void fill(struct http_call *c, CURLcode code, struct http_result *out)
{
	curl_off_t us = 0, after = 0;
	long status = 0;

	*out = (struct http_result){ .call = c, .retry_after_s = -1 };
	curl_easy_getinfo(c->easy, CURLINFO_TOTAL_TIME_T, &us);
	curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &after);
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	out->took_ns = (uint64_t)us * 1000;
	if (after > 0)
		out->retry_after_s = after;
	if (membuf__write(&c->reply, "", 1))
		code = CURLE_OUT_OF_MEMORY;
	if (code) {
		out->why = *c->why ? c->why : curl_easy_strerror(code);
		return;
	}
	out->reply = (struct sink_reply){ .status = status,
					  .body = c->reply.data,
					  .len = c->reply.len - 1,
					  .grpc_status = c->grpc_status };
}

bool http__next(struct http *h, struct http_result *out)
{
	int left;

	curl_multi_perform(h->multi, &left);
	for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
		struct http_call *c = NULL;
		CURLcode code = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		fill(c, code, out);
		http_call__stop(c);
		return true;
	}
	return false;
}

int http__wait(struct http *h, const int *fds, unsigned int fd_cnt, int ms)
{
	struct curl_waitfd wait[FDS_MAX];
	int ready;

	for (unsigned int i = 0; i < fd_cnt; i++)
		wait[i] = (struct curl_waitfd){ .fd = fds[i], .events = CURL_WAIT_POLLIN };
	return curl_multi_poll(h->multi, wait, fd_cnt, ms, &ready) ? -EIO : 0;
}
