// SPDX-License-Identifier: Apache-2.0
/*
 * Grafana Pyroscope, push.v1.PusherService/Push: grafana/pyroscope's api/push/v1/push.proto. One series in a request: of several
 * the server takes some and refuses others in one answer, and what is sent again would be stored twice. It has no way to
 * tell that it knows a window: after an answer that was lost one is stored twice.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "sink/push_profile.h"

#define MAX_AGE_NS (55ull * 60 * 1000000000) /* it takes nothing that is older than an hour */

enum {
	PUSH_SERIES = 1,
	SERIES_LABELS = 1,
	SERIES_SAMPLES = 2,
	SAMPLE_RAW_PROFILE = 1
};

/* It takes 16,000 samples, and 2 MB at once where nobody has set more. */
static const struct push_limits limits = { .bytes = 1u << 20, .samples = 15000 };

static int put_part(struct sink_push *push, const struct sink_window *w,
		    const struct membuf *profile)
{
	auto_fn(proto__done) struct proto p = { 0 };
	struct sink_request *r = sink_push__request(push, "/push.v1.PusherService/Push");
	size_t series = proto__open(&p, PUSH_SERIES), sample;

	push_profile_labels(&p, SERIES_LABELS, w);
	sample = proto__open(&p, SERIES_SAMPLES);
	proto__bytes(&p, SAMPLE_RAW_PROFILE, profile->data, profile->len);
	proto__close(&p, sample);
	proto__close(&p, series);
	if (!r || p.err)
		return -ENOMEM;
	sink_request__header(r, "Content-Type: application/proto");
	return membuf__write(&r->body, p.data, p.len);
}

static int pyroscope_add(void *self, struct sink_push *push, const struct sink_window *w,
			 struct err *e)
{
	(void)self;
	return push_profile_parts(push, w, &limits, put_part, e);
}

const struct sink_ops sink_pyroscope = {
	.type = "pyroscope",
	.windows_max = 1,
	.bytes_max = 1u << 20,
	.max_age_ns = MAX_AGE_NS,
	.parts = true,
	.add = pyroscope_add,
	.judge = sink_judge_http,
};
