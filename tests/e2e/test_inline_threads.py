# SPDX-License-Identifier: Apache-2.0
"""Threads that run at once, with the inline engine: the first ones have a ring each, which come and go with them."""
import collections
import json
import signal
import subprocess

import pytest

import lib
from test_inline import INLINE
from test_inline_robust import LOST_MODE, word

THREADS = lib.pick("3.12", "3.13t")
WAIT = ["--on-full", "wait"]
BEGIN = ("import json, sys, threading\n"
         "def run(*targets):\n"
         "    threads = [threading.Thread(target=t, args=(i,)) for i, t in enumerate(targets)]\n"
         "    for t in threads: t.start()\n"
         "    for t in threads: t.join()\n")


def traced(name, tmp_path, code, *options):
    """The events of the program's own, and what it wrote to its file."""
    prog, out = tmp_path / "prog.py", tmp_path / "out"
    prog.write_text(BEGIN + code)
    seen, _ = lib.traced(lib.command(name) + [prog, out], tmp_path, *INLINE, *options, timeout=300)
    seen.whole()
    return seen, seen.of(prog), json.loads(out.read_text())


@pytest.mark.parametrize("name", THREADS + lib.musl())
def test_threads_that_come_and_go(name, tmp_path):
    """More than there are rings, at once and one after the other: each has its own calls. A thread gets the memory of one before it."""
    _, own, want = traced(name, tmp_path, (
        "calls, lock = [], threading.Lock()\n"
        "def call(): pass\n"
        "def thread(i):\n"
        "    gate.wait()\n"
        "    for _ in range(100 + i): call()\n"
        "    with lock: calls.append((threading.get_native_id(), 100 + i))\n"
        "for cnt in (1, 1, 1, 4, 50, 3) + 60 * (2,) + (40, 5):\n"
        "    gate = threading.Barrier(cnt)\n"
        "    run(*[thread] * cnt)\n"
        "json.dump(calls, open(sys.argv[1], 'w'))\n"), *WAIT)
    got = collections.Counter(e["tid"] for e in own if e["ev"] == "call" and e["name"] == "call")
    assert got == collections.Counter({tid: cnt for tid, cnt in want}) and len(want) == 225


@pytest.mark.parametrize("name", lib.every() if lib.LONG else lib.families())
def test_a_thread_in_the_memory_of_the_last_one(name, tmp_path):
    """Who starts them calls nothing meanwhile, so the one that wrote last is the one that had this pthread_self() before."""
    _, own, want = traced(name, tmp_path, (
        "import _thread, time\n"
        "sys.setswitchinterval(1e-6)\n"
        "done, sleep, tid = [], time.sleep, getattr(threading, 'get_native_id', lambda: None)\n"
        "append, cnt = done.append, done.__len__\n"
        "def call(): pass\n"
        "def thread():\n"
        "    call()\n"
        "    sleep(0)\n"
        "    call()\n"
        "    append(tid())\n"
        "for i in range(60):\n"
        "    _thread.start_new_thread(thread, ())\n"
        "    while cnt() <= i: sleep(0)\n"
        "    if i % 3 == 0: call()\n"
        "sleep(0.1)\n"
        "json.dump(done, open(sys.argv[1], 'w'))\n"))
    got = collections.Counter((e["tid"], e["name"]) for e in own if e["ev"] == "call")
    threads = [tid for tid, name in got if name == "thread"]
    assert len(threads) == 60 and {got[tid, what] for tid in threads for what in ("thread", "call")} == {1, 2}
    assert want[0] is None or set(threads) == set(want)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_thread_with_the_number_of_the_last_one(name, tmp_path):
    """That was seen to end by then, and where it would be forgotten, a second later, the one that has its tid and its memory is in a call."""
    prog, out, capture = tmp_path / "prog.py", tmp_path / "out", tmp_path / "t.pyebpf"
    prog.write_text("import _thread, json, os, sys, time\n"
                    "selves, sleep, start, write = [], time.sleep, _thread.start_new_thread, os.pwrite\n"
                    "last = os.open('/proc/sys/kernel/ns_last_pid', os.O_WRONLY)\n"
                    "def call(): pass\n"
                    "def thread():\n"
                    "    call()\n"
                    "    sleep(1.1)\n"
                    "    call()\n"
                    "    selves.append(_thread.get_ident())\n"
                    "for _ in range(2):\n"
                    "    write(last, b'5000', 0)\n"
                    "    start(thread, ())\n"
                    "    sleep(2.2)\n"
                    "json.dump(selves, open(sys.argv[1], 'w'))\n")
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    got = {}
    for _ in range(4):
        with lib.started(inside + [lib.BINARY, "trace", "--force", *INLINE, "-o", capture, "--"] + lib.command(name) + [prog, out], stderr=-1) as tracer:
            lib.finish(tracer, 0, 120)
        seen, selves = lib.Trace(capture), json.loads(out.read_text())
        seen.whole()
        got = collections.Counter((e["tid"], e["name"], e["ev"]) for e in seen.of(prog) if e["name"] in ("thread", "call"))
        if {tid for tid, _, _ in got} == {5001}:
            break  # else somebody else was born between the write and the start of the thread, and has that number
    assert got == {(5001, "thread", "call"): 2, (5001, "thread", "return"): 2, (5001, "call", "call"): 4, (5001, "call", "return"): 4}, got
    assert len(set(selves)) == 1 and seen.meta["generated"] == seen.meta["written"]


