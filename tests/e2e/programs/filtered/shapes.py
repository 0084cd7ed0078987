"""What app.py goes through."""


def each(call, n):
    return [call(i) for i in range(n)]


def climb(n, call):
    return call(n) + 1 if n else 0


def delegates(source):
    yield from source


def doubled(source):
    for value in source:
        yield value * 2


def through(call, *args):
    try:
        return call(*args)
    finally:
        noted()


def noted():
    return None


class Pause:
    def __await__(self):
        yield
