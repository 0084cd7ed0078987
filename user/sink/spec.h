/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profiles are sent, as a user writes it: TYPE=URL[,KEY=VALUE...], or the same keys in a file. Secrets are in files
 * and never here: a name and password in the URL are refused.
 */
#ifndef PYEBPF_SINK_SPEC_H
#define PYEBPF_SINK_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SINK_MAX      8 /* sinks of an agent */
#define SINK_URLS_MAX 8

struct sink_ops;

struct sink_spec {
	const struct sink_ops *ops; /* of the type; NULL: not set so far */
	char name[64]; /* in messages, metrics and the outbox; the type's if not set */
	char url[1024]; /* several with spaces between them: the next is tried when one does not answer */
	char database[64], user[128], tenant[128];
	char password_file[256], token_file[256]; /* read anew for each request */
	char ca_file[256], cert_file[256], key_file[256];
	bool insecure; /* certificates are not verified */
	uint64_t timeout_ns; /* of a request */
	uint64_t max_age_ns; /* older windows are dropped; 0: never. The type's own if not set */
	bool has_max_age;
	uint64_t max_backoff_ns;
	uint64_t interval_ns; /* from a push after which nothing is owed to the next one */
};

/* sink_spec_init - nothing but defaults. */
void sink_spec_init(struct sink_spec *s);

/**
 * sink_spec__set - one key
 * @key: type, name, url, database, user, tenant, password-file, token-file, ca-file, cert-file, key-file, insecure,
 *	 timeout, max-age, max-backoff or interval; _ is as good as -
 *
 * Return: 0; -PYE_EUSAGE with a sentence: no such key, no such value.
 */
int sink_spec__set(struct sink_spec *s, const char *key, const char *value, struct err *e);

/* sink_spec__check - is it complete? 0 or -PYE_EUSAGE with a sentence. Sets the name and what is the type's own. */
int sink_spec__check(struct sink_spec *s, struct err *e);

/* sink_spec__parse - all of that from TYPE=URL[,KEY=VALUE...]. */
int sink_spec__parse(struct sink_spec *s, const char *text, struct err *e);

/* sink_spec__url - number @i, counted round; into @out. */
void sink_spec__url(const struct sink_spec *s, unsigned int i, char *out, size_t size);

/* The sinks of a command; names are distinct. Zeroed is none. */
struct sink_list {
	struct sink_spec items[SINK_MAX];
	uint32_t cnt;
};

/* sink_list__add - append one that is complete. 0 or -PYE_EUSAGE with a sentence. */
int sink_list__add(struct sink_list *l, const struct sink_spec *s, struct err *e);

#endif
