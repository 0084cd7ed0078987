/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's socket: a Unix socket with mode 0600, and whoever connects has to be root or the agent's user all the
 * same. A connection is one request and lines of answer until the agent hangs up. Within somebody's poll loop.
 */
#ifndef PYEBPF_AGENT_CONTROL_H
#define PYEBPF_AGENT_CONTROL_H

#include "agent/request.h"

struct control;
struct control_conn;

/* Answers with control__say() and control__end(), now or later; @conn is valid until it ends. */
typedef void (*control_fn)(void *ctx, struct control_conn *conn, const struct request *request);

/**
 * control__new - listen
 * @path: what is left there of an agent that was killed is taken away; another file is not
 * @gone: the other side hung up before the end: forget it
 *
 * Return: 0; -PYE_EOUTPUT with a sentence, also when an agent listens there; -ENOMEM.
 */
int control__new(struct control **out, const char *path, control_fn asked,
		 void (*gone)(void *ctx, struct control_conn *conn), void *ctx, struct err *e);
void control__free(struct control *c); /* takes the socket away; NULL is fine */

/* control__fd - to be waited for. control__turn - do what can be done without waiting. */
int control__fd(const struct control *c);
void control__turn(struct control *c, uint64_t now_ns);

/* control__say - text to the one who asked. What he does not read in time is lost with the connection. */
void control__say(struct control_conn *conn, const char *text);
void control__end(struct control_conn *conn);

/* control_ask - the other side: connect to the agent, ask, and hand its answer to @line, until it hangs up.
 * 0, -PYE_ETARGET with a sentence. */
int control_ask(const char *path, const char *request,
		int (*answer)(void *ctx, const char *text, size_t len), void *ctx, struct err *e);

#endif
