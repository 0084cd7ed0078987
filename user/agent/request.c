// SPDX-License-Identifier: Apache-2.0
#include "agent/request.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define SECONDS_MAX 3600ul

static int read_number(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoul(text, &end, 10);
	return errno || *end || !*out || *out > max ? -EINVAL : 0;
}

static int take_member(struct request *r, const char *name, const char *value, struct err *e)
{
	char member[64], shown[256];
	unsigned long number;

	if (r->kind == REQUEST_STATUS && !strcmp(name, "format") && !strcmp(value, "json")) {
		r->json = true;
	} else if (r->kind == REQUEST_BURST && !strcmp(name, "service") && *value &&
		   strlen(value) < sizeof(r->service)) {
		strcpy(r->service, value);
	} else if (r->kind == REQUEST_BURST && !strcmp(name, "pid") &&
		   !read_number(value, INT_MAX, &number)) {
		r->pid = (pid_t)number;
	} else if (r->kind == REQUEST_BURST && !strcmp(name, "seconds") &&
		   !read_number(value, SECONDS_MAX, &number)) {
		r->duration_ns = (uint64_t)number * 1000000000u;
	} else {
		snprintf(member, sizeof(member), "%s=%s", name, value);
		return err_set(e, -PYE_EUSAGE, "a request cannot have %s",
			       text_escape(shown, sizeof(shown), member, strlen(member)));
	}
	return 0;
}

static int take_word(struct request *r, const char *word, struct err *e)
{
	if (!strcmp(word, "status"))
		r->kind = REQUEST_STATUS;
	else if (!strcmp(word, "burst"))
		r->kind = REQUEST_BURST;
	else
		return err_set(e, -PYE_EUSAGE, "want status or burst");
	return 0;
}

int request_parse(const char *text, struct request *out, struct err *e)
{
	char copy[REQUEST_BYTES], *rest = copy, *line;
	struct request r = { 0 };
	int err;

	if (strlen(text) >= sizeof(copy))
		return err_set(e, -PYE_EUSAGE, "a request has less than %d bytes", REQUEST_BYTES);
	strcpy(copy, text);
	err = take_word(&r, strsep(&rest, "\n"), e);
	while (!err && (line = strsep(&rest, "\n"))) {
		char *value = line, *name = strsep(&value, "=");

		if (*line || value)
			err = take_member(&r, name, value ? value : "", e);
	}
	if (!err && r.pid && *r.service)
		err = err_set(e, -PYE_EUSAGE, "a service or a process, not both");
	if (!err)
		*out = r;
	return err;
}
