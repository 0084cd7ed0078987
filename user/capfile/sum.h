/* SPDX-License-Identifier: Apache-2.0 */
/* XXH64, compiled in: no library is needed where pyebpf runs, and a state can lie on the stack. */
#ifndef PYEBPF_CAPFILE_SUM_H
#define PYEBPF_CAPFILE_SUM_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
