/* SPDX-License-Identifier: Apache-2.0 */
/* What names things in a pprof profile: strings, functions, locations, types of values. */
#ifndef PYEBPF_IMPORT_PPROF_NAMES_H
#define PYEBPF_IMPORT_PPROF_NAMES_H

#include "base/idmap.h"
#include "base/pprof_fields.h"
#include "import/sink.h"

#define PPROF_MESSAGE_MAX (16u << 20) /* bytes of a part of the profile */
#define PPROF_FRAMES_MAX  (1u << 16) /* of a sample */
#define PPROF_TEXT_MAX \
	SINK_BYTES_MAX /* bytes of all strings; those past it have SINK_OTHER in their place, */
#define PPROF_SHORT_MAX \
	(PPROF_TEXT_MAX + (8u << 20)) /* short ones, such as units and labels' keys, past that */
#define PPROF_PARTS_MAX (10u << 20) /* strings, functions, locations, each */

struct pprof_type {
	uint64_t type, unit; /* strings */
};

struct pprof_function {
	uint32_t name, file; /* strings */
	uint32_t line;
	uint64_t address; /* of a location without a function; else 0 */
};

struct pprof_line {
	uint32_t function; /* index */
	uint32_t line;
};

struct pprof_location {
	uint32_t first_line, line_cnt;
};

/* Ids are any numbers, and mostly the index and 1: then there is no need of a table. */
struct pprof_ids {
	struct idmap map;
	uint32_t cnt; /* of those in order */
	bool scattered;
};

/* Ids of the profile are any numbers; indexes count from 0. */
struct pprof_names {
	struct err *e;
	char *text; /* all strings, each with a NUL; the first is SINK_OTHER */
	size_t text_len, text_cap;
	uint32_t *string_at;
	uint32_t string_cnt, string_cap;
	struct pprof_function *functions;
	uint32_t function_cnt, function_cap;
	struct pprof_line *lines;
	uint64_t *line_ids; /* of functions, until close */
	uint32_t line_cnt, line_cap, line_id_cap;
	struct pprof_location *locations;
	uint32_t location_cnt, location_cap;
	struct pprof_ids function_of, location_of;
	struct pprof_type types[64], period_type;
	uint32_t type_cnt;
	uint64_t mapping, period, duration_ns, default_type;
	int64_t time_ns;
};

int pprof_names__init(struct pprof_names *n, struct err *e);

/* pprof_names__done - a zeroed @n is fine. */
void pprof_names__done(struct pprof_names *n);

/* Return of these: 0, -ENOMEM, or -PYE_EFORMAT with a sentence past a limit. */
int pprof_names__string(struct pprof_names *n, const void *s, uint64_t len);
int pprof_names__function(struct pprof_names *n, uint64_t id, const struct pprof_function *f);
int pprof_names__line(struct pprof_names *n, uint64_t function_id, uint64_t line);

/* pprof_names__location - @first: the number of lines before its own. */
int pprof_names__location(struct pprof_names *n, uint64_t id, uint32_t first, uint64_t address);

/* pprof_names__close - everything is there: lines find their functions. */
int pprof_names__close(struct pprof_names *n);

/* pprof_names__text - the string of a number; "" where there is none. Borrowed. */
const char *pprof_names__text(const struct pprof_names *n, uint64_t string);

/* pprof_names__find - the location of an id, which a profile without locations may not have defined. */
int pprof_names__find(struct pprof_names *n, uint64_t id, struct pprof_location **out);

/* pprof_names__describe - a function's name and file, of the sink. */
int pprof_names__describe(const struct pprof_names *n, struct sink *k, uint32_t function,
			  uint32_t *name, uint32_t *file);

#endif
