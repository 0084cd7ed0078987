# SPDX-License-Identifier: Apache-2.0
"""A workload of known calls for every CPython from 3.6 on.

    plan_workload.py N            run the body N times
    plan_workload.py N truth      the same with the interpreter's own counts as JSON (sys.monitoring,
                                  from 3.12 on, else sys.setprofile)
    plan_workload.py N recurse    run N times into the recursion limit
"""
import json
import sys

THROWS = 2        # generators entered by throw() or close(), per pass
GENEXPRS = 1      # generator expressions started
SHIMS = 1         # __init__ called from Python code
CODES = 1         # code objects made and dropped


def leaf(x):
    return x + 1


def keyword(a, *, b=2, **more):
    return None


class Thing:
    def __init__(self, value):
        self.value = value

    @property
    def prop(self):
        return self.value

    def __getitem__(self, i):
        return i

    def method(self, x):
        return leaf(x)


def numbers(n):
    for i in range(n):
        yield i


def delegating(n):
    return (yield from numbers(n))


def raising():
    raise ValueError(1)


def passing_on():
    raising()


def catching():
    try:
        passing_on()
    except ValueError:
        return 1


def thrown_into():
    try:
        yield 1
    except KeyError:
        yield 2


async def coroutine_leaf():
    return 3


async def coroutine():
    return await coroutine_leaf()


class Awaitable:
    def __await__(self):
        yield 1
        return 5


async def awaiting():
    return await Awaitable()


def drive(c):
    try:
        while True:
            c.send(None)
    except StopIteration as e:
        return e.value


async def async_numbers():
    yield 1
    yield 2


async def async_loop():
    s = 0
    async for x in async_numbers():
        s += x
    return s


def body():
    leaf(1)
    keyword(1, b=3, c=4)
    keyword(*(1,), **{"b": 1})
    thing = Thing(1)
    thing.prop
    thing[2]
    thing.method(3)
    for _ in numbers(3):
        pass
    for _ in delegating(2):
        pass
    list(numbers(2))
    sum(x for x in (1, 2))
    catching()
    t = thrown_into()
    next(t)
    t.throw(KeyError())
    t.close()
    drive(coroutine())
    drive(awaiting())
    drive(async_loop())
    sorted([2, 1], key=leaf)
    [leaf(i) for i in (1, 2)]
    exec(compile("leaf(9)", "<x>", "exec"))


def main(n):
    for _ in range(n):
        body()


def truth(n):
    counts = {}

    def count(name):
        counts[name] = counts.get(name, 0) + 1

    if hasattr(sys, "monitoring"):
        tool, mask = sys.monitoring, 0
        tool.use_tool_id(2, "truth")
        for name in ("PY_START", "PY_RESUME", "PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND"):
            event = getattr(tool.events, name)
            tool.register_callback(2, event, lambda *a, name=name: count(name))
            mask |= event
        tool.set_events(2, mask)
        main(n)
        tool.set_events(2, 0)
    else:
        sys.setprofile(lambda frame, event, arg: event[:2] != "c_" and count(event))
        main(n)
        sys.setprofile(None)
    return counts


def recurse(n):
    def deeper():
        deeper()
    sys.setrecursionlimit(200)
    for _ in range(n):
        try:
            deeper()
        except RecursionError:
            pass


if __name__ == "__main__":
    times, mode = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    if mode == "truth":
        print(json.dumps(truth(times)))
    elif mode == "recurse":
        recurse(times)
    else:
        main(times)
