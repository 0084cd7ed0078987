/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's functions by address, as /proc/kallsyms lists them: with CAP_SYSLOG, or where
 * kernel.kptr_restrict allows it; else the addresses there are zero. */
#ifndef PYEBPF_SYMBOL_KALLSYMS_H
#define PYEBPF_SYMBOL_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* kallsyms__read - read them now. 0; -EPERM: the addresses are hidden; a negative errno. */
int kallsyms__read(struct kallsyms **out);

/* kallsyms__parse - of such a text: NUL-terminated after @len bytes, owned from now on, also on failure; changed. */
int kallsyms__parse(struct kallsyms **out, char *text, size_t len);
void kallsyms__free(struct kallsyms *k);

struct kallsym {
	const char *name; /* borrowed */
	const char *module; /* "[ext4]"; "" for the kernel itself */
	uint32_t number; /* of the function */
};

/* kallsyms__find - the function that holds an address; 0 or -ENOENT. */
int kallsyms__find(const struct kallsyms *k, uint64_t addr, struct kallsym *out);

#endif
