// SPDX-License-Identifier: Apache-2.0
#include "export/page.h"

#include <errno.h>

#include <zlib.h>

#ifdef PYE_VIEWER

/* A file of the build, in gzip, between two symbols. */
#define EMBED(name, file)                                                               \
	__asm__(".pushsection .rodata\n"                                                \
		"page_" #name ":\n"                                                     \
		".incbin \"" PYE_VIEWER "/" file "\"\n"                                 \
		"page_" #name "_end:\n"                                                 \
		".byte 0\n"                                                             \
		".popsection\n");                                                       \
	extern const unsigned char page_##name[] __attribute__((visibility("hidden"))); \
	extern const unsigned char page_##name##_end[] __attribute__((visibility("hidden")))

EMBED(script, "script.js.gz");
EMBED(style, "style.css.gz");
EMBED(license, "license.txt.gz");
EMBED(boot, "boot.js.gz");
EMBED(load, "load.js.gz");
EMBED(serve, "serve.js.gz");

static const struct {
	const unsigned char *data, *end;
} parts[] = {
	[PAGE_SCRIPT] = { page_script, page_script_end },
	[PAGE_STYLE] = { page_style, page_style_end },
	[PAGE_LICENSE] = { page_license, page_license_end },
	[PAGE_BOOT] = { page_boot, page_boot_end },
	[PAGE_LOAD] = { page_load, page_load_end },
	[PAGE_SERVE] = { page_serve, page_serve_end },
};

bool page_built_in(void)
{
	return true;
}

const char *page_script_hashes(void)
{
	return PYE_VIEWER_CSP;
}

int page_put(enum page_part part, outbuf_write_fn write, void *ctx)
{
	z_stream z = { .next_in = (unsigned char *)(uintptr_t)parts[part].data,
		       .avail_in = (unsigned int)(parts[part].end - parts[part].data) };
	unsigned char out[16384];
	int err = 0, got = inflateInit2(&z, 15 + 16);

	if (got != Z_OK)
		return -ENOMEM;
	while (!err && got == Z_OK) {
		z.next_out = out;
		z.avail_out = sizeof(out);
		got = inflate(&z, Z_NO_FLUSH);
		err = write(ctx, out, sizeof(out) - z.avail_out);
	}
	inflateEnd(&z);
	return err || got == Z_STREAM_END ? err : -EIO;
}

#else

bool page_built_in(void)
{
	return false;
}

const char *page_script_hashes(void)
{
	return "";
}

int page_put(enum page_part part, outbuf_write_fn write, void *ctx)
{
	(void)part, (void)write, (void)ctx;
	return -ENOSYS;
}

#endif
