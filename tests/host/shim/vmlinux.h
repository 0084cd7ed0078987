/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for vmlinux/vmlinux.h where the BPF walkers are compiled for the host. */
#ifndef PYEBPF_HOST_VMLINUX_H
#define PYEBPF_HOST_VMLINUX_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __s16 s16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

struct task_struct;

#endif
