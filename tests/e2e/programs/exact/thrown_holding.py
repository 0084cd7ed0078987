# SPDX-License-Identifier: Apache-2.0
"""What a generator holds when something is thrown into it, and it has no handler: that ends, or runs, before it does."""


def note(what):
    return what


def careful():
    try:
        yield 1
        yield 2
    finally:
        note("careful")


def plain():
    yield 1


class Finalized:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __del__(self):
        note("finalized")


def over_careful():
    for v in careful():
        yield v


def over_plain():
    for v in plain():
        yield v


def over_finalized():
    for v in Finalized():
        yield v


def delegates():
    yield from over_careful()


def handles():
    try:
        for v in careful():
            yield v
    except ValueError:
        note("handled")
        yield 9


def keeps_local():
    kept = Finalized()
    yield kept is None


for function in (over_careful, over_plain, over_finalized, delegates, handles, keeps_local):
    for _ in range(3):
        g = function()
        next(g)
        try:
            g.throw(ValueError)
        except ValueError:
            note(function.__name__)
