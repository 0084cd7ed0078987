// SPDX-License-Identifier: Apache-2.0
/*
 * usage: twins FILE LIBRARY LIBRARY: a C program with two libraries of Python, both started. Once a byte
 * comes on stdin each runs FILE, one after the other.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct twin {
	void *library;
	int (*run_file)(FILE *f, const char *name);
};

static void *symbol(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(2);
	}
	return found;
}

/* RTLD_DEEPBIND: each sees its own symbols first. */
static struct twin start(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	((void (*)(void))symbol(library, "Py_Initialize"))();
	return (struct twin){ library,
			      (int (*)(FILE *, const char *))symbol(library, "PyRun_SimpleFile") };
}

int main(int argc, char **argv)
{
	struct twin twins[2];
	char byte;

	if (argc != 4)
		return 2;
	for (int i = 0; i < 2; i++)
		twins[i] = start(argv[2 + i]);
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		return 2;
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(argv[1], "r");

		if (!f || twins[i].run_file(f, argv[1]))
			return 1;
		fclose(f);
	}
	return 0;
}
