/* SPDX-License-Identifier: Apache-2.0 */
/* The user's browser, if there is one where they sit. */
#ifndef PYEBPF_CMD_BROWSE_H
#define PYEBPF_CMD_BROWSE_H

#include <stdbool.h>
#include <stddef.h>

/* browse_is_ssh - whether the user sits at another machine. */
bool browse_is_ssh(void);

/* browse_ssh_server - USER@ADDRESS of this machine as that one sees it, as far as it is known. Return: @out. */
const char *browse_ssh_server(char *out, size_t size);

/**
 * browse_open - start $BROWSER, or what opens addresses here
 *
 * No shell sees @url. Nobody waits for it. Never as root.
 *
 * Return: 0; -ENOENT: there is none, or no screen; -EPERM as root.
 */
int browse_open(const char *url);

#endif
