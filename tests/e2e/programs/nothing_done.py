"""usage: nothing_done.py THREADS END: threads wait in write() of much into pipes that are full: until there is a file END nothing of it is done,
then all. Signals that the process ignores come to each, as fast as another thread sends them."""
import ctypes
import os
import signal
import sys
import threading
import time

THREADS, END = int(sys.argv[1]), sys.argv[2]
SIZE, FULL = 300007, 65536
SYS_TGKILL = 234
LIBC = ctypes.CDLL(None)
SAID, TIDS = [], []


def write(fd):
    TIDS.append(threading.get_native_id())
    SAID.append(os.write(fd, b"y" * SIZE))


def disturb():
    while not os.path.exists(END):
        for tid in TIDS:
            LIBC.syscall(SYS_TGKILL, os.getpid(), tid, signal.SIGUSR1)
            time.sleep(0.0001)


def f(x):
    return x


signal.signal(signal.SIGUSR1, signal.SIG_IGN)
PIPES = [os.pipe() for _ in range(THREADS)]
WRITERS = [threading.Thread(target=write, args=(end,)) for _, end in PIPES]
for _, end in PIPES:
    os.write(end, b"x" * FULL)
for w in WRITERS:
    w.start()
while len(TIDS) < THREADS:
    time.sleep(0.01)
threading.Thread(target=disturb, daemon=True).start()
print("up", flush=True)
while not os.path.exists(END):
    for i in range(2000):
        f(i)
    time.sleep(0.001)
early = list(SAID)
for start, _ in PIPES:
    left = SIZE + FULL
    while left:
        left -= len(os.read(start, left))
for w in WRITERS:
    w.join()
print("fine" if not early and SAID == [SIZE] * THREADS else (early, SAID), flush=True)
