/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the agent: agent_run.c (windows), agent_side.c (what goes on beside), agent_burst.c,
 * agent_status.c. */
#ifndef PYEBPF_CMD_AGENT_PRIV_H
#define PYEBPF_CMD_AGENT_PRIV_H

#include <limits.h>

#include "agent/control.h"
#include "agent/services.h"
#include "agent/window.h"
#include "base/outbuf.h"
#include "cmd/agent_problems.h"
#include "cmd/agent_run.h"
#include "cmd/session.h"
#include "store/store.h"

struct agent_store;
struct burst;
struct httpd;
struct kube;
struct sender;

/* Since the start. */
struct agent_totals {
	uint64_t windows, profiles, samples, lost, unwanted, unwritten, bytes;
	uint64_t window_cpu_ns; /* of writing windows */
	uint64_t trimmed_by_age, trimmed_by_bytes;
	uint64_t bursts, bursts_failed, burst_calls, burst_lost;
	uint64_t reloads, reloads_failed;
};

#define AGENT_TYPE_LABEL   "profile_type" /* cpu, calls */
#define SERVICE_NAME_BYTES 1024

enum agent_state {
	AGENT_RUNNING,
	AGENT_OFF, /* the kill switch */
	AGENT_OVER_MEMORY,
	AGENT_STATE_CNT
};

struct agent {
	const struct agent_start *start;
	struct agent_settings *first; /* those of the start */
	struct agent_settings *settings; /* those in force; the same, or read again */
	const struct agent_opts *opts; /* in these */
	struct session *session;
	struct agent_store *store;
	bool full; /* the last profiles found no room on the disk */
	struct services *services;
	struct store_label
		labels[AGENT_LABELS_MAX + 2]; /* node, those of the settings, room for one more */
	struct service_rules rules;
	struct pods pods;
	struct kube *kube; /* NULL: pods are not known by name */
	uint32_t unknown_pods; /* processes in pods without a name, at the last window */
	struct window_opts window;
	char node[HOST_NAME_MAX + 1];
	int capture, before; /* descriptors of captures in memory */
	struct agent_totals totals;
	struct agent_problems problems;
	char busiest[SERVICE_NAME_BYTES]; /* service of the last window */

	/* beside */
	int epoll_fd;
	struct control *control;
	struct httpd *httpd;
	struct sink_list sinks; /* of the start */
	struct sender *sender; /* NULL: no sinks */
	bool reload, burst_asked; /* by a signal */
	bool judge_new, judge_all; /* processes, by the rules */
	uint64_t start_ns, tick_ns, window_ns, next_look_ns; /* CLOCK_MONOTONIC */
	enum agent_state state;
	uint32_t max_cpu_pct; /* that is in force, of one CPU */
	uint64_t rss_bytes, sender_bytes; /* of both; of it the sender's */

	/* a burst */
	struct burst *burst; /* NULL: none runs */
	struct control_conn *burst_conn; /* who asked for it, or NULL */
	char burst_what[96];
	int64_t burst_tokens_ns; /* what is left of the budget */
	uint64_t burst_filled_ns;
};

/* --- agent_run.c --- */

/* agent_write - the profiles of a capture into the store; what came of it is counted, and in @got unless it waits for the store. */
void agent_write(struct agent *a, int fd, const struct window_opts *opts,
		 struct window_result *got);

/* --- agent_store.c --- */

int agent_store_open(struct agent *a, struct err *e); /* 0 or an error, with its sentence */
void agent_store_close(struct agent *a);

/* agent_store_write - write a window, which it takes. It waits a second at most: then the window is in a queue, and @got as it was. */
void agent_store_write(struct agent *a, struct profiles *window, struct window_result *got);

void agent_store_turn(struct agent *a); /* what is done meanwhile */
void agent_store_finish(struct agent *a); /* some seconds for what waits */
bool agent_store_is_idle(const struct agent *a); /* nothing waits */
bool agent_store_is_stuck(const struct agent *a); /* its file system does not answer */
uint32_t agent_store_waiting(const struct agent *a); /* windows */

/* --- agent_side.c --- */

int agent_side_open(struct agent *a, struct err *e);
void agent_side_close(struct agent *a);
bool agent_side_signal(void *ctx, int number);
void agent_side_tick(void *ctx, uint64_t now_ns);
void agent_set_labels(struct agent *a);

/* agent_wait_for - the loop wakes up for this descriptor. 0 or -errno. */
int agent_wait_for(struct agent *a, int fd);

/* agent_cpu_limit - what the settings allow, in percent of one CPU. */
uint32_t agent_cpu_limit(const struct agent_opts *o);

/* --- agent_kube.c --- */

/* agent_kube_start - first of all: it has nothing of what is opened later. 0 or an error with its sentence. */
int agent_kube_start(struct agent *a, struct err *e);
void agent_kube_set(struct agent *a); /* the settings are new */
void agent_kube_tick(struct agent *a, uint64_t now_ns);
void agent_kube_settle(
	struct agent *a); /* a window is about to be written: take what is known of its pods */
void agent_kube_text(const struct agent *a, struct outbuf *b);
void agent_kube_json(const struct agent *a, struct outbuf *b);
void agent_kube_metrics(const struct agent *a, struct outbuf *b);

/* --- agent_burst.c --- */

/* agent_burst - begin a burst. @conn: who is told what comes of it; NULL: the log is. 0 or an error. */
int agent_burst(struct agent *a, const struct request *r, struct control_conn *conn, struct err *e);
void agent_burst_tick(struct agent *a, uint64_t now_ns);
void agent_burst_stop(struct agent *a); /* it is given up */

/* --- agent_status.c --- */

void agent_status_text(const struct agent *a, struct outbuf *b);
void agent_status_json(const struct agent *a, struct outbuf *b);
void agent_metrics(const struct agent *a, struct outbuf *b); /* as Prometheus reads them */
bool agent_is_alive(const struct agent *a);
bool agent_is_ready(const struct agent *a);

#endif
