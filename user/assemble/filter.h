/* SPDX-License-Identifier: Apache-2.0 */
/* Which events of a trace are kept. What the source of the records holds back already does not come here;
 * of the rest nothing gets through that should not. */
#ifndef PYEBPF_ASSEMBLE_FILTER_H
#define PYEBPF_ASSEMBLE_FILTER_H

#include <stddef.h>
#include <stdint.h>

#define ASSEMBLER_GLOBS_MAX 32

struct assembler;
struct pye_verdict;

/* Strings are borrowed until the assembler is freed. All zero: everything is kept. */
struct assembler_filter {
	/* of code_glob_matches(): any of these, or all code if there are none; and none of those */
	const char *include[ASSEMBLER_GLOBS_MAX], *exclude[ASSEMBLER_GLOBS_MAX];
	size_t include_cnt, exclude_cnt;
	uint32_t max_depth; /* frames of a thread that are kept, from the outermost on; 0: all */
	uint64_t min_ns; /* calls that take less are folded into their callers */
	/* of func_spec_parse(): keep what is called by it, and itself; keep only itself; or NULL */
	const char *root, *only;
	const char
		*thread; /* of glob_matches(): threads with other names are no threads; NULL: all */
	/* tell the source what is known now of a code object; NULL: it holds nothing back. It may forget */
	void (*decide)(void *ctx, const struct pye_verdict *verdict);
	void *ctx;
};

/**
 * assembler__filter - keep only what this describes; copied
 *
 * To be said before the first record. A frame that is not kept is none in the capture: what it calls
 * is called by the nearest frame below that is.
 *
 * Return: 0 or -ENOMEM.
 */
int assembler__filter(struct assembler *a, const struct assembler_filter *filter);

/* What came and was not kept; what the source held back is not in it. And what there was to be kept, so far. */
struct assembler_filtered {
	uint64_t calls; /* entries: calls, resumptions and throws */
	uint64_t events; /* with the exits */
	uint64_t threads; /* of the names that are asked for */
	uint64_t codes; /* code objects that include and exclude leave, but the function of root */
	uint64_t functions; /* code objects that are the function of root or only */
};

/* Calls that were too short: they came, and are counted in none of the above. */
struct assembler_folded {
	uint64_t calls;
	uint64_t ns; /* that they took in all */
};

const struct assembler_folded *assembler__folded(const struct assembler *a);

/* assembler__settle - calls that are open and were entered so long before @ts_ns are written, though
 * nothing came of their threads since. All records up to then should have been fed. */
int assembler__settle(struct assembler *a, uint64_t ts_ns);

void assembler__filtered(const struct assembler *a, struct assembler_filtered *out);

#endif
