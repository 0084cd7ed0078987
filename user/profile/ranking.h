/* SPDX-License-Identifier: Apache-2.0 */
/* An aggregate as a table: a row per function, module, line, thread or process, in some order. */
#ifndef PYEBPF_PROFILE_RANKING_H
#define PYEBPF_PROFILE_RANKING_H

#include <stdint.h>

#include "profile/aggregate.h"
#include "profile/lines.h"

enum ranking_by {
	RANKING_FUNCTION,
	RANKING_MODULE, /* a file */
	RANKING_LINE, /* of a file: of functions the first one, see also ranking__of_lines() */
	RANKING_THREAD,
	RANKING_PROCESS,
};

/* Their names, as one asks for them; NULL at the end. */
extern const char *const ranking_by_names[];

enum ranking_sort {
	RANKING_SELF,
	RANKING_TOTAL,
	RANKING_CALLS,
};

struct ranking_row {
	uint32_t index; /* of a thread, a process, or one of the functions that the row stands for */
	uint32_t line; /* of RANKING_LINE */
	uint64_t calls; /* or samples */
	uint64_t self_ns;
	uint64_t total_ns; /* recursion counted once; of a thread or process the same as self_ns */
	uint64_t doubt_ns; /* what self_ns is not known by: its share of the profiler's own cost; not of threads */
	uint64_t gap_ns, lost; /* of threads and processes */
};

struct ranking {
	enum ranking_by by;
	struct ranking_row *rows; /* owned; most first */
	uint32_t cnt;
};

/* What a row is called, escaped for a terminal. */
struct ranking_text {
	char name[512]; /* a function; a module; file:line; a thread and its tid; a process and its pid */
	char place[512]; /* its file:line; file; function; process; or nothing */
};

/**
 * ranking__init - make the table
 * @r:     after its end(); borrowed only for the call
 * @apart: the same function, file or line of several processes is a row for each
 *
 * Rows without calls and without time are left out, but a thread or process whose stack was not known
 * for a while is shown.
 *
 * Return: 0 or -ENOMEM; then ranking__done() is not needed.
 */
int ranking__init(struct ranking *k, const struct agg_result *r, enum ranking_by by,
		  enum ranking_sort sort, bool apart);

/* ranking__of_lines - the same by the lines that samples were at. */
int ranking__of_lines(struct ranking *k, const struct lines *l, enum ranking_sort sort, bool apart);

void ranking__done(struct ranking *k);

/* ranking_text - of a row that was made of @r. */
void ranking_text(const struct agg_result *r, enum ranking_by by, const struct ranking_row *row,
		  struct ranking_text *out);

/**
 * ranking_groups - number the functions by what a row stands for
 * @by:       RANKING_FUNCTION, RANKING_MODULE or RANKING_LINE
 * @apart:    as for ranking__init()
 * @group_of: room for all functions; numbers count up from 0 in the order of the functions
 * @cnt:      numbers given
 *
 * Return: 0 or -ENOMEM.
 */
int ranking_groups(const struct agg_result *r, enum ranking_by by, bool apart, uint32_t *group_of,
		   uint32_t *cnt);

#endif
