// SPDX-License-Identifier: Apache-2.0
/* The parsers of /proc files over any bytes, and the rules that their users rely on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/file.h"
#include "proc/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int ok)
{
	if (!ok)
		abort();
}

static void check_maps(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct maps m;

	demand(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	demand(!maps__parse(text, size, &m));
	for (size_t i = 0; i < m.cnt; i++) {
		const struct mapping *item = &m.items[i];

		demand(item->start < item->end);
		demand(!i || item[-1].end <= item->start);
		demand(item->path >= text && item->path + strlen(item->path) <= text + size);
		demand(!strchr(item->path, '\n'));
		demand(maps__find(&m, item->start) == item);
		demand(maps__find(&m, item->end - 1) == item);
		demand(mapping_same_file(item, item) == (item->ino != 0));
	}
	maps__done(&m);
}

static void check_fields(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	long long value;

	demand(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	for (int i = -1; i < 4; i++)
		proc_file__field(text, "NSpid", i, &value);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_maps(data, size);
	check_fields(data, size);
	return 0;
}
