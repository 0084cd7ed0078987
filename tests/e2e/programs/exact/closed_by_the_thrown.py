"""A generator that was thrown into closes another one before it has an event of its own."""


def inner():
    yield 1


def victim():
    g = inner()
    next(g)
    try:
        yield 1
    finally:
        g.close()


for _ in range(3):
    v = victim()
    next(v)
    try:
        v.throw(KeyError)
    except KeyError:
        pass
