/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of a few files to a browser on this machine. What it gives, it has open; it looks up no path.
 * The address of each begins with a random token; without it everything is 404. A request for another host's
 * name is refused, so that no other site can read the answers through a name that means this machine.
 */
#ifndef PYEBPF_VIEW_SERVE_H
#define PYEBPF_VIEW_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/**
 * struct serve_file - what is served
 * @name:   behind the token; "" for the page itself
 * @fd:     a regular file or a memfd; stays the caller's
 * @goal:   with @once the server ends when one of these was delivered
 * @shared: the page of serve_opts.origin may read it
 */
struct serve_file {
	const char *name, *type;
	int fd;
	bool goal, shared;
};

/**
 * struct serve_opts - everything is borrowed for the life of the server
 * @address: of this machine, as a number; NULL: the loopback addresses
 * @port:    0: any
 * @idle_ns: it ends when nobody asked for anything with the right token for so long
 * @origin:  of a page elsewhere that may read the shared files; NULL: none
 * @policy:  the Content-Security-Policy
 */
struct serve_opts {
	const char *address;
	uint16_t port;
	bool once;
	uint64_t idle_ns;
	const struct serve_file *files;
	size_t file_cnt;
	const char *origin;
	const char *policy;
};

struct serve;

/**
 * serve__new - listen
 *
 * Return: 0; -errno with a sentence.
 */
int serve__new(struct serve **out, const struct serve_opts *opts, struct err *e);

/* serve__free - NULL is fine. */
void serve__free(struct serve *s);

static inline void serve__freep(struct serve **s)
{
	serve__free(*s);
}

/* serve__url - "http://127.0.0.1:PORT/TOKEN/"; borrowed. */
const char *serve__url(const struct serve *s);

uint16_t serve__port(const struct serve *s);

/**
 * serve__run - answer until it is time to end
 * @stop_fd: readable when that is so
 *
 * Return: 0, or a negative errno.
 */
int serve__run(struct serve *s, int stop_fd);

#endif
