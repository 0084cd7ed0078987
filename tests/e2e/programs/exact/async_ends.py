"""Asynchronous programs that end early: cancelled tasks, athrow, aclose, time-outs by hand, shielded, in groups."""
import asyncio
import contextlib


def note(*a):
    return a


class Turn:
    def __await__(self):
        try:
            yield
        finally:
            note("turn")


async def leaf(n):
    try:
        for _ in range(n):
            await Turn()
    except asyncio.CancelledError:
        note("cancelled")
        raise


async def stubborn(n):
    for _ in range(n):
        try:
            await Turn()
        except asyncio.CancelledError:
            note("not yet")
    return n


async def branch(n):
    async with Door():
        await leaf(n)


class Door:
    async def __aenter__(self):
        await Turn()
        return self

    async def __aexit__(self, kind, error, tb):
        await Turn()
        return False


async def numbers(n):
    try:
        for i in range(n):
            await Turn()
            got = yield i
            note(got)
    except ValueError:
        note("thrown")
        yield -1
    finally:
        await Turn()
        note("closed")


@getattr(contextlib, "asynccontextmanager", lambda f: lambda: Door())
async def managed():
    await Turn()
    try:
        yield 1
    finally:
        await Turn()


async def agens():
    a = numbers(5)
    await a.__anext__()
    await a.asend(1)
    await a.athrow(ValueError(1))
    await a.aclose()
    b = numbers(5)
    await b.__anext__()
    await b.aclose()
    c = numbers(3)
    await c.aclose()
    d = numbers(3)
    try:
        await d.athrow(ValueError(2))
    except ValueError:
        note("unstarted")
    e = numbers(3)
    async for i in e:
        if i == 1:
            break
    await e.aclose()
    try:
        async with managed():
            raise KeyError
    except KeyError:
        note("managed")


async def cancel(make, turns):
    t = asyncio.ensure_future(make)
    for _ in range(turns):
        await asyncio.sleep(0)
    t.cancel()
    try:
        await t
    except asyncio.CancelledError:
        note("gone")


async def main():
    for turns in range(5):
        await cancel(leaf(10), turns)
        await cancel(branch(10), turns)
        await cancel(stubborn(3), turns)
    await agens()
    await asyncio.gather(*[asyncio.ensure_future(c) for c in (leaf(2), branch(3), stubborn(1))])
    f = asyncio.gather(*[asyncio.ensure_future(c) for c in (leaf(20), branch(20))], return_exceptions=True)
    await asyncio.sleep(0)
    f.cancel()
    try:
        await f
    except asyncio.CancelledError:
        note("all gone")


loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
c = leaf(3)
c.send(None)
c.close()
c = branch(3)
c.send(None)
c.send(None)
try:
    c.throw(KeyError("x"))
except KeyError:
    note()
c = leaf(1)
c.close()
