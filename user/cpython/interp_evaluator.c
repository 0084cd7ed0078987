// SPDX-License-Identifier: Apache-2.0
/*
 * PEP 523: an extension can have the frames of an interpreter run by a function of its own. What that hands on to the interpreter's
 * own one is seen by probes as everything else; what it runs itself is not.
 */
#include <stdio.h>

#include "cpython/interp.h"
#include "proc/maps.h"
#include "proc/mem.h"

#define INTERPRETERS_MAX 1024

/* Of any of the interpreters, other than @usual; 0: none has another one. */
static uint64_t find(const struct proc_mem *mem, const struct interp *in, uint32_t offset,
		     uint64_t usual)
{
	uint64_t is = 0, function;

	if (!offset || !in->interpreters || proc_mem__word(mem, in->interpreters, &is))
		return 0;
	for (int i = 0; is && i < INTERPRETERS_MAX; i++) {
		if (proc_mem__word(mem, is + offset, &function))
			return 0;
		if (function && function != usual)
			return function;
		if (proc_mem__word(mem, is + in->layout.is_next, &is))
			return 0;
	}
	return 0;
}

bool interp__other_evaluator(pid_t pid, const struct proc_mem *mem, const struct interp *in,
			     uint32_t offset, uint64_t *usual, char *path, size_t size)
{
	uint64_t function = find(mem, in, offset, *usual);
	const struct mapping *m;
	struct maps maps;
	bool other;

	if (!function || maps__read(pid, &maps))
		return false;
	m = maps__find(&maps, function);
	other = m && m->flags & MAPPING_EXEC && m->ino != in->ino;
	if (other)
		snprintf(path, size, "%s", *m->path ? m->path : "memory");
	else
		*usual = function; /* to 3.10 it always stands there */
	maps__done(&maps);
	return other;
}
