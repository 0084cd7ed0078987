/* SPDX-License-Identifier: Apache-2.0 */
/* A web site, as a browser names it in its Origin header. */
#ifndef PYEBPF_VIEW_ORIGIN_H
#define PYEBPF_VIEW_ORIGIN_H

#include <stddef.h>

/**
 * origin_of - the origin of a site: "https://Profiler.Example:443/" is "https://profiler.example"
 * @url: http or https, a host and perhaps a port, nothing behind it
 *
 * Return: 0; -EINVAL for anything else, and for what does not fit.
 */
int origin_of(char *out, size_t size, const char *url);

#endif
