// SPDX-License-Identifier: Apache-2.0
/*
 * Parca, ProfileStoreService/WriteRaw by gRPC-Web over HTTP/1.1, which it serves beside gRPC: a frame of a byte of flags, four of
 * length and the message. Errors are HTTP 200, too: the status is in a header, or in a last frame whose flags begin
 * with 0x80. parca-dev/parca's proto/parca/profilestore/v1alpha1/profilestore.proto.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sink/push_profile.h"

enum {
	WRITE_SERIES = 2,
	WRITE_NORMALIZED = 3,
	SERIES_LABELS = 1,
	LABEL_SET_LABELS = 1,
	SERIES_SAMPLES = 2,
	SAMPLE_RAW_PROFILE = 1
};

/* Of gRPC. */
enum {
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_UNAUTHENTICATED = 16
};

/* It takes 64 MB. */
static const struct push_limits limits = { .bytes = 32u << 20, .samples = UINT32_MAX };

static int put_part(struct sink_push *push, const struct sink_window *w,
		    const struct membuf *profile)
{
	auto_fn(proto__done) struct proto p = { 0 };
	struct sink_request *r = sink_push__request(
		push, "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw");
	size_t series = proto__open(&p, WRITE_SERIES), part = proto__open(&p, SERIES_LABELS);
	uint32_t len;
	int err;

	push_profile_labels(&p, LABEL_SET_LABELS, w);
	proto__close(&p, part);
	part = proto__open(&p, SERIES_SAMPLES);
	proto__bytes(&p, SAMPLE_RAW_PROFILE, profile->data, profile->len);
	proto__close(&p, part);
	proto__close(&p, series);
	proto__u64(&p, WRITE_NORMALIZED, 1);
	if (!r || p.err)
		return -ENOMEM;
	sink_request__header(r, "Content-Type: application/grpc-web+proto");
	sink_request__header(r, "X-Grpc-Web: 1");
	len = htobe32((uint32_t)p.len);
	err = membuf__write(&r->body, "", 1);
	err = err ? err : membuf__write(&r->body, &len, sizeof(len));
	return err ? err : membuf__write(&r->body, p.data, p.len);
}

static int parca_add(void *self, struct sink_push *push, const struct sink_window *w, struct err *e)
{
	(void)self;
	return push_profile_parts(push, w, &limits, put_part, e);
}

/* The status of the last frame; -1: there is none. */
static long trailer_status(const struct sink_reply *reply)
{
	const uint8_t *at = (const uint8_t *)reply->body, *end = at + reply->len;

	while (end - at >= 5) {
		uint32_t len;

		memcpy(&len, at + 1, sizeof(len));
		len = be32toh(len);
		if (len > (uint64_t)(end - at) - 5)
			return -1;
		if (*at & 0x80) {
			const char *status = memmem(at + 5, len, "grpc-status:", 12);

			/* the body ends with a NUL */
			return status ? strtol(status + 12, NULL, 10) : -1;
		}
		at += 5 + len;
	}
	return -1;
}

static enum sink_verdict parca_judge(void *self, const struct sink_reply *reply, struct err *e)
{
	enum sink_verdict by_http = sink_judge_http(self, reply, e);
	long status = reply->grpc_status >= 0 ? reply->grpc_status : trailer_status(reply);

	if (by_http != SINK_OK || !status)
		return by_http;
	err_set(e, -PYE_EOUTPUT, "the server answered with status %ld of gRPC", status);
	switch (status) {
	case GRPC_INVALID_ARGUMENT:
	case GRPC_OUT_OF_RANGE:
		return SINK_DROP;
	case GRPC_PERMISSION_DENIED:
	case GRPC_UNIMPLEMENTED:
	case GRPC_UNAUTHENTICATED:
		return SINK_HOLD;
	default:
		return SINK_RETRY;
	}
}

const struct sink_ops sink_parca = {
	.type = "parca",
	.windows_max = 1,
	.bytes_max = 1u << 20,
	.parts = true,
	.add = parca_add,
	.judge = parca_judge,
};
