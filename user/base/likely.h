/* SPDX-License-Identifier: Apache-2.0 */
/* Of the ways that millions of events a second take: what else may happen there does not make them longer. */
#ifndef PYEBPF_BASE_LIKELY_H
#define PYEBPF_BASE_LIKELY_H

#define unlikely(x) __builtin_expect(!!(x), 0)

/* A function of what happens rarely. Inlined it would cost the others saved registers and a guarded stack. */
#define RARELY static __attribute__((noinline))

#endif
