"""usage: before_resume.py OUT: the collector and trace functions run Python where a frame makes its cells or its generator, and where
a generator yields: before 3.12 all of that is outside of what the frame shows of itself. Counts its own calls."""
import gc
import itertools
import json
import sys
import threading

C = {name: itertools.count() for name in "__init__ __del__ held cells work told".split()}


class Node:
    def __init__(self):
        next(C["__init__"])
        self.me = self
        self.held = held(self)
        self.held.send(None)

    def __del__(self):
        next(C["__del__"])
        self.held.close()


def held(node):
    next(C["held"])
    try:
        yield node
    finally:
        cells(node, 1)


def cells(a, b):
    next(C["cells"])

    def inner():
        return a, b
    return inner


def told(frame, event, arg):
    next(C["told"])
    return told


def work(rounds):
    next(C["work"])
    for _ in range(rounds):
        Node()
        cells(1, 2)
        box = [held(None)]
        box.append(box)
        next(box[0])


def traced():
    generator = held(None)
    next(generator)
    sys.settrace(told)
    cells(1, 2)
    other = held(None)
    next(other)
    generator.close()
    next(other, None)
    sys.settrace(None)


def main():
    gc.set_threshold(7)
    threads = [threading.Thread(target=work, args=(150,)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    work(150)
    gc.collect()
    gc.disable()
    for _ in range(20):
        traced()


main()
with open(sys.argv[1], "w", encoding="ascii") as f:
    json.dump({name: next(c) for name, c in C.items()}, f)
