// SPDX-License-Identifier: Apache-2.0
/* The reader of captures and the decoder over any bytes, as capture_input.h makes a file of them. */
#include "base/cleanup.h"
#include "capfile/reader.h"
#include "capture_input.h"
#include "checker.h"
#include "decode/decode.h"

/* What the reader finds lies in the file, in order, and is of the size that it says. */
static void read_chunks(int fd)
{
	auto_fn(capr__closep) struct capr *r = NULL;
	auto_fn(bytes_done) struct bytes raw = { 0 };
	struct err e = { 0 };

	if (capr__open(&r, fd, &e)) {
		demand(e.what[0]);
		return;
	}
	demand(r->cnt && (r->complete || r->bad_offset <= r->size));
	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct capr_chunk *chunk = &r->chunks[i];

		demand(chunk->stored <= r->size && chunk->offset <= r->size - chunk->stored);
		demand(!i || chunk->offset > chunk[-1].offset);
		if (!capr__load(r, chunk, &raw))
			demand(raw.len == chunk->raw && raw.len <= CAP_RAW_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct checker c;
	struct err e;
	int fd;

	if (!size)
		return 0;
	memset(&c, 0, sizeof(c));
	c.text_max = CAP_STRING_MAX;
	c.depth_max = CAP_DEPTH_MAX;
	c.pushed_max = 2000000;
	fd = capture_input(data, size);
	read_chunks(fd);
	demand(lseek(fd, 0, SEEK_SET) == 0);
	decode_file(fd, &checker_consumer, &c, &e);
	close(fd);
	return 0;
}
