/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sinks that hand on a window as the pprof profile that it is. */
#ifndef PYEBPF_SINK_PUSH_PROFILE_H
#define PYEBPF_SINK_PUSH_PROFILE_H

#include "export/proto.h"
#include "sink/sink.h"

/**
 * push_profile_name - the label __name__ of a window: what its values are
 *
 * Return: process_cpu for samples, python_calls for calls. Static.
 */
const char *push_profile_name(const struct sink_window *w);

/**
 * push_profile_labels - put the labels of a window, each as a message of two texts, sorted by name
 * @field: of the labels
 *
 * __name__ and service_name among them; container_id is not, it would be a series for every start of a container.
 */
void push_profile_labels(struct proto *p, uint32_t field, const struct sink_window *w);

/**
 * push_profile_strip - the profile without the labels of its samples
 * @out: gzip; added to
 *
 * Of each set of them these servers make a series of its own.
 *
 * Return: 0; -PYE_EFORMAT with a sentence; -ENOMEM.
 */
int push_profile_strip(const struct sink_window *w, struct membuf *out, struct err *e);

/* push_profile_body - what @p holds becomes the body of the only request of a push. 0 or -ENOMEM. */
int push_profile_body(struct sink_push *push, struct proto *p, struct membuf *body);

#endif
