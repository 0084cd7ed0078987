// SPDX-License-Identifier: Apache-2.0
/*
 * usage: moved LIBRARY THREADS FILE: thread states are made in the main thread, which calculates then, and run in others, as in
 * some programs that embed Python. Each calls a function of its own over and over. Prints "up";
 * when there is the file, it ends with "ok" if all results were right.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 64

static void *library;
static void *states[THREADS_MAX];
static volatile int left, wrong;
static const char *file;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(2);
	}
	return found;
}

static void *work(void *arg)
{
	long i = (long)arg;
	char code[512];

	snprintf(code, sizeof(code),
		 "import os, time\n"
		 "def work%ld(n): return n + %ld\n"
		 "def run%ld(file):\n"
		 "    while not os.path.exists(file):\n"
		 "        for k in range(200):\n"
		 "            assert work%ld(k) == k + %ld\n"
		 "        time.sleep(0.001)\n"
		 "run%ld('%s')\n",
		 i, i, i, i, i, i, file);
	((void (*)(void *))symbol("PyEval_AcquireThread"))(states[i]);
	if (((int (*)(const char *))symbol("PyRun_SimpleString"))(code))
		wrong = 1;
	((void (*)(void *))symbol("PyEval_ReleaseThread"))(states[i]);
	__atomic_fetch_sub(&left, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(int argc, char **argv)
{
	volatile unsigned long n = 0;
	pthread_t thread;
	void *first;

	if (argc < 4 || atoi(argv[2]) > THREADS_MAX)
		return 2;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	file = argv[3];
	left = atoi(argv[2]);
	((void (*)(void))symbol("Py_Initialize"))();
	first = ((void *(*)(void))symbol("PyThreadState_Get"))();
	for (long i = 0; i < atoi(argv[2]); i++)
		states[i] = ((void *(*)(void *))symbol("PyThreadState_New"))(
			((void *(*)(void *))symbol("PyThreadState_GetInterpreter"))(first));
	((void *(*)(void))symbol("PyEval_SaveThread"))();
	for (long i = 0; i < atoi(argv[2]); i++)
		pthread_create(&thread, NULL, work, (void *)i);
	puts("up");
	fflush(stdout);
	while (__atomic_load_n(&left, __ATOMIC_SEQ_CST))
		n++;
	puts(wrong ? "wrong" : "ok");
	return 0;
}
