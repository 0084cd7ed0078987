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
	char path[4096]; /* as the target maps it, for messages (may be "... (deleted)") */
	char open_path[64]; /* through which we open it: /proc/self/fd/N */
	int fd; /* keeps that open */
	dev_t dev;
	ino_t ino;
	uint64_t bias; /* run-time address = vaddr + bias; 0 for a fixed executable */
	uint64_t start; /* of its first mapping */
	uint64_t interpreters; /* run-time address of the pointer to the first PyInterpreterState, NULL
				 * before start-up and after the end; 0 = not known */
	bool in_executable; /* not in a shared library */
	bool started; /* there was a PyInterpreterState */
	bool has_jit; /* was built with a JIT, active or not */
	char other[256]; /* for messages: where another interpreter lies that runs too; "" = none */
	char version[24]; /* "3.12.1"; "3.12" when the file does not say more */
	struct probe_plan plan;
	struct pye_pylayout layout;
};

/* What is known of files by now, so that a look at many processes takes each file once. */
struct interp_cache;
struct proc_mem;

int interp_cache__new(struct interp_cache **out);
void interp_cache__free(struct interp_cache *cache);

static inline void interp_cache__freep(struct interp_cache **cache)
{
	interp_cache__free(*cache);
}

/**
 * interp__find - find the interpreter of a process
 * @pid:    as /proc shows it
 * @engine: for plan_make; "sample": any, and a JIT that is active does no harm
 * @out:    release with interp__done() after success. After a failure only its path (or "") and its
 *          version count: "" or, when the process and not the file is the reason (its JIT, say), all
 *          but @fd, for messages
 * @e:      names what was found instead (the executable and, say, that only children are Python)
 *
 * One that is not Python is looked at as interp__find_soon() does.
 *
 * Checks besides the plan: the version in memory (_Py_DebugOffsets) equals the plan's, the file on
 * disk is the one that is mapped, no JIT is active (3.13+).
 *
 * Return: 0; -PYE_ENOTPYTHON; -PYE_EVERSION; -PYE_EPLAN; -PYE_ETARGET if the process is gone;
 * -PYE_EPRIV if it may not be looked at; -ENOMEM.
 */
int interp__find(pid_t pid, const char *engine, struct interp *out, struct err *e);

/**
 * interp__find_cached - interp__find() for many processes
 * @cache: used with one @engine only
 *
 * Does not look whether the children of a process that is not Python are.
 */
int interp__find_cached(pid_t pid, const char *engine, struct interp_cache *cache,
			struct interp *out, struct err *e);

/* interp__find_soon - one that is not Python is looked at again for some milliseconds: it may be about to load it. As that */
int interp__find_soon(pid_t pid, const char *engine, struct interp_cache *cache, struct interp *out,
		      struct err *e);

/* interp__copy - with a descriptor of its own, which outlives the first one's. */
void interp__copy(struct interp *to, const struct interp *from);

/* interp__done - close what interp__find() keeps open. A zeroed or failed one is no error. */
void interp__done(struct interp *in);

/**
 * interp__check_jit - see that no JIT runs past the probes
 *
 * Part of interp__find(). A process that was found before its start-up can be checked again.
 *
 * Return: 0; -PYE_EPLAN when a JIT is active or may be; -PYE_ETARGET.
 */
int interp__check_jit(pid_t pid, const struct interp *in, struct err *e);

/**
 * interp__other_evaluator - do functions of another file run its frames (PEP 523)?
 * @offset: of the function in a PyInterpreterState (struct inline_plan); 0: not known, then none do
 * @usual:  0 at first; then the interpreter's own function, where that was seen there: it is not looked for in the maps again
 * @path:   written only then: the file of one of them
 */
bool interp__other_evaluator(pid_t pid, const struct proc_mem *mem, const struct interp *in,
			     uint32_t offset, uint64_t *usual, char *path, size_t size);

/**
 * interp__layout - the layout of a version
 * @elf:  if not NULL, _Py_DebugOffsets in the file are compared with the compiled table
 *
 * Return: 0; -PYE_EVERSION for an unknown version, -PYE_EPLAN if the two disagree.
 */
int interp__layout(const struct probe_plan *plan, const struct elf_file *elf,
		   struct pye_pylayout *out, struct err *e);

#endif
