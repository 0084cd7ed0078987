"""usage: wakers.py THREADS: each goes down 300 calls, the first ones of either of two functions, the last ones always of a third one, sleeps for
a moment, comes up some or all of them, and goes down again, until its input ends. Then it writes when each was in which function: [thread,
name, from, to in ns], a line each."""
import json
import random
import sys
import threading
import time

UP = threading.Semaphore(0)
DONE = []


def a(way, left):
    down(way, left, a)


def b(way, left):
    down(way, left, b)


def c(way, left):
    down(way, left, c)


def down(way, left, last):
    if not left:
        time.sleep(way.choice((0.005, 0.02, 0.05)))
        return
    go_on = c if left < 100 else last
    go_on(way, left - 1)
    if left == 80 and way.random() < 0.5:
        go_on(way, left - 1)


def thread(seed):
    way = random.Random(seed)
    UP.release()
    tid, now = threading.get_native_id(), time.monotonic_ns
    while True:
        first, begin = way.choice((a, b)), now()
        first(way, 150)
        DONE.append((tid, first.__name__, begin, now()))


sys.setrecursionlimit(5000)
threading.stack_size(2 << 20)
for i in range(int(sys.argv[1])):
    threading.Thread(target=thread, args=(i,), daemon=True).start()
for i in range(int(sys.argv[1])):
    UP.acquire()
print("up", flush=True)
sys.stdin.read()
time.sleep(0.5)  # what goes on now is told, too
for line in list(DONE):
    print(json.dumps(line))
