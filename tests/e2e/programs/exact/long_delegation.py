"""Throws through chains of generators that delegate to each other, up to 200 long."""
def helper(): return 1
def inner():
    while True:
        try: yield 1
        except ValueError: helper(); yield 2
def chain(n):
    if n == 0: yield from inner()
    else: yield from chain(n - 1)
def base(k):
    g = chain(k); next(g); g.throw(ValueError()); helper(); return g
def main():
    for k in (1, 7, 8, 12, 17, 60, 200):
        keep = base(k); helper()
main()
