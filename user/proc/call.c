// SPDX-License-Identifier: Apache-2.0
#include "proc/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/file.h"

#define WORDS 9 /* number, six arguments, stack pointer, instruction */

/* "running", "-1 SP PC" (older kernels: another negative number), or all nine words */
int proc_call__parse(const char *text, struct proc_call *out)
{
	uint64_t words[WORDS] = { 0 };
	int cnt = 0;
	char *end;

	*out = (struct proc_call){ 0 };
	if (!strncmp(text, "running", strlen("running")))
		return 0;
	for (; cnt < WORDS; cnt++, text = end) {
		words[cnt] = cnt ? strtoull(text, &end, 16) : (uint64_t)strtoll(text, &end, 10);
		if (end == text)
			break;
	}
	if (cnt != WORDS && (cnt != 3 || (int64_t)words[0] >= 0))
		return -EINVAL;
	out->waits = true;
	out->nr = (int64_t)words[0] < 0 ? -1 : (int64_t)words[0];
	out->sp = words[cnt - 2];
	out->pc = words[cnt - 1];
	if (cnt == WORDS)
		memcpy(out->args, words + 1, sizeof(out->args));
	return 0;
}

int proc_call__read(pid_t pid, pid_t tid, struct proc_call *out)
{
	auto_free char *text = NULL;
	char name[48];
	size_t len;
	int err;

	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	err = proc_file__read(pid, name, 512, &text, &len);
	return err < 0 ? err : proc_call__parse(text, out);
}
