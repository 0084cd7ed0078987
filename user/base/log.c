// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/color.h"

static enum log_level shown = LOG_INFO;

void log_set_level(enum log_level level)
{
	shown = level;
}

void log_msg(enum log_level level, const char *domain, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	if (level > shown)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (level == LOG_DEBUG)
		fprintf(stderr, "pyebpf: %s: %s\n", domain, line);
	else if (level == LOG_WARN)
		fprintf(stderr, "pyebpf: %swarning:%s %s\n", color_begin(stderr, COLOR_WARN),
			color_end(stderr, COLOR_WARN), line);
	else
		fprintf(stderr, "pyebpf: %s\n", line);
}
