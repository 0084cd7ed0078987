# SPDX-License-Identifier: Apache-2.0
"""A server that forks its workers once it is told to, and says their pids."""
import os
import sys
import time


def work():
    while time.process_time() < 0.05:
        pass


def worker():
    work()
    os._exit(0)


print(os.getpid(), flush=True)
sys.stdin.readline()
pids = []
for _ in range(12):
    pid = os.fork()
    if not pid:
        worker()
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
print(*pids, flush=True)
sys.stdin.readline()
