# SPDX-License-Identifier: Apache-2.0
"""usage: opcodes.py OUT [own]: runs instructions of many kinds. With `own` it writes down each one that its functions run:
[function, offset, depth], as the interpreter itself tells (sys.monitoring, to 3.11 sys.settrace)."""
import sys


class Thing:
    def __init__(self, n):
        self.n = n

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return kind is KeyError

    @property
    def twice(self):
        return self.n * 2


def numbers(n):
    for i in range(n):
        got = yield i
        if got:
            yield got * 2


def delegate(n):
    yield from numbers(n)
    try:
        yield -1
    finally:
        pass


def closure(a):
    def inner(b):
        nonlocal a
        a += b
        return a
    return inner


def arithmetic(n):
    total, text, real = 0, "", 0.0
    for i in range(n):
        total = total + i * 3 - 1
        text = text + "x"
        real = real * 0.5 + i
        if i % 3 == 0 and total > 10 or text == "":
            total -= 1
        elif i % 5:
            total ^= i
    return total, len(text), real


def containers(n):
    things = [Thing(i) for i in range(n)]
    table = {t.n: t for t in things}
    total = 0
    for key, t in table.items():
        total += table[key].twice + t.n
        a, b = key, total
        a, b = b, a
    things[0] = things[-1]
    return sorted(things, key=lambda t: -t.n)[0].n + sum(t.n for t in things) + len({x for x in range(n)})


def raising(n):
    caught = 0
    for i in range(n):
        try:
            if i % 2:
                raise ValueError(i)
            with Thing(i):
                raise KeyError(i)
        except ValueError as e:
            caught += e.args[0]
        finally:
            caught += 1
    return caught


def recurse(n):
    return 0 if not n else 1 + recurse(n - 1)


class Pause:
    def __await__(self):
        yield


async def wait(n):
    await Pause()
    return n


async def gather(n):
    async def each():
        for i in range(n):
            yield await wait(i)
    return [x async for x in each()]


def match(x):
    a = [1, 2, *x]
    b = {**{"k": 1}, "l": 2}
    return f"{a!r} {b['k']:>4}" + str(a[1:2])


def work():
    out = [arithmetic(40), containers(9), raising(8), recurse(12), match((3, 4))]
    add = closure(1)
    out += [add(i) for i in range(12)]
    out += list(delegate(5))
    g = numbers(3)
    out += [next(g), g.send(7), next(g)]
    g.close()
    d = delegate(3)
    next(d)
    global throwing
    throwing = True
    try:
        d.throw(KeyError("in"))
    except KeyError:
        out.append("out")
    throwing = False
    task = gather(3)
    try:
        while 1:
            task.send(None)
    except StopIteration as e:
        out.append(e.value)
    return out


def all_code(code):
    yield code
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            yield from all_code(c)


CODES = {c for f in (work, arithmetic, containers, raising, recurse, wait, gather, match, closure, delegate, numbers,
                     Pause.__await__, Thing.__init__, Thing.__enter__, Thing.__exit__, Thing.twice.fget) for c in all_code(f.__code__)}
seen, throwing = [], False


def depth(frame):
    """0: not to be compared. A generator that something is thrown through is on the stack and has made no call."""
    if throwing:
        return 0
    n = 0
    while frame:
        n += 1
        frame = frame.f_back
    return n


def by_monitoring():
    m = sys.monitoring
    m.use_tool_id(3, "own")
    m.register_callback(3, m.events.INSTRUCTION,
                        lambda code, offset: seen.append((code.co_qualname, offset, depth(sys._getframe(1)))))
    for code in CODES:
        m.set_local_events(3, code, m.events.INSTRUCTION)
    work()
    for code in CODES:
        m.set_local_events(3, code, 0)


def by_settrace():
    def each(frame, event, arg):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            seen.append((frame.f_code.co_qualname, frame.f_lasti, depth(frame)))
        return each

    def call(frame, event, arg):
        if frame.f_code not in CODES:
            return None
        return each(frame, event, arg)

    sys.settrace(call)
    work()
    sys.settrace(None)


def close_runs():
    """Whether close() runs a generator that catches nothing. 3.12.3 does so only while it is looked at, and leaves what it holds."""
    def hold(thing):
        yield thing
    thing = object()
    g = hold(thing)
    next(g)
    held = sys.getrefcount(thing)
    g.close()
    return sys.getrefcount(thing) < held


if len(sys.argv) > 2:
    (by_monitoring if sys.version_info >= (3, 12) else by_settrace)()
else:
    for _ in range(4):
        work()
with open(sys.argv[1], "w") as f:
    f.write(repr({"seen": seen, "codes": sorted(c.co_qualname for c in CODES), "close_runs": close_runs()}))
