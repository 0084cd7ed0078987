"""throw() and close() through delegation: the innermost generator gets it first."""
def note(): pass
def inner_dies():
    yield 1
def inner_catches():
    try:
        yield 1
    except ValueError:
        note()
    yield 2
def inner_catches_quiet():
    try:
        yield 1
    except ValueError:
        yield 3
    yield 2
def inner_final():
    try:
        yield 1
    finally:
        note()
def outer(g):
    yield from g()
def outer2(g):
    yield from outer(g)
def go(o, g):
    it = o(g)
    next(it)
    try:
        it.throw(ValueError(1))
    except ValueError:
        note()
    it.close()
    note()
for o in outer, outer2:
    for g in inner_dies, inner_catches, inner_catches_quiet, inner_final:
        go(o, g)
