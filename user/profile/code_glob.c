// SPDX-License-Identifier: Apache-2.0
#include "profile/code_glob.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "profile/module.h"

/* Only the last star is ever tried again: what an earlier one took cannot be wrong if the rest fits. */
bool glob_matches(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_of_files(const char *pattern)
{
	size_t len = strlen(pattern);

	return strchr(pattern, '/') || (len > 3 && !strcmp(pattern + len - 3, ".py"));
}

bool code_glob_matches(const char *pattern, const char *file, const char *below)
{
	char wider[CODE_GLOB_MAX + 4], module[1024];

	if (is_of_files(pattern)) {
		snprintf(wider, sizeof(wider), "*/%s", pattern);
		return glob_matches(pattern, file) || glob_matches(wider, file);
	}
	module_name(module, sizeof(module), below ? below : file);
	snprintf(wider, sizeof(wider), "%s.*", pattern);
	return glob_matches(pattern, module) || glob_matches(wider, module);
}
