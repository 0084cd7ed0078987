"""requests.py SECONDS EVERY_MS: serves made-up requests; the one after each EVERY_MS is slow (60 ms), also in a coroutine.
Prints, of handle() and of answer(), how many took more than 40 ms and how many came near that, as the program sees it."""
import asyncio
import sys
import time

slow = {"handle": 0, "answer": 0}
near = {"handle": 0, "answer": 0}


def note(name, seconds):
    slow[name] += seconds > 0.04
    near[name] += 0.035 < seconds <= 0.045


def query(seconds):
    time.sleep(seconds)


def handle(seconds):
    query(seconds)


async def answer(seconds):
    start = time.monotonic()
    await asyncio.sleep(seconds / 2)
    await asyncio.sleep(seconds / 2)
    note("answer", time.monotonic() - start)


async def both(seconds):
    await asyncio.gather(answer(seconds), answer(0.001))


def main():
    loop = asyncio.new_event_loop()
    end = time.monotonic() + float(sys.argv[1])
    due = time.monotonic() + float(sys.argv[2]) / 1000
    while time.monotonic() < end:
        seconds = 0.001
        if time.monotonic() >= due:
            due = time.monotonic() + float(sys.argv[2]) / 1000
            seconds = 0.06
        start = time.monotonic()
        handle(seconds)
        note("handle", time.monotonic() - start)
        if seconds > 0.01:
            loop.run_until_complete(both(seconds))
    print(slow["handle"], near["handle"], slow["answer"], near["answer"])


main()
