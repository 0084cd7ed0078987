/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of a node, as far as they are known: by the ids of their containers and by their own. A pod that is gone stays for a while,
 * since the window in which it ran is yet to be written; without word from the API all stay.
 */
#ifndef PYEBPF_KUBE_TABLE_H
#define PYEBPF_KUBE_TABLE_H

#include "kube/pod.h"

#define KUBE_PODS_MAX 1024 /* a node has 110 as a rule, 500 at most */

struct kube_table;

/* kube_table__new - 0 or -ENOMEM. kube_table__free - NULL is fine. */
int kube_table__new(struct kube_table **out);
void kube_table__free(struct kube_table *t);

/**
 * kube_table__put - a pod as it is now
 * @bytes: copied
 * @gone:  it was deleted: what is known of it is kept until kube_table__forget()
 *
 * Return: 0; -PYE_EFORMAT for what is no pod, -ENOSPC past KUBE_PODS_MAX, -ENOMEM: the table is as it was.
 */
int kube_table__put(struct kube_table *t, const char *bytes, size_t len, bool gone,
		    uint64_t now_ns);

/* A list of all: pods that it does not name are gone. */
void kube_table__begin(struct kube_table *t);
void kube_table__end(struct kube_table *t, uint64_t now_ns);

/* kube_table__forget - those that have been gone since before a time. */
void kube_table__forget(struct kube_table *t, uint64_t before_ns);

/**
 * kube_table__find - a pod
 * @id:        of one of its containers, whole; or ""
 * @uid:       or this, as it is in the names of cgroups; or ""
 * @out:       borrowed until the table changes
 * @container: name of that container; of a pod that was found by its uid, of its only one; "": not known
 *
 * Return: false: it is not known.
 */
bool kube_table__find(const struct kube_table *t, const char *id, const char *uid,
		      struct kube_pod *out, const char **container);

/* kube_table__cnt - pods that are there. */
uint32_t kube_table__cnt(const struct kube_table *t);

#endif
