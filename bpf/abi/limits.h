/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Sizes that the BPF programs and user space agree on. */
#ifndef PYEBPF_ABI_LIMITS_H
#define PYEBPF_ABI_LIMITS_H

#define PYE_RINGS_MAX	16 /* rings; a thread writes one of them */
#define PYE_LAYOUTS_MAX 64 /* layouts known to the BPF programs at once */
#define PYE_FILES_MAX	512 /* interpreter files with probes for everybody; 0 is none */
#define PYE_SELECT_MAX	64 /* names that choose processes */
#define PYE_CGROUPS_MAX 256 /* cgroups that do: with each path one of each hierarchy */
#define PYE_EXECS_MAX	8192 /* processes whose last exec is remembered */
#define PYE_PROCS_MAX	16384 /* traced processes at once */
#define PYE_CODES_MAX	65536 /* live code objects at once whose id is remembered */
#define PYE_CODE_SLOTS	16384 /* direct-mapped cache in front of them, a power of two */
#define PYE_STACK_SLOTS 256 /* top frames of a thread that the programs remember, a power of two */
#define PYE_WALK_FRAMES 24 /* frames per walk record */
#define PYE_WALK_MAX	65536 /* walk records' frames at most, deeper is cut */
/* frames of a sample; of deeper stacks the middle is left out. A power of two */
#define PYE_SAMPLE_FRAMES 1024
#define PYE_SAMPLE_WALK	  16384 /* frames that a sample walks */
#define PYE_NATIVE_FRAMES \
	512 /* native frames of a sample; deeper ones, nearer to the root, are left out */
#define PYE_KERNEL_FRAMES  127 /* the kernel's own bound */
#define PYE_NATIVE_ADDRS   1024 /* room for both, a power of two */
#define PYE_SAMPLE_THREADS 512 /* thread states that a sample looks through */
#define PYE_PAUSED_MAX	   16384 /* processes whose probes are being switched at once */
#define PYE_HITS_STEP	   16 /* hits of a thread that are added to those of its process together */
#define PYE_COMM	   16
#define PYE_NAMED_MAX	   65536 /* threads that ran before, whose names a filter wants */
#define PYE_DEFS_BYTES	   (8 << 20) /* the ring of definitions */
#define PYE_DEATHS_BYTES   (512 << 10) /* the same where only code that ends is defined: samples */
#define PYE_CONTROL_BYTES  (1 << 20) /* the ring of process records */
#define PYE_SEEN_BYTES	   (256 << 10) /* the same where samples are taken: 3,600 records */

/* A string of a code object is copied whole up to this size, else its head and tail. */
#define PYE_STR_BYTES 4096

#endif
