# SPDX-License-Identifier: Apache-2.0
"""A program with every kind of recursion, run plain or under cProfile: pstats_program.py [FILE]. A
function that a C function calls would have that as its caller in cProfile; a trace does not see it."""
import sys


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def leaf():
    return 1


def left(n):
    return leaf() + (right(n - 1) if n else 0)


def right(n):
    return leaf() + leaf() + (left(n - 1) if n else 0) + (left(0) if n > 1 else 0)


def count(n):
    for i in range(n):
        leaf()
        yield i


def walk(n):
    if n:
        yield from walk(n - 1)
        yield n


def fail(n):
    if n == 0:
        raise ValueError
    fail(n - 1)


class Shape:
    def __init__(self, n):
        self.n = n
        self.helper = lambda k: leaf() + k

    def __lt__(self, other):
        return self.helper(self.n) < other.helper(other.n)

    @property
    def area(self):
        return self.n * leaf()


def main():
    fib(12)
    even(9)
    odd(4)
    left(6)
    total = sum(count(20)) + sum(walk(5))
    for n in range(3):
        try:
            fail(n)
        except ValueError:
            leaf()
    shapes = [Shape(n) for n in (3, 1, 2)]
    return total + sum(s.area for s in shapes) + (shapes[0] < shapes[1])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import cProfile
        profile = cProfile.Profile(builtins=False)
        profile.runcall(main)
        profile.dump_stats(sys.argv[1])
    else:
        main()
