/* SPDX-License-Identifier: Apache-2.0 */
/* One sink at work: chooses windows, has them put into a push, sends it, and decides by the answers what becomes of
 * them. Nothing waits in here. */
#ifndef PYEBPF_SINK_LANE_H
#define PYEBPF_SINK_LANE_H

#include "sink/http.h"
#include "sink/spool.h"

struct lane {
	uint32_t number; /* of the sink */
	const struct sink_spec *spec;
	const struct sink_ops *ops;
	void *self; /* of the sink */
	struct spool *spool;
	struct sink_stats *stats;
	struct http_call *call;
	struct sink_push push;
	struct spool_window **in_push;
	uint32_t in_push_cnt, in_push_cap;
	uint32_t request_at;
	bool flying; /* a request is on its way */
	uint32_t failures; /* without a success between */
	uint32_t windows_max; /* now; less than the sink's after it was too much */
	uint32_t smaller; /* as of struct sink_window */
	unsigned int url_number;
	bool newest; /* is next */
	uint64_t next_ns; /* monotonic */
	uint64_t rest_ns; /* nothing was owed: the next push is not before, unless in a hurry */
	bool hurry;
	bool suspecting, mixed; /* pushes failed since one was taken; not always the same one */
	int told; /* state that was last said in the log */
};

int lane__init(struct lane *l, uint32_t number, const struct sink_spec *spec, struct spool *spool,
	       struct http *http);
void lane__done(struct lane *l);

/* lane__next_ns - when it wants to be started; UINT64_MAX: it has nothing to do, or waits for an answer. Monotonic. */
uint64_t lane__next_ns(const struct lane *l);

/* lane__start - send something. 0; -PYE_EOUTPUT with a sentence: what is done cannot be written down; -ENOMEM. */
int lane__start(struct lane *l, struct err *e);

/* lane__answer - to its call. As above. */
int lane__answer(struct lane *l, const struct http_result *r, struct err *e);

#endif
