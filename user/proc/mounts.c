// SPDX-License-Identifier: Apache-2.0
#include "proc/mounts.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "proc/file.h"

#define MOUNTS_BYTES (4u << 20)

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

/* \040 for a space, and so on. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && is_octal(s + 1)) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static bool parse_dev(const char *text, dev_t *dev)
{
	char *end;
	unsigned long major, minor;

	errno = 0;
	major = strtoul(text, &end, 10);
	if (end == text || *end != ':')
		return false;
	text = end + 1;
	minor = strtoul(text, &end, 10);
	*dev = makedev((unsigned int)major, (unsigned int)minor);
	return end > text && !*end && !errno && major <= UINT32_MAX && minor <= UINT32_MAX;
}

static bool parse(char *line, struct mount *out)
{
	char *fields[6], *rest = line, *word;

	for (int i = 0; i < 6; i++) {
		fields[i] = strsep(&rest, " ");
		if (!fields[i] || !rest)
			return false;
	}
	do
		word = strsep(&rest, " ");
	while (word && strcmp(word, "-") != 0);
	out->type = word ? strsep(&rest, " ") : NULL;
	if (!out->type || !strsep(&rest, " ") || !rest || !parse_dev(fields[2], &out->dev))
		return false;
	out->options = rest;
	out->root = fields[3];
	out->at = fields[4];
	unescape(out->root);
	unescape(out->at);
	return out->root[0] == '/' && out->at[0] == '/';
}

bool mount__next(char **text, struct mount *out)
{
	char *line;

	while ((line = strsep(text, "\n")))
		if (parse(line, out))
			return true;
	return false;
}

char *mounts_read(pid_t pid)
{
	char path[32] = "/proc/self/mountinfo", *text;
	size_t len;
	int err;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	err = proc_read(path, MOUNTS_BYTES, &text, &len);
	if (err >= 0)
		return text;
	errno = -err;
	return NULL;
}
