"""What is thrown into a generator's or a coroutine's delegate comes back as a value, and whoever delegates goes on: what that calls
is its own. So it is not where the delegate is closed, or yields once more."""
import asyncio


def work():
    return sum(range(1000))


def answers():
    try:
        yield 1
    except KeyError:
        return 2


def yields():
    try:
        yield 1
    except KeyError:
        yield 2
    return 3


def delegates(to):
    try:
        return (yield from to)
    finally:
        work()


def run(generator, closes=False):
    next(generator)
    if closes:
        generator.close()
        return
    try:
        generator.throw(KeyError)
        next(generator)
    except StopIteration:
        pass


async def catches():
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return 1
    return 0


async def awaits():
    await catches()
    work()
    await asyncio.sleep(0)
    work()


async def main():
    task = asyncio.ensure_future(awaits())
    await asyncio.sleep(0.001)
    task.cancel()
    await task


for _ in range(5):
    for make in (answers, yields):
        run(delegates(make()))
        run(delegates(delegates(make())))
        run(delegates(make()), closes=True)
    asyncio.new_event_loop().run_until_complete(main())
