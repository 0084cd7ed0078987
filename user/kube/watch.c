// SPDX-License-Identifier: Apache-2.0
#define LOG_DOMAIN "kube"
#include "kube/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define SECOND	   1000000000ull
#define AGAIN_NS   (10 * SECOND) /* between two starts of the process */
#define KEEP_NS	   (600 * SECOND) /* a pod that is gone: twice the longest window */
#define TURN_MAX   256 /* messages at once */
#define ANSWER_MS  75000 /* the longest that an answer may take, and more */
#define BUFFER_MAX (1 << 20)

struct kube {
	struct kube_opts opts; /* of these texts */
	char *url, *ca_file, *token_file, *node;
	struct kube_table *table;
	int fds[2]; /* ours, and the child's: a new one gets it, too */
	pid_t pid; /* 0: none */
	bool synced, listing;
	uint64_t started_ns, stale_since_ns, refused;
	uint32_t restarts;
	struct kube_state state;
	char told[sizeof(((struct kube_state *)NULL)->error)]; /* what the log has */
};

static _Noreturn void child(const struct kube *k, pid_t parent)
{
	if (!child_confine("pyebpf-kube", parent, k->fds[1]))
		kube_watch_pods(&k->opts, k->fds[1]);
	_exit(1);
}

static int start(struct kube *k, struct err *e)
{
	pid_t parent = getpid();

	k->started_ns = now_ns();
	k->listing = false;
	k->pid = fork();
	if (!k->pid)
		child(k, parent);
	if (k->pid > 0)
		return 0;
	k->pid = 0;
	return err_set(e, -PYE_EOUTPUT, "nothing can watch the pods: %s", strerror(errno));
}

