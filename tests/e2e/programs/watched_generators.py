"""usage: watched_generators.py OUT [N]: many generators at once under a profile function, which in 3.11 is called where a generator
has not shown itself yet. It counts what it is told of."""
import collections
import json
import sys

TOLD = collections.Counter()


def told(frame, event, _arg):
    if event == "call" and frame.f_code.co_filename == __file__:
        TOLD[frame.f_code.co_name] += 1


def numbers(n):
    while True:
        yield n


def through(n):
    yield from numbers(n)


def work(n):
    all_of_them = [through(i) if i % 2 else numbers(i) for i in range(n)]
    for _ in range(3):
        for g in all_of_them:
            next(g)
    for g in all_of_them[::2]:
        g.close()
    for g in all_of_them[1::4]:
        try:
            g.throw(KeyError)
        except KeyError:
            pass


def main(n):
    sys.setprofile(told)
    for _ in range(2):
        work(n)
    sys.setprofile(None)


main(int(sys.argv[2]) if len(sys.argv) > 2 else 2500)
with open(sys.argv[1], "w", encoding="ascii") as f:
    json.dump(TOLD, f)
