"""A delegate that ignores GeneratorExit: the throws of the two come in the order in which they run."""

def inner():
    try:
        yield 1
    except GeneratorExit:
        yield 2
def outer():
    yield from inner()
it = outer()
next(it)
try:
    it.close()
except RuntimeError:
    pass
