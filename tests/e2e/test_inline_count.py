# SPDX-License-Identifier: Apache-2.0
"""`trace --engine inline --count`: calls per function without events, against what the program counted itself."""
import collections
import json
import marshal
import os
import re
import select
import signal
import subprocess
import time

import pytest

import lib
import pythons
from test_inline import FAMILIES, GILS_COME_AND_GO, INLINE, INTERPRETERS, ONE, memfds, redirected

COUNTED = lib.PROGRAMS / "every_call.py"
COUNT = [*INLINE, "--count"]


def counted(out):
    return json.loads(out.read_text())


def short(name):
    """To 3.10 a code object has no qualified name."""
    return name.rsplit(".", 1)[-1]


def sums(path, file=COUNTED):
    """{function: (primitive calls, calls, self, total)} of one file, from what pstats reads."""
    stats = marshal.loads(path.read_bytes())
    return {short(name): figures[:4] for (at, _, name), figures in stats.items() if at == str(file)}


def calls(path, file=COUNTED):
    return {name: figures[1] for name, figures in sums(path, file).items()}


def calls_of_all_files(path):
    """{function: calls}: what the files of sub-interpreters are called is not the same in all versions."""
    got = collections.Counter()
    for (_, _, name), figures in marshal.loads(path.read_bytes()).items():
        got[name] += figures[1]
    return got


def check_calls(path, out):
    want = {short(name): n for name, n in counted(out)["calls"].items()}
    got = calls(path)
    assert {name: got.get(name) for name in want} == want
    assert not [name for name in got if name not in want and name[0] != "<" and name != "Thing"]


def table_of(path):
    """{file:line(function): calls} of the table by function, and the calls that were lost."""
    lines = path.read_text().splitlines()
    table = {}
    for line in lines[next(i for i, line in enumerate(lines) if line.endswith("filename:lineno(function)")) + 1:]:
        if not line:
            break
        table[line.split()[-1]] = int(line.split()[0].split("/")[0])
    return table, int(re.search(r"lost: (\d+)", lines[1]).group(1))


def count(cmd, path, *options):
    return lib.sh([lib.BINARY, "trace", "-o", path, *COUNT, *options, "--", *map(str, cmd)])


@pytest.mark.parametrize("name", lib.every())
def test_every_call_is_counted(name, tmp_path):
    """From the first one, of all threads, however it ends; a child's are not its parent's."""
    out, path = tmp_path / "out", tmp_path / "t.pstats"
    done = count(lib.command(name) + [COUNTED, out, 500], path)
    assert done.returncode == 0, lib.text(done.stderr)
    check_calls(path, out)
    assert all(figures[2] == figures[3] == 0 for figures in sums(path).values())


