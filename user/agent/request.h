/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent is asked for, by its socket or by a file: a word, then lines of NAME=VALUE. A socket's request ends
 * with an empty line.
 *
 *	burst
 *	service=web
 *	seconds=5
 */
#ifndef PYEBPF_AGENT_REQUEST_H
#define PYEBPF_AGENT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define REQUEST_BYTES 1024

enum request_kind {
	REQUEST_STATUS,
	REQUEST_BURST,
};

struct request {
	enum request_kind kind;
	bool json; /* status */
	char service[512]; /* burst: all processes of it; "": see pid */
	pid_t pid; /* burst: this one; 0 and no service: the service that used the CPU most */
	uint64_t duration_ns; /* burst; 0: the default */
};

/* request_parse - @text: its end is a NUL. 0 or -PYE_EUSAGE with a sentence. */
int request_parse(const char *text, struct request *out, struct err *e);

#endif
