"""Something is thrown through generators and coroutines that delegate, and Python code is called before the innermost frame shows itself:
the exception's `__init__`, or methods of an iterator that is delegated to."""


class Told(Exception):
    def __init__(self, *args):
        leaf(args)


class Steps:
    def __init__(self, ends):
        self.ends = ends

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __await__(self):
        return self

    def send(self, value):
        return leaf(value)

    def throw(self, *args):
        leaf(args)
        if self.ends:
            raise self.ends(7)
        return 2

    def close(self):
        leaf(5)


def leaf(x):
    return 7


def generators(n, ends):
    if n:
        value = yield from generators(n - 1, ends)
    else:
        value = yield from Steps(ends)
    leaf(value)
    yield 3


async def coroutines(n, ends):
    if n:
        return await coroutines(n - 1, ends)
    try:
        return await Steps(ends)
    finally:
        leaf(n)


def plain(n, _):
    if n:
        yield from plain(n - 1, _)
    else:
        yield 1


def run(make, n, ends, thrown):
    chain = make(n, ends)
    chain.send(None)
    try:
        chain.send(4)
        chain.throw(thrown)
        leaf(1)
        chain.throw(thrown)
    except (Told, KeyError, ValueError, StopIteration):
        leaf(2)
    leaf(3)
    chain.close()
    leaf(4)


for n in list(range(9)) + [40]:
    for make in generators, coroutines, plain:
        for ends in None, KeyError:
            for thrown in Told, ValueError, ValueError():
                run(make, n, ends, thrown)
