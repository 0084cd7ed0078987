/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in memory that nobody can execute. A system can insist on that (vm.memfd_noexec): without the flag, which kernels
 * before 6.3 do not know, there are none then.
 */
#ifndef PYEBPF_BASE_MEMFILE_H
#define PYEBPF_BASE_MEMFILE_H

/* memfile_flags - what memfd_create() is to be given by us, or for us, on this kernel: close on exec, sealing allowed */
unsigned int memfile_flags(void);

/* memfile_open - @name: shown in /proc. The descriptor, or -1 with errno. */
int memfile_open(const char *name);

#endif
