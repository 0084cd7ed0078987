// SPDX-License-Identifier: Apache-2.0
#include "cmd/agent_sinks.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/clock.h"
#include "export/json.h"

#define SECOND 1000000000

/* One number of each sink. */
static const struct number {
	const char *name, *type, *help;
	size_t offset;
} numbers[] = {
#define NUMBER(name, type, help, member)                              \
	{                                                             \
		name, type, help, offsetof(struct sink_stats, member) \
	}
	NUMBER("seen_total", "counter", "profiles that it was to be sent", seen),
	NUMBER("sent_total", "counter", "profiles that it has taken", sent),
	NUMBER("sent_bytes_total", "counter", "bytes of requests that it has taken", sent_bytes),
	NUMBER("retries_total", "counter", "requests that were sent again", retries),
	NUMBER("owed", "gauge", "profiles that wait for it", owed),
	NUMBER("owed_bytes", "gauge", "their bytes in the store", owed_bytes),
#undef NUMBER
};

static uint64_t value_of(const struct sink_stats *st, const struct number *n)
{
	return *(const uint64_t *)((const char *)st + n->offset);
}

/* How far it is behind, s. */
static int64_t lag_of(const struct sink_stats *st)
{
	int64_t lag = st->oldest_owed_ns ? wall_ns() - st->oldest_owed_ns : 0;

	return lag > 0 ? lag / SECOND : 0;
}

static void head(struct outbuf *b, const char *name, const char *type, const char *help)
{
	outbuf__printf(b, "# HELP pyebpf_sink_%s %s\n# TYPE pyebpf_sink_%s %s\n", name, help, name,
		       type);
}

static void put_name(struct outbuf *b, const char *metric, const struct sink_stats *st)
{
	outbuf__printf(b, "pyebpf_sink_%s{sink=", metric);
	json_str(b, st->name); /* quotes and backslashes as in a label */
}

static void put_classes(struct outbuf *b, const struct sink_shared *s)
{
	static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };

	head(b, "requests_total", "counter", "answers, by their kind; none: there was none");
	for (uint32_t i = 0; i < s->cnt; i++)
		for (unsigned int k = 0; k < 6; k++) {
			put_name(b, "requests_total", &s->sinks[i]);
			outbuf__printf(b, ",code=\"%s\"} %" PRIu64 "\n", classes[k],
				       s->sinks[i].by_class[k]);
		}
	head(b, "profiles_dropped_total", "counter",
	     "profiles that it will never be sent, by reason");
	for (uint32_t i = 0; i < s->cnt; i++)
		for (unsigned int k = 0; k < SINK_DROP_CNT; k++) {
			put_name(b, "profiles_dropped_total", &s->sinks[i]);
			outbuf__printf(b, ",reason=\"%s\"} %" PRIu64 "\n", sink_drop_name(k),
				       s->sinks[i].dropped[k]);
		}
}

void agent_sinks_metrics(const struct sender *sender, struct outbuf *b)
{
	const struct sink_shared *s = sender ? sender__shared(sender) : NULL;

	if (!s)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		head(b, numbers[i].name, numbers[i].type, numbers[i].help);
		for (uint32_t k = 0; k < s->cnt; k++) {
			put_name(b, numbers[i].name, &s->sinks[k]);
			outbuf__printf(b, "} %" PRIu64 "\n", value_of(&s->sinks[k], &numbers[i]));
		}
	}
	put_classes(b, s);
	head(b, "state", "gauge", "what it does: one is 1");
	for (uint32_t i = 0; i < s->cnt; i++)
		for (unsigned int k = 0; k < SINK_STATE_CNT; k++) {
			put_name(b, "state", &s->sinks[i]);
			outbuf__printf(b, ",state=\"%s\"} %d\n", sink_state_name(k),
				       s->sinks[i].state == k);
		}
	head(b, "request_seconds_total", "counter",
	     "that it took to answer, all requests together");
	for (uint32_t i = 0; i < s->cnt; i++) {
		put_name(b, "request_seconds_total", &s->sinks[i]);
		outbuf__printf(b, "} %.6f\n", (double)s->sinks[i].request_ns / 1e9);
	}
	head(b, "lag_seconds", "gauge", "since the end of the oldest window that waits");
	for (uint32_t i = 0; i < s->cnt; i++) {
		put_name(b, "lag_seconds", &s->sinks[i]);
		outbuf__printf(b, "} %" PRId64 "\n", lag_of(&s->sinks[i]));
	}
	outbuf__printf(
		b,
		"# HELP pyebpf_sender_restarts_total starts of the sender after it had ended\n"
		"# TYPE pyebpf_sender_restarts_total counter\n"
		"pyebpf_sender_restarts_total %" PRIu32 "\n",
		s->restarts);
}

void agent_sinks_json(const struct sender *sender, struct outbuf *b)
{
	const struct sink_shared *s = sender ? sender__shared(sender) : NULL;

	outbuf__putc(b, '[');
	for (uint32_t i = 0; s && i < s->cnt; i++) {
		const struct sink_stats *st = &s->sinks[i];

		outbuf__puts(b, i ? ",{\"name\":" : "{\"name\":");
		json_str(b, st->name);
		outbuf__printf(b, ",\"type\":\"%s\",\"state\":\"%s\"", st->type,
			       sink_state_name(st->state));
		for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
			outbuf__printf(b, ",\"%s\":%" PRIu64, numbers[k].name,
				       value_of(st, &numbers[k]));
		for (unsigned int k = 0; k < SINK_DROP_CNT; k++)
			outbuf__printf(b, "%s\"%s\":%" PRIu64, k ? "," : ",\"dropped\":{",
				       sink_drop_name(k), st->dropped[k]);
		outbuf__printf(b, "},\"lag_seconds\":%" PRId64 ",\"last_error\":", lag_of(st));
		json_str(b, st->last_error);
		outbuf__putc(b, '}');
	}
	outbuf__putc(b, ']');
}

void agent_sinks_text(const struct sender *sender, struct outbuf *b)
{
	const struct sink_shared *s = sender ? sender__shared(sender) : NULL;

	for (uint32_t i = 0; s && i < s->cnt; i++) {
		const struct sink_stats *st = &s->sinks[i];
		uint64_t dropped = 0;

		for (unsigned int k = 0; k < SINK_DROP_CNT; k++)
			dropped += st->dropped[k];
		outbuf__printf(b,
			       "sink      %s: %s, %" PRIu64 " sent, %" PRIu64 " wait (%" PRId64
			       " s behind), %" PRIu64 " dropped, %" PRIu64 " retries\n",
			       st->name, sink_state_name(st->state), st->sent, st->owed, lag_of(st),
			       dropped, st->retries);
		if (*st->last_error)
			outbuf__printf(b, "          %s\n", st->last_error);
	}
}
