"""usage: thrown.py N: events that have no probe of their own, over and over: throws, chains of delegation, close()."""
import sys


def leaf():
    return 1


def catcher():
    while True:
        try:
            yield 1
        except ValueError:
            leaf()


def stubborn():
    try:
        yield 1
    finally:
        leaf()


def chain(n):
    if n:
        yield from chain(n - 1)
    else:
        yield from catcher()


def main(n):
    catchers = [chain(depth) for depth in (0, 0, 3, 20)]
    for g in catchers:
        next(g)
    for _ in range(n):
        for g in catchers:
            g.throw(ValueError())
        leaf()
        g = stubborn()
        next(g)
        g.close()
        g = catcher()
        next(g)
        del g
        leaf()


main(int(sys.argv[1]))
