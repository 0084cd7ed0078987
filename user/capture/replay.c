// SPDX-License-Identifier: Apache-2.0
#include "capture/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

struct replay {
	uint8_t *data;
	size_t len, at;
	replay_fn other;
	void *ctx;
};

_Static_assert(sizeof(struct replay_item) == 16, "the file's format");
_Static_assert(sizeof(struct replay_process) % 8 == 0, "the file's format");

static int put(FILE *out, const void *data, size_t len)
{
	return fwrite(data, 1, len, out) == len ? 0 : -EIO;
}

int replay_begin(FILE *out)
{
	return put(out, REPLAY_MAGIC, strlen(REPLAY_MAGIC));
}

int replay_put(FILE *out, const struct replay_item *item, const void *data)
{
	static const uint8_t padding[8];
	int err = put(out, item, sizeof(*item));

	if (!err)
		err = put(out, data, item->len);
	return err ? err : put(out, padding, -item->len & 7u);
}

static int load(struct replay *r, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size > (off_t)REPLAY_BYTES)
		return -EFBIG;
	r->data = malloc((size_t)st.st_size + 1);
	if (!r->data)
		return -ENOMEM;
	while (r->len < (size_t)st.st_size) {
		ssize_t n = read(fd, r->data + r->len, (size_t)st.st_size - r->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		r->len += (size_t)n;
	}
	r->at = strlen(REPLAY_MAGIC);
	if (r->len < r->at || memcmp(r->data, REPLAY_MAGIC, r->at) != 0)
		return -PYE_EFORMAT;
	return 0;
}

int replay__open(struct replay **out, int fd, replay_fn other, void *ctx)
{
	struct replay *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->other = other;
	r->ctx = ctx;
	err = load(r, fd);
	if (err) {
		replay__free(r);
		return err;
	}
	*out = r;
	return 0;
}

void replay__free(struct replay *r)
{
	if (!r)
		return;
	free(r->data);
	free(r);
}

static int next(void *self, struct capture_batch *batch)
{
	struct replay *r = self;

	while (r->len - r->at >= sizeof(struct replay_item)) {
		const struct replay_item *item = (const void *)(r->data + r->at);
		const uint8_t *data = r->data + r->at + sizeof(*item);
		size_t left = r->len - r->at - sizeof(*item);
		size_t padded = ((size_t)item->len + 7) & ~(size_t)7;
		int err;

		if (padded > left)
			break;
		r->at += sizeof(*item) + padded;
		if (item->kind == REPLAY_BATCH) {
			*batch = (struct capture_batch){ .data = data,
							 .len = item->len,
							 .ring = item->ring,
							 .round = item->round };
			return 1;
		}
		err = r->other ? r->other(r->ctx, item, data) : 0;
		if (err < 0)
			return err;
	}
	return 0;
}

const struct capture_ops replay_ops = { .next = next };
