// SPDX-License-Identifier: Apache-2.0
/* The table of formats. A new one: a file in this folder, its line here and in export.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"

/* clang-format off */
static const struct exporter *const exporters[] = {
	&export_firefox,
	&export_pprof,
	&export_speedscope,
	&export_chrometrace,
	&export_collapsed,
	&export_svg,
	&export_html,
	&export_source,
	&export_pstats,
	&export_text,
	&export_ndjson,
};
/* clang-format on */

enum {
	EXPORTER_CNT = sizeof(exporters) / sizeof(*exporters)
};

const struct exporter *exporter_at(size_t index)
{
	return index < EXPORTER_CNT ? exporters[index] : NULL;
}

static bool has_name(const struct exporter *exporter, const char *name)
{
	if (!strcmp(exporter->name, name))
		return true;
	for (const char *const *alias = exporter->aliases; alias && *alias; alias++) {
		if (!strcmp(*alias, name))
			return true;
	}
	return false;
}

const struct exporter *exporter_by_name(const char *name)
{
	for (size_t i = 0; i < EXPORTER_CNT; i++) {
		if (has_name(exporters[i], name))
			return exporters[i];
	}
	return NULL;
}

static size_t matched_end(const struct exporter *exporter, const char *path, size_t len)
{
	for (const char *const *end = exporter->extensions; *end; end++) {
		size_t n = strlen(*end);

		if (n < len && !strcmp(path + len - n, *end))
			return n;
	}
	return 0;
}

const struct exporter *exporter_by_path(const char *path)
{
	const struct exporter *best = NULL;
	size_t len = strlen(path), longest = 0;

	for (size_t i = 0; i < EXPORTER_CNT; i++) {
		size_t n = matched_end(exporters[i], path, len);

		if (n > longest) {
			best = exporters[i];
			longest = n;
		}
	}
	return best ? best : exporter_by_name(strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
}

int exporter__new(const struct exporter *format, void **self, const struct export_opts *opts,
		  const struct export_out *out)
{
	void *made = calloc(1, format->size);
	int err = made ? format->init(made, opts, out) : -ENOMEM;

	if (err) {
		exporter__free(format, made);
		return err;
	}
	*self = made;
	return 0;
}

void exporter__free(const struct exporter *format, void *self)
{
	if (!self)
		return;
	format->done(self);
	free(self);
}
