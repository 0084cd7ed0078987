// SPDX-License-Identifier: Apache-2.0
#include "kube/api.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/parse.h"
#include "net/easy.h"

#define SECOND	      1000000000ull
#define TOKEN_MAX     8192
#define URL_MAX	      2048
#define LIST_S	      60 /* time of a list */
#define WATCH_LEAST_S 240 /* then it is asked for again; up to twice as long */
#define WATCH_MORE_S  60 /* the server may be late */
#define FIRST_WAIT_NS (SECOND / 2)
#define LAST_WAIT_NS  (30 * SECOND)
#define SHORT_NS      SECOND /* a watch that ends sooner is as good as none */
#define REFUSED_MAX   3 /* watches that are refused, then all is listed again */

struct asker {
	const struct kube_opts *opts;
	int fd;
	struct kube_state state;
	char version[KUBE_VERSION_MAX];
	unsigned int tries, refused;
	bool newest; /* a list from the cache was too old */
	bool nobody; /* listens any more */

	/* of the request at hand */
	enum kube_answer answer;
	CURL *easy;
	struct kube_parse *parse;
	long status;
	int err; /* of the parser */
	struct err e;
};

static void asker_done(struct asker *a)
{
	kube_parse__free(a->parse);
}

/* --- to the agent --- */

static int tell(struct asker *a, enum kube_message kind, const void *data, size_t len)
{
	char text[KUBE_MSG_BYTES];

	text[0] = (char)kind;
	memcpy(text + 1, data, len);
	if (send(a->fd, text, len + 1, MSG_NOSIGNAL) == (ssize_t)len + 1)
		return 0;
	a->nobody = true;
	return -EPIPE;
}

static int tell_state(struct asker *a)
{
	return tell(a, KUBE_MSG_STATE, &a->state, sizeof(a->state));
}

static int on_pod(void *ctx, const struct kube_bytes *pod)
{
	struct asker *a = ctx;

	a->state.events++;
	return tell(a, KUBE_MSG_POD, pod->at, pod->len);
}

static int on_gone(void *ctx, const struct kube_bytes *pod)
{
	struct asker *a = ctx;

	a->state.events++;
	return tell(a, KUBE_MSG_GONE, pod->at, pod->len);
}

/* Of an answer that is none nothing is told but its reason. */
static int ignore_pod(void *ctx, const struct kube_bytes *pod)
{
	(void)ctx, (void)pod;
	return 0;
}

/* --- a request --- */

static int open_answer(struct asker *a)
{
	const struct kube_listener listener = { a, on_pod, on_gone };
	static const struct kube_listener nobody = { NULL, ignore_pod, ignore_pod };

	curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &a->status);
	return a->status == 200 ? kube_parse__new(&a->parse, a->answer, &listener, &a->e)
				: kube_parse__new(&a->parse, KUBE_ONE, &nobody, &a->e);
}

static size_t take_body(char *data, size_t size, size_t cnt, void *ctx)
{
	struct asker *a = ctx;

	if (!a->parse)
		a->err = open_answer(a);
	if (!a->err)
		a->err = kube_parse__put(a->parse, data, size * cnt);
	return a->err ? 0 : size * cnt;
}

/* From here on what happens is told. */
static size_t take_header(char *data, size_t size, size_t cnt, void *ctx)
{
	struct asker *a = ctx;
	size_t len = size * cnt;
	long status = 0;

	if (a->answer != KUBE_WATCH || len != 2 || memcmp(data, "\r\n", 2) != 0)
		return len;
	curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 || a->state.live)
		return len;
	a->state.live = true;
	a->state.error[0] = a->state.hint[0] = '\0';
	return tell_state(a) ? 0 : len;
}

/* The kubelet lets everybody in the pod read it, so that is not refused. */
static int read_token(const char *path, char *out, struct err *e)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len = fd < 0 ? -1 : read(fd, out, TOKEN_MAX - 1);

	if (len < 0) {
		err_set(e, -PYE_EUSAGE, "the token %s cannot be read: %s", path, strerror(errno));
		err_hint(e, "in the pod: automountServiceAccountToken: true");
		return -PYE_EUSAGE;
	}
	while (len && strchr("\r\n ", out[len - 1]))
		len--;
	out[len] = '\0';
	if (!len || strlen(out) != (size_t)len || strpbrk(out, "\r\n"))
		return err_set(e, -PYE_EUSAGE, "the file %s does not hold a token", path);
	return 0;
}

static struct curl_slist *login(const char *token_file, int *err, struct err *e)
{
	static const char before[] = "Authorization: Bearer ";
	char header[sizeof(before) + TOKEN_MAX];
	struct curl_slist *list = NULL;

