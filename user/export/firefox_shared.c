// SPDX-License-Identifier: Apache-2.0
/* The object "shared" of a profile: the tables of firefox_tables.h as JSON columns. */
#include "export/firefox_tables.h"
#include "export/json.h"

/* One column: "name":[ for each row i of cnt: the statements that put it ] */
#define COLUMN(b, name, cnt, ...)                      \
	do {                                           \
		outbuf__puts(b, "\"" name "\":[");     \
		for (uint32_t i = 0; i < (cnt); i++) { \
			if (i)                         \
				outbuf__putc(b, ',');  \
			__VA_ARGS__;                   \
		}                                      \
		outbuf__puts(b, "],");                 \
	} while (0)

static void put_length(struct outbuf *b, uint32_t cnt)
{
	outbuf__puts(b, "\"length\":");
	json_u64(b, cnt);
	outbuf__putc(b, '}');
}

static void put_strings(const struct ff_tables *t, struct outbuf *b)
{
	outbuf__puts(b, "\"stringArray\":[");
	for (uint32_t i = 0; i < t->used_strings.cnt; i++) {
		const struct strpool_str *s = &t->strings.strs[t->used_strings.keys[i]];

		if (i)
			outbuf__putc(b, ',');
		json_strn(b, s->s, s->len);
	}
	outbuf__puts(b, "]");
}

static void put_string_index(const struct ff_tables *t, struct outbuf *b, uint64_t string)
{
	json_u64(b, ff_map__find(&t->used_strings, string));
}

static void put_sources(const struct ff_tables *t, struct outbuf *b)
{
	uint32_t cnt = t->sources.cnt;

	outbuf__puts(b, ",\"sources\":{");
	COLUMN(b, "id", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "filename", cnt, put_string_index(t, b, t->sources.keys[i]));
	COLUMN(b, "startLine", cnt, outbuf__putc(b, '1'));
	COLUMN(b, "startColumn", cnt, outbuf__putc(b, '1'));
	COLUMN(b, "sourceMapURL", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "content", cnt, outbuf__puts(b, "null"));
	put_length(b, cnt);
}

static void put_resources(const struct ff_tables *t, struct outbuf *b)
{
	uint32_t cnt = t->resources.cnt;

	outbuf__puts(b, ",\"resourceTable\":{");
	COLUMN(b, "name", cnt, put_string_index(t, b, t->resources.keys[i]));
	COLUMN(b, "host", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "type", cnt, outbuf__putc(b, '5'));
	put_length(b, cnt);
}

static const struct ff_frame *frame_of(const struct ff_tables *t, uint32_t row)
{
	return &t->frames[t->used_frames.keys[row]];
}

static void put_found(struct outbuf *b, const struct ff_map *m, uint32_t key, const char *none)
{
	if (key == FF_NONE)
		outbuf__puts(b, none);
	else
		json_u64(b, ff_map__find(m, key));
}

static void put_line(struct outbuf *b, uint32_t line)
{
	if (line)
		json_u64(b, line);
	else
		outbuf__puts(b, "null");
}

static const struct ff_frame *func_of(const struct ff_tables *t, uint32_t row)
{
	return &t->frames[t->used_funcs.keys[row]];
}

static void put_funcs(const struct ff_tables *t, struct outbuf *b)
{
	uint32_t cnt = t->used_funcs.cnt;

	outbuf__puts(b, ",\"funcTable\":{");
	COLUMN(b, "name", cnt, put_string_index(t, b, func_of(t, i)->name));
	COLUMN(b, "isJS", cnt, outbuf__puts(b, "false"));
	COLUMN(b, "relevantForJS", cnt, outbuf__puts(b, "false"));
	COLUMN(b, "resource", cnt, put_found(b, &t->resources, func_of(t, i)->package, "-1"));
	COLUMN(b, "source", cnt, put_found(b, &t->sources, func_of(t, i)->file, "null"));
	COLUMN(b, "lineNumber", cnt, put_line(b, func_of(t, i)->line));
	COLUMN(b, "columnNumber", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "originalLocation", cnt, outbuf__puts(b, "null"));
	put_length(b, cnt);
}

static void put_frames(const struct ff_tables *t, struct outbuf *b)
{
	uint32_t cnt = t->used_frames.cnt;

	outbuf__puts(b, ",\"frameTable\":{");
	COLUMN(b, "address", cnt, outbuf__puts(b, "-1"));
	COLUMN(b, "lib", cnt, outbuf__puts(b, "-1"));
	COLUMN(b, "inlineDepth", cnt, outbuf__putc(b, '0'));
	COLUMN(b, "category", cnt, json_u64(b, frame_of(t, i)->category));
	COLUMN(b, "subcategory", cnt, outbuf__putc(b, '0'));
	COLUMN(b, "func", cnt, json_u64(b, ff_map__find(&t->used_funcs, frame_of(t, i)->func)));
	COLUMN(b, "nativeSymbol", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "innerWindowID", cnt, outbuf__putc(b, '0'));
	COLUMN(b, "line", cnt, put_line(b, frame_of(t, i)->at_line));
	COLUMN(b, "column", cnt, outbuf__puts(b, "null"));
	COLUMN(b, "originalLocation", cnt, outbuf__puts(b, "null"));
	put_length(b, cnt);
}

static void put_stacks(const struct ff_tables *t, struct outbuf *b)
{
	const uint64_t *keys = t->stacks.keys;
	uint32_t cnt = t->stacks.cnt;

	outbuf__puts(b, ",\"stackTable\":{");
	COLUMN(b, "frame", cnt, json_u64(b, (uint32_t)keys[i]));
	COLUMN(b, "prefixOffset", cnt, json_u64(b, keys[i] >> 32 ? i + 1 - (keys[i] >> 32) : 0));
	put_length(b, cnt);
}

void ff_tables__write(struct ff_tables *t, struct outbuf *b)
{
	outbuf__puts(b, "\"shared\":{");
	put_strings(t, b);
	put_sources(t, b);
	put_funcs(t, b);
	put_frames(t, b);
	put_stacks(t, b);
	put_resources(t, b);
	outbuf__puts(b, ",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
			"\"functionSize\":[],\"length\":0}"
			",\"sourceLocationTable\":{\"source\":[],\"line\":[],\"column\":[],"
			"\"length\":0}}");
}
