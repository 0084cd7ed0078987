# SPDX-License-Identifier: Apache-2.0
"""Generators that are closed early, or dropped, while they hold others: on their stack, as a loop does, or in a local."""


def note(what):
    return what


class Node:
    def __init__(self, left, value, right):
        self.left, self.value, self.right = left, value, right


def tree(n):
    return Node(tree(n - 1), n, tree(n - 1)) if n else None


def walk(node):
    if node:
        for value in walk(node.left):
            yield value
        yield node.value
        for value in walk(node.right):
            yield value


def first(node):
    for value in walk(node):
        return value


def chain(n):
    if n:
        for value in chain(n - 1):
            yield value
    else:
        yield 1


def careful():
    try:
        yield 1
    finally:
        note("careful")


class Finalized:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __del__(self):
        note("finalized")


def over_careful():
    for value in careful():
        yield value


def over_finalized():
    for value in Finalized():
        yield value


def over_both():
    for _ in over_careful():
        for _ in over_finalized():
            yield 1


def keeps_finalized():
    kept = Finalized()
    yield kept is None


def keeps_generator():
    kept = careful()
    yield next(kept)


def keeps_both():
    kept = over_careful()
    for value in kept:
        yield value


def expression():
    return (value for value in over_careful())


def delegates():
    yield from over_careful()


def closes_another():
    other = over_careful()
    next(other)
    try:
        yield 1
    finally:
        other.close()


for value in walk(tree(4)):
    if value == 3:
        break
first(tree(5))
for function in (over_careful, over_finalized, over_both, keeps_finalized, keeps_generator, keeps_both, expression, delegates, closes_another):
    for close in (True, False):
        g = function()
        next(g)
        if close:
            g.close()
        del g
        note(function.__name__)
for n in (1, 5, 14):
    g = chain(n)
    next(g)
    g.close()
    g = chain(n)
    next(g)
    try:
        g.throw(KeyError)
    except KeyError:
        note("thrown")
