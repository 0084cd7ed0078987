// SPDX-License-Identifier: Apache-2.0
#include "symbol/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/file.h"

#define KALLSYMS_MAX (64u << 20) /* bytes of text */
#define FUNCTION_MAX (2u << 20) /* bytes that a function can have */

struct function {
	uint64_t addr;
	uint32_t name, module; /* offsets in the text; module 0: the kernel itself */
};

struct kallsyms {
	char *text;
	struct function *functions; /* rising */
	size_t cnt;
};

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* "ffffffff81000000 T name\t[module]", the NUL where the line ended. */
static bool parse_line(struct kallsyms *k, char *line, struct function *out)
{
	char *at, *module;

	out->addr = strtoull(line, &at, 16);
	if (at == line || at[0] != ' ' || !at[1] || at[2] != ' ' || !strchr("tTwW", at[1]))
		return false;
	out->name = (uint32_t)(at + 3 - k->text);
	out->module = 0;
	module = strchr(at + 3, '\t');
	if (!module)
		return true;
	*module = '\0';
	out->module = (uint32_t)(module + 1 - k->text);
	return true;
}

static int parse(struct kallsyms *k, char *text, size_t len)
{
	bool hidden = true;
	size_t lines = 1;

	k->text = text;
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	k->functions = calloc(lines, sizeof(*k->functions));
	if (!k->functions)
		return -ENOMEM;
	for (char *line = text, *end; line < text + len; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + len - line));
		if (!end)
			end = text + len;
		*end = '\0';
		if (!parse_line(k, line, &k->functions[k->cnt]))
			continue;
		hidden = hidden && !k->functions[k->cnt].addr;
		k->cnt++;
	}
	if (hidden)
		return -EPERM;
	qsort(k->functions, k->cnt, sizeof(*k->functions), by_address);
	return 0;
}

int kallsyms__parse(struct kallsyms **out, char *text, size_t len)
{
	struct kallsyms *k = calloc(1, sizeof(*k));
	int err;

	if (!k) {
		free(text);
		return -ENOMEM;
	}
	err = parse(k, text, len);
	if (err)
		kallsyms__free(k);
	else
		*out = k;
	return err;
}

int kallsyms__read(struct kallsyms **out)
{
	char *text = NULL;
	size_t len = 0;
	int err = proc_read("/proc/kallsyms", KALLSYMS_MAX, &text, &len);

	return err < 0 ? err : kallsyms__parse(out, text, len);
}

void kallsyms__free(struct kallsyms *k)
{
	if (!k)
		return;
	free(k->text);
	free(k->functions);
	free(k);
}

int kallsyms__find(const struct kallsyms *k, uint64_t addr, struct kallsym *out)
{
	size_t low = 0, high = k->cnt;
	const struct function *f;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (k->functions[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || addr - k->functions[low - 1].addr > FUNCTION_MAX)
		return -ENOENT;
	while (low > 1 && k->functions[low - 2].addr == k->functions[low - 1].addr)
		low--;
	f = &k->functions[low - 1];
	*out = (struct kallsym){ k->text + f->name, f->module ? k->text + f->module : "",
				 (uint32_t)(low - 1) };
	return 0;
}
