/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a libpython that a program loads, or is linked to. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *library = RTLD_DEFAULT;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(2);
	}
	return found;
}
