"""usage: linked.py LOOPS [told]: threads that wait in the middle of a throw() through generators that delegate, and of a send(). With each line
that comes in they go on: to LOOPS calls and another wait, then to their end. "told": and in trace functions, of which each kind of event
is told."""
import os
import sys
import threading

loops, told = int(sys.argv[1]), sys.argv[2:] == ["told"]
waits = [threading.Semaphore(0), threading.Semaphore(0)]
up = threading.Semaphore(0)


def leaf(): pass
def after(): pass


def hold():
    up.release()
    waits[0].acquire()
    for _ in range(loops):
        leaf()
    up.release()
    waits[1].acquire()
    leaf()


def inner():
    try:
        yield 1
    except KeyError:
        hold()
        yield 2


def sent():
    yield 1
    hold()
    yield 2


def outer(n, to): yield from (outer(n - 1, to) if n else to)
async def awaits(n, to): await (awaits(n - 1, to) if n else to)


class Own:
    """What is thrown in comes to a function, not to a generator."""
    def __init__(self, to): self.to = to
    def __iter__(self): return self
    def __await__(self): return self
    def __next__(self): return next(self.to)
    def throw(self, *what): return self.to.throw(KeyError)


class Awaited:
    def __init__(self, to): self.to = to
    def __await__(self): return (yield from self.to)


def go(case, n):
    if n:
        return go(case, n - 1)
    case()
    after()


def throw(g):
    g.send(None)
    assert g.throw(KeyError) == 2


def send(g):
    g.send(None)
    assert g.send(3) == 2 if g.__class__.__name__ != "generator" else next(g) == 2


def thrown(): throw(outer(0, inner()))
def thrown_far(): throw(outer(5, inner()))
def thrown_own(): throw(outer(2, Own(inner())))
def thrown_await(): throw(awaits(3, Awaited(inner())))
def thrown_await_own(): throw(awaits(3, Own(inner())))
def sent_far(): send(outer(5, sent()))
def sent_await(): send(awaits(3, Awaited(sent())))


def watched_body():
    yield 1
    yield 2


def watched_await(): yield from watched_body()


def watch(event, times, g):
    """Waits in the trace function when it is told so often of this event of watched_await()."""
    def tool(frame, what, arg):
        if what == event and frame.f_code.co_name == "watched_await":
            seen.append(1)
            if len(seen) == times:
                hold()
        return tool
    seen = []
    sys.settrace(tool)
    next(g)
    next(g)
    next(g, None)
    sys.settrace(None)


def told_call(): watch("call", 1, watched_await())
def told_resume(): watch("call", 2, watched_await())
def told_line(): watch("line", 1, watched_await())
def told_yield(): watch("return", 1, watched_await())
def told_return(): watch("return", 3, watched_await())


cases = [thrown, thrown_far, thrown_own, thrown_await, thrown_await_own, sent_far, sent_await]
if told:
    cases += [told_call, told_resume, told_line, told_yield, told_return]
sys.setrecursionlimit(5000)
threads = [threading.Thread(target=go, args=(case, depth)) for case in cases for depth in (0, 200)]
for which in range(2):
    for thread in threads if which == 0 else ():
        thread.start()
    for thread in threads:
        up.acquire()
    os.write(1, b"%d\n" % len(threads))
    os.read(0, 1)
    for thread in threads:
        waits[which].release()
for thread in threads:
    thread.join()
os.write(1, b"done\n")
os.read(0, 1)
