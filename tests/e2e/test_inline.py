# SPDX-License-Identifier: Apache-2.0
"""The inline engine: exact as the others, safe to attach and detach at any moment, to be killed, and to be refused."""
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

import lib
import machine
import pythons
import test_losses
import test_recorder
import trace_attach

ACCEPT = pythons.ROOT / "tests" / "accept"
INLINE = ["--engine", "inline"]
BUSY = lib.PROGRAMS / "inline_busy.py"
LOAD = lib.PROGRAMS / "load.py"


# asyncio.run() is new in 3.7; of 3.11's hooks test_exact.py tells
NOT_FOR = {"3.6": {"coroutines.py"}, "3.11": {"async_ends.py"}}
FAMILIES = lib.families()
ONE = next(n for n in FAMILIES if pythons.version(n) >= (3, 12))


def own(name, tmp_path):
    """A copy of an interpreter: where a test beside has a probe in the file, the kernel runs the file's instruction, not ours."""
    command, env = machine.private(name, tmp_path)
    return ["env"] + ["%s=%s" % item for item in env.items() if os.environ.get(item[0]) != item[1]] + command


def test_what_is_left_out_is_there():
    there = {p.name for folder in (ACCEPT / "workloads", lib.PROGRAMS / "exact") for p in folder.glob("*.py")}
    assert set().union(*NOT_FOR.values()) <= there


@pytest.mark.parametrize("name", lib.every())
def test_exact(name, tmp_path):
    command = own(name, tmp_path)
    programs = sorted((ACCEPT / "workloads").glob("*.py"))
    missing = NOT_FOR.get(lib.family(name), set())
    if lib.LONG or name in FAMILIES:
        programs += lib.exact_programs(name, 1)
    else:
        programs = lib.shown_by_build(programs)
    assert len(programs) >= (10 if name in FAMILIES else 3)
    for prog in programs:
        if prog.name in missing:
            continue
        assert lib.exactly("inline", command, prog, tmp_path) > 10, prog.name


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13", "3.15"))
def test_stacks_are_known_throughout(name, tmp_path):
    """Finalizers, which run while a frame is cleared, too: they are on its caller's stack, not on one of their own."""
    prog = lib.PROGRAMS / "exact" / "finalizers.py"
    seen, done = lib.traced(lib.command(name) + ["-S", prog], tmp_path, *INLINE, "--on-full", "wait")
    own = [e for e in seen.whole().events if e.get("file") == str(prog)]
    first = min(i for i, e in enumerate(seen.events) if e.get("file") == str(prog))
    last = max(i for i, e in enumerate(seen.events) if e.get("file") == str(prog))
    assert not [e for e in seen.events[first:last] if e["ev"] in ("gap", "open")] and b"did not fit" not in done.stderr
    deep = {name: {e["depth"] for e in own if e["ev"] == "call" and e["name"] == name} for name in ("main", "generate", "__del__")}
    assert len(deep["main"]) == len(deep["generate"]) == 1 and min(deep["__del__"]) > min(deep["main"])


@pytest.mark.parametrize("engine", ["inline", "auto"])
@pytest.mark.parametrize("name", lib.pick("3.10", "3.11"))
def test_what_runs_before_a_frame_shows_itself(name, engine, tmp_path):
    """In 3.11 the collector does, and trace functions: on the stack of the frame's caller, not on another one."""
    prog, out = lib.PROGRAMS / "before_resume.py", tmp_path / "out"
    seen, _ = lib.run_program(name, prog, tmp_path, out, options=["--engine", engine] + (["--on-full", "wait"] if engine == "inline" else []))
    own = [i for i, e in enumerate(seen.whole().events) if e.get("file") == str(prog)]
    assert not [e for e in seen.events[own[0]:own[-1]] if e["ev"] in ("gap", "open")]
    calls = seen.count(prog, {"call"})
    assert {name: calls[name] for name in json.loads(out.read_text())} == json.loads(out.read_text())


UNBEGUN = """class Bad:
    def __iter__(self): raise ValueError
class Good:
    def __iter__(self): return iter((1, 2))
def main():
    for iterable in 10 * (3, Bad(), Good()):
        try: list(x for x in iterable)
        except (TypeError, ValueError): pass
main()
"""


@pytest.mark.parametrize("options", [[*INLINE, "--on-full", "wait"], [*INLINE, "--on-full", "wait", "--exclude", "prog.py"], ["--engine", "auto"]])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14", "3.15"))
def test_a_generator_expression_without_a_beginning(name, options, tmp_path):
    """From 3.15 on it asks for its iterator by itself, before it is a generator: where that fails nothing has begun, and nothing is lost."""
    prog = tmp_path / "prog.py"
    prog.write_text(UNBEGUN)
    seen, done = lib.run_program(name, prog, tmp_path, options=options)
    assert "did not fit" not in lib.text(done.stderr), lib.text(done.stderr)
    own = collections.Counter((e["ev"], e["name"]) for e in seen.whole().of(prog))
    assert not seen.gaps
    if "--exclude" in options:
        assert not own
        return
    assert (own["call", "__iter__"], own["unwind", "__iter__"], own["call", "<genexpr>"]) == (20, 10, 10)
    assert not [what for what in own if what[0] in ("open", "throw")], own


