/* SPDX-License-Identifier: Apache-2.0 */
/* Is the layout that was found for an interpreter that of the process? */
#ifndef PYEBPF_CPYTHON_STACK_CHECK_H
#define PYEBPF_CPYTHON_STACK_CHECK_H

struct err;
struct interp;
struct proc_mem;

/**
 * stack_check - walk one real stack and compare what lies there with what must
 *
 * Structures are laid out by the interpreter's version; who built it could have changed them. Then every stack would be wrong,
 * and look right. So one stack that stands still is read as the layout says: code objects must stand in its frames, with the strings
 * of their names and files. One that cannot be read says nothing, it may be damaged; when none can, and the stack is the same afterwards, it is the layout.
 *
 * Return: 0, also when no thread stands still with Python frames; -PYE_ETARGET with the reason; as walk_outside().
 */
int stack_check(const struct proc_mem *mem, const struct interp *in, struct err *e);

#endif
