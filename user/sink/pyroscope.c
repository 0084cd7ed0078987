// SPDX-License-Identifier: Apache-2.0
/*
 * Grafana Pyroscope, push.v1.PusherService/Push: grafana/pyroscope's api/push/v1/push.proto. One series in a request: of several
 * the server takes some and refuses others in one answer, and what is sent again would be stored twice. It has no way to
 * tell that it knows a window: after an answer that was lost one is stored twice.
 */
#include <stdio.h>

#include "base/cleanup.h"
#include "sink/push_profile.h"

#define MAX_AGE_NS (55ull * 60 * 1000000000) /* it takes nothing that is older than an hour */

enum {
	PUSH_SERIES = 1,
	SERIES_LABELS = 1,
	SERIES_SAMPLES = 2,
	SAMPLE_RAW_PROFILE = 1
};

static int pyroscope_add(void *self, struct sink_push *push, const struct sink_window *w,
			 struct err *e)
{
	auto_fn(membuf__done) struct membuf profile = { 0 };
	auto_fn(proto__done) struct proto p = { 0 };
	int err = push_profile_strip(w, &profile, e);
	size_t series, sample;

	(void)self;
	if (err)
		return err;
	series = proto__open(&p, PUSH_SERIES);
	push_profile_labels(&p, SERIES_LABELS, w);
	sample = proto__open(&p, SERIES_SAMPLES);
	proto__bytes(&p, SAMPLE_RAW_PROFILE, profile.data, profile.len);
	proto__close(&p, sample);
	proto__close(&p, series);
	return push_profile_body(push, &p, &push->requests[0].body);
}

static int pyroscope_finish(void *self, struct sink_push *push)
{
	struct sink_request *r = &push->requests[0];

	(void)self;
	snprintf(r->path, sizeof(r->path), "/push.v1.PusherService/Push");
	sink_request__header(r, "Content-Type: application/proto");
	return 0;
}

const struct sink_ops sink_pyroscope = {
	.type = "pyroscope",
	.windows_max = 1,
	.bytes_max = 1u << 20,
	.max_age_ns = MAX_AGE_NS,
	.add = pyroscope_add,
	.finish = pyroscope_finish,
	.judge = sink_judge_http,
};
