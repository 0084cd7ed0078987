// SPDX-License-Identifier: Apache-2.0
#include "export/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/cleanup.h"

enum {
	OUT_BYTES = 64 << 10,
	WINDOW_BITS_GZIP = 15 + 16,
	MEM_LEVEL = 9
};

struct gzip {
	z_stream z;
	outbuf_write_fn write;
	void *ctx;
	unsigned char out[OUT_BYTES];
};

int gzip__new(struct gzip **out, int level, outbuf_write_fn write, void *ctx)
{
	auto_free struct gzip *g = malloc(sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->z = (z_stream){ 0 };
	g->write = write;
	g->ctx = ctx;
	if (deflateInit2(&g->z, level, Z_DEFLATED, WINDOW_BITS_GZIP, MEM_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	*out = take_ptr(g);
	return 0;
}

/* Runs deflate over the input in z until it asks for nothing more. */
static int run(struct gzip *g, int flush)
{
	int z, err;

	do {
		g->z.next_out = g->out;
		g->z.avail_out = OUT_BYTES;
		z = deflate(&g->z, flush);
		if (z == Z_STREAM_ERROR)
			return -EIO;
		if (g->z.avail_out == OUT_BYTES)
			continue;
		err = g->write(g->ctx, g->out, OUT_BYTES - g->z.avail_out);
		if (err)
			return err;
	} while (g->z.avail_out == 0);
	return 0;
}

int gzip__write(void *gzip, const void *data, size_t len)
{
	struct gzip *g = gzip;
	const unsigned char *from = data;

	while (len) {
		size_t piece = len < INT_MAX ? len : INT_MAX;
		int err;

		g->z.next_in = (unsigned char *)(uintptr_t)from;
		g->z.avail_in = (uInt)piece;
		err = run(g, Z_NO_FLUSH);
		if (err)
			return err;
		from += piece;
		len -= piece;
	}
	return 0;
}

int gzip__finish(struct gzip *g)
{
	int err;

	g->z.next_in = NULL;
	g->z.avail_in = 0;
	err = run(g, Z_FINISH);
	deflateReset(&g->z);
	return err;
}

void gzip__free(struct gzip *g)
{
	if (!g)
		return;
	deflateEnd(&g->z);
	free(g);
}

int gzip_front(struct gzip **gzip, bool plain, struct outbuf *b, size_t size, outbuf_write_fn write,
	       void *ctx)
{
	int err = plain ? 0 : gzip__new(gzip, GZIP_FASTEST, write, ctx);

	if (err)
		return err;
	return plain ? outbuf__init(b, size, write, ctx)
		     : outbuf__init(b, size, gzip__write, *gzip);
}

int gzip_front_end(struct gzip *gzip, struct outbuf *b)
{
	int err = outbuf__flush(b);

	return err || !gzip ? err : gzip__finish(gzip);
}
