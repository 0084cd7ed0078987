/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's page, built into the program (cmake/PyeViewer.cmake): what the format html wraps around a
 * profile, and what a server has to give to a browser.
 */
#ifndef PYEBPF_EXPORT_PAGE_H
#define PYEBPF_EXPORT_PAGE_H

#include <stdbool.h>

#include "base/outbuf.h"

enum page_part {
	PAGE_SCRIPT, /* speedscope; has neither the end of a script nor the begin of a comment in it */
	PAGE_STYLE,
	PAGE_LICENSE, /* speedscope's, which wants to be where its code is */
	PAGE_BOOT, /* before the script, in a page of one file */
	PAGE_LOAD, /* behind the script and the element "profile", which holds a file in base64 */
	PAGE_SERVE, /* before the script, where "profile" lies beside the page */
};

#define PAGE_MISSING \
	"this build has no speedscope page: run scripts/setup --build-only and cmake again"

/* page_built_in - false: this program was built without it, and page_put() fails. */
bool page_built_in(void);

/* page_put - write a part. Return: 0, -ENOSYS without a page, -ENOMEM, or what @write says. */
int page_put(enum page_part part, outbuf_write_fn write, void *ctx);

/* page_script_hashes - of boot, script and load, for a Content-Security-Policy. */
const char *page_script_hashes(void);

#endif
