#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs that scripts/bench records: one that does little but call, and one that does little but compute. Every
legal chain of functions is known (CHAINS). sampled.py NAME ROUNDS: prints the pid, waits for a line, works, prints the
times of its work as JSON, and waits for another line. Python 3.8 or later."""
import json
import os
import sys
import time

CHAINS = {
    "calls": [["red0", "red1", "red2"], ["green0", "green1", "green2", "green3"], ["blue0", "gen_blue"]],
    "nbody": [["advance"], ["energy"]],
}


def red2(n):
    return n + 1


def red1(n):
    return red2(n) + red2(n)


def red0(n):
    return red1(n)


def green3(n):
    return [n] * 3


def green2(n):
    return green3(n)


def green1(n):
    return green2(n)


def green0(n):
    try:
        green1(n)
        raise ValueError
    except ValueError:
        return green1(n)


def gen_blue(n):
    for i in range(n):
        yield i


def blue0(n):
    return sum(gen_blue(n))


BODIES = [[float(3 * i + k) for k in range(6)] + [1.0 + i] for i in range(5)]


def advance(dt):
    for i, a in enumerate(BODIES):
        for b in BODIES[i + 1:]:
            dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
            mag = dt / ((dx * dx + dy * dy + dz * dz + 0.01) ** 1.5)
            a[3] -= dx * b[6] * mag
            b[3] += dx * a[6] * mag
    for a in BODIES:
        a[0] += dt * a[3]


def energy():
    return sum([0.5 * a[6] * (a[3] * a[3] + a[4] * a[4]) for a in BODIES])


def work_calls(rounds):
    for _ in range(rounds):
        for i in range(100):
            red0(i)
            green0(i)
            blue0(3)


def work_nbody(rounds):
    for _ in range(rounds):
        for _ in range(20):
            advance(0.001)
        energy()


def main():
    work, rounds = globals()["work_" + sys.argv[1]], int(sys.argv[2])
    work(max(1, rounds // 100))  # what warms up
    sys.stdout.write("%d\n" % os.getpid())
    sys.stdout.flush()
    sys.stdin.readline()
    begin, cpu = time.perf_counter(), time.process_time()
    work(rounds)
    end, cpu_end = time.perf_counter(), time.process_time()
    sys.stdout.write(json.dumps({"elapsed_s": end - begin, "cpu_s": cpu_end - cpu}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main()
