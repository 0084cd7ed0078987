/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a request was meant for. */
#ifndef PYEBPF_VIEW_HOST_H
#define PYEBPF_VIEW_HOST_H

#include <stdbool.h>
#include <stdint.h>

/**
 * host_is_own - whether a Host header means this server
 * @address: that it listens on, beside 127.0.0.1, localhost and [::1]; NULL: those only. Of 0.0.0.0 and ::
 *           every address without a name, since another site can have its name mean any address.
 */
bool host_is_own(const char *host, const char *address, uint16_t port);

#endif