@pytest.mark.parametrize("name", lib.pick("3.10", "3.11", "3.12"))
def test_generators_under_a_profile_function(name, tmp_path):
    """There are as many as there are hashes to tell them apart: 16 bits."""
    prog, out = lib.PROGRAMS / "watched_generators.py", tmp_path / "out"
    seen, _ = lib.run_program(name, prog, tmp_path, out, options=[*INLINE, "--on-full", "wait"])
    own = [i for i, e in enumerate(seen.whole().events) if e.get("file") == str(prog)]
    assert not [e for e in seen.events[own[0]:own[-1]] if e["ev"] in ("gap", "open")]
    begins = seen.count(prog, {"call", "resume", "throw"})
    told = json.loads(out.read_text())
    assert {name: begins[name] for name in told} == told


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13"))
def test_who_is_told_of_the_end_of_all_frames(name, tmp_path):
    """3.11: what is no more is linked to its profile function yet, when another thread has had its turn; it does not go on."""
    prog = lib.PROGRAMS / "told_of_ends.py"
    seen, _ = lib.run_program(name, prog, tmp_path, options=[*INLINE, "--on-full", "wait"])
    own = seen.whole().of(prog)
    assert not seen.gaps and not [e for e in own if e["ev"] == "open"]
    calls = seen.count(prog, "call")
    assert (calls["start"], calls["behind"], calls["before"]) == (20, 40, 80)
    assert {e["depth"] for e in own if e["name"] in ("start", "generate")} == {0}


