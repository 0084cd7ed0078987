// SPDX-License-Identifier: Apache-2.0
/*
 * Collapsed stacks, as flame graph tools read them: a line per distinct stack, its frames joined by
 * semicolons, and its self time in nanoseconds. The outermost frames are the process and the
 * thread; a frame is "qualname (file.py:line)", a native one "symbol (library)", one of the kernel
 * "symbol_[k]". Time in which a thread's stack was not known is
 * the frame [lost N] (N events are missing) or [unknown].
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/folding.h"
#include "export/json.h"

enum {
	BUFFER_BYTES = 256 << 10,
	MAX_FRAMES = 256
};

struct collapsed {
	struct folding folding; /* first */
	struct outbuf out;
	struct strpool labels;
	uint32_t *label_of; /* by function */
};

static void collapsed__done(void *self)
{
	struct collapsed *c = self;

	folding__done(&c->folding);
	outbuf__done(&c->out);
	strpool__done(&c->labels);
	free(c->label_of);
}

static int collapsed__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct collapsed *c = self;
	int err;

	err = folding__init(&c->folding, opts, FOLDING_MERGES | FOLDING_STACKS);
	err = err ? err : strpool__init(&c->labels);
	err = err ? err : outbuf__init(&c->out, BUFFER_BYTES, out->write, out->ctx);
	return err;
}

/* A name as part of a frame: what separates frames or is no plain text is escaped. */
static void put_name(struct outbuf *b, const struct strpool *strings, uint32_t id)
{
	const struct strpool_str *str = &strings->strs[id];
	const char *s = str->s, *end = s + str->len;
	char piece[32];

	while (s < end) {
		uint32_t cp;
		size_t n = text_next(s, (size_t)(end - s), &cp);

		if (cp == ';')
			outbuf__puts(b, "\\x3b");
		else
			outbuf__puts(b, text_escape(piece, sizeof(piece), s, n));
		s += n;
	}
}

static int add_label(struct collapsed *c, const struct agg_result *r, const struct agg_func *f,
		     uint32_t *label)
{
	struct membuf text = { 0 };
	struct outbuf b;
	int err = outbuf__init(&b, 256, membuf__write, &text);

	if (err)
		return err;
	put_name(&b, &r->strings, f->qualname);
	if (f->kind == FUNC_KERNEL) {
		outbuf__puts(&b, "_[k]"); /* flamegraph.pl has a colour for it */
	} else if (agg_shown_file(r, f)) {
		outbuf__puts(&b, " (");
		put_name(&b, &r->strings, agg_shown_file(r, f));
		if (f->kind == FUNC_PYTHON) {
			outbuf__putc(&b, ':');
			json_u64(&b, f->line);
		}
		outbuf__putc(&b, ')');
	}
	err = outbuf__flush(&b);
	if (!err)
		err = strpool__add(&c->labels, text.len ? text.data : "", text.len, label);
	outbuf__done(&b);
	membuf__done(&text);
	return err;
}

static int make_labels(struct collapsed *c, const struct agg_result *r)
{
	int err = 0;

	c->label_of = calloc(r->func_cnt + 1ull, sizeof(*c->label_of));
	if (!c->label_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->func_cnt && !err; i++)
		err = add_label(c, r, &r->funcs[i], &c->label_of[i]);
	return err;
}

static void put_thread(struct outbuf *b, const struct agg_result *r, uint32_t index)
{
	const struct agg_thread *thread = &r->threads[index];
	const struct agg_process *process = &r->processes[thread->process];

	put_name(b, &r->strings, process->comm);
	outbuf__putc(b, '-');
	json_u64(b, process->pid);
	if (r->threads_merged)
		return;
	outbuf__putc(b, ';');
	put_name(b, &r->strings, thread->name);
	outbuf__putc(b, '-');
	json_u64(b, thread->tid);
}

static int put_stack(void *ctx, const struct folded_stack *stack)
{
	struct collapsed *c = ctx;
	struct outbuf *b = &c->out;

	if (!stack->self_ns)
		return 0;
	put_thread(b, aggregate__result(c->folding.agg), stack->thread);
	for (uint32_t i = 0; i < stack->func_cnt; i++) {
		const struct strpool_str *label;

		outbuf__putc(b, ';');
		if (stack->funcs[i] == FOLDING_CUT) {
			outbuf__puts(b, "[truncated]");
			continue;
		}
		label = &c->labels.strs[c->label_of[stack->funcs[i]]];
		outbuf__put(b, label->s, label->len);
	}
	outbuf__putc(b, ' ');
	json_u64(b, stack->self_ns);
	outbuf__putc(b, '\n');
	return b->err;
}

static void put_gaps(struct outbuf *b, const struct agg_result *r)
{
	for (uint32_t i = 0; i < r->thread_cnt; i++) {
		const struct agg_thread *thread = &r->threads[i];

		if (!thread->gap_ns)
			continue;
		put_thread(b, r, i);
		if (thread->lost) {
			outbuf__puts(b, ";[lost ");
			json_u64(b, thread->lost);
			outbuf__puts(b, "] ");
		} else {
			outbuf__puts(b, ";[unknown] ");
		}
		json_u64(b, thread->gap_ns);
		outbuf__putc(b, '\n');
	}
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct collapsed *c = self;
	const struct agg_result *r = aggregate__result(c->folding.agg);
	int err = folding_end(self, totals);

	err = err ? err : make_labels(c, r);
	err = err ? err : folding_each(r, MAX_FRAMES, put_stack, c);
	if (err)
		return err;
	put_gaps(&c->out, r);
	return outbuf__flush(&c->out);
}

const struct exporter export_collapsed = {
	.name = "collapsed",
	.aliases = (const char *const[]){ "folded", "raw", NULL },
	.extensions = (const char *const[]){ ".folded", ".collapsed", NULL },
	.help = "a line per stack with its self time in ns, for flame graphs",
	.folds = true,
	.hint = "flamegraph.pl @ > flame.svg",
	.size = sizeof(struct collapsed),
	.init = collapsed__init,
	.consumer = {
		FORWARD_TO_THE_END,
		.end = on_end,
	},
	.done = collapsed__done,
};
