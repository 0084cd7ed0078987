"""usage: churn.py KIND N: calls mark N times in all: by itself (calls), in 4 threads (threads), in 4 children that it forks
(forks), or half of it before it executes itself and half after (exec)."""
import os
import sys
import threading


def mark(n):
    return n


def some(n):
    for i in range(n):
        mark(i)


def child(n):
    pid = os.fork()
    if not pid:
        some(n)
        os._exit(0)
    os.waitpid(pid, 0)


kind, count = sys.argv[1], int(sys.argv[2])
if kind == "threads":
    threads = [threading.Thread(target=some, args=(count // 4,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
elif kind == "forks":
    for _ in range(4):
        child(count // 4)
elif kind == "exec":
    some(count // 2)
    os.execv(sys.executable, [sys.executable, "-S", __file__, "calls", str(count // 2)])
else:
    some(count)
