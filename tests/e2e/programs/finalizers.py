"""usage: finalizers.py OUT: __del__ and weakref callbacks out of reference counts and out of the cycle collector."""
import collections
import gc
import json
import sys
import threading
import weakref

C = collections.Counter()


class Node:
    def __init__(self):
        C["__init__"] += 1
        self.other = None

    def __del__(self):
        C["__del__"] += 1
        tidy(self)
        if C["__del__"] % 10 == 0:
            raise ValueError("out of __del__")


class Born(Node):
    def __del__(self):
        C["__del__"] += 1
        global SAVED
        SAVED = self


def tidy(node):
    C["tidy"] += 1


def dead(ref):
    C["dead"] += 1


def cyclic():
    C["cyclic"] += 1
    a, b = Node(), Node()
    a.other, b.other = b, a


def plain():
    C["plain"] += 1
    n = Node()
    refs.append(weakref.ref(n, dead))


def suspended():
    C["suspended"] += 1
    try:
        yield Node()
    finally:
        tidy(None)


def in_cycle():
    C["in_cycle"] += 1
    g = suspended()
    next(g)
    box = [g]
    box.append(box)


def allocate():
    C["allocate"] += 1
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
    json.dump(dict(C), f)
# what is still there would go on counting
import os
os._exit(0)
