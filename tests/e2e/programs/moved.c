// SPDX-License-Identifier: Apache-2.0
/*
 * usage: moved LIBRARY PAIRS FILE: thread states that two threads each run by turns, as some programs that embed Python do: the one that has
 * made it, which is whom it names, for a moment, and then waits with what that has left on its stack; the other one for longer. Each pair calls
 * a function of its own. Prints "up"; when there is the file, it ends with "ok" if all results were right.
 */
#include <pthread.h>
#include <unistd.h>

#include "symbol.h"

#define PAIRS_MAX 64

struct pair {
	long number;
	void *state;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int turn; /* 0: who has made it; 1: the other one */
	pthread_t threads[2];
};

static void *interpreter;
static volatile int wrong;
static const char *file;

static void run(struct pair *p, const char *code)
{
	((void (*)(void *))symbol("PyEval_AcquireThread"))(p->state);
	if (((int (*)(const char *))symbol("PyRun_SimpleString"))(code))
		wrong = 1;
	((void (*)(void *))symbol("PyEval_ReleaseThread"))(p->state);
}

/* Below what was called before, of which hardly anything is written over. */
static __attribute__((noinline)) char wait_for_turn(struct pair *p, int me)
{
	volatile char room[16384];

	room[0] = (char)me;
	pthread_mutex_lock(&p->lock);
	while (p->turn != me)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return room[0];
}

static void give_turn(struct pair *p, int to)
{
	pthread_mutex_lock(&p->lock);
	p->turn = to;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void take_turns(struct pair *p, int me)
{
	char code[64];
	int over;

	snprintf(code, sizeof(code), "run%ld(%s)", p->number, me ? "0.003" : "0");
	do {
		wait_for_turn(p, me);
		/* asked in our turn, which the other one then gets: it would wait for ever */
		over = !access(file, F_OK);
		run(p, code);
		give_turn(p, !me);
	} while (!over);
}

static void *maker(void *arg)
{
	struct pair *p = arg;
	char code[512];

	p->state = ((void *(*)(void *))symbol("PyThreadState_New"))(interpreter);
	snprintf(code, sizeof(code),
		 "import time\n"
		 "def work%ld(n): return n + %ld\n"
		 "def run%ld(seconds):\n"
		 "    end = time.time() + seconds\n"
		 "    while True:\n"
		 "        for k in range(20): assert work%ld(k) == k + %ld\n"
		 "        if time.time() >= end: break\n",
		 p->number, p->number, p->number, p->number, p->number);
	run(p, code);
	take_turns(p, 0);
	return NULL;
}

static void *other(void *arg)
{
	take_turns(arg, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct pair pairs[PAIRS_MAX];
	int cnt = argc < 4 ? 0 : atoi(argv[2]);

	if (cnt < 1 || cnt > PAIRS_MAX)
		return 2;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	file = argv[3];
	((void (*)(void))symbol("Py_Initialize"))();
	if (dlsym(library, "PyEval_InitThreads")) /* 3.6 has no lock before */
		((void (*)(void))symbol("PyEval_InitThreads"))();
	interpreter = ((void *(*)(void))symbol("PyInterpreterState_Head"))();
	((void *(*)(void))symbol("PyEval_SaveThread"))();
	for (int i = 0; i < cnt; i++) {
		struct pair *p = &pairs[i];

		p->number = i;
		pthread_mutex_init(&p->lock, NULL);
		pthread_cond_init(&p->changed, NULL);
		pthread_create(&p->threads[0], NULL, maker, p);
		pthread_create(&p->threads[1], NULL, other, p);
	}
	puts("up");
	fflush(stdout);
	for (int i = 0; i < cnt; i++) {
		pthread_join(pairs[i].threads[0], NULL);
		pthread_join(pairs[i].threads[1], NULL);
	}
	puts(wrong ? "wrong" : "ok");
	return 0;
}
