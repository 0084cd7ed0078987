/* SPDX-License-Identifier: Apache-2.0 */
/* The pods of this node, kept up to date by a process of its own that has no privileges: what the API server sends is read there, and what
 * comes from there is checked again. It ends with the agent, and is started anew when it ends otherwise. */
#ifndef PYEBPF_KUBE_WATCH_H
#define PYEBPF_KUBE_WATCH_H

#include "base/err.h"
#include "kube/api.h"
#include "kube/table.h"

struct kube;

/**
 * kube__start - begin to watch
 * @opts: copied
 *
 * To be called before the agent opens what a child should not have, and by the thread that stays.
 *
 * Return: 0; -PYE_EOUTPUT with a sentence when no process can be started; -ENOMEM.
 */
int kube__start(struct kube **out, const struct kube_opts *opts, struct err *e);
void kube__stop(struct kube *k); /* NULL is fine */

/* kube__fd - readable when there is news. */
int kube__fd(const struct kube *k);

/* kube__turn - take the news, and see that the process runs. Does not wait. */
void kube__turn(struct kube *k, uint64_t now_ns);

/* kube__table - what is known now. */
const struct kube_table *kube__table(const struct kube *k);

struct kube_health {
	struct kube_state state;
	bool synced; /* all pods have been listed once */
	uint64_t age_ns; /* for how long the pods have not been known to be up to date */
	uint64_t refused; /* messages that were no pods, or too many */
	uint32_t restarts;
};

void kube__health(const struct kube *k, uint64_t now_ns, struct kube_health *out);

/**
 * kube_ask - one pod, asked for in a process of its own, too
 * @out: its bytes, for kube_pod_read()
 *
 * Return: 0; -PYE_ETARGET with a sentence; -ENOMEM.
 */
int kube_ask(const struct kube_opts *opts, const char *ns, const char *name, struct kube_bytes *out,
	     struct err *e);

#endif
