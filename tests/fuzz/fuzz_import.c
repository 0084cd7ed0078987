// SPDX-License-Identifier: Apache-2.0
/*
 * The importers over any bytes; each format is known by its content, so the seeds in corpus/import decide which of
 * them are reached. What they push is checked, and goes into an aggregate.
 */
#include "checker.h"
#include "import/import.h"
#include "import/sink.h"
#include "profile/aggregate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct checker c;
	struct aggregate *agg;
	struct err e;
	int fd, err;

	demand(!aggregate__new(&agg, NULL));
	memset(&c, 0, sizeof(c));
	c.text_max = SINK_TEXT_MAX;
	c.depth_max = SINK_DEPTH_MAX;
	c.pushed_max = 100000;
	c.after_start = true;
	c.next = &aggregate_consumer;
	c.next_self = agg;
	fd = input_file(data, size);
	err = import_file(fd, NULL, &checker_consumer, &c, &e);
	/* what is refused has a sentence */
	demand(err != -PYE_EFORMAT || e.what[0]);
	aggregate__free(agg);
	close(fd);
	return 0;
}
