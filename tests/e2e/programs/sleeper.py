"""usage: sleeper.py: prints its pid, waits for a line or the end of its input, then calls mark 1000 times."""
import os
import sys


def mark(n):
    return n


print(os.getpid(), flush=True)
sys.stdin.readline()
for i in range(1000):
    mark(i)
