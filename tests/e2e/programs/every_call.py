"""usage: every_call.py OUT N [FLAG]: calls of every kind, once FLAG exists if it is given; writes {function: calls}.

And how long nap() took, from inside and from outside: {"inside": ns, "outside": ns}.
"""
import json
import os
import sys
import threading
import time

out, n = sys.argv[1], int(sys.argv[2])
clock = getattr(time, "perf_counter_ns", None) or (lambda: int(time.perf_counter() * 1e9))
took = {"inside": 0, "outside": 0}


def leaf(i):
    return i


def branch(i):
    leaf(i)
    return leaf(i)


def recurse(i):
    return recurse(i - 1) if i else 0


def ping(i):
    return pong(i - 1) if i else 0


def pong(i):
    return ping(i)


def numbers(i):
    for k in range(i):
        yield leaf(k)


def fail():
    raise ValueError


class Thing:
    def __init__(self):
        self.value = leaf(1)


def nap():
    begin = clock()
    time.sleep(0.002)
    took["inside"] += clock() - begin


def work():
    for i in range(n):
        branch(i)
        recurse(9)
        ping(4)
        list(numbers(3))
        Thing()
        try:
            fail()
        except ValueError:
            pass


def in_a_child():
    pid = os.fork()
    if not pid:
        for _ in range(1000):
            leaf(0)
        os._exit(0)
    os.waitpid(pid, 0)


while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):
    time.sleep(0.005)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
in_a_child()
for _ in range(20):
    before = clock()
    nap()
    took["outside"] += clock() - before
m = 2 * n
with open(out, "w") as f:
    json.dump({"calls": {"leaf": m * 6, "branch": m, "recurse": m * 10, "ping": m * 5, "pong": m * 4, "numbers": m, "fail": m,
                         "Thing.__init__": m, "work": 2, "in_a_child": 1, "nap": 20}, "nap": took}, f)
