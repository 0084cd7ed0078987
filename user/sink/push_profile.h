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

/* What a server takes in one profile, before compression. */
struct push_limits {
	size_t bytes;
	uint32_t samples;
};

/* push_part_fn - append the request for a part: @profile is pprof in gzip, borrowed. 0 or -ENOMEM. */
typedef int (*push_part_fn)(struct sink_push *push, const struct sink_window *w,
			    const struct membuf *profile);

/**
 * push_profile_parts - hand over what is left of a window's profile, in as many parts as the limits want
 *
 * Samples have no labels: of each set of them these servers make a series of its own. Each part is a whole profile that has just
 * what its samples need, numbered from 1 without a gap; the parts add up to the window, and are the same each time it is begun
 * from the same place with the same limits.
 *
 * Return: 0; -PYE_EFORMAT with a sentence, and the push is as before; -ENOMEM.
 */
int push_profile_parts(struct sink_push *push, const struct sink_window *w,
		       const struct push_limits *most, push_part_fn put, struct err *e);

#endif
