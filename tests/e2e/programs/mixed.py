# SPDX-License-Identifier: Apache-2.0
"""Functions of five files that call each other at random, the same in each run: mixed.py SEED CALLS [greenlets]. By name, directly,
from C, as methods and constructors, through generators, with exceptions, and from finalizers; then the same in threads, or in greenlets
that take turns in the middle of calls."""
import functools
import random
import sys
import threading

FUNCTIONS = 60
SOURCES = {
    "plain": "def f{i}(n):\n    return {a}(n - 1) + {b}(n - 2) if n > 0 else n\n",
    "leaf": "def f{i}(n):\n    return n\n",
    "leaf_switches": "def f{i}(n):\n    switch()\n    return n\n",
    "loop": "def f{i}(n):\n    t = 0\n    for k in range(3):\n        t += {a}(min(n - 1, 1))\n    return t\n",
    "raises": "def f{i}(n):\n    try:\n        {a}(n - 1)\n        raise KeyError(n)\n    except KeyError:\n        return {b}(n - 2) if n > 0 else 0\n",
    "lets_through": "def f{i}(n):\n    if n % 3 == 0:\n        raise ValueError(n)\n    try:\n        return {a}(n - 1)\n    except ValueError:\n        return 1\n",
    "from_c": "def f{i}(n):\n    return sum(map({a}, [min(n - 1, 2), 0, 1])) + len(sorted([2, 1], key={b}))\n",
    "generator": "def g{i}(n):\n    for k in range(2):\n        yield {a}(n - 1)\ndef f{i}(n):\n    return sum(g{i}(min(n, 3)))\n",
    "closed": "def g{i}(n):\n    try:\n        yield {a}(n - 1)\n        yield 1\n    finally:\n        {b}(0)\n"
              "def f{i}(n):\n    g = g{i}(min(n, 2))\n    next(g)\n    del g\n    return 1\n",
    "init": "class C{i}:\n    def __init__(self, n):\n        self.n = {a}(n - 1)\n    def get(self):\n        return self.n\n"
            "def f{i}(n):\n    return C{i}(min(n, 3)).get()\n",
    "del": "class D{i}:\n    def __del__(self):\n        try:\n            {a}(0)\n        except ValueError:\n            pass\ndef f{i}(n):\n    d = D{i}()\n    return {b}(min(n - 1, 2))\n",
    "comprehension": "def f{i}(n):\n    return len([{a}(k) for k in range(min(n, 2))]) + sum({b}(k) for k in (0, 1))\n",
    "wrapped": "@wrap\ndef f{i}(n):\n    return {a}(min(n - 1, 3))\n",
}


def make(seed, switch):
    chance = random.Random(seed)
    names = {"wrap": lambda f: functools.wraps(f)(lambda n: f(n)), "switch": switch}
    for i in range(FUNCTIONS):
        # only what was made before is called, and small numbers: so it ends
        a, b = ("f%d" % chance.randrange(max(0, i - 12), i) if i else "int" for _ in "ab")
        kind = "leaf" if not i else chance.choice(sorted(SOURCES))
        file = "/made/m%d.py" % chance.randrange(5)
        exec(compile(SOURCES[kind].format(i=i, a=a, b=b), file, "exec"), names)
    return [names["f%d" % i] for i in range(FUNCTIONS)]


def work(functions, seed, calls):
    chance = random.Random(seed)
    for _ in range(calls):
        try:
            functions[chance.randrange(len(functions))](chance.randrange(5))
        except ValueError:
            pass


def in_greenlets(seed, calls):
    import greenlet

    def switch():
        hub = greenlet.getcurrent().parent
        if hub:
            hub.switch()

    functions = make(seed, switch)
    alive = [greenlet.greenlet(work) for _ in range(5)]
    for i, g in enumerate(alive):
        g.switch(functions, seed + i, calls // 5)
    while alive:
        alive = [g for g in alive if not g.dead]
        for g in alive:
            g.switch()


def main():
    seed, calls = map(int, sys.argv[1:3])
    if len(sys.argv) > 3:
        in_greenlets(seed, calls)
        return
    functions = make(seed, lambda: None)
    work(functions, seed, calls)
    threads = [threading.Thread(target=work, args=(functions, seed + i, calls // 4)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main()
