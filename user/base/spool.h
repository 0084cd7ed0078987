/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes that have to be read more than once, or not from their beginning on. */
#ifndef PYEBPF_BASE_SPOOL_H
#define PYEBPF_BASE_SPOOL_H

/**
 * spool_copy - copy what is left of a pipe to a file without a name in $TMPDIR (/tmp without it, and for root)
 * @fd: stays the caller's
 *
 * Return: a descriptor of the copy, the caller's; or a negative errno.
 */
int spool_copy(int fd);

#endif
