# SPDX-License-Identifier: Apache-2.0
"""What probe_cost runs: 500 code objects that call each other 20 deep, so that tables of the kernel
side are as full as a program's. Each line "N" on stdin makes N * 10,000 calls and prints the thread's
CPU time and the wall time they took, in ns."""
import sys
import time

FUNCTIONS = 500
DEPTH = 20

source = "".join("def f%d(n):\n    return f%d(n - 1) if n else 0\n\n" % (i, (i * 7 + 1) % FUNCTIONS)
                 for i in range(FUNCTIONS))
scope = {}
exec(compile(source, "functions.py", "exec"), scope)
functions = [scope["f%d" % i] for i in range(FUNCTIONS)]


def run(n):
    for _ in range(n):
        for f in functions:
            f(DEPTH - 1)


run(5)
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    count = int(line)
    wall = time.perf_counter_ns()
    cpu = time.thread_time_ns()
    run(count)
    cpu = time.thread_time_ns() - cpu
    wall = time.perf_counter_ns() - wall
    print(cpu, wall, flush=True)
