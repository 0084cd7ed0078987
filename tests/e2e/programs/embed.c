// SPDX-License-Identifier: Apache-2.0
/*
 * usage: embed FILE INTERPRETERS [LIBRARY [MS]]: a C program that runs Python's FILE in so many (sub-)interpreters,
 * one after the other, in one process. With LIBRARY it is not linked to libpython but loads it, after so many ms.
 */
#include <unistd.h>

#include "symbol.h"

typedef void (*plain_fn)(void);
typedef void *(*new_fn)(void);
typedef void *(*swap_fn)(void *);
typedef void (*end_fn)(void *);
typedef int (*run_fn)(FILE *f, const char *name);

#ifdef LINKED
extern int Py_IsInitialized(void);
/* so that the linker keeps the library */
int (*const linked)(void) = Py_IsInitialized;
#endif

static int run(const char *path)
{
	run_fn run_file = (run_fn)symbol("PyRun_SimpleFile");
	FILE *f = fopen(path, "r");
	int err = f ? run_file(f, path) : -1;

	if (f)
		fclose(f);
	return err;
}

int main(int argc, char **argv)
{
	int err = 0;
	void *first;

	if (argc < 3)
		return 2;
	if (argc > 3) {
		/* later than what is there at the start */
		usleep(argc > 4 ? (useconds_t)atoi(argv[4]) * 1000 : 100000);
		library = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL);
		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			return 2;
		}
	}
	((plain_fn)symbol("Py_Initialize"))();
	first = ((new_fn)symbol("PyThreadState_Get"))();
	err |= run(argv[1]);
	for (int i = 1; i < atoi(argv[2]); i++) {
		void *sub = ((new_fn)symbol("Py_NewInterpreter"))();

		err |= run(argv[1]);
		((end_fn)symbol("Py_EndInterpreter"))(sub);
		((swap_fn)symbol("PyThreadState_Swap"))(first);
	}
	((plain_fn)symbol("Py_Finalize"))();
	return err ? 1 : 0;
}
