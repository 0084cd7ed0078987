/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of a trace as the Firefox exporter keeps them: processes, threads, functions. */
#ifndef PYEBPF_EXPORT_FIREFOX_DEFS_H
#define PYEBPF_EXPORT_FIREFOX_DEFS_H

#include "profile/trace.h"

struct firefox;

/* The members of struct trace_consumer. Return: 0, -ENOMEM, -PYE_EFORMAT for an unknown id. */
int ff_begin(void *self, const struct trace_info *info);
int ff_process(void *self, const struct trace_process *process);
int ff_thread(void *self, const struct trace_thread *thread);
int ff_func(void *self, const struct trace_func *func);

/* ff_defs_done - give back what these keep. */
void ff_defs_done(struct firefox *ff);

#endif
