// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_waits.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"
#include "export/firefox.h"
#include "export/json.h"

enum {
	SHORTEST_NS = 1000
};

/* Idle is what the viewer can hide: nothing else is waited for there. */
static const struct {
	const char *leaf, *marker, *schema;
	enum ff_category category;
} kinds[REASON_CNT] = {
	[REASON_NONE] = { "[waiting]", "Wait", "PyWait", FF_CAT_IDLE },
	[REASON_OTHER] = { "[waiting]", "Wait", "PyWait", FF_CAT_IDLE },
	[REASON_PREEMPTED] = { "[preempted]", "Preempted", "PyWait", FF_CAT_PREEMPTED },
	[REASON_LOCK] = { "[lock wait]", "Lock wait", "PyLockWait", FF_CAT_LOCK },
	[REASON_SLEEP] = { "[sleep]", "Sleep", "PyWait", FF_CAT_IDLE },
	[REASON_IO] = { "[I/O wait]", "I/O wait", "PyWait", FF_CAT_IO },
	[REASON_FAULT] = { "[page fault]", "Page fault", "PyWait", FF_CAT_FAULT },
	[REASON_GIL] = { "[GIL wait]", "GIL wait", "PyGILWait", FF_CAT_GIL },
};

static unsigned int known(unsigned int reason)
{
	return reason < REASON_CNT ? reason : REASON_OTHER;
}

enum ff_category ff_wait_category(unsigned int reason)
{
	return kinds[known(reason)].category;
}

const char *ff_wait_name(unsigned int reason)
{
	return kinds[known(reason)].marker;
}

uint32_t ff_wait_frame(struct firefox *ff, unsigned int reason)
{
	const char *name = kinds[known(reason)].leaf;
	const struct trace_func func = { .name = name, .qualname = name, .file = "" };
	const struct ff_place place = { .category = ff_wait_category(reason), .package = "" };

	return ff_tables__frame(&ff->tables, &func, &place);
}

/* Half of the room is enough then: it is some time until the next time. */
static void thin(struct firefox *ff)
{
	while (ff->wait_cnt > FF_WAITS_MAX / 2) {
		ff->wait_min_ns = ff->wait_min_ns ? 2 * ff->wait_min_ns : SHORTEST_NS;
		for (uint32_t i = 0; i < ff->thread_ids.cnt; i++) {
			struct ff_thread *t = &ff->threads[i];
			uint32_t kept = 0;

			for (uint32_t k = 0; k < t->wait_cnt; k++) {
				const struct ff_wait *w = &t->waits[k];

				if (w->end_ns - w->start_ns >= ff->wait_min_ns)
					t->waits[kept++] = *w;
			}
			ff->wait_cnt -= t->wait_cnt - kept;
			ff->waits_left_out += t->wait_cnt - kept;
			t->wait_cnt = kept;
		}
	}
}

static int holder_of(struct firefox *ff, const struct trace_frame *holder, uint32_t *frame)
{
	uint32_t func;

	*frame = FF_NONE;
	if (!holder->func)
		return 0;
	func = ff_map__find_id(&ff->func_ids, holder->func);
	if (func == FF_NONE)
		return -PYE_EFORMAT;
	*frame = ff_tables__frame_at(&ff->tables, ff->func_frames[func], holder->line);
	return *frame == FF_NONE ? -ENOMEM : 0;
}

int ff_wait_add(struct firefox *ff, struct ff_thread *t, const struct trace_sample *sample,
		uint64_t start_ns, uint32_t stack, uint32_t at)
{
	struct ff_wait wait = { .start_ns = start_ns,
				.end_ns = ff_since(ff, sample->ts_ns),
				.lock = sample->lock,
				.stack = stack,
				.at = at,
				.reason = sample->reason,
				.lock_type = sample->lock_type };
	int err;

	if (wait.end_ns < start_ns)
		wait.end_ns = start_ns;
	if (wait.end_ns - start_ns < ff->wait_min_ns) {
		ff->waits_left_out++;
		return 0;
	}
	err = holder_of(ff, &sample->holder, &wait.holder);
	if (err)
		return err;
	if (ff_grow((void **)&t->waits, &t->wait_cap, t->wait_cnt, sizeof(*t->waits)))
		return -ENOMEM;
	t->waits[t->wait_cnt++] = wait;
	if (++ff->wait_cnt > FF_WAITS_MAX)
		thin(ff);
	return 0;
}

