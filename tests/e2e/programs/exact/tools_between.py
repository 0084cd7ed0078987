"""A tool of sys.monitoring that comes and goes between the calls, yields, throws and closes of what runs."""
import gc
import sys

mon = getattr(sys, "monitoring", None)
kinds = "PY_START PY_RESUME PY_YIELD PY_THROW PY_UNWIND PY_RETURN LINE CALL BRANCH INSTRUCTION".split()
watched = False


def leaf(x=0):
    return x


def toggle():
    global watched
    watched = not watched
    if mon:
        mon.set_events(3, sum(getattr(mon.events, k) for k in kinds) if watched else 0)


def numbers(n):
    try:
        for i in range(n):
            yield leaf(i)
    except ValueError:
        yield leaf(100)
    finally:
        leaf(7)


def recurse(n, at):
    if n == at:
        toggle()
    if n:
        recurse(n - 1, at)
    if n == at:
        toggle()
    return leaf(n)


def attempt(f, *args):
    try:
        return f(*args)
    except (KeyError, ValueError, StopIteration) as e:
        return leaf(type(e))


async def awaits(n):
    toggle()
    if n:
        await awaits(n - 1)
    toggle()
    return leaf(n)


async def stream(n):
    try:
        for i in range(n):
            toggle()
            yield leaf(i)
    finally:
        toggle()


async def walk(n, last):
    async for v in stream(n):
        if v == last:
            break
    s = stream(n)
    try:
        await s.asend(None)
        await s.athrow(KeyError)
    except KeyError:
        leaf()
    await s.aclose()


def drive(coro):
    try:
        while True:
            coro.send(None)
    except StopIteration as e:
        return leaf(e.value)


def generators():
    g = numbers(5)
    next(g)
    toggle()
    next(g)
    toggle()
    attempt(g.throw, ValueError)
    toggle()
    attempt(g.close)
    toggle()
    g = numbers(4)
    next(g)
    toggle()
    attempt(g.throw, KeyError)
    toggle()
    for v in numbers(6):
        if v == 3:
            toggle()
            break


def main():
    for _ in range(12):
        for at in range(6):
            recurse(5, at)
        generators()
        drive(awaits(4))
        drive(walk(4, 2))
        drive(walk(2, 5))
        toggle()
        sum(numbers(5))
        list(map(leaf, numbers(3)))
    if watched:
        toggle()


gc.disable()
if mon:
    mon.use_tool_id(3, "test")
    for kind in kinds:
        mon.register_callback(3, getattr(mon.events, kind), "".format)  # in C: the tool has no events of its own
main()
