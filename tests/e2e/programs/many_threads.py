"""usage: many_threads.py OUT N: N threads that live shortly, 50 at a time; writes {tid: calls of leaf}."""
import json
import sys
import threading

OUT = []


def leaf(n):
    return n


def work(k):
    tid = int(open("/proc/thread-self/stat").read().split()[0])
    for i in range(k % 5):
        leaf(i)
    OUT.append([tid, k % 5])


for start in range(0, int(sys.argv[2]), 50):
    threads = [threading.Thread(target=work, args=(start + k,)) for k in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
with open(sys.argv[1], "w") as f:
    json.dump(OUT, f)
