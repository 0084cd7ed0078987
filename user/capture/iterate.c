// SPDX-License-Identifier: Apache-2.0
#include "capture/iterate.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"

int bpf_iterate(struct bpf_program *prog, size_t size, int (*cb)(void *ctx, const void *rec),
		void *ctx)
{
	struct bpf_link *link = bpf_program__attach_iter(prog, NULL);
	auto_close int iter = -1;
	_Alignas(8) uint8_t buf[4096];
	size_t have = 0;
	ssize_t n;

	if (!link)
		return -errno;
	iter = bpf_iter_create(bpf_link__fd(link));
	bpf_link__destroy(link);
	if (iter < 0)
		return -errno;
	while ((n = read(iter, buf + have, sizeof(buf) - have)) > 0) {
		size_t at = 0;

		have += (size_t)n;
		for (; have - at >= size; at += size) {
			int err = cb(ctx, buf + at);

			if (err)
				return err;
		}
		have -= at;
		memmove(buf, buf + at, have);
	}
	return n < 0 ? -errno : 0;
}
