"""usage: abyss.py DEPTH SECONDS: short calls at the bottom of a deep stack, and on the way back up."""
import sys
import threading
import time

sys.setrecursionlimit(1000000)
threading.stack_size(512 << 20)


def leaf():
    pass


def down(k, seconds):
    if k:
        down(k - 1, seconds)
    end = time.monotonic() + (seconds if not k else 0)
    while time.monotonic() < end:
        for _ in range(200):
            leaf()
    leaf()


thread = threading.Thread(target=down, args=(int(sys.argv[1]), float(sys.argv[2])))
thread.start()
thread.join()
