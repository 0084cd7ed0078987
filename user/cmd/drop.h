/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up privileges before records are read: they come from the memory of targets. */
#ifndef PYEBPF_CMD_DROP_H
#define PYEBPF_CMD_DROP_H

#include <stdint.h>

#include "base/err.h"

/* Root writes files as the user who called sudo, or into folders of others, and stops its command. */
#define DROP_ROOT                                                                   \
	(CAPS(CAP_SETUID) | CAPS(CAP_SETGID) | CAPS(CAP_CHOWN) | CAPS(CAP_FOWNER) | \
	 CAPS(CAP_DAC_OVERRIDE) | CAPS(CAP_KILL))

/* drop_for_good - all capabilities but @keep (base/caps.h), while there is one thread; 0, or an error with its sentence. */
int drop_for_good(uint64_t keep, struct err *e);

#endif