@pytest.mark.parametrize("engine", ["inline", "auto"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_trace_function_makes_no_unwind_of_a_return(name, engine, tmp_path):
    """From 3.12 on frames that are watched end in other instructions."""
    prog = tmp_path / "watched.py"
    prog.write_text("import sys\n"
                    "def told(*_): pass\n"
                    "def leaf(n): return n\n"
                    "def const(): pass\n"
                    "def fail(n): raise ValueError\n"
                    "def all():\n"
                    "    for i in range(50):\n"
                    "        leaf(i), const()\n"
                    "        try: fail(i)\n"
                    "        except ValueError: pass\n"
                    "all()\n"
                    "sys.settrace(told)\n"
                    "all()\n"
                    "sys.settrace(None)\n"
                    "all()\n")
    seen, _ = lib.traced(lib.command(name) + [prog], tmp_path, "--engine", engine)
    seen.whole()
    returned, unwound = seen.count(prog, "return"), seen.count(prog, "unwind")
    assert (returned["leaf"], returned["const"], returned["all"], unwound["fail"]) == (150, 150, 3, 150)
    assert set(unwound) == {"fail"} and not returned["fail"]


@pytest.mark.parametrize("engine", ["inline", "auto"])
@pytest.mark.parametrize("name", FAMILIES)
def test_generators_that_are_watched(name, engine, tmp_path):
    """What is told of a yield, a resume or a throw runs in the middle of it: events are the same with and without, on one stack."""
    prog = tmp_path / "watched.py"
    prog.write_text("import sys\n"
                    "def told(*_): return helper(told)\n"
                    "def helper(x): return x\n"
                    "def leaf(x=0): return x\n"
                    "def numbers(n):\n"
                    "    for i in range(n): yield leaf(i)\n"
                    "def catches():\n"
                    "    try: yield 1\n"
                    "    except KeyError: yield leaf(5)\n"
                    "def delegates(n): yield from (delegates(n - 1) if n else catches())\n"
                    "def rounds():\n"
                    "    for i in range(10):\n"
                    "        sum(numbers(3))\n"
                    "        g = numbers(5); next(g); leaf(); g.send(3); leaf(); g.close(); leaf()\n"
                    "        g = catches(); next(g); g.throw(KeyError); leaf(); g.close()\n"
                    "        g = delegates(3); next(g); leaf(); g.throw(KeyError); leaf(); del g\n"
                    "        g = numbers(5); next(g)\n"
                    "        try: g.throw(ValueError)\n"
                    "        except ValueError: leaf()\n"
                    "rounds()\n"
                    "sys.settrace(told)\n"
                    "rounds()\n"
                    "sys.settrace(None)\n"
                    "if hasattr(sys, 'monitoring'):\n"
                    "    mon = sys.monitoring\n"
                    "    mon.use_tool_id(3, 'test')\n"
                    "    kinds = [getattr(mon.events, k) for k in dir(mon.events) if k.startswith('PY_')]\n"
                    "    for k in kinds: mon.register_callback(3, k, lambda *_: helper(None))\n"
                    "    mon.set_events(3, sum(kinds))\n"
                    "    rounds()\n"
                    "    mon.set_events(3, 0)\n"
                    "rounds()\n")
    seen, _ = lib.traced(lib.command(name) + [prog], tmp_path, "--engine", engine)
    inside, each = False, []
    for e in seen.whole().events:
        if e.get("name") == "rounds" and e["ev"] in ("call", "return"):
            inside = e["ev"] == "call"
            each += [collections.Counter()] if inside else []
        elif inside:
            assert e["ev"] not in ("gap", "open")
            if e["name"] in ("leaf", "numbers", "catches", "delegates"):
                each[-1][e["name"], e["ev"], e["depth"]] += 1
    assert len(each) >= 3 and all(some == each[0] for some in each), [some - each[0] for some in each]


def check_time_stamps(name, tmp_path, apart):
    """A call is between the moments that its caller has read before and behind it; the clocks may be some ns apart."""
    out, prog = tmp_path / "out", tmp_path / "clock.py"
    prog.write_text("import json, sys, time\n"
                    "def call(): pass\n"
                    "seen = []\n"
                    "for _ in range(1500):\n"
                    "    before = time.monotonic_ns()\n"
                    "    call()\n"
                    "    seen.append((before, time.monotonic_ns()))\n"
                    "    time.sleep(0.001)\n"
                    "json.dump(seen, open(sys.argv[1], 'w'))\n")
    seen, _ = lib.traced(lib.command(name) + [prog, out], tmp_path, *INLINE, "--on-full", "wait")
    own = [e for e in seen.whole().events if e.get("file") == str(prog) and e["name"] == "call"]
    want = json.loads(out.read_text())
    assert [e["ev"] for e in own] == ["call", "return"] * len(want)
    off = [max(before - called["ts_ns"], left["ts_ns"] - behind)
           for (before, behind), called, left in zip(want, own[::2], own[1::2])]
    assert max(off) <= apart, sorted(off)[-5:]


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t", "3.14"))
def test_time_stamps(name, tmp_path):
    check_time_stamps(name, tmp_path, 1000)


@pytest.mark.parametrize("name", FAMILIES + lib.builds())
def test_attach(name, tmp_path):
    """As trace_attach.py, which gives the tracer three seconds: millions of events with this engine."""
    flag, capture = tmp_path / "flag", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [trace_attach.PROG, flag]) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", "-o", capture, *INLINE, "-p", pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(pid), "the attach")
            flag.touch()
            lib.finish(tracer)
        assert target.wait(10) == 0
    assert trace_attach.check([e for e in lib.Trace(capture).whole().events if e.get("file") == trace_attach.PROG])


@pytest.mark.parametrize("name", FAMILIES)
def test_generators_that_were_suspended_at_the_attach(name, tmp_path):
    """What is thrown into them runs on the stack of who throws it: each outer one is linked there, and has shown no event."""
    capture, prog = tmp_path / "t.pyebpf", tmp_path / "suspended.py"
    prog.write_text("class Thing:\n"
                    "    def __iter__(self): return self\n"
                    "    def __next__(self): return 1\n"
                    "    def throw(self, *_): leaf(); raise KeyError\n"
                    "def leaf(): pass\n"
                    "def delegates(n, to): yield from (delegates(n - 1, to) if n else to)\n"
                    "def throw(g):\n"
                    "    try: g.throw(KeyError)\n"
                    "    except KeyError: leaf()\n"
                    "suspended = [delegates(5, to) for to in (Thing(), iter([1]), Thing())]\n"
                    "for g in suspended: next(g)\n"
                    "print(flush=True)\n"
                    "input()\n"
                    "for g in suspended: throw(g)\n")
    with lib.started(own(name, tmp_path) + [prog], stdin=-1) as target:
        assert target.stdout.readline() == b"\n"
        with lib.started([lib.BINARY, "trace", "-o", capture, *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.communicate(b"\n", timeout=60)
            lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert not [e for e in seen.gaps if e["reason"] == "switch"]
    depths = collections.Counter((e["name"], e["depth"]) for e in seen.of(prog) if e["ev"] == "call")
    assert depths == {("throw", 1): 3, ("throw", 2): 2, ("leaf", 2): 3, ("leaf", 3): 2}
    assert seen.count(prog, "throw")["delegates"] == seen.count(prog, "unwind")["delegates"] == 3 * 6


# --- in and out ---

@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("name", lib.pick("3.12", "3.14"))
def test_ends_that_a_probe_hides_are_counted(name, tmp_path):
    """Where another tracer has a probe on a call that was replaced, the kernel runs that of the file."""
    prog, capture = tmp_path / "ends.py", tmp_path / "t.pyebpf"
    prog.write_text("def fail(n):\n    if n: fail(n - 1)\n    raise ValueError\n"
                    "def run():\n"
                    "    for _ in range(100):\n"
                    "        try: fail(3)\n        except ValueError: pass\n"
                    "for _ in range(3):\n    input()\n    run()\n    print(flush=True)\n")
    with lib.started([lib.BINARY, "trace", "-q", "--force", *INLINE, "--on-full", "wait", "-o", capture, "--", *lib.command(name), "-u",
                      prog], stdin=-1, stderr=-1) as tracer:
        def run():
            tracer.stdin.write(b"\n")
            tracer.stdin.flush()
            assert tracer.stdout.readline() == b"\n"
        run()
        # one that is not confined to its own process
        with lib.started([lib.BINARY, "trace", "-q", "--classic-uprobes", "--engine", "uprobe", "-o", tmp_path / "other", "--",
                          *lib.command(name), "-c", "print(flush=True); input()"], stdin=-1, stderr=-1) as other:
            assert other.stdout.readline() == b"\n"
            run()
            other.communicate(b"\n", timeout=60)
        run()
        said = lib.text(tracer.communicate(timeout=60)[1])
    seen = lib.Trace(capture)
    check_sums(seen)
    calls, ends = seen.count(prog, "call")["fail"], seen.count(prog, "unwind")["fail"]
    assert calls == 1200 and seen.lost == calls - ends and 400 >= seen.lost >= 200, (calls, ends, seen.meta)
    assert "%d ends of frames did not fit" % seen.lost in said


def check_sums(seen):
    """The machine can be so busy that a ring runs over: then that is said, exactly."""
    assert seen.events and seen.meta["generated"] == seen.meta["written"] + seen.lost
    assert sum(g["n"] for g in seen.gaps) == seen.lost


def memfds(pid):
    return pathlib.Path("/proc/%d/maps" % pid).read_text().count("/memfd:")


def redirected(pid):
    """Whether its words are replaced, the last one too: struct il_header of user/inline/region.h."""
    for line in pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines():
        if "/memfd:" in line and " r-xp " in line:
            with open("/proc/%d/mem" % pid, "rb", 0) as mem:
                mem.seek(int(line.split("-")[0], 16))
                header = mem.read(16384)
                last = 32 + 32 * (int.from_bytes(header[16:20], "little") - 1)
                at, _, new, size = struct.unpack_from("<QQQI", header, last)
                mem.seek(at)
                return mem.read(size) == new.to_bytes(8, "little")[:size]
    return False


def memfd_links(pid):
    links = []
    for path in pathlib.Path("/proc/%d/fd" % pid).iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(path))
    return [link for link in links if link.startswith("/memfd:")]


def busy(name, tmp_path):
    """Its files are its own: the probes of who traces all processes of an interpreter hide replaced calls."""
    command, env = machine.private(name, tmp_path)
    # 3.13t never frees what it compiled: 19 MB per second of CPU, which is too much for an hour
    steps = 100 if lib.LONG and lib.family(name) == "3.13t" else 1
    return lib.started(command + [BUSY, 7200 if lib.LONG else 300, tmp_path / "end", steps], env=env)


def end_well(target, tmp_path):
    """It has checked all that it calculated."""
    (tmp_path / "end").touch()
    assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0


def attach_for(pid, out, *options, **kw):
    return lib.sh([lib.BINARY, "trace", "-q", "--force", "-o", out, *INLINE, "-p", pid, *options], **kw)


@pytest.mark.parametrize("name", lib.families())
def test_a_delegate_answers_what_is_thrown_into_it(name, tmp_path):
    """Whoever delegates goes on: in 3.11 nothing of the interpreter's tells, and its calls were its caller's."""
    seen, _ = lib.run_program(name, "answered_throws.py", tmp_path, options=INLINE)
    stack, callers = [], collections.Counter()
    for e in seen.whole().of(lib.PROGRAMS / "answered_throws.py"):
        if e["ev"] in ("return", "yield", "unwind"):
            assert stack.pop() == e["name"]
            continue
        if e["name"] == "work":
            callers[stack[-1]] += 1
        stack.append(e["name"])
    assert callers == {"delegates": 5 * 2 * (1 + 2 + 1), "awaits": 5 * 2}, callers


# --- losses, names, children ---

@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_loss_that_the_end_cuts_off(name, tmp_path):
    """It lasted until the end, and not for a moment."""
    program = ("import os, sys, time\ndef leaf(): return 1\nprint('up', flush=True)\n"
               "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nwhile True: leaf()\n")
    with lib.started(lib.command(name) + ["-c", program, tmp_path / "go"]) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", *INLINE, "--ring", "256K", "-o", tmp_path / "t.pyebpf", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the probes")
            tracer.send_signal(signal.SIGSTOP)
            (tmp_path / "go").touch()
            time.sleep(0.3)
            killed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            target.kill()
            target.wait()
            tracer.send_signal(signal.SIGCONT)
            assert tracer.wait(30) == 0, lib.text(tracer.stderr.read())
    trace = lib.Trace(tmp_path / "t.pyebpf")
    last = trace.gaps[-1]
    assert last["n"] > 1000 and last["ts_ns"] < killed <= last["until_ns"] <= trace.meta["ts_ns"], (last, trace.meta)


@pytest.mark.parametrize("name, threads", [(n, 4) for n in (FAMILIES if lib.LONG else lib.some())] + [(n, 1) for n in lib.pick("3.8", "3.12", "3.13t")])
def test_losses_are_exact(name, threads, tmp_path):
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", *INLINE, "--ring", "256K", "-o", capture, "--"] + lib.command(name)
                     + [LOAD, out, 0.5, threads], stderr=-1) as tracer:
        tracer.stdout.readline()
        for _ in range(5):
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            tracer.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        lib.finish(tracer, 0, 120)
    seen = lib.Trace(capture)
    assert seen.lost > 0 and seen.gaps
    test_losses.check_exact(seen, test_losses.counted(out))


