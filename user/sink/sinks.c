// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"
#include "export/gzip.h"
#include "sink/sink.h"

const struct sink_ops *const sinks[] = { &sink_clickhouse, &sink_pyroscope, &sink_parca, &sink_otlp,
					 NULL };

const struct sink_ops *sink_by_type(const char *type)
{
	for (unsigned int i = 0; sinks[i]; i++)
		if (!strcmp(sinks[i]->type, type))
			return sinks[i];
	return NULL;
}

void sink_push__cut(struct sink_push *p, uint32_t request_cnt)
{
	while (p->request_cnt > request_cnt)
		membuf__done(&p->requests[--p->request_cnt].body);
}

void sink_push__done(struct sink_push *p)
{
	sink_push__cut(p, 0);
	free(p->requests);
	if (p->free_state)
		p->free_state(p->state);
	*p = (struct sink_push){ 0 };
}

struct sink_request *sink_push__request(struct sink_push *p, const char *path)
{
	struct sink_request *r;

	if (GROW(p->requests, p->request_cap, p->request_cnt))
		return NULL;
	r = &p->requests[p->request_cnt++];
	*r = (struct sink_request){ 0 };
	snprintf(r->path, sizeof(r->path), "%s", path);
	return r;
}

int sink_request__gzip(struct sink_request *r, const void *data, size_t len)
{
	struct gzip *gzip = NULL;
	int err = gzip__new(&gzip, GZIP_FASTEST, membuf__write, &r->body);

	sink_request__header(r, "Content-Encoding: gzip");
	err = err ? err : gzip__write(gzip, data, len);
	err = err ? err : gzip__finish(gzip);
	gzip__free(gzip);
	return err;
}

void sink_request__header(struct sink_request *r, const char *fmt, ...)
{
	va_list ap;

	if (r->header_cnt == SINK_HEADERS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(r->headers[r->header_cnt++], sizeof(r->headers[0]), fmt, ap);
	va_end(ap);
}

/* A 4xx says that it will always be so, but for those that are about the moment or about who asks. */
enum sink_verdict sink_judge_http(void *self, const struct sink_reply *reply, struct err *e)
{
	char shown[300];

	(void)self;
	if (reply->status >= 200 && reply->status < 300)
		return SINK_OK;
	text_escape(shown, sizeof(shown), reply->body, strnlen(reply->body, 200));
	err_set(e, -PYE_EOUTPUT, "the server answered %ld: %s", reply->status, shown);
	switch (reply->status) {
	case 408:
	case 429:
	case 499:
		return SINK_RETRY;
	case 401:
	case 403:
	case 404: /* no such path, table or tenant: a mistake in the configuration */
	case 407:
		return SINK_HOLD;
	case 413:
		return SINK_SPLIT;
	default:
		/* a redirection is not followed: credentials would go where nobody said */
		return reply->status >= 500 || reply->status < 200 ? SINK_RETRY
		       : reply->status < 400			   ? SINK_HOLD
								   : SINK_DROP;
	}
}
