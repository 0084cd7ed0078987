# SPDX-License-Identifier: Apache-2.0
"""Goes quickly from one call chain to the next; below main there are only three."""
import sys
import time


def red2(n):
    return n + 1


def red1(n):
    return red2(n) + red2(n)


def red0(n):
    return red1(n)


def green2(n):
    return [n] * 3


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


def main():
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        for i in range(2000):
            red0(i)
            green0(i)
            blue0(3)


main()
