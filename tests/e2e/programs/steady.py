"""usage: steady.py: prints its pid, then a line each 50 ms with the number of calls made so far, for ever."""
import os
import sys
import threading
import time

N = [0]


def leaf(n):
    return n


def numbers(n):
    for i in range(n):
        yield leaf(i)


def failing(n):
    if not n:
        raise ValueError
    failing(n - 1)


def work():
    while True:
        for i in range(100):
            leaf(i)
        sum(numbers(10))
        try:
            failing(5)
        except ValueError:
            pass
        exec("def f(): return 1\nf()")
        N[0] += 1


for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
print(os.getpid(), flush=True)
while True:
    time.sleep(0.05)
    print(N[0], flush=True)
