"""usage: shutdown.py OUT DAEMONS: what runs at the end: atexit, __del__ of what modules hold, daemon threads. OUT gets a line per call."""
import atexit
import os
import sys
import threading
import weakref

FD = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def leaf(n, write=os.write, fd=FD):
    write(fd, b"leaf\n")
    return n


class Last:
    def __init__(self, n):
        self.n = n

    def __del__(self, write=os.write, fd=FD, leaf=leaf):
        write(fd, b"__del__\n")
        leaf(1)


def at_exit(n):
    os.write(FD, b"at_exit\n")
    for _ in range(n):
        leaf(n)
    if n:
        atexit.register(at_exit, n - 1)


def on_dead(ref, write=os.write, fd=FD):
    write(fd, b"on_dead\n")


def daemon():
    while True:
        quick()


def quick():
    pass


def held(write=os.write, fd=FD):
    try:
        write(fd, b"held\n")
        yield 1
    finally:
        write(fd, b"finally\n")


for k in range(3):
    atexit.register(at_exit, k)
KEPT = [Last(1), Last(2)]
CYCLE = Last(3)
CYCLE.me = CYCLE
sys.kept = Last(4)
REF = weakref.ref(KEPT[0], on_dead)
GEN = held()
next(GEN)
threads = [threading.Thread(target=daemon, daemon=True) for _ in range(int(sys.argv[2]))]
for t in threads:
    t.start()
leaf(0)
