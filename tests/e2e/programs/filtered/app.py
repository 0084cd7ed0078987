"""app.py [ROUNDS]: calls between app, shapes and pkg.inner of every kind that a stack can see, the same in each run."""
import sys
import threading

import shapes
from pkg import inner


def leaf():
    return 1


def back(n):
    """Called by shapes."""
    return leaf() + n


def climb(n):
    """Recursion that alternates between the files."""
    return shapes.climb(n - 1, climb) + 1 if n else leaf()


def consume(source):
    total = 0
    for value in source:
        total += back(value)
    return total


def throw_into():
    chain = shapes.delegates(inner.numbers(3))
    next(chain)
    try:
        chain.throw(KeyError("k"))
    except KeyError:
        leaf()
    abandoned = inner.numbers(5)
    next(abandoned)
    abandoned.close()


def failing(n):
    if not n:
        raise ValueError(n)
    shapes.through(failing, n - 1)


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


async def waits(n):
    for _ in range(n):
        await shapes.Pause()
        leaf()
    return await inner.nested(n, leaf)


def made(n):
    """Code of a file that does not exist, new in each call, and freed."""
    space = {"leaf": leaf}
    exec(compile("def short(n):\n    return leaf() + n\n", "/made/up%d.py" % (n % 2), "exec"), space)
    return space["short"](n)


def work(rounds):
    for n in range(rounds):
        shapes.each(back, 3)
        consume(inner.numbers(4))
        consume(shapes.doubled(inner.numbers(3)))
        throw_into()
        try:
            failing(4)
        except ValueError:
            leaf()
        drive(waits(2))
        made(n)
        inner.Thing(leaf).use()
    climb(700)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    sys.setrecursionlimit(5000)
    thread = threading.Thread(target=work, args=(rounds,))
    thread.start()
    thread.join()
    work(rounds)


main()
