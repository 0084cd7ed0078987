/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the interpreter in a process: which mapped file holds it (by content, never by name), where
 * it is loaded, which version and build it is, and the layout of its structures.
 */
#ifndef PYEBPF_CPYTHON_INTERP_H
#define PYEBPF_CPYTHON_INTERP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/pylayout.h"
#include "base/err.h"
#include "cpython/plan.h"

struct interp {
	char path[4096];	/* as the target maps it, for messages (may be "... (deleted)") */
	char open_path[64];	/* through which we open it: /proc/PID/map_files/A-B or /proc/PID/exe */
	dev_t dev;
	ino_t ino;
	uint64_t bias;		/* run-time address = vaddr + bias; 0 for a fixed executable */
	uint64_t start;		/* of its first mapping */
	struct probe_plan plan;
	struct pye_pylayout layout;
};

/**
 * interp__find - find the interpreter of a process
 * @pid:    as /proc shows it
 * @engine: for plan_make
 * @e:      names what was found instead (the executable and, say, that only children are Python)
 *
 * Checks besides the plan: the version in memory (Py_Version, _Py_DebugOffsets) equals the plan's,
 * the file on disk is the one that is mapped, no JIT is active (3.13+).
 *
 * Return: 0; -PYE_ENOTPYTHON; -PYE_EVERSION; -PYE_EPLAN; -PYE_ETARGET if the process is gone;
 * -PYE_EPRIV if it may not be looked at; -ENOMEM.
 */
int interp__find(pid_t pid, const char *engine, struct interp *out, struct err *e);

/**
 * interp__layout - the layout of a version
 * @elf:  if not NULL, _Py_DebugOffsets in the file are compared with the compiled table
 *
 * Return: 0; -PYE_EVERSION for an unknown version, -PYE_EPLAN if the two disagree.
 */
int interp__layout(const struct probe_plan *plan, const struct elf_file *elf,
		   struct pye_pylayout *out, struct err *e);

#endif
