// SPDX-License-Identifier: Apache-2.0
/* Whether a user means a code object: by its module, its file, or as what the process runs as __main__. */
#include <string.h>

#include "assemble/assemble_priv.h"
#include "assemble/chosen.h"
#include "profile/code_glob.h"
#include "profile/module.h"
#include "profile/place.h"

static const char *below_root(const struct trace_func *func)
{
	const char *below;

	place_of_file(func->file, &below);
	return below;
}

static bool in_main(const struct assembler *a, const struct trace_func *func)
{
	const char *below = below_root(func);
	struct asm_process *p;

	HASH_FIND(hh, a->processes, &func->process, sizeof(func->process), p);
	return p && p->program &&
	       file_is_main(p->program, p->runs_module, func->file, below ? below : func->file);
}

bool asm_func_meant(const struct assembler *a, const struct func_spec *spec,
		    const struct trace_func *func)
{
	const char *below = below_root(func);
	struct func_spec rest;

	if (func_spec_matches(spec, func->file, below ? below : func->file, func->qualname,
			      func->line))
		return true;
	return func_spec_in_main(spec, &rest) &&
	       func_spec_matches(&rest, func->file, "", func->qualname, func->line) &&
	       in_main(a, func);
}

bool asm_code_meant(const struct assembler *a, const char *glob, const struct trace_func *func)
{
	return code_glob_matches(glob, func->file, below_root(func)) ||
	       (!strcmp(glob, "__main__") && in_main(a, func));
}

void asm_wants(struct assembler *a, const char *text)
{
	a->wants_main |= !strncmp(text, "__main__", strlen("__main__"));
}