@pytest.mark.parametrize("name", FAMILIES + lib.builds())
def test_times(name, tmp_path):
    """How long nap() took is more than it saw itself, and less than its caller saw; a caller's total has it."""
    out, path = tmp_path / "out", tmp_path / "t.pstats"
    done = count(lib.command(name) + [COUNTED, out, 100], path, "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    check_calls(path, out)
    took, got = counted(out)["nap"], sums(path)
    clocks = 1 + 1e-3  # one is calibrated against the other
    # 3.6 has no clock of ns: a function of its own stands for it, whose time nap() does not have for itself
    assert took["inside"] / clocks <= got["nap"][3] * 1e9 <= took["outside"] * clocks
    assert got["<module>"][3] >= got["nap"][3] >= got["nap"][2]
    assert got["recurse"][0] == got["recurse"][1] // 10, "of ten calls nine are its own"
    assert got["branch"][3] >= got["branch"][2]


TIMES = '''
import sys, threading, time
clock = time.perf_counter
def spin(seconds):
    end = clock() + seconds
    while clock() < end: pass
def thrown():
    while True:
        try: yield
        except ValueError: spin(0.03)
def through(): yield from thrown()
def recurse(n): return recurse(n - 1) if n else spin(0.05)
def main():
    for g in thrown(), through():
        next(g)
        g.throw(ValueError)
    recurse(int(sys.argv[1]))
sys.setrecursionlimit(10 ** 6)
begin = clock()
main()
print(clock() - begin)
'''


@pytest.mark.parametrize("name, depth", [(n, 50000 if pythons.version(n) >= (3, 12) else 500) for n in lib.pick("3.8", "3.11", "3.13", "3.13t", "3.15")])
def test_no_time_is_counted_twice(name, depth, tmp_path):
    """What a generator does that something is thrown into is no time of who throws; nor is the depth of a recursion."""
    prog, path = tmp_path / "times.py", tmp_path / "t.pstats"
    prog.write_text(TIMES)
    done = count(lib.command(name) + [prog, depth], path, "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    took, got = float(lib.text(done.stdout)), sums(path, prog)
    assert sum(figures[2] for f, figures in got.items() if f != "<module>") <= took * 1.01 + 0.005
    assert got["thrown"][3] >= 0.05 and got["main"][2] < 0.02 < 0.1 < got["main"][3]


DEEP = '''
import sys, threading, time
def nap(): time.sleep(0.001)
def deep(n):
    if n: return deep(n - 1)
    there.set()
    hold.wait()
def outer(n): return outer(n - 1) if n else work()
def work():
    print(flush=True)
    input()
    thread = threading.Thread(target=deep, args=(70000,))
    thread.start()
    there.wait()
    for _ in range(100): nap()
    print(flush=True)
    input()
    hold.set()
    thread.join()
sys.setrecursionlimit(10 ** 6)
there, hold = threading.Event(), threading.Event()
outer(10)
'''


def test_a_thread_that_is_too_deep(tmp_path):
    """70,000 calls that have not ended have not all a place: that takes no time from the other threads, whose stacks are older than we."""
    prog, path = tmp_path / "deep.py", tmp_path / "t.pstats"
    prog.write_text(DEEP)
    with lib.started(lib.command(ONE) + [prog], stdin=-1) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-o", path, *COUNT, "--time", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            target.stdout.readline()
            lib.stop(tracer)
        target.stdin.write(b"\n")
        target.stdin.flush()
        assert target.wait() == 0
    got = sums(path, prog)
    assert got["nap"][1] == 100 and got["nap"][2] >= 0.1 and got["deep"][1] == 70001


@pytest.mark.parametrize("name", lib.pick("3.11", "3.12", "3.13", "3.15"))
def test_switching_a_profiler_on_and_off(name, tmp_path):
    """Each time the functions' code is changed where they begin, which is no call."""
    prog, path = tmp_path / "monitored.py", tmp_path / "t.pstats"
    prog.write_text("import sys\n"
                    "def f(): pass\n"
                    "def g(): yield\n"
                    "def seen(*_): pass\n"
                    "for i in range(100):\n"
                    "    sys.setprofile(seen if i % 2 else None)\n"
                    "    f()\n"
                    "    for _ in g(): pass\n")
    done = count(lib.command(name) + [prog], path, "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    got = calls(path, prog)
    assert (got["f"], got["g"]) == (100, 100)


MONITORED = '''
import sys, threading
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
monitoring, events, TOOL = sys.monitoring, sys.monitoring.events, sys.monitoring.PROFILER_ID
def f(): pass
def g():
    yield
    yield
def helper(): pass
def noted(*_): helper()
def seen(*_): helper()
def switches_itself(i): monitoring.set_events(TOOL, events.PY_START if i % 2 else 0)
def watches(i):
    monitoring.set_events(TOOL, events.LINE if i % 3 else 0)
    monitoring.set_local_events(TOOL, f.__code__, events.PY_RETURN if i % 2 else 0)
def calls_below(i):
    watches(i)
    f()
def in_a_thread(): pass
def worker():
    for _ in range(3000): in_a_thread()
def threads():
    all = [threading.Thread(target=worker) for _ in range(3)]
    for t in all: t.start()
    for i in range(100):
        monitoring.set_local_events(TOOL, in_a_thread.__code__, events.LINE if i % 2 else 0)
        monitoring.set_events(TOOL, events.PY_RETURN if i % 2 else 0)
    for t in all: t.join()
def another_interpreter():
    try: other = interpreters.create("legacy")
    except Exception: other = interpreters.create(isolated=False)
    interpreters.run_string(other, """if 1:
        import sys
        sys.monitoring.use_tool_id(2, "t")
        def in_another(): pass
        for i in range(100):
            sys.monitoring.set_events(2, sys.monitoring.events.LINE if i % 2 else 0)
            in_another()
        """)
    for _ in range(100): f()
    interpreters.destroy(other)
    for _ in range(100): f()
another_interpreter()
monitoring.use_tool_id(TOOL, "t")
for i in range(200):
    switches_itself(i)
    switches_itself(i)
    f()
    for _ in g(): pass
    calls_below(i)
monitoring.set_events(TOOL, 0)
monitoring.set_local_events(TOOL, f.__code__, 0)
threads()
monitoring.register_callback(TOOL, events.PY_START, noted)
monitoring.set_events(TOOL, events.PY_START)
for _ in range(50): f()
monitoring.set_events(TOOL, 0)
for i in range(200):
    sys.setprofile(seen if i % 2 else None)
    f()
sys.setprofile(None)
another_interpreter()
'''


@pytest.mark.parametrize("name, options", [(n, ()) for n in FAMILIES + lib.builds() if pythons.version(n) >= (3, 12)] +
                         [(n, ("--time",)) for n in lib.pick("3.12", "3.13t", "3.15")])
def test_code_that_changes_where_it_begins(name, options, tmp_path):
    """Its first instruction is dispatched anew then: not so where it changed while it ran, or in a callback of what monitors."""
    prog, path = tmp_path / "monitored.py", tmp_path / "t.pstats"
    prog.write_text(MONITORED)
    done = count(lib.command(name) + [prog], path, *options)
    assert done.returncode == 0, lib.text(done.stderr)
    got = calls(path, prog)
    want = {"f": 200 + 2 * 200 + 50 + 200 + 200, "g": 200, "helper": 50 + 300, "noted": 50, "seen": 300, "switches_itself": 400, "watches": 200,
            "calls_below": 200, "in_a_thread": 9000, "worker": 3, "threads": 1, "another_interpreter": 2}
    assert {f: got[f] for f in want} == want
    assert [figures[1] for (_, _, f), figures in marshal.loads(path.read_bytes()).items() if f == "in_another"] == [200]


OWN_LOCKS = '''
import sys, threading
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
PART = """if 1:
    import sys
    def in_another(): pass
    def seen(*_): pass
    for i in range(400):
        sys.setprofile(seen if i % 2 else None)
        for _ in range(20): in_another()
    sys.setprofile(None)
"""
def f(): pass
def seen(*_): pass
others = [interpreters.create(isolated=True) if sys.version_info < (3, 13) else interpreters.create("isolated") for _ in range(2)]
threads = [threading.Thread(target=interpreters.run_string, args=(other, PART)) for other in others]
for t in threads: t.start()
for i in range(400):
    sys.setprofile(seen if i % 2 else None)
    for _ in range(20): f()
sys.setprofile(None)
for t in threads: t.join()
'''


@pytest.mark.parametrize("name, options", [(n, ()) for n in ("3.13-trixie", "3.14-sid", "3.14-tail", "3.15-sid") if n in pythons.found()] +  # executables
                         [(n, ("--time",)) for n in lib.pick("3.12", "3.14")])
def test_code_that_changes_behind_other_locks(name, options, tmp_path):
    """Each interpreter monitors by itself, and runs at once with the others: each thread is asked whose it is, which it knows
    where Python is no shared library. With --time all frames that run are known."""
    prog, path = tmp_path / "locks.py", tmp_path / "t.pstats"
    prog.write_text(OWN_LOCKS)
    done = count(lib.command(name) + [prog], path, *options)
    assert done.returncode == 0, lib.text(done.stderr)
    assert calls(path, prog)["f"] == 8000
    assert [figures[1] for (_, _, f), figures in marshal.loads(path.read_bytes()).items() if f == "in_another"] == [16000]


INTERPRETERS_COME_AND_GO = '''
import threading
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
def f(): pass
stop, done, lock = threading.Event(), 0, threading.Lock()
def worker():
    global done
    mine = 0
    while not stop.is_set():
        for _ in range(1000): f()
        mine += 1000
    with lock: done += mine
threads = [threading.Thread(target=worker) for _ in range(3)]
for t in threads: t.start()
for _ in range(6):
    try: other = interpreters.create("legacy")
    except Exception: other = interpreters.create(isolated=False)
    interpreters.run_string(other, "import sys; sys.monitoring.use_tool_id(2, 't'); sys.monitoring.set_events(2, 2)")
    interpreters.destroy(other)
stop.set()
for t in threads: t.join()
print(done)
'''


@pytest.mark.parametrize("name", [n for n in FAMILIES if pythons.version(n) >= (3, 12)])
def test_interpreters_that_come_and_go(name, tmp_path):
    """Each is monitored by itself, while threads of another one call functions."""
    prog, path = tmp_path / "interpreters.py", tmp_path / "t.pstats"
    prog.write_text(INTERPRETERS_COME_AND_GO)
    done = count(lib.command(name) + [prog], path)
    assert done.returncode == 0, lib.text(done.stderr)
    assert calls(path, prog)["f"] == int(done.stdout) > 0


@pytest.mark.parametrize("name, options", [(n, ("--time",) * (i % 2)) for i, n in enumerate(lib.pick("3.8", "3.11", "3.12", "3.13t"))])
def test_a_running_process(name, options, tmp_path):
    """Sums on SIGUSR1 while it goes on, each in a file of its own, and at the end; nothing stays behind."""
    out, flag, path = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pstats"
    with lib.started(lib.command(name) + [COUNTED, out, 50000, flag]) as target:  # it works for long enough to be looked at
        with lib.started([lib.BINARY, "trace", "-o", path, *COUNT, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            tracer.send_signal(signal.SIGUSR1)
            lib.until((tmp_path / "t-1.pstats").exists, "the first sums")
            flag.touch()
            time.sleep(0.05)
            tracer.send_signal(signal.SIGUSR1)
            lib.until((tmp_path / "t-2.pstats").exists, "the second sums")
            lib.until(out.exists, "the end")
            lib.finish(tracer)
    check_calls(path, out)
    series = [calls(tmp_path / f).get("leaf", 0) for f in ("t-1.pstats", "t-2.pstats", "t.pstats")]
    assert series[0] == 0 and series == sorted(series)


MADE = '''
import sys
def a(): pass
print(flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[1])):
    made = {"a": a}
    exec(compile("def q():\\n return a()\\n", "<made>", "exec"), made)
    made["q"]()
'''
MADE_CNT = 100000 if lib.LONG else 40000


@pytest.mark.parametrize("name, options", [("3.8", []), ("3.12", ["--time"]), ("3.12", ["--on-full", "wait"]),
                                           ("3.8", ["--on-full", "wait", "--time"]), ("3.13t", ["--on-full", "wait"])])
def test_code_that_comes_and_goes_while_nobody_reads(name, options, tmp_path):
    """Names go through the ring: where pyebpf has no time for it calls are lost, and told, or the program waits."""
    prog, path = tmp_path / "made.py", tmp_path / "t.pstats"
    prog.write_text(MADE)
    with lib.started(lib.command(lib.pick(name)[0]) + [prog, MADE_CNT], stdin=-1) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-o", path, *COUNT, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.close()
            while target.poll() is None:
                tracer.send_signal(signal.SIGSTOP)
                time.sleep(0.4)
                tracer.send_signal(signal.SIGCONT)
                time.sleep(0.2)
            said = lib.finish(tracer)
    told = re.search(r"(\d+) calls are not in", said)
    missing = 2 * MADE_CNT - sum(calls(path, "<made>").values())
    assert calls(path, prog)["a"] == MADE_CNT and missing == (int(told[1]) if told else 0), said
    assert not told or "wait" not in options, said


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12", "3.15"))
def test_detach(name, tmp_path):
    path = tmp_path / "t.pstats"
    with lib.started(lib.command(name) + ["-c", "import time\ndef f(): pass\nprint(flush=True)\nwhile 1: f()"]) as target:
        target.stdout.readline()
        for options in ((), ("--time",), ()):
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", path, *COUNT, *options, "-d", "50ms", "-p", target.pid])
            assert done.returncode == 0, lib.text(done.stderr)
            assert calls(path, "<string>")["f"] > 0 and memfds(target.pid) == 0
        assert target.poll() is None


@pytest.mark.parametrize("name, options", [(n, ("--time",) * (i % 2)) for i, n in enumerate(FAMILIES)])
def test_code_that_comes_and_goes(name, options, tmp_path):
    """Addresses of code objects come again and again; no call is taken for another function's, none is forgotten: one for
    whose name the ring had no room, on a machine that gives pyebpf no time, is counted as lost."""
    path, prog = tmp_path / "t.txt", tmp_path / "names.py"
    prog.write_text("def stays(): pass\n"
                    "for i in range(3000):\n"
                    "    ns, k = {}, i % 7\n"
                    "    exec(compile('def f%d(): return %d' % (k, i), 'made', 'exec'), ns)\n"
                    "    for _ in range(k): ns['f%d' % k]()\n"
                    "    stays()\n")
    done = count(lib.command(name) + [prog], path, *options)
    assert done.returncode == 0, lib.text(done.stderr)
    table, lost = table_of(path)
    assert table["%s:1(stays)" % prog] == 3000
    want = {"made:1(f%d)" % k: k * len(range(k, 3000, 7)) for k in range(1, 7)}
    want["made:1(<module>)"] = 3000
    got = {f: n for f, n in table.items() if f in want}
    assert all(n <= want[f] for f, n in got.items()) and not [f for f in table if f.startswith("made") and f not in want]
    assert sum(got.values()) + lost == sum(want.values())


def test_pairs_of_code_that_is_gone_give_their_places_back(tmp_path):
    """90,000 pairs of caller and callee, of which the table holds 65,536, but only a few at a time are of code that lives."""
    path, prog, rounds = tmp_path / "t.txt", tmp_path / "made.py", 30000
    prog.write_text("def stays(): pass\n"
                    "for i in range(%d):\n"
                    "    ns = {'stays': stays}\n"
                    "    exec(compile('def f%%d(): stays(), stays()' %% (i %% 5), 'made', 'exec'), ns)\n"
                    "    for _ in range(3): ns['f%%d' %% (i %% 5)]()\n" % rounds)
    done = count(lib.command(ONE) + [prog], path, "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    table, lost = table_of(path)
    got = [n for f, n in table.items() if f.startswith("made:") or "(stays)" in f]
    assert sum(got) + lost == rounds * (1 + 3 + 3 * 2)
    assert lost < rounds, "the machine gave pyebpf no time?"


CHURN = ("import sys, types\n"
         "def f(): pass\n"
         "def churn(rounds):\n"
         "    for i in range(rounds): types.FunctionType(f.__code__.replace(co_name='made%d' % (i % 9)), {})()\n"
         "for rounds in 20000, 100000, 100000:\n"
         "    churn(rounds)\n"
         "    print('done', flush=True)\n"
         "    sys.stdin.readline()\n")


@pytest.mark.parametrize("name, options", [(n, o) for n in lib.pick("3.8", "3.12") for o in ((), ("--time",))])
def test_code_that_comes_and_goes_takes_no_memory(name, options, tmp_path):
    """Of pyebpf: 200,000 more of nine functions."""
    def memory():
        assert target.stdout.readline() == b"done\n"
        tracer.send_signal(signal.SIGUSR1)  # what the sums take is part of it
        shown.append(tmp_path / ("t-%d.txt" % (len(shown) + 1)))
        lib.until(shown[-1].exists, "the sums")
        grown.append(int(lib.status_field(tracer.pid, "RssAnon").split()[0]))
        target.stdin.write(b"\n")
        target.stdin.flush()

    grown, shown = [], []
    with lib.started(lib.command(name) + ["-c", "input()\n" + CHURN], stdin=-1) as target:
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.txt", *COUNT, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            for _ in range(3):
                memory()
            lib.finish(tracer)
    table, lost = table_of(tmp_path / "t.txt")
    made = sum(n for f, n in table.items() if "made" in f or f.endswith("(f)"))
    assert made + lost == 220000 and lost < 200000, (made, lost)
    assert max(grown) - grown[0] < 6144, grown


@pytest.mark.parametrize("name, options", [(n, o) for n in lib.pick("3.8", "3.10", "3.12") for o in ((), ("--time",))])
def test_what_never_ran_was_not_called(name, options, tmp_path):
    """A generator, or coroutine, that is closed or thrown into before it has begun."""
    path, prog = tmp_path / "t.pstats", tmp_path / "unstarted.py"
    prog.write_text("def g(): yield\n"
                    "async def c(): pass\n"
                    "def begun(): yield\n"
                    "for _ in range(100):\n"
                    "    for end in g().close, lambda: g().throw(ValueError), c().close:\n"
                    "        try: end()\n"
                    "        except ValueError: pass\n"
                    "    b = begun()\n"
                    "    next(b)\n"
                    "    b.close()\n")
    done = count(lib.command(name) + [prog], path, *options)
    assert done.returncode == 0, lib.text(done.stderr)
    got = calls(path, prog)
    assert (got.get("g", 0), got.get("c", 0), got["begun"], got["<lambda>"]) == (0, 0, 100, 100)


def test_no_more_than_the_table_holds(tmp_path):
    """What finds no room is counted, and the rest is right."""
    path, prog = tmp_path / "t.txt", tmp_path / "many.py"
    prog.write_text("import types\n"
                    "def one(): pass\n"
                    "for _ in range(9): one()\n"
                    "kept = [types.FunctionType(one.__code__.replace(co_name='n%d' % i, co_qualname='n%d' % i), {}) for i in range(70000)]\n"
                    "for f in kept: f()\n")
    done = count(lib.command(ONE) + [prog], path)
    assert done.returncode == 0, lib.text(done.stderr)
    table, lost = table_of(path)
    assert lost > 70000 - 65536 + 100, "those of the start-up have their places, too"
    got = {f: n for f, n in table.items() if f.startswith("%s:2(" % prog)}
    assert sum(got.values()) + lost in range(70009, 70100), "and a few calls of other functions"
    assert got["%s:2(one)" % prog] == 9
    done = count(lib.command(ONE) + [prog], tmp_path / "t.pstats")
    assert done.returncode == 0 and re.search(rb"warning: \d+ calls are not in .*/t.pstats", done.stderr), lib.text(done.stderr)


def test_filters(tmp_path):
    """By file; what is left out counts as its caller's time."""
    prog, own, path = tmp_path / "prog.py", tmp_path / "own.py", tmp_path / "t.pstats"
    own.write_text("import time\ndef outer(f): f(nap)\ndef nap(): time.sleep(0.02)\n")
    prog.write_text("import own\ndef between(f): f()\nfor _ in range(5): own.outer(between)\n")
    for options, there in (["--include", "own"], {"outer", "nap"}), (["--exclude", "own.py"], {"between", "<module>"}):
        for time_too in ((), ("--time",)):
            done = count(lib.command(ONE) + [prog], path, "--force", *options, *time_too)
            assert done.returncode == 0, lib.text(done.stderr)
            mine = {**sums(path, prog), **sums(path, own)}
            assert set(mine) - {"<module>"} == there - {"<module>"} and all(mine[f][1] == 5 for f in there - {"<module>"})
            said = lib.text(done.stderr)
            assert int(re.search(r"filtered +(\d+) calls", said).group(1)) >= 10 and "no code that ran" not in said, said
    assert mine["between"][2] >= 0.09, "it has what its callee took"
    done = count(lib.command(ONE) + [prog], path, "--force", "--include", "elsewhere")
    assert done.returncode == 0 and b"warning: no code that ran is what --include and --exclude leave" in done.stderr


FAMILY = lib.PROGRAMS / "inline_family.py"


def python_of(name):
    return {**os.environ, "FAMILY_PYTHON": json.dumps([str(word) for word in lib.command(name)])}


@pytest.mark.parametrize("what, name, options", [("fork", n, ("--time",) * (i % 2)) for i, n in enumerate(lib.pick("3.8", "3.11", "3.13t", "3.15"))]
                         + [("both", ONE, ()), ("shell", ONE, ("--time",))])
def test_children(what, name, options, tmp_path):
    """-s: sums over all processes, forked or executed, however short they live."""
    path = tmp_path / "t.pstats"
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", path, *COUNT, *options, "-s", "--", *lib.command(name), FAMILY, what, 3],
                  env=python_of(name))
    assert done.returncode == 0 and not done.stderr, lib.text(done.stderr)
    said = json.loads(done.stdout)
    assert calls(path, FAMILY)["work"] == sum(said.values()) and len(said) >= 3


FORKS = ("import os, sys, time\n"
         "def work(): pass\n"
         "def child():\n"
         "    for _ in range(100): work()\n"
         "    while not os.path.exists(sys.argv[1]): time.sleep(0.001)\n"
         "print(flush=True)\n"
         "input()\n"
         "pids = [os.fork() for _ in range(2)]\n"
         "child()\n"
         "if all(pids): [os.waitpid(pid, 0) for pid in pids]\n")


@pytest.mark.parametrize("form, name", [("txt", n) for n in lib.pick("3.9", "3.14")] + [("pb.gz", ONE)])
def test_snapshots_of_children(form, name, tmp_path):
    """SIGUSR1: of those that live; the end: of those that have ended; four processes."""
    flag, path = tmp_path / "flag", tmp_path / ("t." + form)

    def works(of):
        done = lib.sh([lib.BINARY, "convert", "-f", "text", "-o", "-", of]) if form == "pb.gz" else None
        found = re.search(r"^ +(\d+) .*:2\(work\)$", lib.text(done.stdout) if done else of.read_text(), re.M)
        return int(found.group(1)) if found else 0
    with lib.started(lib.command(name) + ["-c", FORKS, flag], stdin=-1) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-q", "-o", path, *COUNT, "-s", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            seen = []

            def all_there():
                tracer.send_signal(signal.SIGUSR1)
                at = tmp_path / ("t-%d.%s" % (len(seen) + 1, form))
                lib.until(at.exists, "the sums")
                seen.append(works(at))
                return seen[-1] >= 400
            lib.until(all_there, "calls of all")
            flag.touch()
            assert target.wait(60) == 0
            lib.finish(tracer)
    assert works(path) == seen[-1] == 400


def test_as_text(tmp_path):
    out = tmp_path / "out"
    done = lib.sh([lib.BINARY, "trace", "-q", *COUNT, "--time", "--", *lib.command(ONE), COUNTED, out, "50"])
    assert done.returncode == 0, lib.text(done.stderr)
    table = lib.text(done.stdout)
    assert re.search(r"^ +20 +\S+ +\S+ +\S+ +\S+ +.*every_call\.py:\d+\(nap\)$", table, re.M), "calls and seconds"
    naps = re.search(r"^ +20 +(\S+ ms) .*every_call\.py:\d+\(nap\)$", table, re.M)
    assert naps and float(naps.group(1).split()[0]) >= 1.5, "most took more than 2 ms, in buckets of half a power of two"
    done = lib.sh([lib.BINARY, "trace", "-q", *COUNT, "--", *lib.command(ONE), COUNTED, out, "50"])
    table = lib.text(done.stdout)
    assert "calls alone were counted" in table and not re.search("seconds|tottime", table)
    assert re.search(r"^ +20  \S+every_call\.py:\d+\(nap\)$", table, re.M), "calls alone"


@pytest.mark.parametrize("form", ["pprof", "collapsed", "svg"])
def test_other_formats(form, tmp_path):
    path, out = tmp_path / "t", tmp_path / "out"
    done = count(lib.command(ONE) + [COUNTED, out, 50], path, "--time", "-f", form)
    assert done.returncode == 0, lib.text(done.stderr)
    if form == "pprof":
        back = lib.sh([lib.BINARY, "convert", "-f", "collapsed", "-o", "-", path])
        assert back.returncode == 0, lib.text(back.stderr)
        assert re.search(r"work.*;.*branch.*;.*leaf", lib.text(back.stdout))
    else:
        assert "branch" in path.read_text()


@pytest.mark.parametrize("options, reason", [
    (["--count"], "--engine inline"), ([*INLINE, "--time"], "--count"), ([*COUNT, "-f", "firefox"], "in time"), ([*COUNT, "-f", "svg"], "--time alone"), ([*COUNT, "-f", "collapsed"], "--time alone"),
    ([*COUNT, "--include", "__main__"], "goes with"), ([*COUNT, "--max-depth", "3"], "goes with"), ([*COUNT, "--ring", "1M"], "goes with"), ([*COUNT, "--keep-capture"], "no capture"), ([*COUNT, "--open"], "no capture")])
def test_what_does_not_go_together(options, reason):
    done = lib.sh([lib.BINARY, "trace", *options, "-p", os.getpid()])
    assert done.returncode == 2 and reason in lib.text(done.stderr), lib.text(done.stderr)


def test_files_are_named_from_their_root_on(tmp_path):
    """As in what a trace adds up to."""
    texts = {}
    for options in ((), ("--full-filenames",)):
        done = lib.sh([lib.BINARY, "trace", "-q", "-o", tmp_path / ("t%d.txt" % len(options)), *COUNT, "--time", *options, "--", *lib.command(ONE), "-S", "-c",
                       "import json; [json.loads('[1]') for _ in range(500)]"])
        assert done.returncode == 0, lib.text(done.stderr)
        texts[options] = set(re.findall(r"(\S*)json/decoder\.py:\d+\(JSONDecoder\.decode\)", (tmp_path / ("t%d.txt" % len(options))).read_text()))
    assert texts[()] == {""}
    whole, = texts["--full-filenames",]
    assert whole.startswith("/") and whole.endswith("/")


@pytest.mark.parametrize("name, options", [(n, o) for n in FAMILIES if pythons.version(n) >= (3, 12) for o in ((), ("--time",))])
def test_several_gils(name, options, tmp_path):
    """Interpreters that run at the same time take turns in the tables, where they were there at the attach."""
    flag, path = tmp_path / "flag", tmp_path / "t.pstats"
    code = (INTERPRETERS + "import threading\n"
            "CODE = \"\"\"import os, time\n"
            "def own_leaf(n): return n\n"
            "def own_each(n):\n"
            "    for i in range(n): yield own_leaf(i)\n"
            "while not os.path.exists('%s'): time.sleep(0.001)\n"
            "for i in range(20000): own_leaf(i)\n"
            "for i in range(300): sum(own_each(10)), exec('def own_made(): pass\\\\nown_made()', {})\n"
            "\"\"\"\n"
            "threads = [threading.Thread(target=s.run_string, args=(i, CODE)) for i in [create(True) for _ in range(3)]]\n"
            "for t in threads: t.start()\n"
            "print(flush=True)\n"
            "for t in threads: t.join()\n" % flag)
    with lib.started(lib.command(name) + ["-c", code]) as target:
        assert target.stdout.readline() == b"\n"
        with lib.started([lib.BINARY, "trace", "-o", path, *COUNT, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            flag.touch()
            lib.finish(tracer)
        assert target.wait(20) == 0
    got = calls_of_all_files(path)
    assert (got["own_leaf"], got["own_each"], got["own_made"]) == (3 * 23000, 3 * 300, 3 * 300)


@pytest.mark.parametrize("name, options", [(n, ("--time",)) for n in FAMILIES + lib.builds() if pythons.version(n) >= (3, 12)] +
                         [(n, ()) for n in lib.pick("3.12", "3.14")])
def test_gils_that_come_later(name, options, tmp_path):
    """The state of the thread that had the main one's lock last can be gone then."""
    path = tmp_path / "t.pstats"
    done = count(lib.command(name) + ["-c", GILS_COME_AND_GO], path, *options)
    assert done.returncode == 0, lib.text(done.stderr)
    got = calls_of_all_files(path)
    assert (got["sub"], got["f"]) == (6 * 5000, int(done.stdout))


def test_more_functions_than_have_room_for_their_durations(tmp_path):
    made = "".join("def f%d(): pass\nf%d()\n" % (i, i) for i in range(20000))
    prog = tmp_path / "many.py"
    prog.write_text(made)
    path = tmp_path / "t.txt"
    done = count(lib.command(ONE) + [prog], path, "--time", "--on-full", "wait")  # for who reads 4 MB of names in some ms
    assert done.returncode == 0, lib.text(done.stderr)
    missing = int(re.search(r"^(\d+) functions are not in this table", path.read_text("utf-8"), re.M).group(1))
    shown = len(re.findall(r"many.py:\d+\(f\d+\)", path.read_text("utf-8").split("p99")[1]))
    assert shown + missing >= 20000 > shown


def test_a_killed_pyebpf_leaves_it_running(tmp_path):
    """It goes on counting for nobody, and the next one takes it out."""
    with lib.started(lib.command(ONE) + ["-c", "def f(): pass\nprint(flush=True)\nwhile 1: f()"]) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pstats", *COUNT, "-p", target.pid]) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            tracer.kill()
            tracer.wait()
        time.sleep(0.2)
        assert target.poll() is None and memfds(target.pid)
        lib.until(lambda: lib.sh([lib.BINARY, "detach", target.pid]).returncode == 0, "the way out")
        assert memfds(target.pid) == 0 and target.poll() is None
