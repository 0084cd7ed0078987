// SPDX-License-Identifier: Apache-2.0
/*
 * One page that needs nothing else: speedscope's own, and in it a file of the format speedscope, gzip, in
 * base64. So no byte of a name is markup, and the page's policy runs no script but the three that it was
 * built with.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/outbuf.h"
#include "export/export.h"
#include "export/page.h"
#include "profile/forward.h"

enum {
	BUFFER_BYTES = 64 << 10,
	MAX_EVENTS = 2000000 /* a browser takes half a minute and 2 GB for more */
};

struct html {
	struct forward next; /* to speedscope's exporter; first */
	struct outbuf out;
	struct export_opts inner_opts;
	struct export_out inner_out;
	const struct export_out *to;
	unsigned char rest[3]; /* of what the inner one wrote: less than a group of base64 */
	unsigned int rest_len;
	char note[512]; /* of the inner one */
};

static void html__done(void *self)
{
	struct html *h = self;

	exporter__free(&export_speedscope, h->next.self);
	outbuf__done(&h->out);
}

static void put_group(struct outbuf *b, const unsigned char *three, unsigned int len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *out = outbuf__room(b, 4);

	out[0] = digits[three[0] >> 2];
	out[1] = digits[(three[0] & 3) << 4 | three[1] >> 4];
	out[2] = len > 1 ? digits[(three[1] & 15) << 2 | three[2] >> 6] : '=';
	out[3] = len > 2 ? digits[three[2] & 63] : '=';
	outbuf__used(b, out + 4);
}

static int write_inner(void *ctx, const void *data, size_t len)
{
	struct html *h = ctx;
	const unsigned char *at = data, *end = at + len;

	while (h->rest_len && h->rest_len < 3 && at < end)
		h->rest[h->rest_len++] = *at++;
	if (h->rest_len == 3) {
		put_group(&h->out, h->rest, 3);
		h->rest_len = 0;
	}
	for (; !h->rest_len && end - at >= 3; at += 3)
		put_group(&h->out, at, 3);
	while (at < end)
		h->rest[h->rest_len++] = *at++;
	return h->out.err;
}

static void note_inner(void *ctx, const char *sentence)
{
	struct html *h = ctx;

	snprintf(h->note, sizeof(h->note), "%s", sentence);
	if (h->to->note)
		h->to->note(h->to->ctx, sentence);
}

static int html__init(void *self, const struct export_opts *opts, const struct export_out *out)
{
	struct html *h = self;
	int err;

	h->to = out;
	h->inner_opts = *opts;
	h->inner_opts.plain = false;
	if (!opts->max_events)
		h->inner_opts.max_events = MAX_EVENTS;
	h->inner_out = (struct export_out){ .ctx = h, .write = write_inner, .note = note_inner };
	h->next.to = &export_speedscope.consumer;
	err = outbuf__init(&h->out, BUFFER_BYTES, out->write, out->ctx);
	return err ? err
		   : exporter__new(&export_speedscope, &h->next.self, &h->inner_opts,
				   &h->inner_out);
}

static int put(void *ctx, const void *data, size_t len)
{
	struct outbuf *b = ctx;

	outbuf__put(b, data, len);
	return b->err;
}

static const char own_style[] =
	"#note{position:fixed;bottom:0;left:0;right:0;padding:6px 12px;background:#fff3c4;color:#222;"
	"font:13px/1.4 sans-serif;border-top:1px solid #d9b300;cursor:pointer;z-index:9}";

static int put_head(struct outbuf *b)
{
	int err;

	outbuf__puts(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<!--\n"
			"Made by pyebpf. The page is speedscope, whose license is:\n\n");
	err = page_put(PAGE_LICENSE, put, b);
	outbuf__puts(
		b,
		"-->\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"script-src ");
	outbuf__puts(b, page_script_hashes());
	/* speedscope takes C++ names apart in it */
	outbuf__puts(b, " 'wasm-unsafe-eval'");
	outbuf__puts(b, "; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
			"form-action 'none'\">\n<title>pyebpf</title>\n<style>");
	err = err ? err : page_put(PAGE_STYLE, put, b);
	outbuf__puts(b, own_style);
	outbuf__puts(b, "</style></head><body><script>");
	err = err ? err : page_put(PAGE_BOOT, put, b);
	outbuf__puts(b, "</script><script>");
	err = err ? err : page_put(PAGE_SCRIPT, put, b);
	outbuf__puts(b, "</script>\n<script type=\"application/octet-stream\" id=\"profile\">");
	return err;
}

/* What a reader of the page has to know: that times are sums, that events are missing. Digits and words of
 * our own only. */
static void put_note(struct html *h, const struct trace_totals *totals)
{
	uint64_t lost = 0;

	for (unsigned int i = 0; i < LOSS_CNT; i++)
		lost += totals->lost[i];
	if (!h->note[0] && !lost && totals->complete)
		return;
	outbuf__puts(&h->out, "<div id=\"note\">");
	if (h->note[0])
		outbuf__printf(&h->out, "%s. ", h->note);
	if (lost)
		outbuf__printf(&h->out, "%" PRIu64 " of %" PRIu64 " events were lost. ", lost,
			       totals->generated);
	if (!totals->complete)
		outbuf__puts(&h->out, "The capture ends before its proper end. ");
	outbuf__puts(&h->out, "(A click removes this line.)</div>\n");
}

static int on_end(void *self, const struct trace_totals *totals)
{
	struct html *h = self;
	int err = forward_end(h, totals);

	if (err)
		return err;
	if (h->rest_len) {
		memset(h->rest + h->rest_len, 0, sizeof(h->rest) - h->rest_len);
		put_group(&h->out, h->rest, h->rest_len);
	}
	outbuf__puts(&h->out, "</script>\n");
	put_note(h, totals);
	outbuf__puts(&h->out, "<script>");
	err = page_put(PAGE_LOAD, put, &h->out);
	outbuf__puts(&h->out, "</script></body></html>\n");
	return err ? err : outbuf__flush(&h->out);
}

static int on_begin(void *self, const struct trace_info *info)
{
	struct html *h = self;
	int err = put_head(&h->out);

	return err ? err : forward_begin(h, info);
}

const struct exporter export_html = {
	.name = "html",
	.aliases = NULL,
	.extensions = (const char *const[]){ ".html", NULL },
	.help = "one page with speedscope in it, for any browser without a network",
	.hint = "xdg-open @",
#ifndef PYE_VIEWER
	.missing = PAGE_MISSING,
#endif
	.size = sizeof(struct html),
	.init = html__init,
	.consumer = {
		.begin = on_begin,
		.process = forward_process,
		.thread = forward_thread,
		.func = forward_func,
		.event = forward_event,
		.sample = forward_sample,
		.gap = forward_gap,
		.end = on_end,
	},
	.done = html__done,
};
