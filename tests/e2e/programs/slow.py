"""Prints its pid and calls some functions every half millisecond, for ever: a trace of seconds that is quick to read."""
import os
import time


def leaf(n):
    return n


def numbers(n):
    for i in range(n):
        yield leaf(i)


def deep(n):
    return deep(n - 1) if n else sum(numbers(3))


print(os.getpid(), flush=True)
while True:
    deep(10)
    time.sleep(0.0005)
