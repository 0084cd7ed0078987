/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The fixed-width types of the headers that both sides include. */
#ifndef PYEBPF_ABI_TYPES_H
#define PYEBPF_ABI_TYPES_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <linux/types.h>
#endif

#endif