def test_waiting_loses_nothing(tmp_path):
    out = tmp_path / "out"
    seen, _ = lib.traced(lib.command(ONE) + [LOAD, out, 0.05, 2], tmp_path, *INLINE, "--on-full", "wait", "--ring", "256K")
    seen.whole()
    test_losses.check_exact(seen, test_losses.counted(out))


@pytest.mark.parametrize("name", lib.pick("3.10", "3.11", "3.12"))
def test_thousands_of_generators_that_wait(name, tmp_path):
    """Many of them have the same hash. 3.11 shows no event where one goes on behind what it delegated to, and that caught an exception."""
    prog = tmp_path / "many.py"
    prog.write_text("import gc; gc.disable()\n"
                    "def inner():\n    try: yield 1\n    except KeyError: return 7\n"
                    "def outer():\n    x = yield from inner()\n    yield x\n"
                    "def main():\n    made = []\n    room = []\n"
                    "    for i in range(4000):\n"
                    "        made.append(outer()); next(made[-1]); room.append(bytearray(16 * (i % 7) + 40))\n"
                    "    for g in made: assert g.throw(KeyError) == 7\n"
                    "    for g in made: assert next(g, None) is None\n"
                    "main()\n")
    seen, done = lib.traced(lib.command(name) + ["-S", prog], tmp_path, *INLINE, "--on-full", "wait")
    assert done.returncode == 0 and b"did not fit" not in done.stderr, lib.text(done.stderr)
    ends = collections.Counter((e["name"], e["ev"]) for e in seen.whole().events if e.get("file") == str(prog))
    assert (ends["outer", "yield"], ends["outer", "return"], ends["inner", "return"]) == (8000, 4000, 4000)