static int open_pair(int fds[2])
{
	int size = BUFFER_MAX;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

static int copy_opts(struct kube *k, const struct kube_opts *from)
{
	k->url = strdup(from->url);
	k->ca_file = strdup(from->ca_file);
	k->token_file = strdup(from->token_file);
	k->node = strdup(from->node);
	k->opts = (struct kube_opts){ k->url, k->ca_file, k->token_file, k->node };
	return k->url && k->ca_file && k->token_file && k->node ? 0 : -ENOMEM;
}

int kube__start(struct kube **out, const struct kube_opts *opts, struct err *e)
{
	struct kube *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	*k = (struct kube){ .fds = { -1, -1 }, .stale_since_ns = now_ns() };
	err = copy_opts(k, opts);
	err = err ? err : kube_table__new(&k->table);
	err = err ? err : open_pair(k->fds);
	err = err ? err : start(k, e);
	if (err)
		kube__stop(k);
	else
		*out = k;
	return err;
}

void kube__stop(struct kube *k)
{
	int status;

	if (!k)
		return;
	if (k->pid) {
		kill(k->pid, SIGKILL); /* it keeps nothing */
		waitpid(k->pid, &status, 0);
	}
	for (int i = 0; i < 2; i++)
		if (k->fds[i] >= 0)
			close(k->fds[i]);
	kube_table__free(k->table);
	free(k->url);
	free(k->ca_file);
	free(k->token_file);
	free(k->node);
	free(k);
}

int kube__fd(const struct kube *k)
{
	return k->fds[0];
}

const struct kube_table *kube__table(const struct kube *k)
{
	return k->table;
}

/* Once for each different reason: it is tried again for ever. */
static void say(struct kube *k)
{
	char what[4 * sizeof(k->state.error)], hint[4 * sizeof(k->state.hint)];
	const struct kube_state *s = &k->state;

	if (!strcmp(k->told, s->error))
		return;
	snprintf(k->told, sizeof(k->told), "%s", s->error);
	text_escape(what, sizeof(what), s->error, strlen(s->error));
	text_escape(hint, sizeof(hint), s->hint, strlen(s->hint));
	if (*what)
		log_warn("%s; %s%s%s", what,
			 k->synced ? "pods are known as they were" : "no pod is known by name",
			 *hint ? "; " : "", hint);
	else
		log_info("the pods of this node are being watched");
}

static void take_state(struct kube *k, const char *data, size_t len, uint64_t now)
{
	if (len != sizeof(k->state)) {
		k->refused++;
		return;
	}
	if (k->state.live)
		k->stale_since_ns = now;
	memcpy(&k->state, data, len);
	k->state.live = data[offsetof(struct kube_state, live)] == 1;
	k->state.error[sizeof(k->state.error) - 1] = '\0';
	k->state.hint[sizeof(k->state.hint) - 1] = '\0';
	say(k);
}

static void take_pod(struct kube *k, const char *data, size_t len, bool gone, uint64_t now)
{
	int err = kube_table__put(k->table, data, len, gone, now);

	if (!err)
		return;
	k->refused++;
	log_debug("a pod was not taken: %s", err_str(err));
}

static void take(struct kube *k, const char *data, size_t len, uint64_t now)
{
	switch (len ? data[0] : '\0') {
	case KUBE_MSG_BEGIN:
		kube_table__begin(k->table);
		k->listing = true;
		break;
	case KUBE_MSG_POD:
	case KUBE_MSG_GONE:
		take_pod(k, data + 1, len - 1, data[0] == KUBE_MSG_GONE, now);
		break;
	case KUBE_MSG_END:
		if (k->listing)
			kube_table__end(k->table, now);
		k->synced |= k->listing;
		k->listing = false;
		k->stale_since_ns = now;
		break;
	case KUBE_MSG_STATE:
		take_state(k, data + 1, len - 1, now);
		break;
	default:
		k->refused++;
	}
}

static void check_child(struct kube *k, uint64_t now)
{
	struct err e = { 0 };
	int status;

	if (k->pid && waitpid(k->pid, &status, WNOHANG) == k->pid) {
		log_warn("what watches the pods has ended; it is started again");
		k->pid = 0;
		if (k->state.live)
			k->stale_since_ns = now;
		k->state.live = false;
	}
	if (k->pid || now - k->started_ns < AGAIN_NS)
		return;
	k->restarts++;
	if (start(k, &e))
		log_warn("%s", e.what);
}

void kube__turn(struct kube *k, uint64_t now)
{
	char data[KUBE_MSG_BYTES];

	for (int i = 0; i < TURN_MAX; i++) {
		ssize_t n = recv(k->fds[0], data, sizeof(data), MSG_DONTWAIT);

		if (n < 0)
			break;
		take(k, data, (size_t)n, now);
	}
	if (now > KEEP_NS)
		kube_table__forget(k->table, now - KEEP_NS);
	check_child(k, now);
}

void kube__health(const struct kube *k, uint64_t now, struct kube_health *out)
{
	*out = (struct kube_health){ .state = k->state,
				     .synced = k->synced,
				     .refused = k->refused,
				     .restarts = k->restarts };
	if (!k->state.live && now > k->stale_since_ns)
		out->age_ns = now - k->stale_since_ns;
}

/* --- one pod --- */

/* What comes until the last message. 0; -PYE_ETARGET: none came. */
static int hear(int fd, struct kube_bytes *out, struct kube_state *state)
{
	uint64_t end_ns = now_ns() + ANSWER_MS * 1000000ull;
	char data[KUBE_MSG_BYTES];

	for (uint64_t now = now_ns(); now < end_ns; now = now_ns()) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, (int)((end_ns - now) / 1000000) + 1) <= 0)
			continue;
		n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
		if (n <= 0)
			break;
		if (data[0] == KUBE_MSG_POD) {
			out->len = (size_t)n - 1;
			memcpy(out->at, data + 1, out->len);
		} else if (data[0] == KUBE_MSG_STATE && (size_t)n == sizeof(*state) + 1) {
			memcpy(state, data + 1, sizeof(*state));
			state->error[sizeof(state->error) - 1] = '\0';
			state->hint[sizeof(state->hint) - 1] = '\0';
			return 0;
		}
	}
	return -PYE_ETARGET;
}

int kube_ask(const struct kube_opts *opts, const char *ns, const char *name, struct kube_bytes *out,
	     struct err *e)
{
	auto_close int ours = -1;
	struct kube_state state = { 0 };
	pid_t parent = getpid(), pid;
	int fds[2], status, err = open_pair(fds);

	if (err)
		return err;
	ours = fds[0];
	out->len = 0;
	pid = fork();
	if (!pid) {
		if (!child_confine("pyebpf-kube", parent, fds[1]))
			kube_ask_pod(opts, ns, name, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0)
		return err_set(e, -PYE_EOUTPUT, "nothing can ask the API server: %s",
			       strerror(errno));
	err = hear(ours, out, &state);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!err && !state.error[0] && out->len)
		return 0;
	err_set(e, 0, "%s", state.error[0] ? state.error : "the API server gave no answer");
	err_hint(e, "%s", state.hint);
	return -PYE_ETARGET;
}
