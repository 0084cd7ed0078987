# SPDX-License-Identifier: Apache-2.0
"""A service: 200 functions that call each other some thirty deep, or one that waits. agent_target.py busy|idle SEED"""
import random
import sys
import time


def make(count):
    names = {}
    for i in range(count):
        exec("def step_%d(n, pick, names):\n    t = 0\n    for i in range(20):\n        t += i * i\n"
             "    return names[pick()](n - 1, pick, names) + t if n else t\n" % i, names)
    return [names["step_%d" % i] for i in range(count)]


def main(kind, seed):
    rng, functions = random.Random(seed), make(200)
    print("ready", flush=True)
    while True:
        if kind == "idle":
            time.sleep(0.5)
        else:
            functions[0](rng.randrange(10, 50), lambda: int(200 * rng.random() ** 3), functions)


main(sys.argv[1], int(sys.argv[2]))
