"""usage: counted.py OUT WHAT [N]: makes calls and writes how many, per thread: {tid: {name: {kind: number}}}.

WHAT: add (N calls), threads (4 of N calls), generators, coroutines, mixed (all of it, in 4 threads).
"""
import asyncio
import collections
import json
import sys
import threading

COUNTS = {}
MINE = threading.local()
N = int(sys.argv[3]) if len(sys.argv) > 3 else 1000


def count():
    """The counter of this thread, by its kernel id. Called once per thread, and not counted itself."""
    tid = int(open("/proc/thread-self/stat").read().split()[0])
    return COUNTS.setdefault(tid, collections.Counter())


def count_add(a, b):
    return a + b


def adds(n):
    c = count()
    t = 0
    for i in range(n):
        t = count_add(t, i)
    c["count_add", "call"] += n
    c["count_add", "return"] += n
    return t


def numbers(c, n):
    c["numbers", "call"] += 1
    for i in range(n):
        c["numbers", "yield"] += 1
        yield i
        c["numbers", "resume"] += 1
    c["numbers", "return"] += 1


def through(c, n):
    c["through", "call"] += 1
    try:
        yield from numbers(c, n)
    finally:
        c["through", "end"] += 1


def generators(n):
    c = count()
    for i in range(n):
        for _ in numbers(c, i % 7):
            pass
        sum(numbers(c, 3))
        list(through(c, 2))
    del c["through", "end"]


class Wait:
    def __init__(self, c):
        c["__init__", "call"] += 1
        self.c = c
        c["__init__", "return"] += 1

    def __await__(self):
        self.c["__await__", "call"] += 1
        self.c["__await__", "yield"] += 1
        yield
        self.c["__await__", "resume"] += 1
        self.c["__await__", "return"] += 1


async def leaf(c, n):
    c["leaf", "call"] += 1
    for _ in range(n):
        await Wait(c)
    c["leaf", "return"] += 1


async def root(c, n):
    c["root", "call"] += 1
    for i in range(n):
        await leaf(c, i % 3)
    c["root", "return"] += 1


async def tasks(c, n):
    c["tasks", "call"] += 1
    await asyncio.gather(*[asyncio.ensure_future(root(c, n)) for _ in range(5)])
    c["tasks", "return"] += 1


def coroutines(n):
    c = count()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(tasks(c, n // 20))
    loop.close()


def mixed(n):
    adds(n)
    generators(n // 10)
    coroutines(n // 10)


def together(f, n):
    threads = [threading.Thread(target=f, args=(n,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


WHAT = {"add": adds, "threads": lambda n: together(adds, n), "generators": generators, "coroutines": coroutines,
        "mixed": lambda n: together(mixed, n)}
WHAT[sys.argv[2]](N)
out = {}
for tid, counter in COUNTS.items():
    for (name, kind), number in counter.items():
        out.setdefault(str(tid), {}).setdefault(name, {})[kind] = number
with open(sys.argv[1], "w") as f:
    json.dump(out, f)
