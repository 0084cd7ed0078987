/* SPDX-License-Identifier: Apache-2.0 */
/* --open: at the end of a run `pyebpf view` shows what was captured, until it ends. */
#ifndef PYEBPF_CMD_SHOW_H
#define PYEBPF_CMD_SHOW_H

#include <stdbool.h>

#include "base/err.h"
#include "cmd/options.h"

struct show_opts {
	bool open;
};

extern const struct opt_row show_rows[];

/* show_check - before the work starts. 0; -PYE_EPRIV with a sentence and a hint: there is no user who could serve it. */
int show_check(const struct show_opts *opts, struct err *e);

/**
 * show_capture - run the viewer and wait for it
 * @fd: of a capture; closed. -1: nothing was captured, nothing is done
 */
void show_capture(int fd);

#endif
