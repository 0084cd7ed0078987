/* SPDX-License-Identifier: Apache-2.0 */
/* Which release an interpreter file or process is: "3.12.1", "3.15.0a3". */
#ifndef PYEBPF_CPYTHON_VERSION_H
#define PYEBPF_CPYTHON_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERSION_TEXT_SIZE 24

struct elf_file;
struct probe_plan;

/* The head of _Py_DebugOffsets (3.13 on), the first member of _PyRuntime. */
struct version_debug {
	uint32_t hex; /* PY_VERSION_HEX */
	uint8_t minor;
	bool free_threaded;
	uint64_t is_size; /* sizeof(PyInterpreterState) */
};

/* version_parse_debug - 0, or -EINVAL when @data does not begin like _Py_DebugOffsets. */
int version_parse_debug(const uint8_t *data, size_t len, struct version_debug *out);

/**
 * version_text - the full version of an interpreter file
 * @out: at least "3.<minor>"; @size >= VERSION_TEXT_SIZE
 *
 * From PY_VERSION_HEX where the plan knows it, else from the string PY_VERSION that Py_GetVersion()
 * of every release keeps in .rodata.
 *
 * Return: the third number; -ENOENT if only the minor version is known.
 */
int version_text(const struct elf_file *elf, const struct probe_plan *plan, char *out, size_t size);

/**
 * version_find_text - find the string PY_VERSION among NUL-terminated strings
 * @data, @len: contents of .rodata
 *
 * Return: the third number, its text in @out; -ENOENT when there is none or more than one.
 */
int version_find_text(const char *data, size_t len, unsigned int minor, char *out, size_t size);

/* version_has_jit - the interpreter was built with one (3.13 on): it reads the variable PYTHON_JIT. */
bool version_has_jit(const struct elf_file *elf, const struct probe_plan *plan);

#endif
