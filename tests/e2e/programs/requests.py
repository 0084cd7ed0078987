"""requests.py SECONDS EVERY_MS: serves made-up requests; the one after each EVERY_MS is slow (60 ms), also in a coroutine.
Prints how many were slow."""
import asyncio
import sys
import time

slow = 0


def query(seconds):
    time.sleep(seconds)


def handle(seconds):
    query(seconds)


async def answer(seconds):
    await asyncio.sleep(seconds / 2)
    await asyncio.sleep(seconds / 2)


async def both(seconds):
    await asyncio.gather(answer(seconds), answer(0.001))


def main():
    global slow
    loop = asyncio.new_event_loop()
    end = time.monotonic() + float(sys.argv[1])
    due = time.monotonic() + float(sys.argv[2]) / 1000
    while time.monotonic() < end:
        seconds = 0.001
        if time.monotonic() >= due:
            due = time.monotonic() + float(sys.argv[2]) / 1000
            seconds = 0.06
            slow += 1
        handle(seconds)
        if seconds > 0.01:
            loop.run_until_complete(both(seconds))
    print(slow)


main()
