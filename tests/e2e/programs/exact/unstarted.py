"""Generators that never began: dropped, closed, thrown into."""
def note(): pass
def g(x):
    yield x
    note()
def drop():
    it = g(1)
    it = None
    note()
def close():
    it = g(1)
    it.close()
    note()
def thr():
    it = g(1)
    try:
        it.throw(ValueError)
    except ValueError:
        note()
drop()
close()
thr()
