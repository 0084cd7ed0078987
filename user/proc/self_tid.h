/* SPDX-License-Identifier: Apache-2.0 */
/* Where the C libraries keep a thread's id, from what pthread_self() returns on; x86-64. It is an int, 0 when the thread has ended. */
#ifndef PYEBPF_PROC_SELF_TID_H
#define PYEBPF_PROC_SELF_TID_H

#define GLIBC_TID 0x2d0 /* of struct pthread */
#define MUSL_TID  0x30

#endif