@pytest.mark.parametrize("name", THREADS)
def test_rings_are_given_on(name, tmp_path):
    """Those that have ended are seen to, in a second: others can have their rings."""
    _, own, want = traced(name, tmp_path, (
        "import time\n"
        "calls, lock = [], threading.Lock()\n"
        "def call(): pass\n"
        "def thread(i):\n"
        "    gate.wait()\n"
        "    for _ in range(1000): call()\n"
        "    with lock: calls.append((threading.get_native_id(), 1000))\n"
        "for _ in range(3):\n"
        "    gate = threading.Barrier(40)\n"
        "    run(*[thread] * 40)\n"
        "    time.sleep(2.5)\n"
        "json.dump(calls, open(sys.argv[1], 'w'))\n"), *WAIT)
    got = collections.Counter(e["tid"] for e in own if e["ev"] == "call" and e["name"] == "call")
    assert got == collections.Counter({tid: cnt for tid, cnt in want}) and len(want) == 120


@pytest.mark.parametrize("name", THREADS)
def test_code_objects_go_from_thread_to_thread(name, tmp_path):
    """Made in one, called in all, freed in another one, and their addresses come again at once."""
    seen, _, want = traced(name, tmp_path, (
        "import queue\n"
        "def make(i):\n"
        "    ns = {}\n"
        "    exec(compile('\\n' * (i % 50) + 'def f%d(): return %d' % (i, i), 'file%d' % i, 'exec'), ns)\n"
        "    return ns.pop('f%d' % i)\n"
        "first, last = queue.Queue(50), [queue.Queue(50) for _ in range(2)]\n"
        "def maker(n):\n"
        "    for i in range(2000 * n, 2000 * n + 2000):\n"
        "        f = make(i)\n"
        "        assert f() == i\n"
        "        first.put((i, f))\n"
        "def caller(n):\n"
        "    for _ in range(2000):\n"
        "        i, f = first.get()\n"
        "        assert f() == i\n"
        "        last[n % 2].put((i, f))\n"
        "def ender(n):\n"
        "    for _ in range(2000):\n"
        "        i, f = last[n % 2].get()\n"
        "        assert f() == i\n"
        "        del f\n"
        "run(maker, maker, caller, caller, ender, ender)\n"
        "json.dump(4000, open(sys.argv[1], 'w'))\n"), *WAIT)
    got = collections.Counter((e["file"], e["name"], e["line"]) for e in seen.events
                              if e["ev"] == "call" and e["name"].startswith("f") and e["file"].startswith("file"))
    assert got == collections.Counter({("file%d" % i, "f%d" % i, i % 50 + 1): 3 for i in range(want)})


@pytest.mark.parametrize("name", THREADS)
def test_generators_go_from_thread_to_thread(name, tmp_path):
    """Each runs by turns in several threads, one at a time, through another one that it delegates to, too."""
    _, own, want = traced(name, tmp_path, (
        "import queue\n"
        "def inner(n):\n"
        "    try:\n"
        "        for i in range(n): yield i\n"
        "    except KeyError:\n"
        "        yield -1\n"
        "def outer(n): yield from inner(n)\n"
        "ring, ended = [queue.Queue() for _ in range(4)], queue.Queue()\n"
        "def turn(n):\n"
        "    for g, left in iter(ring[n].get, None):\n"
        "        if left > 1: next(g)\n"
        "        elif left: assert g.throw(KeyError) == -1\n"
        "        else: g.close()\n"
        "        ring[(n + 1) % 4].put((g, left - 1)) if left else ended.put(1)\n"
        "def feed(n):\n"
        "    for i in range(400): ring[i % 4].put((outer(100), 21))\n"
        "    for i in range(400): ended.get()\n"
        "    for q in ring: q.put(None)\n"
        "run(turn, turn, turn, turn, feed)\n"
        "json.dump(400, open(sys.argv[1], 'w'))\n"), *WAIT)
    got = collections.Counter((e["name"], e["ev"]) for e in own if e["name"] in ("inner", "outer"))
    assert got[("inner", "call")] == got[("outer", "call")] == want
    # 20 times forth, once by a throw, which the outer one does not see, and closed
    assert got[("inner", "yield")] == 21 * want and got[("outer", "yield")] == 20 * want, got
    assert got[("inner", "unwind")] == got[("outer", "unwind")] == want, got


