# SPDX-License-Identifier: Apache-2.0
"""Functions that live for 3 ms each, one after the other, all of one size: code objects follow each other at one address. Each has
its number in its name and in its file's. Says how many there were, and at how many addresses."""
import time

SOURCE = """
def f_{0:06}(until):
    while time.perf_counter() < until:
        pass
"""
END = time.time() + 1.5
addresses = set()


def even(f):
    f(time.perf_counter() + 0.003)


def odd(f):
    f(time.perf_counter() + 0.003)


number = 0
while time.time() < END:
    scope = {"time": time}
    exec(compile(SOURCE.format(number), "<made {:06}>".format(number), "exec"), scope)
    function = scope["f_{:06}".format(number)]
    addresses.add(id(function.__code__))
    (odd if number & 1 else even)(function)
    scope.clear()  # its functions have it
    del function
    number += 1
print(number, len(addresses))
