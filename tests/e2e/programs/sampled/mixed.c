// SPDX-License-Identifier: Apache-2.0
/*
 * An extension module, built with frame pointers: outer(f) calls f(), spin(seconds) uses so much CPU time. What it uses of
 * Python is the stable ABI of builds with a lock, declared here: one file for every version, and no headers.
 */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct object PyObject;

struct method {
	const char *name;
	PyObject *(*call)(PyObject *self, PyObject *args);
	int flags; /* 1: a tuple of arguments; 8: one argument */
	const char *doc;
};

struct module_def {
	intptr_t refcnt;
	void *type, *init;
	intptr_t index;
	void *copy;
	const char *name, *doc;
	intptr_t size;
	struct method *methods;
	void *slots, *traverse, *clear, *free;
};

PyObject *PyModule_Create2(struct module_def *def, int api);
PyObject *PyObject_CallObject(PyObject *callable, PyObject *args);
PyObject *PyFloat_FromDouble(double value);
int PyArg_ParseTuple(PyObject *args, const char *format, ...);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);

#define KEPT __attribute__((noinline, noclone))

KEPT double mixed_leaf(double until)
{
	struct timespec now;
	volatile double x = 0;

	do {
		for (int i = 0; i < 500000; i++)
			x += i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < until);
	return x;
}

KEPT double mixed_spin(double seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	/* not a tail call */
	return mixed_leaf((double)now.tv_sec + (double)now.tv_nsec / 1e9 + seconds) + 1;
}

KEPT PyObject *mixed_middle(PyObject *f)
{
	PyObject *result = PyObject_CallObject(f, NULL);

	__asm__ volatile("" ::: "memory");
	return result;
}

static PyObject *spin(PyObject *self, PyObject *args)
{
	double seconds, x;
	void *state;

	(void)self;
	if (!PyArg_ParseTuple(args, "d", &seconds))
		return NULL;
	state = PyEval_SaveThread();
	x = mixed_spin(seconds);
	PyEval_RestoreThread(state);
	return PyFloat_FromDouble(x);
}

static PyObject *outer(PyObject *self, PyObject *f)
{
	PyObject *result = mixed_middle(f);

	(void)self;
	__asm__ volatile("" ::: "memory");
	return result;
}

static struct method methods[] = {
	{ "spin", spin, 1, NULL },
	{ "outer", outer, 8, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct module_def module = { .refcnt = 1, .name = "mixed", .size = -1, .methods = methods };

PyObject *PyInit_mixed(void)
{
	return PyModule_Create2(&module, 1013);
}
