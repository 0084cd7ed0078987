"""usage: brief.py OUT THREADS: prints its pid; after a line of input it calls until any ring is full, then one thread after the
other makes calls and ends. Writes {tid: events}, what each made, and ends with its input."""
import json
import os
import sys
import threading


def leaf(n):
    return n


def work():
    tid = int(open("/proc/thread-self/stat").read().split()[0])
    for i in range(5000):
        leaf(i)
    made[tid] = 10000


made = {}
print(os.getpid(), flush=True)
sys.stdin.readline()
for k in range(100000):
    leaf(k)
for k in range(int(sys.argv[2])):
    t = threading.Thread(target=work)
    t.start()
    t.join()
with open(sys.argv[1], "w") as f:
    json.dump(made, f)
print("done", flush=True)
sys.stdin.readline()
