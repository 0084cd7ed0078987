"""usage: load.py OUT SECONDS THREADS [FLAG]: threads that call as fast as they can; writes {tid: events}: calls and returns of each.

Counting starts with FLAG's existence if given (the trace is attached before), else at once. What is counted is all that the
thread does in between, so the program's functions are the only ones called.
"""
import json
import os
import sys
import threading
import time

OUT = {}
STOP = []
GO = []


def leaf(n):
    return n


def branch(n):
    leaf(n)
    leaf(n)
    return n


def root(n):
    for _ in range(10):
        branch(n)


def numbers(n):
    for i in range(n):
        yield i


def work():
    n = 0
    tid = int(open("/proc/thread-self/stat").read().split()[0])
    while not GO:
        time.sleep(0.01)
    while not STOP:
        root(n)  # 1 + 10 * 3 calls, each with its return
        for _ in numbers(5):  # 6 enters, 6 leaves
            pass
        n += 1
    OUT[tid] = n * (2 * 31 + 12)


threads = [threading.Thread(target=work) for _ in range(int(sys.argv[3]))]
for t in threads:
    t.start()
print(os.getpid(), flush=True)
while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
    time.sleep(0.01)
GO.append(1)
time.sleep(float(sys.argv[2]))
STOP.append(1)
for t in threads:
    t.join()
with open(sys.argv[1], "w") as f:
    json.dump(OUT, f)
