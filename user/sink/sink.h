/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: how the windows of a store are put for one kind of server, and what its answers mean. Nothing here talks to a
 * server or waits: ship.c does, the same way for all.
 *
 * A new sink: a file in this folder, its line in sinks.c.
 */
#ifndef PYEBPF_SINK_SINK_H
#define PYEBPF_SINK_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/outbuf.h"
#include "sink/spec.h"
#include "store/head.h"
#include "store/outbox.h"

/* A window of the store; all borrowed. */
struct sink_window {
	const char *file; /* its name */
	int fd; /* of its file, seekable */
	const uint8_t *bytes; /* of its file, a pprof profile in gzip */
	size_t len;
	uint64_t id; /* a hash of the bytes */
	const struct head *head; /* labels and times */
	struct outbox_progress from; /* what is before need not be put */
	uint32_t smaller; /* parts are cut at limits divided by two this many times */
};

#define SINK_HEADERS_MAX 6

/* Sent by POST. */
struct sink_request {
	char path[1024]; /* behind the address, with the query */
	char headers[SINK_HEADERS_MAX][256]; /* beside those of the login */
	uint32_t header_cnt;
	struct membuf body;
	struct outbox_progress then; /* of the window, once it was taken; where there are parts */
};

/* What is sent at once: requests one after the other, each when the one before was taken. Zeroed is none. */
struct sink_push {
	struct sink_request *requests; /* owned */
	uint32_t request_cnt, request_cap;
	uint32_t window_cnt;
	void *state; /* of the sink */
	void (*free_state)(void *state); /* or NULL */
};

/* sink_push__done - release it; it is then none. */
void sink_push__done(struct sink_push *p);

/* sink_push__request - append one, for a path. NULL: no memory; what was returned before is then where it was, else it may move. */
struct sink_request *sink_push__request(struct sink_push *p, const char *path);

/* sink_push__cut - drop the requests from a number on. */
void sink_push__cut(struct sink_push *p, uint32_t request_cnt);

/* sink_request__gzip - @data, compressed, becomes the body, and a header says so. 0 or -ENOMEM. */
int sink_request__gzip(struct sink_request *r, const void *data, size_t len);

/* sink_request__header - append one; what is too long or too much is cut. */
void sink_request__header(struct sink_request *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

struct sink_reply {
	long status;
	const char *body; /* NUL-terminated, cut after some KB */
	size_t len;
	long grpc_status; /* of the header; -1: none */
};

enum sink_verdict {
	SINK_OK,
	SINK_RETRY, /* later, as it is */
	SINK_AGAIN, /* at once, put anew: the sink has learned something */
	SINK_HOLD, /* as long as nobody changes something there or here; nothing is thrown away */
	SINK_SPLIT, /* fewer windows at once */
	SINK_DROP /* never */
};

/**
 * struct sink_ops - a kind of server
 * @user_header, @key_header: where the server wants the name and the password
 * @windows_max: that can be pushed at once
 * @bytes_max:   of windows that are pushed at once, as they are in the store; one that has more goes alone
 * @max_age_ns:  what is older need not be sent; 0: any age
 * @parts:       a window's requests are parts of it that are stored one by one: what was taken is not sent again with the rest. One
 *               window at once
 * @size:        of what a sink keeps between pushes, zeroed before open
 * @open:        0 or -ENOMEM. May be NULL, as close.
 * @add:         put a window into a push. 0; -PYE_EFORMAT with a sentence: nobody can send this one, and the push is as before;
 *               -ENOMEM
 * @finish:      a push that has windows is complete: the last chance for requests. 0 or -ENOMEM. May be NULL.
 * @judge:       the answer to a request; what it complains of into @e
 * @sent:        everything was taken. May be NULL.
 * @free_state:  of a push. May be NULL.
 */
struct sink_ops {
	const char *type;
	const char *user_header, *key_header; /* "": basic authentication */
	uint32_t windows_max;
	uint64_t bytes_max;
	uint64_t max_age_ns;
	bool parts;
	size_t size;
	int (*open)(void *self, const struct sink_spec *spec);
	void (*close)(void *self);
	int (*add)(void *self, struct sink_push *p, const struct sink_window *w, struct err *e);
	int (*finish)(void *self, struct sink_push *p);
	enum sink_verdict (*judge)(void *self, const struct sink_reply *reply, struct err *e);
	void (*sent)(void *self, const struct sink_push *p);
	void (*free_state)(void *state);
};

/* All of them; NULL at the end. */
extern const struct sink_ops *const sinks[];
extern const struct sink_ops sink_clickhouse, sink_pyroscope, sink_parca, sink_otlp;

/* sink_by_type - NULL when there is none. */
const struct sink_ops *sink_by_type(const char *type);

/* sink_judge_http - by the status alone, as most servers mean it; @self is not used. */
enum sink_verdict sink_judge_http(void *self, const struct sink_reply *reply, struct err *e);

#endif
