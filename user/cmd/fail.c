// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cmd/cmd.h"

int cmd_fail(const char *name, int code, const struct err *e)
{
	fprintf(stderr, "pyebpf %s: %s\n", name, e && e->what[0] ? e->what : err_str(code));
	if (e && e->hint[0])
		fprintf(stderr, "%s\n", e->hint);
	return err_exit_code(code);
}
