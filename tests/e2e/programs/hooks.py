"""usage: hooks.py OUT: sys.settrace, sys.setprofile and sys.monitoring come and go while functions run; writes {name: calls}."""
import collections
import json
import sys
import threading

C = collections.Counter()


def work(n):
    C["work"] += 1
    return step(n) + sum(numbers(n))


def step(n):
    C["step"] += 1
    return n and step(n - 1)


def numbers(n):
    C["numbers"] += 1
    for i in range(n):
        yield i


def failing(n):
    C["failing"] += 1
    if n == 0:
        raise ValueError
    failing(n - 1)


def trace(frame, event, arg):
    C["trace"] += 1
    return trace


def profile(frame, event, arg):
    C["profile"] += 1


def some():
    C["some"] += 1
    work(5)
    try:
        failing(4)
    except ValueError:
        pass
    g = numbers(3)
    next(g)
    g.close()


def switched_inside(on, off):
    C["switched_inside"] += 1
    step(1)
    on()
    step(2)
    some()
    off()
    step(3)


def monitor(*args):
    C["monitor"] += 1


def on_monitoring():
    m = sys.monitoring
    m.use_tool_id(3, "test")
    e = m.events
    for event in (e.PY_START, e.PY_RETURN, e.PY_RESUME, e.PY_YIELD, e.PY_UNWIND, e.PY_THROW, e.LINE, e.CALL, e.INSTRUCTION):
        m.register_callback(3, event, monitor)
    m.set_events(3, e.PY_START | e.PY_RETURN | e.PY_RESUME | e.PY_YIELD | e.PY_UNWIND | e.PY_THROW | e.LINE | e.CALL | e.INSTRUCTION)


def off_monitoring():
    sys.monitoring.set_events(3, 0)
    sys.monitoring.free_tool_id(3)


pairs = [(lambda: sys.settrace(trace), lambda: sys.settrace(None)),
         (lambda: sys.setprofile(profile), lambda: sys.setprofile(None))]
if hasattr(sys, "monitoring"):
    pairs.append((on_monitoring, off_monitoring))
for _ in range(5):
    some()
    for on, off in pairs:
        switched_inside(on, off)
    suspended = numbers(5)
    next(suspended)
    for on, off in pairs:
        on()
        next(suspended)
        off()
    next(suspended)
    suspended.close()
    for on, off in pairs:
        threading.settrace(trace)
        t = threading.Thread(target=some)
        t.start()
        t.join()
        threading.settrace(None)
for _ in range(200):
    some()
with open(sys.argv[1], "w") as f:
    json.dump(C, f)
