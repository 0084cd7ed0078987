"""usage: waits.py FLAG [COUNTS]: prints its pid, calls tick until FLAG exists, then mark 1000 times; counts to COUNTS."""
import os
import sys


def tick():
    pass


def mark(n):
    return n


print(os.getpid(), flush=True)
n = 0
while not os.path.exists(sys.argv[1]):
    tick()
    n += 1
for i in range(1000):
    mark(i)
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as f:
        f.write(str(n))
