"""Functions that end by return(), and raises() and passes(), which end by an exception: of every kind of value that a compiler of
the interpreter may have given a way of its own, with no hook, and under each kind of hook."""
import sys


def small():
    return 4


def text():
    return "e 1"  # no name: not interned, and so not immortal


def nothing():
    return


def pair():
    return (1, 2)


def number():
    return 123456789


def argument(x):
    return x


def generator():
    yield "a b"
    return "c d"


async def coroutine():
    return "x y"


def made():
    return (lambda: "z z")()


class Thing:
    def __init__(self):
        self.a = "q q"

    def __call__(self):
        return "w w"

    @property
    def value(self):
        return 12345678


def raises():
    raise KeyError("k k")


def passes():
    raises()


def at_last():
    try:
        return "u u"
    finally:
        nothing()


def within():
    with open(__file__, encoding="utf-8"):
        return "v v"


def handled():
    try:
        raises()
    except KeyError:
        return "h h"


def ended(call, *args):
    try:
        call(*args)
    except (KeyError, StopIteration):
        return "t t"
    return None


def run():
    for _ in range(20):  # so that they are specialised
        for call in (small, text, nothing, pair, number, made, at_last, within, handled):
            call()
        argument("a b")
        list(generator())
        Thing()()
        argument(Thing().value)
        ended(coroutine().send, None)
        ended(passes)


def hook(*args):
    return hook


run()
sys.setprofile(hook)
run()
sys.setprofile(None)
sys.settrace(hook)
run()
sys.settrace(None)
if sys.version_info >= (3, 12):
    EVENTS = sys.monitoring.events
    sys.monitoring.use_tool_id(2, "returns")
    sys.monitoring.register_callback(2, EVENTS.PY_RETURN, lambda *args: None)
    sys.monitoring.set_events(2, EVENTS.PY_START | EVENTS.PY_RETURN | EVENTS.INSTRUCTION)
    run()
    sys.monitoring.set_events(2, 0)
run()
