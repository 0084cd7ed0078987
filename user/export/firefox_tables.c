// SPDX-License-Identifier: Apache-2.0
#include "export/firefox_tables.h"

#include <stdlib.h>

#define AT_LINE (1u << 31) /* in with_place: a frame at a line of its own */

int ff_tables__init(struct ff_tables *t)
{
	*t = (struct ff_tables){ 0 };
	return strpool__init(&t->strings);
}

uint32_t ff_tables__frame(struct ff_tables *t, const struct trace_func *func,
			  const struct ff_place *place)
{
	uint32_t name = ff_string(&t->strings, func->qualname);
	uint32_t file = ff_string(&t->strings, func->file);
	uint32_t package = ff_stringn(&t->strings, place->package, place->package_len);
	uint32_t key, index;

	if (name == FF_NONE || file == FF_NONE || package == FF_NONE)
		return FF_NONE;
	key = ff_map__add(&t->name_file, ff_pair(name, file));
	if (key != FF_NONE)
		key = ff_map__add(&t->with_line, ff_pair(key, func->line));
	if (key == FF_NONE ||
	    ff_grow((void **)&t->frames, &t->frame_cap, t->with_place.cnt, sizeof(*t->frames)))
		return FF_NONE;
	index = t->with_place.cnt;
	key = ff_map__add(&t->with_place, ff_pair(key, package << 5 | (uint32_t)place->category));
	if (key == index)
		t->frames[index] = (struct ff_frame){
			.name = name,
			.file = t->strings.strs[file].len ? file : FF_NONE,
			.package = place->package_len ? package : FF_NONE,
			.line = func->line,
			.func = index,
			.at_line = func->line,
			.row = FF_NONE,
			.category = (uint8_t)place->category,
		};
	return key;
}

uint32_t ff_tables__frame_at(struct ff_tables *t, uint32_t frame, uint32_t line)
{
	uint32_t index = t->with_place.cnt, key;

	if (!line || line == t->frames[frame].line)
		return frame;
	if (ff_grow((void **)&t->frames, &t->frame_cap, index, sizeof(*t->frames)))
		return FF_NONE;
	key = ff_map__add(&t->with_place, ff_pair(AT_LINE | frame, line));
	if (key == index) {
		t->frames[index] = t->frames[frame];
		t->frames[index].at_line = line;
		t->frames[index].row = FF_NONE;
	}
	return key;
}

uint32_t ff_tables__use_string(struct ff_tables *t, uint32_t string)
{
	return ff_map__add(&t->used_strings, string);
}

uint32_t ff_tables__text(struct ff_tables *t, const char *s)
{
	uint32_t string = ff_string(&t->strings, s);

	return string == FF_NONE ? FF_NONE : ff_tables__use_string(t, string);
}

uint32_t ff_tables__use_frame(struct ff_tables *t, uint32_t index)
{
	struct ff_frame *f = &t->frames[index];

	if (ff_tables__use_string(t, f->name) == FF_NONE)
		return FF_NONE;
	if (f->file != FF_NONE && (ff_tables__use_string(t, f->file) == FF_NONE ||
				   ff_map__add(&t->sources, f->file) == FF_NONE))
		return FF_NONE;
	if (f->package != FF_NONE && (ff_tables__use_string(t, f->package) == FF_NONE ||
				      ff_map__add(&t->resources, f->package) == FF_NONE))
		return FF_NONE;
	if (ff_map__add(&t->used_funcs, f->func) == FF_NONE)
		return FF_NONE;
	f->row = ff_map__add(&t->used_frames, index);
	return f->row;
}

void ff_tables__next_file(struct ff_tables *t)
{
	for (uint32_t i = 0; i < t->used_frames.cnt; i++)
		t->frames[t->used_frames.keys[i]].row = FF_NONE;
	ff_map__clear(&t->used_strings);
	ff_map__clear(&t->sources);
	ff_map__clear(&t->resources);
	ff_map__clear(&t->used_frames);
	ff_map__clear(&t->used_funcs);
	ff_map__clear(&t->stacks);
}

void ff_tables__done(struct ff_tables *t)
{
	strpool__done(&t->strings);
	free(t->frames);
	ff_map__done(&t->name_file);
	ff_map__done(&t->with_line);
	ff_map__done(&t->with_place);
	ff_map__done(&t->used_strings);
	ff_map__done(&t->sources);
	ff_map__done(&t->resources);
	ff_map__done(&t->used_frames);
	ff_map__done(&t->used_funcs);
	ff_map__done(&t->stacks);
	*t = (struct ff_tables){ 0 };
}
