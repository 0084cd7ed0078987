"""usage: recursion_errors.py OUT: runs into the recursion limit in many ways; writes {name: calls that ran}."""
import functools
import json
import sys
import threading

# no Counter: its __missing__ is a call, too
C = dict.fromkeys('__add__ __bool__ __call__ __eq__ __getattr__ __getitem__ __hash__ __init__ __iter__ __repr__ by_map by_max by_partial by_reduce by_sort catching co deep_then down down_args gen gen_for gen_sum leaf prop'.split(), 0)
LOCK = threading.Lock()


def down(n):
    C["down"] += 1
    return down(n + 1)


def down_args(n, *a, **k):
    C["down_args"] += 1
    return down_args(n + 1, *a, **k)


def by_max(n):
    C["by_max"] += 1
    return max([n], key=by_max)


def by_sort(n):
    C["by_sort"] += 1
    return [1].sort(key=by_sort)


def by_map(n):
    C["by_map"] += 1
    return list(map(by_map, [n]))


def by_partial(n):
    C["by_partial"] += 1
    return functools.partial(by_partial, n)()


def by_reduce(a, b):
    C["by_reduce"] += 1
    return functools.reduce(by_reduce, (1, 2))


class Init:
    def __init__(self, n):
        C["__init__"] += 1
        Init(n + 1)


class Attr:
    def __getattr__(self, name):
        C["__getattr__"] += 1
        return self.more


class Eq:
    def __eq__(self, other):
        C["__eq__"] += 1
        return other == self

    def __hash__(self):
        C["__hash__"] += 1
        return hash(self)

    def __repr__(self):
        C["__repr__"] += 1
        return repr([self])

    @property
    def prop(self):
        C["prop"] += 1
        return self.prop

    def __getitem__(self, i):
        C["__getitem__"] += 1
        return self[i]

    def __call__(self):
        C["__call__"] += 1
        return self()

    def __add__(self, other):
        C["__add__"] += 1
        return self + other

    def __iter__(self):
        C["__iter__"] += 1
        return iter(self)

    def __bool__(self):
        C["__bool__"] += 1
        return bool(self)


def gen(n):
    C["gen"] += 1
    yield from gen(n + 1)


def gen_sum(n):
    C["gen_sum"] += 1
    yield sum(gen_sum(n))


def gen_for(n):
    C["gen_for"] += 1
    for i in gen_for(n):
        yield i


async def co(n):
    C["co"] += 1
    await co(n + 1)


def catching(n):
    """Catches at every level and tries again once: the limit is hit again and again on the way up."""
    C["catching"] += 1
    try:
        return catching(n + 1)
    except RecursionError:
        return leaf()
    finally:
        leaf()


def leaf():
    C["leaf"] += 1
    return 1


def deep_then(f, n):
    C["deep_then"] += 1
    return deep_then(f, n - 1) if n else f(0)


def attempt(f, *args):
    try:
        f(*args)
    except RecursionError:
        return True
    return False


def everything():
    e, missed = Eq(), []
    for i in range(5):
        # 3.15 does not look at the limit in calls with stars: this would take all memory
        for f in (down, down_args if sys.version_info < (3, 15) else down, by_max, by_sort, by_map, by_partial, Init):
            if not attempt(f, 0):
                missed.append(f.__name__)
        attempt(by_reduce, 1, 2)
        attempt(lambda: Attr().more)
        attempt(lambda: e == Eq())
        attempt(hash, e)
        attempt(repr, e)
        attempt(lambda: e.prop)
        attempt(lambda: e[1])
        attempt(e)
        attempt(lambda: e + 1)
        attempt(iter, e)
        attempt(bool, e)
        attempt(lambda: next(gen(0)))
        attempt(lambda: next(gen_sum(0)))
        attempt(lambda: next(gen_for(0)))
        attempt(lambda: co(0).send(None))
        attempt(deep_then, down, 60)
        attempt(deep_then, by_max, 60)
        attempt(catching, 0)


sys.setrecursionlimit(150)
everything()
t = threading.Thread(target=everything)
t.start()
t.join()
with open(sys.argv[1], "w") as f:
    json.dump(C, f)
