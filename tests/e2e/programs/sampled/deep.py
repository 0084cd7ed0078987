# SPDX-License-Identifier: Apache-2.0
"""Recurses to a depth, and stays there: busy, or waiting for the end of its input."""
import sys
import threading
import time

DEPTH = int(sys.argv[1])


def spin(end):
    while time.process_time() < end:
        pass


def down(n):
    if n > 1:
        down(n - 1)
    elif "waits" in sys.argv:
        print(flush=True)
        sys.stdin.readline()
    else:
        spin(time.process_time() + 1)


sys.setrecursionlimit(DEPTH + 1000)
threading.stack_size(512 << 20)
t = threading.Thread(target=down, args=(DEPTH,))
t.start()
t.join()