void ff_waits_next_file(struct firefox *ff)
{
	for (uint32_t i = 0; i < ff->thread_ids.cnt; i++)
		ff->threads[i].wait_cnt = 0;
	ff->wait_cnt = 0;
	ff->wait_min_ns = ff->waits_left_out = 0;
}

/* Where a frame is, in two members: the function as a row of the strings, the line as a path, which the
 * viewer takes out of what is uploaded. */
static int put_place(struct firefox *ff, const char *func_key, const char *line_key, uint32_t frame)
{
	const struct strpool_str *file = NULL;
	const struct ff_frame *f = NULL;
	struct outbuf *b = &ff->json;
	uint32_t name;

	if (frame == FF_NONE) {
		name = ff_tables__text(&ff->tables, "not known");
	} else {
		f = &ff->tables.frames[frame];
		name = ff_tables__use_string(&ff->tables, f->name);
		file = f->file != FF_NONE ? &ff->tables.strings.strs[f->file] : NULL;
	}
	if (name == FF_NONE)
		return -ENOMEM;
	outbuf__printf(b, ",\"%s\":%" PRIu32, func_key, name);
	if (!file)
		return 0;
	outbuf__printf(b, ",\"%s\":\"", line_key);
	json_str_body(b, file->s, file->len);
	if (f->at_line)
		outbuf__printf(b, ":%" PRIu32, f->at_line);
	outbuf__putc(b, '"');
	return 0;
}

int ff_wait_write(struct firefox *ff, const struct ff_wait *wait)
{
	struct outbuf *b = &ff->json;
	int err;

	outbuf__puts(b, "{\"type\":");
	json_str(b, kinds[known(wait->reason)].schema);
	outbuf__puts(b, ",\"reason\":");
	json_str(b, trace_reason_name(wait->reason));
	err = put_place(ff, "function", "line", wait->at);
	if (!err && wait->reason == REASON_GIL)
		err = put_place(ff, "holder", "holderLine", wait->holder);
	if (wait->reason == REASON_LOCK) {
		outbuf__puts(b, ",\"lockType\":");
		json_str(b, wait->lock_type ? trace_lock_name(wait->lock_type) : "lock");
	}
	if (wait->reason == REASON_LOCK && wait->lock)
		outbuf__printf(b, ",\"lock\":\"0x%" PRIx64 "\"", wait->lock);
	if (wait->stack != FF_NONE) {
		outbuf__puts(b, ",\"cause\":{\"time\":");
		json_ms(b, wait->start_ns);
		outbuf__printf(b, ",\"stack\":%" PRIu32 "}", wait->stack);
	}
	outbuf__putc(b, '}');
	return err;
}

/* What all of them have first. */
#define WHERE                                                                          \
	"\"display\":[\"marker-chart\",\"marker-table\"],"                             \
	"\"fields\":[{\"key\":\"reason\",\"label\":\"Reason\",\"format\":\"string\"}," \
	"{\"key\":\"function\",\"label\":\"Function\",\"format\":\"unique-string\"},"  \
	"{\"key\":\"line\",\"label\":\"At\",\"format\":\"file-path\"}"

void ff_wait_write_schemas(struct outbuf *b)
{
	outbuf__puts(b, "{\"name\":\"PyWait\",\"tooltipLabel\":\"{marker.name}\","
			"\"tableLabel\":\"{marker.data.function}\","
			"\"chartLabel\":\"{marker.data.function}\","
			"\"description\":\"The thread has no CPU\"," WHERE "]},");
	outbuf__puts(b,
		     "{\"name\":\"PyLockWait\",\"tooltipLabel\":\"{marker.name}\","
		     "\"tableLabel\":\"{marker.data.function} waits for {marker.data.lockType}\","
		     "\"chartLabel\":\"{marker.data.lockType}\","
		     "\"description\":\"The thread waits for a lock\"," WHERE
		     ",{\"key\":\"lockType\",\"label\":\"Type\",\"format\":\"string\"}"
		     ",{\"key\":\"lock\",\"label\":\"Lock\",\"format\":\"string\"}]},");
	outbuf__puts(
		b,
		"{\"name\":\"PyGILWait\","
		"\"tooltipLabel\":\"GIL held by {marker.data.holder}\","
		"\"tableLabel\":\"{marker.data.function} waits for {marker.data.holder}\","
		"\"chartLabel\":\"{marker.data.holder}\","
		"\"description\":\"The thread waits for the interpreter's lock\"," WHERE
		",{\"key\":\"holder\",\"label\":\"Held by\",\"format\":\"unique-string\"},"
		"{\"key\":\"holderLine\",\"label\":\"which was at\",\"format\":\"file-path\"}]},");
}
