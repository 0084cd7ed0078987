// SPDX-License-Identifier: Apache-2.0
#include "export/fragments.h"

enum {
	BUFFER_BYTES = 1024
};

int fragments__init(struct fragments *f)
{
	return strpool__init(&f->pool);
}

void fragments__done(struct fragments *f)
{
	strpool__done(&f->pool);
	membuf__done(&f->scratch);
}

int fragment_begin(struct fragments *f, struct outbuf *b)
{
	f->scratch.len = 0;
	return outbuf__init(b, BUFFER_BYTES, membuf__write, &f->scratch);
}

int fragment_end(struct fragments *f, struct outbuf *b, uint32_t *id)
{
	int err = outbuf__flush(b);

	outbuf__done(b);
	return err ? err : strpool__add(&f->pool, f->scratch.data, f->scratch.len, id);
}
