/* SPDX-License-Identifier: Apache-2.0 */
/* A profile in a browser: the viewer's page, or the Firefox Profiler, and a server on this machine that has the profile. */
#ifndef PYEBPF_CMD_VIEWER_H
#define PYEBPF_CMD_VIEWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/options.h"
#include "view/serve.h"

struct viewer_opts {
	const char *address, *firefox_url;
	uint64_t port;
	bool firefox, no_open, once;
	char site[256]; /* the origin of the Firefox Profiler; by viewer_check() */
};

extern const struct opt_row viewer_rows[];

/* What is served, in memory. Zeroed is nothing. */
struct viewer {
	struct serve_file files[4];
	size_t cnt;
};

void viewer__done(struct viewer *c);

/* viewer_check - refuse what cannot be, before the work starts. 0; -PYE_EUSAGE or, for root whom nobody typed sudo for, -PYE_EPRIV, with a
 * sentence. */
int viewer_check(struct viewer_opts *opts, struct err *e);

/* viewer_leave_root - become, for good, the user who typed sudo: the browser is started and every answer given as him. 0 or
 * -PYE_EPRIV with a sentence. */
int viewer_leave_root(struct err *e);

/* viewer__add - the profile; once. Return: a descriptor to write it to, which viewer__done() closes, or -errno. */
int viewer__add(struct viewer *c, bool firefox);

/* viewer_write - of an exporter. @ctx: that descriptor. */
int viewer_write(void *ctx, const void *data, size_t len);

/* viewer__run - print the address, open it, and serve until nobody wants it any more. 0, or an error with a sentence. */
int viewer__run(struct viewer *c, const struct viewer_opts *opts, struct err *e);

#endif