	memcpy(header, before, sizeof(before));
	*err = *token_file ? read_token(token_file, header + sizeof(before) - 1, e) : 0;
	if (!*err && *token_file)
		list = curl_slist_append(NULL, header);
	if (!*err && *token_file && !list)
		*err = -ENOMEM;
	explicit_bzero(header, sizeof(header));
	return list;
}

static void explain_status(struct asker *a)
{
	const char *said = a->parse ? kube_parse__reason(a->parse) : "";
	const char *what = a->status == 401   ? "the API server does not know the token"
			   : a->status == 403 ? "the service account may not read pods"
			   : a->status == 404 && a->answer == KUBE_ONE ? "there is no such pod"
								       : "the API server refused";

	err_set(&a->e, -PYE_ETARGET, "%s (%ld%s%s)", what, a->status, *said ? ": " : "", said);
	err_hint(
		&a->e, "%s",
		a->status == 401 ? "in the pod: serviceAccountName: pyebpf-agent, "
				   "automountServiceAccountToken: true"
		: a->status == 403
			? "in the ClusterRole: rules: [{apiGroups: [\"\"], resources: [pods], verbs: "
			  "[get, list, watch]}], and a ClusterRoleBinding to it"
			: "");
}

static int judge(struct asker *a, CURLcode code, const char *why)
{
	if (a->nobody)
		return -EPIPE;
	if (a->err) {
		if (a->err != -ESTALE && !a->e.what[0])
			err_set(&a->e, a->err, "%s", err_str(a->err));
		return a->err;
	}
	curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &a->status);
	if (a->status && a->status != 200) {
		explain_status(a);
		return a->status == 410 ? -ESTALE : -PYE_ETARGET;
	}
	if (code || !a->status) {
		err_set(&a->e, -EIO, "the API server %s does not answer: %s", a->opts->url,
			*why ? why : curl_easy_strerror(code));
		err_hint(&a->e,
			 "a NetworkPolicy of the pod has to let it go out to the API server");
		return -EIO;
	}
	if (a->answer == KUBE_WATCH)
		return 0;
	return a->parse ? kube_parse__end(a->parse)
			: err_set(&a->e, -PYE_EFORMAT, "the answer is empty");
}

static bool prepare(struct asker *a, const char *url, long limit_s, struct curl_slist *headers,
		    char *why)
{
	CURL *h = a->easy;
	CURLcode bad = CURLE_OK;

	bad |= curl_easy_setopt(h, CURLOPT_URL, url);
	bad |= curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
	bad |= curl_easy_setopt(h, CURLOPT_TIMEOUT, limit_s);
	bad |= curl_easy_setopt(h, CURLOPT_NOPROXY, "*"); /* it is in the cluster, as we are */
	/* a connection that died without a word is known after 50 s */
	bad |= curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	bad |= curl_easy_setopt(h, CURLOPT_TCP_KEEPIDLE, 20L);
	bad |= curl_easy_setopt(h, CURLOPT_TCP_KEEPINTVL, 10L);
	bad |= curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	bad |= curl_easy_setopt(h, CURLOPT_WRITEDATA, a);
	bad |= curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
	bad |= curl_easy_setopt(h, CURLOPT_HEADERDATA, a);
	bad |= curl_easy_setopt(h, CURLOPT_ERRORBUFFER, why);
	return !bad;
}

/* 0; -ESTALE: the version is too old; another negative number with the sentence in @a->e. */
static int request(struct asker *a, enum kube_answer answer, const char *path, long limit_s)
{
	const struct easy_tls tls = { .ca_file = a->opts->ca_file };
	char url[URL_MAX], why[CURL_ERROR_SIZE] = "";
	struct curl_slist *headers;
	int err;

	kube_parse__free(a->parse);
	a->parse = NULL;
	a->answer = answer;
	a->status = a->err = 0;
	a->e = (struct err){ 0 };
	a->state.requests++;
	headers = login(a->opts->token_file, &err, &a->e);
	if (err)
		return err;
	/* a new one each time: a new CA file counts, too */
	a->easy = easy_new(&tls);
	snprintf(url, sizeof(url), "%s%s", a->opts->url, path);
	err = a->easy && prepare(a, url, limit_s, headers, why)
		      ? judge(a, curl_easy_perform(a->easy), why)
		      : -ENOMEM;
	if (a->easy)
		curl_easy_cleanup(a->easy);
	a->easy = NULL;
	curl_slist_free_all(headers);
	return err;
}

/* --- list and watch --- */

static uint64_t random_below(uint64_t bound)
{
	uint64_t value = now_ns();

	if (getrandom(&value, sizeof(value), 0) < 0)
		value = now_ns();
	return bound ? value % bound : 0;
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec pause = { .tv_sec = (time_t)(ns / SECOND),
					.tv_nsec = (long)(ns % SECOND) };

	nanosleep(&pause, NULL);
}

