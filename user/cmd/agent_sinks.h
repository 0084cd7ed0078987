/* SPDX-License-Identifier: Apache-2.0 */
/* What the sinks of the agent have done, for its metrics and its status. */
#ifndef PYEBPF_CMD_AGENT_SINKS_H
#define PYEBPF_CMD_AGENT_SINKS_H

#include "base/outbuf.h"
#include "sink/sender.h"

/* @sender of these: NULL: there are no sinks. */
void agent_sinks_metrics(const struct sender *sender, struct outbuf *b);
void agent_sinks_json(const struct sender *sender, struct outbuf *b); /* a list */
void agent_sinks_text(const struct sender *sender, struct outbuf *b);

#endif
