# SPDX-License-Identifier: Apache-2.0
"""usage: growth_target.py THREADS DEPTH CALLS: a step for each line of its input. Makes some calls, so that what all threads share is
there; begins that many threads, each that many frames deep; makes that many calls in all, from the threads in turn; ends. After each step it prints its CPU seconds of that step."""
import sys
import threading
import time

THREADS, DEPTH, CALLS = (int(a) for a in sys.argv[1:4])
EACH = CALLS // THREADS
ready, turns, over = threading.Semaphore(0), [], threading.Event()


def leaf(n):
    return n


def work(turn):
    ready.release()
    turn.acquire()
    for i in range(EACH):
        leaf(i)
    ready.release()
    over.wait()


def down(n, turn):
    if n > 1:
        down(n - 1, turn)
    else:
        work(turn)


def step(begin):
    before = time.process_time()
    for k in range(THREADS):
        begin(k)
        ready.acquire()
    print(time.process_time() - before, flush=True)


def start(_):
    turns.append(threading.Semaphore(0))
    threading.Thread(target=down, args=(DEPTH, turns[-1]), daemon=True).start()


# C frames per call, to 3.10
threading.stack_size(min(2 ** 30, 2 ** 18 + DEPTH * 2 ** 11))
sys.setrecursionlimit(DEPTH + 1000)
print("ready", flush=True)
sys.stdin.readline()
step(lambda k: [leaf(n) for n in range(20000 // THREADS)] and ready.release())
sys.stdin.readline()
step(start)
sys.stdin.readline()
step(lambda k: turns[k].release())
sys.stdin.readline()
over.set()
