// SPDX-License-Identifier: Apache-2.0
#include "cmd/progress.h"
#include "base/clock.h"
#include "base/color.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY_NS 100000000

void progress__init(struct progress *p, bool wanted)
{
	*p = (struct progress){ .on = wanted && isatty(STDERR_FILENO) };
}

void progress__say(struct progress *p, const char *fmt, ...)
{
	uint64_t ns;
	va_list ap;

	if (!p->on)
		return;
	ns = now_ns();
	if (ns < p->next_ns)
		return;
	p->next_ns = ns + EVERY_NS;
	p->drawn = true;
	fprintf(stderr, "\r%s", color_begin(stderr, COLOR_FAINT));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\033[K", color_end(stderr, COLOR_FAINT));
	fflush(stderr);
}

void progress__done(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
}