/* Longer each time, and never the same: after an outage all nodes of a cluster come back. */
static void wait_again(struct asker *a)
{
	unsigned int shift = a->tries < 6 ? a->tries : 6;
	uint64_t most = FIRST_WAIT_NS << shift;

	a->tries++;
	most = most < LAST_WAIT_NS ? most : LAST_WAIT_NS;
	sleep_ns(most / 2 + random_below(most / 2));
}

static void note_failure(struct asker *a)
{
	a->state.failures++;
	a->state.live = false;
	snprintf(a->state.error, sizeof(a->state.error), "%.*s", (int)sizeof(a->state.error) - 1,
		 a->e.what);
	snprintf(a->state.hint, sizeof(a->state.hint), "%.*s", (int)sizeof(a->state.hint) - 1,
		 a->e.hint);
	tell_state(a);
}

static int of_node(const struct asker *a, const char *more, char *out, size_t size)
{
	char *node = curl_easy_escape(NULL, a->opts->node, 0);
	int n = node ? snprintf(out, size, "/api/v1/pods?fieldSelector=spec.nodeName%%3D%s%s", node,
				more)
		     : -1;

	curl_free(node);
	return n < 0 || (size_t)n >= size ? -ENOMEM : 0;
}

static int list(struct asker *a)
{
	char path[URL_MAX];
	int err = of_node(a, a->newest ? "" : "&resourceVersion=0", path, sizeof(path));

	err = err ? err : tell(a, KUBE_MSG_BEGIN, "", 0);
	err = err ? err : request(a, KUBE_LIST, path, LIST_S);
	if (err)
		return err;
	snprintf(a->version, sizeof(a->version), "%s", kube_parse__version(a->parse));
	if (!*a->version)
		return err_set(&a->e, -PYE_EFORMAT, "the list of pods has no version");
	a->state.lists++;
	a->newest = false;
	return tell(a, KUBE_MSG_END, "", 0);
}

static int watch(struct asker *a)
{
	uint64_t limit_s = WATCH_LEAST_S + random_below(WATCH_LEAST_S);
	char path[URL_MAX], more[256], *version = curl_easy_escape(NULL, a->version, 0);
	int err = version ? 0 : -ENOMEM;

	snprintf(more, sizeof(more),
		 "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%" PRIu64 "&resourceVersion=%s",
		 limit_s, version ? version : "");
	curl_free(version);
	err = err ? err : of_node(a, more, path, sizeof(path));
	err = err ? err : request(a, KUBE_WATCH, path, (long)limit_s + WATCH_MORE_S);
	if (a->parse && *kube_parse__version(a->parse) && a->status == 200)
		snprintf(a->version, sizeof(a->version), "%s", kube_parse__version(a->parse));
	return err;
}

/* What a watch that has ended means for the next one. */
static void after_watch(struct asker *a, int err, uint64_t took_ns)
{
	bool told = a->status == 200 && a->parse && *kube_parse__version(a->parse);

	if (told || took_ns >= LAST_WAIT_NS)
		a->tries = 0;
	a->refused = a->status && a->status != 200 ? a->refused + 1 : 0;
	/* one that is cut goes on where it was; one that makes no sense does not */
	if (err == -ESTALE || a->refused == REFUSED_MAX ||
	    (err && err != -EIO && a->status == 200 && !told)) {
		a->version[0] = '\0';
		a->newest = err == -ESTALE;
		a->refused = 0;
	}
	if (err && err != -ESTALE)
		note_failure(a);
	if (err || took_ns < SHORT_NS)
		wait_again(a);
}

void kube_watch_pods(const struct kube_opts *o, int fd)
{
	auto_fn(asker_done) struct asker a = { .opts = o, .fd = fd };

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return;
	/* a rollout starts many agents at once */
	sleep_ns(random_below(FIRST_WAIT_NS));
	while (!a.nobody) {
		uint64_t begin_ns = now_ns();
		int err;

		if (*a.version) {
			err = watch(&a);
			after_watch(&a, err, now_ns() - begin_ns);
			continue;
		}
		err = list(&a);
		if (!err)
			continue;
		note_failure(&a);
		wait_again(&a);
	}
}

void kube_ask_pod(const struct kube_opts *o, const char *ns, const char *name, int fd)
{
	auto_fn(asker_done) struct asker a = { .opts = o, .fd = fd };
	char path[URL_MAX], *ns_text, *name_text;
	int err;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return;
	ns_text = curl_easy_escape(NULL, ns, 0);
	name_text = curl_easy_escape(NULL, name, 0);
	err = ns_text && name_text ? 0 : -ENOMEM;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", ns_text ? ns_text : "",
		 name_text ? name_text : "");
	curl_free(ns_text);
	curl_free(name_text);
	err = err ? err : request(&a, KUBE_ONE, path, LIST_S);
	if (err)
		note_failure(&a);
	else
		tell_state(&a);
}