@pytest.mark.parametrize("name", THREADS[-1:])
def test_who_loses_events(name, tmp_path):
    """A ring that runs over is one thread's: the other ones' calls are all there, and the gaps have the exact number."""
    prog, out, capture = tmp_path / "prog.py", tmp_path / "out", tmp_path / "t.pyebpf"
    prog.write_text(BEGIN + "import os, time\n"
                    "ended, calls = threading.Event(), {}\n"
                    "def call(): pass\n"
                    "def busy(n):\n"
                    "    cnt = 0\n"
                    "    while not ended.is_set():\n"
                    "        for _ in range(1000): call()\n"
                    "        time.sleep(0.002)\n"
                    "        cnt += 1000\n"
                    "    calls[threading.get_native_id()] = cnt\n"
                    "def calm(n):\n"
                    "    cnt = 0\n"
                    "    while not ended.is_set():\n"
                    "        time.sleep(0.002); call()\n"
                    "        cnt += 1\n"
                    "    calls[threading.get_native_id()] = cnt\n"
                    "def end(n): input(); ended.set()\n"
                    "print(os.getpid(), flush=True)\n"
                    "run(busy, calm, calm, end)\n"
                    "json.dump(calls, open(sys.argv[1], 'w'))\n")
    with lib.started([lib.BINARY, "trace", *INLINE, "--ring", "256K", "-o", capture, "--"] + lib.command(name) + [prog, out],
                     stdin=-1, stderr=-1) as tracer:
        pid = int(tracer.stdout.readline())
        for _ in range(2):
            tracer.send_signal(signal.SIGSTOP)
            lib.until(lambda: word(pid, LOST_MODE), "a loss")
            tracer.send_signal(signal.SIGCONT)
            lib.until(lambda: not word(pid, LOST_MODE), "the end of it")
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        lib.finish(tracer, 0, 120)
    seen, want = lib.Trace(capture), {int(tid): cnt for tid, cnt in json.loads(out.read_text()).items()}
    busiest = max(want, key=want.get)
    losses = {g["tid"] for g in seen.gaps if g["n"]}
    got = collections.Counter(e["tid"] for e in seen.of(prog) if e["ev"] == "call" and e["name"] == "call")
    assert losses == {busiest} and 0 < got.pop(busiest) < want.pop(busiest)
    assert got == want and seen.meta["generated"] == seen.meta["written"] + seen.lost


@pytest.mark.parametrize("name", lib.families()[1:] if lib.LONG else lib.pick("3.8", "3.12", "3.13t"))
def test_threads_that_sleep_deep_down(name, tmp_path):
    """Their stacks are read before the stop, but for those that something wakes meanwhile: the program knows what they were."""
    opened = []
    with lib.started(lib.command(name) + [lib.PROGRAMS / "wakers.py", 48], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(100 if lib.LONG else 6):
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, *WAIT, "-d", "10ms", "-p", target.pid])
            assert done.returncode == 0 and "did not fit" not in lib.text(done.stderr), lib.text(done.stderr)
            seen = lib.Trace(tmp_path / "t.pyebpf")
            seen.whole()
            opened += [e for e in seen.events if e["ev"] == "open" and e["name"] in "ab"]
        was = [json.loads(line) for line in target.communicate(b"")[0].splitlines()]
    shown = collections.Counter((e["tid"], e["name"], e["ts_ns"]) for e in opened)
    known = [(e, [name for tid, name, begin, end in was if tid == e[0] and begin < e[2] < end]) for e in shown]
    assert [e for e, names in known if names not in ([], [e[1]])] == [] and len(known) > 6 and max(shown.values()) > 50


@pytest.mark.parametrize("name", lib.families() if lib.LONG else lib.pick("3.8", "3.12", "3.13t"))
def test_a_thread_that_makes_calls_for_us_ends(name, tmp_path):
    """Right after them: what it was given the process still has."""
    program = ("import threading, time\n"
               "def call(): pass\n"
               "def thread():\n"
               "    end = time.perf_counter() + 0.0005\n"
               "    while time.perf_counter() < end: call()\n"
               "print('up', flush=True)\n"
               "while True:\n"
               "    threads = [threading.Thread(target=thread) for _ in range(4)]\n"
               "    for t in threads: t.start()\n"
               "    for t in threads: t.join()\n")
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        for i in range(100 if lib.LONG else 20):
            done = lib.trace([*INLINE, *WAIT, "--force", "-d", "5ms", "-p", target.pid, *["-s"] * (i % 2)], tmp_path / "t.pyebpf")
            assert done.returncode == 0, lib.text(done.stderr)
            lib.Trace(tmp_path / "t.pyebpf").whole()
        assert target.poll() is None
