"""usage: deep.py DEPTH...: a thread waits in each recursion of so many frames; the main thread calls and sleeps."""
import sys
import threading
import time

DEPTHS = [int(arg) for arg in sys.argv[1:]]
READY = threading.Semaphore(0)


def recurse(n):
    if n > 1:
        recurse(n - 1)
    else:
        READY.release()
        threading.Event().wait()


def f():
    time.sleep(0.01)


sys.setrecursionlimit(max(DEPTHS) + 1000)
threading.stack_size(64 << 10 if max(DEPTHS) < 50 else max(DEPTHS) << 12)  # 4 KB a frame
for depth in DEPTHS:
    threading.Thread(target=recurse, args=(depth,), daemon=True).start()
for depth in DEPTHS:
    READY.acquire()
print("up", flush=True)
while True:
    f()
