/* SPDX-License-Identifier: Apache-2.0 */
/* What one file says, whatever process maps it: whether it holds an interpreter, and all about it. */
#ifndef PYEBPF_CPYTHON_INTERP_FILE_H
#define PYEBPF_CPYTHON_INTERP_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/pylayout.h"
#include "base/err.h"
#include "cpython/plan.h"

/* Code at a probe site that memory is compared with, bytes. */
#define INTERP_CODE_SIZE 16

struct interp_file {
	int err; /* 0: the rest is valid; -PYE_ENOTPYTHON: no interpreter; else why not usable */
	struct err e; /* belongs to @err */
	bool is_executable;
	bool has_jit; /* was built with one, active or not */
	uint64_t head; /* vaddr of the pointer to the first PyInterpreterState; 0 = not known */
	char version[24];
	struct probe_plan plan;
	struct pye_pylayout layout;
	uint8_t code[PLAN_SITES_MAX][INTERP_CODE_SIZE];
	uint8_t code_len[PLAN_SITES_MAX]; /* less than INTERP_CODE_SIZE at the end of a segment */
};

struct interp_cache;

/**
 * interp_file__read - look into a file, in a sandboxed process, and vet what that says
 * @fd:   of the file, stays the caller's
 * @name: of the file, for messages
 * @out:  filled in always. Its @err can be -PYE_EFORMAT here
 */
void interp_file__read(int fd, const char *name, const char *engine, struct interp_file *out);

/**
 * interp_file__vet - can this be the answer of a reader that works?
 * @file: as it came from the sandbox, any bytes; what is said in it is made printable
 * @fd:   the file: the code at the sites has to be what stands there
 *
 * Return: 0; -EBADMSG.
 */
int interp_file__vet(struct interp_file *file, int fd, const char *engine);

/**
 * interp_file__get - look into a file
 * @cache: keeps the answer: the same inode is not read twice
 * @path:  as from mapped_file__open()
 *
 * Return: the answer, see its @err; borrowed from @cache until interp_cache__trim() or __free().
 * NULL when there is no memory for it.
 */
const struct interp_file *interp_file__get(struct interp_cache *cache, const char *path,
					   const char *engine);

/* interp_cache__trim - start over when it has grown large. */
void interp_cache__trim(struct interp_cache *cache);

#endif
