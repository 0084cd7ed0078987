/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the structures of each CPython version, as data: one file layout_3_NN.c per minor
 * version, one `struct layout` per build that differs. Adding a version is one such file and a line
 * in the table of layouts.c. Source of the numbers: offsetof() compiled over the headers of the
 * release named in each file; x86-64, and LP64 machines alike.
 */
#ifndef PYEBPF_CPYTHON_LAYOUTS_H
#define PYEBPF_CPYTHON_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/pylayout.h"

/* Size of the largest _Py_DebugOffsets known (3.15: 888 bytes). */
#define LAYOUT_DEBUG_SIZE 888

/* A field that _Py_DebugOffsets (3.13 on) states. The list ends with position 0. */
struct layout_debug_field {
	uint16_t position; /* of the u64 inside _Py_DebugOffsets */
	uint16_t field; /* of the __u16 inside struct pye_pylayout */
};

#define LAYOUT_FIELD(name) offsetof(struct pye_pylayout, name)

/* Where the state of the JIT is. It lies so deep in PyInterpreterState that any change before it moves
 * it: it is only trusted in a build whose PyInterpreterState has this very size. */
struct layout_jit {
	uint32_t is_size; /* sizeof(PyInterpreterState), as _Py_DebugOffsets states it; 0 ends */
	uint32_t is_offset; /* of `jit` (bool), or of `optimizer` (object) */
};

/*
 * sys.monitoring, profile and trace functions change the code of what they watch where it begins next: when the version that it has
 * is not that of the interpreter. Then RESUME is dispatched anew. 3.12 on, with a GIL; co_version 0: nothing is known of it.
 */
struct layout_monitoring {
	uint16_t co_version, is_version; /* u64 in a code object, and in the interpreter state */
	uint16_t ts_tracing; /* int in the thread state: while it is not 0 code is left as it is; 0: there is no such rule */
	uint16_t gil_holder; /* in the lock: the pointer to the state of who has it */
};

struct layout {
	struct pye_pylayout py;
	struct layout_monitoring monitoring;
	uint16_t trace_refs; /* bytes that a Py_DEBUG build puts in front of every object (to 3.7) */
	uint8_t least_micro; /* earlier releases of this minor version have another layout */
	bool jit_is_object; /* struct layout_jit is about `optimizer` (3.13) */
	const struct layout_debug_field *debug; /* NULL before 3.13 */
	struct layout_jit jit[4];
};

extern const struct layout layout_3_6, layout_3_7, layout_3_8, layout_3_9, layout_3_10, layout_3_11,
	layout_3_12, layout_3_13, layout_3_13t, layout_3_14, layout_3_14t, layout_3_15,
	layout_3_15t;

/* layout_find - the data of a version, static; NULL for one that is not known. */
const struct layout *layout_find(unsigned int minor, bool free_threaded);

/* layout_monitoring - of the version of a layout; static. Nothing is known of one whose fields have moved. */
const struct layout_monitoring *layout_monitoring(const struct pye_pylayout *py);

/**
 * layout_vet - is this a layout that interp__layout() can have made of the version's data?
 * @minor, @free_threaded, @debug: the build
 * @got:   from a process that read a hostile file
 */
bool layout_vet(unsigned int minor, bool free_threaded, bool debug, const struct pye_pylayout *got);

/* layout_names - "3.6 to 3.15", for messages. */
const char *layout_names(void);

/**
 * layout_apply_debug - take over what an interpreter says of itself
 * @l:     its version's data
 * @debug: first bytes of its _PyRuntime, from a hostile file or memory
 * @len:   how many; LAYOUT_DEBUG_SIZE is enough for all
 * @out:   changed only on success; @l->py to begin with
 * @why:   on failure: a static sentence without a full stop
 *
 * Debug builds and patch releases that moved a field come out right this way. Offsets that make no
 * sense (out of the structure, misaligned, overlapping) are refused.
 *
 * Return: 0; -EINVAL.
 */
int layout_apply_debug(const struct layout *l, const uint8_t *debug, size_t len,
		       struct pye_pylayout *out, const char **why);

#endif
