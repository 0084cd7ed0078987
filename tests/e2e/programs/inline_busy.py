"""usage: inline_busy.py SECONDS FLAG [STEPS]: four threads of calls, generators, exceptions and code objects that come and go (one
in so many steps, default 1), until FLAG exists. Checks all its results: "fine". SIGUSR1 begins another thread."""
import asyncio
import os
import signal
import sys
import threading
import time

END = time.monotonic() + float(sys.argv[1])
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
BAD = []


def add(a, b):
    return a + b


def numbers(n):
    try:
        yield from range(n)
    except KeyError:
        yield -1


class Thing:
    def __init__(self, v):
        self.v = v

    def __del__(self):
        add(1, 2)


def fail(n):
    if n:
        fail(n - 1)
    raise ValueError(n)


async def later(n):
    await asyncio.sleep(0)
    return n


def expect(what, got, want):
    if got != want:
        BAD.append((what, got, want))


def step(n):
    total = 0
    for i in range(50):
        total = add(total, i)
        Thing(i)
    expect("add", total, 1225)
    expect("numbers", sum(numbers(20)), 190)
    g = numbers(5)
    next(g)
    expect("throw", g.throw(KeyError), -1)
    g.close()
    try:
        fail(10)
        BAD.append("fail")
    except ValueError as e:
        expect("fail", e.args, (0,))
    if n % STEPS:
        return
    namespace = {}
    exec("def f%d(x):\n    return x + %d\n" % (n % 97, n % 13), namespace)
    expect("exec", namespace["f%d" % (n % 97)](1), 1 + n % 13)


def work(k):
    n = 0
    loop = asyncio.new_event_loop() if k == 0 else None
    while time.monotonic() < END and not os.path.exists(sys.argv[2]):
        n += 1
        step(n)
        if k == 0 and n % 10 == 0:
            expect("later", loop.run_until_complete(later(n)), n)
        if k == 1:
            time.sleep(0.0003)


signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=add, args=(1, 2)).start())
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
print("up", flush=True)
for t in threads:
    t.start()
for t in threads:
    t.join()
print(BAD[:3] if BAD else "fine", flush=True)
sys.exit(1 if BAD else 0)