def test_waiting_for_who_reads_the_output(tmp_path):
    """Instructions are written as they come. Who reads them stands still for longer than a dead pyebpf is waited for."""
    prog = tmp_path / "many.py"
    prog.write_text("def f(): pass\nfor i in range(100000): f()\n")
    with lib.started([lib.BINARY, "trace", *INLINE, "--on-full", "wait", "--ring", "256K", "--opcodes", "all", "-f", "ndjson", "-o", "-",
                      "--"] + lib.command(ONE) + ["-I", "-S", prog], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tracer:
        first = tracer.stdout.readline()
        lib.time.sleep(3)
        lines = lib.objects(first + tracer.stdout.read())
        assert tracer.wait(60) == 0, lib.text(tracer.stderr.read())
    instructions = [line for line in lines if "seq" in line]
    assert [line["seq"] for line in instructions] == list(range(instructions[0]["seq"], instructions[0]["seq"] + len(instructions)))
    assert sum(line["base"] == "CALL" and line["line"] == 2 for line in instructions) == 100000 + 1  # range()
    assert lines[-1]["meta"]["lost"] == 0


def test_the_ring_takes_no_page_faults(tmp_path):
    """One at each new page would be as dear as 300 events. 4.8 MB of events are 1,172 pages."""
    prog, faults = tmp_path / "faults.py", tmp_path / "faults"
    prog.write_text("import resource, sys\ndef f(): pass\n"
                    "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
                    "f(); before = faults()\nfor i in range(150000): f()\n"
                    "open(sys.argv[1], 'w').write(str(faults() - before))\n")
    done = lib.sh([lib.BINARY, "trace", *INLINE, "--on-full", "wait", "-o", tmp_path / "t.pyebpf", "--"]
                  + lib.command(ONE) + [prog, faults])
    assert done.returncode == 0, lib.text(done.stderr)
    assert int(re.search(r"^events +(\d+)", lib.text(done.stderr), re.M).group(1)) >= 300000
    assert int(faults.read_text()) < 400


@pytest.mark.parametrize("name", FAMILIES)
def test_no_frame_without_its_name(name, tmp_path):
    """Code objects that live for one call, at addresses that come again and again."""
    prog = tmp_path / "names.py"
    prog.write_text("for i in range(4000):\n"
                    "    ns = {}\n"
                    "    exec(compile('\\n' * (i % 50) + 'def f%d(): return %d' % (i, i), 'file%d' % i, 'exec'), ns)\n"
                    "    assert ns['f%d' % i]() == i\n")
    seen, _ = lib.traced(lib.command(name) + [prog], tmp_path, *INLINE)
    got = [(e["file"], e["name"], e["line"]) for e in seen.whole().events
           if e["ev"] == "call" and e["name"].startswith("f") and e["file"].startswith("file")]
    assert got == [("file%d" % i, "f%d" % i, i % 50 + 1) for i in range(4000)]


def test_a_child_is_not_its_parent(tmp_path):
    prog = tmp_path / "fork.py"
    prog.write_text("import os\n"
                    "def parent(): pass\n"
                    "def child(): pass\n"
                    "for _ in range(5):\n"
                    "    pid = os.fork()\n"
                    "    for _ in range(2000):\n"
                    "        parent() if pid else child()\n"
                    "    if not pid:\n"
                    "        os._exit(7)\n"
                    "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\n")
    seen, _ = lib.traced(lib.command(ONE) + [prog], tmp_path, *INLINE)
    assert seen.whole().count(prog, "call") == {"<module>": 1, "parent": 10000}
    assert len(seen.pids()) == 1


def test_interrupted_system_calls_come_back(tmp_path):
    """Each attach stops the thread in a call that waits; none may end early or with an error."""
    code = ("import ctypes, os, select, sys, time, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "a, b = socket.socketpair(); ep = select.epoll(); ep.register(a, select.EPOLLIN)\n"
            "events = (ctypes.c_char * 120)()\n"
            "print('up', flush=True)\n"
            "while not os.path.exists(sys.argv[1]):\n"
            "    for wait in (lambda: libc.usleep(600000), lambda: libc.epoll_wait(ep.fileno(), events, 10, 600),\n"
            "                 lambda: libc.poll(None, 0, 600)):\n"
            "        t = time.monotonic(); got = wait(); took = time.monotonic() - t\n"
            "        assert got == 0 and took >= 0.59, (got, took, ctypes.get_errno())\n"
            "print('fine', flush=True)\n")
    with lib.started(lib.command(ONE) + ["-c", code, tmp_path / "end"]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(6):  # a relative time-out of epoll_wait() begins anew each time
            assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms").returncode == 0
        (tmp_path / "end").touch()
        assert target.communicate()[0] == b"fine\n" and target.returncode == 0


# --- refusals: with the reason, and nothing is written ---

def memory(pid):
    """The mappings of a process that waits, and what is in those of files: code, tables, data."""
    lines = pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines()
    held = {}
    with open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in lines:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1][0] == "r" and line.split()[4] != "0":
                held[line] = os.pread(mem.fileno(), end - start, start)
    return lines, held


def refused(pid, reason, *options, code=5):
    lib.until(lambda: lib.status_field(pid, "State")[0] in "STt", "the target to wait")
    before = memory(pid)
    with tempfile.TemporaryDirectory() as folder:
        done = attach_for(pid, os.path.join(folder, "t.txt" if options else "t.pyebpf"), "-d", "1s", *options)
    assert done.returncode == code and re.search(reason, lib.text(done.stderr)), lib.text(done.stderr)
    after = memory(pid)
    assert after[0] == before[0]
    changed = [line for line in before[1] if after[1][line] != before[1][line]]  # the bytes would take minutes to be shown
    assert not changed and any("python" in line for line in before[1])
    assert memfds(pid) == 0


WAITING = ["-c", "import time; print(flush=True); time.sleep(100)"]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_heap_can_grow(name, tmp_path):
    """It begins right behind the executable, as older kernels have it mostly: what is mapped leaves it some room."""
    code = "import time; print(flush=True); time.sleep(100)"
    with lib.started(["setarch", "x86_64", "-R", *lib.command(name), "-c", code]) as target:
        assert target.stdout.readline() == b"\n"
        with lib.attach(target.pid, tmp_path / "t.pyebpf", *INLINE) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            spans = [(line.split("-")[0], line.split("-")[1].split()[0], line) for line in pathlib.Path("/proc/%d/maps" % target.pid).read_text().splitlines()]
            heap = [i for i, (_, _, line) in enumerate(spans) if line.endswith("[heap]")][0]
            assert int(spans[heap + 1][0], 16) - int(spans[heap][1], 16) >= 500 << 20, spans[heap:heap + 2]
            lib.stop(tracer)


@pytest.mark.parametrize("where", ["main thread", "thread"])
def test_a_seccomp_filter_is_refused(where):
    with lib.started(lib.command(ONE) + [lib.PROGRAMS / "confined.py", where]) as target:
        assert target.stdout.readline() == b"up\n"
        refused(target.pid, "seccomp")


@pytest.mark.parametrize("args", [[], ["--on-full", "wait"], ["--count", "--time"]], ids=["drop", "wait", "count"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_filter_that_comes_later_kills_nobody(name, args, tmp_path):
    """For asking the kernel who it is: the stubs know by then."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "confined.py", "later"], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", *INLINE, *args, "-o", tmp_path / ("t" if args[:1] == ["--count"] else "t.pyebpf"), "-p", target.pid]) as tracer:
            lib.until(lambda: "/memfd:" in pathlib.Path("/proc/%d/maps" % target.pid).read_text(), "the stubs")
            time.sleep(0.5)
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"fine\n" and target.wait(60) == 0
            lib.finish(tracer)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
@pytest.mark.parametrize("who", ["alone", "first of three", "second of three"])
def test_diverted_system_calls_are_refused(name, who, tmp_path):
    """To a handler of the program, which has none here: all but the C library's would kill it."""
    code = ("import ctypes, sys, threading, time\n"
            "libc = ctypes.CDLL(None)\n"
            "start, end = min((map.split()[0].split('-') for map in open('/proc/self/maps') if ' r-xp ' in map and '/libc' in map))\n"
            "start, end = int(start, 16), int(end, 16)\n"
            "selector = ctypes.create_string_buffer(b'\\1')\n"
            "libc.prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]\n"
            "def divert():\n"
            "    print(libc.prctl(59, 1, start, end - start, ctypes.addressof(selector)), flush=True)\n"
            "    while True:\n"
            "        time.sleep(0.01)\n"
            "nap = lambda: time.sleep(1000)\n"
            "first, second = (nap, divert) if 'second' in sys.argv[1] else (divert, nap)\n"
            "for t in [] if sys.argv[1] == 'alone' else [second, nap]:\n"
            "    threading.Thread(target=t, daemon=True).start()\n"
            "first()\n")
    with lib.started(lib.command(name) + ["-c", code, who]) as target:
        assert target.stdout.readline() == b"0\n"
        done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1s")
        assert done.returncode == 5 and "its system calls go to a handler of its own" in lib.text(done.stderr), lib.text(done.stderr)
        assert memfds(target.pid) == 0 and not memfd_links(target.pid)
        time.sleep(0.1)
        assert target.poll() is None


def test_a_traced_process_is_refused():
    libc = ctypes.CDLL(None)
    with lib.started(lib.command(ONE) + WAITING) as target:
        target.stdout.readline()
        assert libc.ptrace(0x4206, target.pid, 0, 0) == 0  # PTRACE_SEIZE: held until this process ends or lets go
        try:
            refused(target.pid, "another tracer")
        finally:
            target.kill()


def test_a_stopped_process_is_refused():
    with lib.started(lib.command(ONE) + WAITING) as target:
        target.stdout.readline()
        target.send_signal(signal.SIGSTOP)
        lib.until(lambda: lib.status_field(target.pid, "State").startswith("T"), "the stop")
        refused(target.pid, "stopped")


def jit_builds():
    return [n for n in lib.every() if n in ("3.14-sid", "3.15-sid")]


@pytest.mark.parametrize("name", jit_builds())
def test_an_active_jit_is_refused(name, tmp_path):
    """Its traces run past the words."""
    command = ["env", "PYTHON_JIT=1", *lib.command(name)]
    with lib.started(command + WAITING) as target:
        target.stdout.readline()
        refused(target.pid, "its JIT is active")
    done = lib.trace([*INLINE, "--", *command, "-c", "print(1)"], tmp_path / "t.pyebpf")
    assert done.returncode == 125 and b"its JIT is active" in done.stderr and not os.listdir(tmp_path), lib.text(done.stderr)


def table_at(name, pid):
    """Where a process has its dispatch table, and the numbers of its opcodes."""
    said = lib.text(lib.sh([lib.BINARY, "list", "--probes", pid]).stdout)
    table = int(re.search(r"dispatch table 0x([0-9a-f]+)", said).group(1), 16)
    vaddr, offset = (int(n, 16) for n in re.search(r"^ +0x([0-9a-f]+) +0x([0-9a-f]+) +resume", said, re.M).groups())
    bias = next(start + offset - at - vaddr for start, end, at, _ in lib.mapped_code(pid) if at <= offset < at + end - start)
    numbers = json.loads(lib.sh(lib.command(name) + ["-c", "import json, opcode; print(json.dumps(opcode.opmap))"]).stdout)
    return table + bias, numbers


def change(pid, at, by):
    """Puts what is in one word of a process into another one."""
    with open("/proc/%d/mem" % pid, "r+b", 0) as mem:
        word = os.pread(mem.fileno(), 8, by)
        assert os.pread(mem.fileno(), 8, at) != word != bytes(8)
        os.pwrite(mem.fileno(), word, at)


@pytest.mark.parametrize("name", [n for n in FAMILIES if lib.family(n) in ("3.11", "3.12", "3.13t", "3.14")])
def test_a_table_that_somebody_else_has_changed_is_refused(name, tmp_path):
    """Of other words only --opcodes has need."""
    with lib.started(lib.command(name) + WAITING) as target:
        target.stdout.readline()
        table, numbers = table_at(name, target.pid)
        change(target.pid, table + 8 * numbers["LIST_APPEND"], table + 8 * numbers["NOP"])
        refused(target.pid, "its dispatch table is not as its file says", "--opcodes", "all")
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms").returncode == 0
        change(target.pid, table + 8 * numbers["RESUME"], table + 8 * numbers["NOP"])
        refused(target.pid, "its interpreter is not as its file says")


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_deallocator_that_somebody_else_has_changed_is_refused(name):
    code = "import time\nprint(id(type(compile('1', '', 'eval'))), id(type(compile)), flush=True)\ntime.sleep(100)"
    with lib.started(lib.command(name) + ["-c", code]) as target:
        of_code, of_other = (int(word) + (64 if lib.family(name) == "3.13t" else 48) for word in target.stdout.readline().split())
        change(target.pid, of_code, of_other)
        refused(target.pid, "its interpreter is not as its file says")


def test_two_at_once_are_refused(tmp_path):
    with busy(ONE, tmp_path) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: memfds(target.pid), "the attach")
            time.sleep(0.3)
            done = attach_for(target.pid, tmp_path / "u.pyebpf", "-d", "1s")
            assert done.returncode == 5 and "another pyebpf" in lib.text(done.stderr)
            lib.stop(tracer)
        end_well(target, tmp_path)


INTERPRETERS = ("try: import _interpreters as s\n"
                "except ImportError: import _xxsubinterpreters as s\n"
                "import sys, time\n"
                "def create(own):\n"
                "    if sys.version_info < (3, 12): return s.create()\n"
                "    if sys.version_info < (3, 13): return s.create(isolated=own)\n"
                "    return s.create('isolated' if own else 'legacy')\n")


@pytest.mark.parametrize("name", [n for n in FAMILIES if pythons.version(n) >= (3, 12)])
def test_several_gils(name, tmp_path):
    """Interpreters that run at the same time take turns in the ring."""
    flag, capture = tmp_path / "flag", tmp_path / "t.pyebpf"
    code = (INTERPRETERS + "import threading\n"
            "ids = [create(True) for _ in range(2)]\n"
            "CODE = \"\"\"import os, time\n"
            "def sub(): return 1\n"
            "while not os.path.exists('%s'): time.sleep(0.001)\n"
            "for i in range(20000): sub()\n"
            "\"\"\"\n"
            "threads = [threading.Thread(target=s.run_string, args=(i, CODE)) for i in ids]\n"
            "for t in threads: t.start()\n"
            "print(flush=True)\n"
            "for t in threads: t.join()\n" % flag)
    with lib.started(lib.command(name) + ["-c", code]) as target:
        assert target.stdout.readline() == b"\n"
        with lib.started([lib.BINARY, "trace", "-o", capture, *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            flag.touch()
            lib.finish(tracer)
        assert target.wait(20) == 0
    calls = collections.Counter(e["tid"] for e in lib.Trace(capture).whole().events if e["ev"] == "call" and e["name"] == "sub")
    assert list(calls.values()) == [20000, 20000]


HOOKS = """
import atexit, sys, threading
def hook(frame, event, arg):
    if (frame.f_code.co_name, event) == raised: raise ValueError(event)
    return hook
raised = None
def leaf(x): return x + 1
def each(n):
    for i in range(n): yield leaf(i)
def closes(x):
    def inner(): return leaf(x)
    return inner()
class Made:
    def __init__(self): self.x = leaf(1)
def work():
    leaf(1); list(each(2)); closes(1); Made()
    try: leaf("a")
    except TypeError: pass
both = lambda f: (sys.settrace(f), sys.setprofile(f))
for switch in sys.setprofile, sys.settrace, both:
    for name in "leaf", "closes", "inner", "__init__", "work":
        for event in "call", "return", "line", "exception":
            raised = name, event
            switch(hook)
            try: work()
            except ValueError: pass
            raised = None
            switch(hook)
            work()
            switch(None)
@atexit.register
def second(): leaf(1)
@atexit.register
def first(): leaf(1)
threading.setprofile(hook); threading.settrace(hook)
thread = threading.Thread(target=work)
thread.start(); thread.join()
both(hook)
"""


@pytest.mark.parametrize("name", FAMILIES)
def test_hooks_that_raise(name, tmp_path):
    """Those of sys.settrace() and sys.setprofile(), one after the other: 3.11 calls them before a frame has shown itself, the first one
    of a stack, too."""
    seen, _ = lib.traced(lib.command(name) + ["-c", HOOKS], tmp_path, *INLINE)
    assert not [g for g in seen.whole().gaps if g["reason"] != "attach"]
    assert not [e for e in seen.events if e["name"] == "[unreadable]"]
    depths = {e["name"]: e["depth"] for e in seen.events if e["ev"] == "call" and e["name"] in ("first", "second")}
    assert depths == {"first": 0, "second": 0}


FREED_WHERE_THEY_WAIT = """
import sys
sys.unraisablehook = lambda a: None
class Waits:
    def __await__(self): yield 1
def ignores():
    try: yield 1
    except GeneratorExit: yield 2
async def each():
    try:
        await Waits(); yield 1
    finally: await Waits()
async def consumer():
    async for i in each(): pass
def local(frame, event, arg): return local
sys.setprofile(lambda frame, event, arg: None)
for i in range(40):
    g = ignores(); next(g); del g
sys.setprofile(None)
sys.settrace(local)
for i in range(20):
    c = consumer(); c.send(None)
    try: c.close()
    except RuntimeError: pass
    c = consumer(); c.send(None)
    try: c.throw(TypeError)
    except (TypeError, RuntimeError): pass
"""


@pytest.mark.parametrize("name", lib.pick("3.10", "3.11", "3.12", "3.14"))
def test_generators_that_are_freed_where_they_wait(name, tmp_path):
    """The next one has their address, and in 3.11 calls a trace function before it has shown itself."""
    seen, done = lib.traced(lib.command(name) + ["-S", "-c", FREED_WHERE_THEY_WAIT], tmp_path, *INLINE)
    assert not [g for g in seen.whole().gaps if g["reason"] != "attach"] and b"did not fit" not in done.stderr
    begun = collections.Counter((e["name"], e["ev"]) for e in seen.events if e.get("file") == "<string>")
    assert (begun["ignores", "call"], begun["each", "call"], begun["consumer", "call"]) == (40, 40, 40)
    assert (begun["ignores", "yield"], begun["ignores", "resume"]) == (80, 0)


GILS_COME_AND_GO = INTERPRETERS + '''
import threading
CODE = "def sub(): return 1\\nfor i in range(5000): sub()"
def f(): pass
done = 0
def some():
    for _ in range(3):
        i = create(True)
        s.run_string(i, CODE)
        s.destroy(i)
threads = [threading.Thread(target=some) for _ in range(2)]
for t in threads: t.start()
while any(t.is_alive() for t in threads):
    for _ in range(100): f()
    done += 100
    time.sleep(0.001)
print(done)
'''


@pytest.mark.parametrize("name, options", [(n, ()) for n in FAMILIES + lib.builds() if pythons.version(n) >= (3, 12)] +
                         [(n, options) for n in lib.pick("3.12", "3.14") for options in (("--exclude", "gils"), ("--opcodes", "RESUME"))])
def test_gils_that_come_later(name, options, tmp_path):
    """Two interpreters beside the main one run at the same time, and go again: all events are there."""
    capture = tmp_path / ("t.ndjson" if "--opcodes" in options else "t.pyebpf")
    prog = tmp_path / "gils.py"
    prog.write_text(GILS_COME_AND_GO)
    done = lib.sh([lib.BINARY, "trace", "-o", capture, *INLINE, "--on-full", "wait", *options, "--"] + lib.command(name) + [prog])
    assert done.returncode == 0, lib.text(done.stderr)
    if "--opcodes" in options:
        events = lib.objects(capture.read_bytes())
        calls = collections.Counter(e["func"] for e in events if e.get("base") == "RESUME")
    else:
        calls = collections.Counter(e["name"] for e in lib.Trace(capture).whole().events if e["ev"] == "call")
    assert calls["sub"] == 6 * 5000
    assert calls["f"] == (0 if "--exclude" in options else int(done.stdout))


@pytest.mark.parametrize("name", [n for n in FAMILIES if pythons.version(n) >= (3, 8)])
def test_interpreters_that_share_the_gil(name, tmp_path):
    prog = tmp_path / "several.py"
    prog.write_text(INTERPRETERS + "def main(): pass\n"
                    "ids = [create(False) for _ in range(2)]\n"
                    "for i in range(30):\n"
                    "    main()\n"
                    "    s.run_string(ids[i % 2], 'def sub(): pass\\nfor i in range(10): sub()')\n")
    seen, _ = lib.traced(lib.command(name) + [prog], tmp_path, *INLINE)
    assert seen.whole().count(prog, "call")["main"] == 30
    assert sum(e["ev"] == "call" and e["name"] == "sub" for e in seen.events) == 300


@pytest.mark.parametrize("name", [FAMILIES[0], ONE])
def test_flight_recorder(name, tmp_path):
    """USR1 while tracing goes on, then the end: each file has the last half second, exactly."""
    with test_recorder.recording(name, tmp_path, *INLINE, "--flight-recorder", "500ms") as (tracer, out, capture):
        time.sleep(1.2)
        tracer.send_signal(signal.SIGUSR1)
        test_recorder.wait_for(tmp_path / "t-1.pyebpf")
        assert capture.stat().st_size == 0
        os.kill(test_recorder.child_of(tracer.pid), signal.SIGTERM)
        lib.finish(tracer)
    calls = lib.tick_times(out)
    first, last = (test_recorder.check_window(lib.Trace(tmp_path / f), calls, test_recorder.NS // 2)
                   for f in ("t-1.pyebpf", "t.pyebpf"))
    assert first[-1] < last[-1] == len(calls)


# --- privilege ---

def ordinary():
    """Makes a command that of an ordinary user who may read files: the interpreters can lie in root's home."""
    if os.geteuid():
        return []
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all,+dac_read_search",
            "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_privilege_is_needed(name, tmp_path):
    """Nor BPF: what an ordinary user may do with a process of theirs."""
    bare = ordinary()
    if bare:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            os.chmod(folder, 0o777)
    out = tmp_path / "t.pyebpf"
    code = "import time\ndef f(): time.sleep(0.01)\nprint(open('/proc/self/status').read(), flush=True)\nwhile 1: f()"
    with lib.started(bare + lib.command(name) + ["-c", code]) as target:
        lib.until(lambda: b"CapEff" in target.stdout.readline(), "the start")
        done = lib.sh(bare + [lib.BINARY, "trace", "-o", out, *INLINE, "-d", "300ms", "-p", target.pid])
        assert done.returncode == 0, lib.text(done.stderr)
        assert target.poll() is None
    assert lib.Trace(out).whole().count("<string>", "call")["f"] > 2


@lib.needs_root
def test_no_capability_at_all():
    """On both sides: with an interpreter that everybody may read."""
    bare = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    code = "import time\ndef f(): time.sleep(0.01)\nprint(open('/proc/self/status').read(), flush=True)\nwhile 1: f()"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        binary = shutil.copy(lib.BINARY, folder)
        with lib.started(bare + ["/usr/bin/python3", "-c", code]) as target:
            lib.until(lambda: re.match(rb"CapEff:\t0+\n", target.stdout.readline()), "a program without capabilities")
            done = lib.sh(bare + [binary, "trace", "-o", folder + "/t.pyebpf", *INLINE, "-d", "300ms", "-p", target.pid])
            assert done.returncode == 0, lib.text(done.stderr)
            assert target.poll() is None
        assert lib.Trace(pathlib.Path(folder, "t.pyebpf")).whole().count("<string>", "call")["f"] > 2


@pytest.mark.parametrize("closed, why", [(True, "its memory is closed to its own user"), (False, "it is another user's")])
def test_why_a_process_is_closed_to_a_user(closed, why):
    """One that has closed itself with prctl(PR_SET_DUMPABLE, 0), and one of somebody else."""
    code = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nprint(flush=True)\ntime.sleep(60)"
    with lib.started((ordinary() if closed else []) + lib.command(ONE) + ["-c", code]) as target:
        target.stdout.readline()
        done = lib.sh(ordinary() + [lib.BINARY, "detach", target.pid])
        assert done.returncode == 3 and why in lib.text(done.stderr), lib.text(done.stderr)
