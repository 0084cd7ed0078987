"""usage: finalizers.py OUT: __del__ and weakref callbacks out of reference counts and out of the cycle collector."""
import gc
import itertools
import json
import sys
import threading
import weakref

# the collector can run in the middle of an addition, and __del__ in it: these count in one step
C = {name: itertools.count() for name in '__del__ __init__ allocate cyclic dead in_cycle plain suspended tidy'.split()}
DELETED = itertools.count(1)


class Node:
    def __init__(self):
        next(C["__init__"])
        self.other = None

    def __del__(self):
        next(C["__del__"])
        tidy(self)
        if sys.version_info >= (3, 8) and next(DELETED) % 10 == 0:
            raise ValueError("out of __del__")


class Born(Node):
    def __del__(self):
        next(C["__del__"])
        global SAVED
        SAVED = self


def tidy(node):
    next(C["tidy"])


def dead(ref):
    next(C["dead"])


def cyclic():
    next(C["cyclic"])
    a, b = Node(), Node()
    a.other, b.other = b, a


def plain():
    next(C["plain"])
    n = Node()
    refs.append(weakref.ref(n, dead))


def suspended():
    next(C["suspended"])
    try:
        yield Node()
    finally:
        tidy(None)


def in_cycle():
    next(C["in_cycle"])
    g = suspended()
    next(g)
    box = [g]
    box.append(box)


def allocate():
    next(C["allocate"])
    return [[] for _ in range(50)]


refs = []
sys.unraisablehook = lambda u: None
gc.set_threshold(50)
SAVED = None


def work():
    for i in range(300):
        cyclic()
        plain()
        in_cycle()
        allocate()
        if i % 50 == 0:
            Born()


work()
t = threading.Thread(target=work)
t.start()
t.join()
gc.collect()
gc.collect()
gc.disable()
with open(sys.argv[1], "w") as f:
    json.dump({name: next(c) for name, c in C.items()}, f)
# what is still there would go on counting
import os
os._exit(0)
