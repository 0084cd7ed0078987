# SPDX-License-Identifier: Apache-2.0
"""Says its own stack, then stays in it for a while. No list comprehensions: some versions inline them."""
import json
import sys
import time


def spin(end):
    f, stack = sys._getframe(), []
    while f:
        stack.insert(0, (f.f_code.co_name, f.f_lineno))
        f = f.f_back
    sys.stdout.write(json.dumps(stack[:-1] + [("spin", sys._getframe().f_lineno + 1)]))
    while time.time() < end:
        x = 0
        for i in range(1000):
            x += i


class Thing(object):
    def method(self, end):
        (spin)(
            end)

    @staticmethod
    def static(end):
        Thing().method(end)


def generator(end):
    yield 1
    Thing.static(end)
    yield 2


def through_c(end):
    for _ in map(lambda g: list(g), [generator(end)]):
        pass


through_c(time.time() + 1.5)
