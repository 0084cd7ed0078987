# SPDX-License-Identifier: Apache-2.0
"""The inline engine and the target's life: what it executes, how it dies, what interrupts it, is as without it."""
import collections
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import threading
import time

import pytest

import lib
import machine
import pythons
import test_attach_detach
from test_attach_detach import is_fine
from test_inline import FAMILIES, INLINE, ONE, attach_for, busy, check_sums, end_well, memfds, redirected
from test_inline_robust import detach, killed, of_files

WAIT = [*INLINE, "--on-full", "wait"]


# --- it executes another program ---

EXECUTES = """import ctypes, os, sys, threading, time
def before(n): return n
def execute():
    for i in range(2000): before(i)
    os.execvp(sys.argv[2], sys.argv[2:])
def spawn():
    libc, actions = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b'fifo', os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(ctypes.c_int()), b'/bin/true', actions, None, (ctypes.c_char_p * 2)(b'true'), None)
print(os.getpid(), flush=True)
sys.stdin.readline()
if sys.argv[1] == 'spawn':
    threading.Thread(target=spawn).start()
    while not open('/proc/self/task/%d/children' % sorted(map(int, os.listdir('/proc/self/task')))[-1]).read(): time.sleep(0.01)
if sys.argv[1] == 'thread': threading.Thread(target=execute).start()
else: execute()
"""
SHELL = ["sh", "-c", "echo new; read x; echo got $x; exit 7"]
PYTHON = ["-S", "-c", "def before(n): return n\n"
                      "for i in range(1000): before(i)\n"
                      "print('new', flush=True)\n"
                      "print('got', input(), flush=True)\n"
                      "import sys; sys.exit(7)"]


def say(stream, line):
    stream.write(line + b"\n")
    stream.flush()


def lives_on(pid, out, to):
    """The new program: nothing of ours is in it, and it does what it does."""
    assert out.readline() == b"new\n"
    assert not memfds(pid) and of_files(pid)[1:] == ([], [])
    yield
    say(to, b"hello")
    assert out.readline() == b"got hello\n"


def ended_there(said, seen, prog):
    assert "executed another program" in said and "stay mapped" not in said and "warning: " not in said, said
    for ev in ("call", "return"):
        assert seen.whole().count(prog, ev)["before"] == 2000
    assert "before" not in seen.count("<string>")


@pytest.mark.parametrize("what", ["shell", "python", "thread", "spawn"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t"))
def test_a_target_that_executes_something_else(name, what, tmp_path):
    """It is not followed, so the capture ends there, as soon as that is seen; the new program is left alone. spawn: a child that does
    not come to its own program keeps the memory of the old one meanwhile."""
    prog, capture = tmp_path / "executes.py", tmp_path / "t.pyebpf"
    prog.write_text(EXECUTES)
    os.mkfifo(tmp_path / "fifo")
    command = lib.command(name) + [prog, what] + (lib.command(name) + PYTHON if what == "python" else SHELL)
    with lib.started(command, stdin=-1, cwd=tmp_path) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", "-o", capture, *WAIT, "-p", pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(pid), "the attach")
            say(target.stdin, b"")
            for _ in lives_on(pid, target.stdout, target.stdin):
                said = lib.finish(tracer)
                if what == "spawn":
                    os.close(os.open(tmp_path / "fifo", os.O_WRONLY | os.O_NONBLOCK))  # somebody waits there
            assert target.wait(60) == 7
    ended_there(said, lib.Trace(capture), prog)


@pytest.mark.parametrize("what", ["shell", "python"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t"))
def test_a_command_that_executes_something_else(name, what, tmp_path):
    """The same, and pyebpf ends with the command, as it does."""
    prog, capture = tmp_path / "executes.py", tmp_path / "t.pyebpf"
    prog.write_text(EXECUTES)
    command = lib.command(name) + [prog, what] + (lib.command(name) + PYTHON if what == "python" else SHELL)
    with lib.started([lib.BINARY, "trace", "-o", capture, *WAIT, "--", *command], stdin=-1, stderr=-1) as tracer:
        pid = int(tracer.stdout.readline())
        say(tracer.stdin, b"")
        for _ in lives_on(pid, tracer.stdout, tracer.stdin):
            time.sleep(0.2)  # it is looked at every 10 ms
            assert tracer.poll() is None
        said = lib.finish(tracer, 7)
    ended_there(said, lib.Trace(capture), prog)


@pytest.mark.parametrize("then", ["another", "shell"])
def test_a_target_that_executes_something_during_the_attach(then, tmp_path):
    """Whatever was just looked at, that is the reason, and not what is missed where the old program was."""
    last = lib.command(lib.families()[-1]) + ["-S", "-c", "import time; time.sleep(2)"] if then == "another" else ["sh", "-c", "sleep 2"]
    for i in range(40 if lib.LONG else 8):
        before = "import os, time; time.sleep(%f); os.execvp(%r, %r)" % (0.05 + 0.01 * (i % 8), last[0], last)
        with lib.started(lib.command(ONE) + ["-S", "-c", before]) as target:
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "30ms")
            said = lib.text(done.stderr)
            # it can be over before, or have begun behind it
            fine = done.returncode == 0 or "executed another program" in said or (then == "shell" and "not Python" in said)
            assert fine and target.poll() is None, said


@pytest.mark.parametrize("options, want", [
    (["--count"], r"^ +2000 .*\(before\)$"),
    (["--opcodes", "RETURN_VALUE", "--on-full", "wait"], r"^ .*\b2000\b.*\(before\)"),
], ids=["count", "opcodes"])
def test_what_was_counted_before_an_exec(options, want, tmp_path):
    prog = tmp_path / "executes.py"
    prog.write_text(EXECUTES)
    with lib.started(lib.command(ONE) + [prog, "shell", *SHELL], stdin=-1) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", *INLINE, *options, "-p", pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(pid), "the attach")
            say(target.stdin, b"")
            for _ in lives_on(pid, target.stdout, target.stdin):
                out, said = map(lib.text, tracer.communicate(timeout=60))
            assert target.wait(60) == 7
    assert tracer.returncode == 0 and "executed another program" in said and "stay mapped" not in said, said
    assert re.search(want, out, re.M), out


# --- it dies ---

CRASHES = """import ctypes, faulthandler, os, sys
faulthandler.enable()
def die(how):
    if how == 'null': ctypes.string_at(0)
    else: os.abort()
def inner(n, how): return inner(n - 1, how) if n else die(how)
def outer(how):
    try: inner(3, how)
    finally: print('unreachable')
print('up', flush=True)
sys.stdin.readline()
outer(sys.argv[1])
"""


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def told(err):
    """What faulthandler said, but for what is another number each time; and all numbers."""
    return re.sub(r"0x[0-9a-f]+", "0x", lib.text(err)), [int(n, 16) for n in re.findall(r"0x([0-9a-f]+)", lib.text(err))]


def region(pid):
    """The addresses of what pyebpf has mapped."""
    ours = [line.split()[0].split("-") for line in pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines() if "/memfd:" in line]
    return range(min(int(start, 16) for start, _ in ours), max(int(end, 16) for _, end in ours))


@pytest.mark.parametrize("how, number", [("null", signal.SIGSEGV), ("abort", signal.SIGABRT)])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t", "3.14"))
def test_a_crash_is_its_own(name, how, number, tmp_path):
    prog, capture = tmp_path / "crashes.py", tmp_path / "t.pyebpf"
    prog.write_text(CRASHES)
    command = lib.command(name) + [prog, how]
    alone = lib.sh(command, preexec_fn=no_core)
    assert alone.returncode == -number and b"in inner" in alone.stderr
    with lib.started(command, stdin=-1, stderr=-1, preexec_fn=no_core) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-o", capture, *WAIT, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            ours = region(target.pid)
            err = target.communicate(b"\n", timeout=60)[1]
            said = lib.finish(tracer)
    assert target.returncode == -number
    text, numbers = told(err)
    assert text == told(alone.stderr)[0] and not [n for n in numbers if n in ours], lib.text(err)
    assert "stay mapped" not in said and "warning: " not in said, said
    seen = lib.Trace(capture).whole()
    last = [e["name"] for e in seen.of(prog) if e["ev"] == "call"]
    assert last == ["outer"] + 4 * ["inner"] + ["die"]
    assert not seen.count(prog, lib.LEAVE - {"trunc"})


# --- what goes on in it ---

ROUNDS = 100 if lib.LONG else 10


@pytest.mark.slow
@pytest.mark.parametrize("name", test_attach_detach.WITH_TESTS)
def test_while_tests_of_the_library_pass(name, tmp_path):
    """As with the other engines: the same tests pass in each run, and nothing stays."""
    command, env = machine.private(name, tmp_path)
    flag, capture, runs = tmp_path / "flag", tmp_path / "t.pyebpf", []
    with lib.started(command + [lib.PROGRAMS / "stdlib_tests.py", flag], env=env, stderr=subprocess.PIPE) as target:
        target.stdout.readline()
        reader = threading.Thread(target=test_attach_detach.read_runs, args=(target, runs))
        reader.start()
        lib.until(lambda: is_fine(target) and runs, "a whole run without a tracer", 120)
        events, before = [], of_files(target.pid)
        for _ in range(ROUNDS):
            done = attach_for(target.pid, capture, "-d", "50ms")
            assert is_fine(target) and done.returncode == 0 and not done.stderr, lib.text(done.stderr)
            # an old address on a stack can look like a thread in a stub: then the stubs stay until it is gone
            lib.until(lambda: not memfds(target.pid) or detach(target.pid)[0], "the end of the stubs")
            stats = lib.text(lib.sh([lib.BINARY, "stats", capture]).stdout)  # cheaper than to look at each event
            events.append(int(re.search(r"^events +(\d+)", stats, re.M).group(1)))
        check_sums(lib.Trace(capture))
        traced = len(runs)
        lib.until(lambda: is_fine(target) and len(runs) > traced, "a whole run after them", 120)
        assert of_files(target.pid) == before
        flag.touch()
        assert target.wait(120) == 0, lib.text(target.stderr.read())
        reader.join()
    assert len(set(runs)) == 1 and runs[0] > 150, "not the same tests each time"
    assert sum(n > 0 for n in events) > ROUNDS / 4, "mostly nothing was traced"


INTERRUPTED = """import json, signal, sys
hits, rounds = [], 0
def handler(*_): hits.append(0)  # in one step: the next signal can come in the middle of it
def leaf(n): return n
def numbers(n):
    for i in range(n): yield i
def fail(n): raise ValueError
def all(n):
    for i in range(1000): leaf(i)
    for i in range(100): sum(numbers(3))
    for i in range(100):
        try: fail(i)
        except ValueError: pass
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
while rounds < 100 or len(hits) <= 200 and rounds < 3000:
    all(0)
    rounds += 1
signal.setitimer(signal.ITIMER_REAL, 0)
for i in range(1000): leaf(i)  # a signal that came before is handled here
json.dump((rounds, len(hits)), open(sys.argv[1], 'w'))
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t"))
def test_calls_are_exact_under_signals(name, tmp_path):
    """5,000 signals a second, whose handler makes a call: many come in the middle of a stub."""
    prog, out = tmp_path / "interrupted.py", tmp_path / "out"
    prog.write_text(INTERRUPTED)
    seen, _ = lib.run_program(name, prog, tmp_path, out, options=WAIT)
    rounds, hits = json.loads(out.read_text())
    assert rounds >= 100 and hits > 100
    want = {"<module>": 1, "all": rounds, "leaf": 1000 * (rounds + 1), "handler": hits}
    assert seen.whole().count(prog, "return") == {**want, "numbers": 100 * rounds}
    assert seen.count(prog, "call") == {**want, "numbers": 100 * rounds, "fail": 100 * rounds}
    assert seen.count(prog, "unwind") == {"fail": 100 * rounds}
    assert seen.count(prog, "yield") == seen.count(prog, "resume") == {"numbers": 300 * rounds}


class Watch(threading.Thread):
    """Reads what a process has mapped as fast as it can."""

    def __init__(self, pid):
        super().__init__()
        self.path, self.bad, self.looks, self.mapped, self.over = "/proc/%d/maps" % pid, set(), 0, 0, False

    def run(self):
        while not self.over:
            text = pathlib.Path(self.path).read_text()
            self.bad.update(re.findall(r"^\S+ .wx. .*", text, re.M))
            self.looks += 1
            self.mapped += "/memfd:" in text

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_no_page_is_writable_and_executable(name, tmp_path):
    """Not for a moment while it is attached to, traced, let go, or rid of what a killed one left."""
    with busy(name, tmp_path) as target:
        assert target.stdout.readline() == b"up\n"
        with Watch(target.pid) as watch:
            for _ in range(30 if lib.LONG else 2):
                done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms")
                assert done.returncode == 0, lib.text(done.stderr)
            killed(target.pid, tmp_path / "t.pyebpf")
            lib.until(lambda: detach(target.pid)[0] == 0 and not memfds(target.pid), "the end of the stubs")
        assert watch.looks > 100 and watch.mapped and not watch.bad, (watch.looks, watch.mapped, watch.bad)
        end_well(target, tmp_path)


# --- when an exception takes frames with it ---

LEFT = """import json, sys, time
seen = []
def raises():
    before.append(time.monotonic_ns())
    raise ValueError
def middle():
    raises()
def generate():
    yield 1
    raises()
def consume():
    list(generate())
for what in (raises, middle, consume):
    for _ in range(60):
        before = []
        try: what()
        except ValueError: behind = time.monotonic_ns(); time.sleep(0.01)
        seen.append((before[0], behind))
json.dump(seen, open(sys.argv[1], 'w'))
"""


@pytest.mark.parametrize("name", [n for n in FAMILIES if lib.family(n) != "3.6"])  # monotonic_ns() is new in 3.7
def test_a_frame_that_an_exception_leaves_ends_there(name, tmp_path):
    """Nothing is called for 10 ms behind it, but its end is not where the next event is. The clocks may be some ns apart."""
    prog, out = tmp_path / "left.py", tmp_path / "out"
    prog.write_text(LEFT)
    seen, _ = lib.run_program(name, prog, tmp_path, out, options=WAIT)
    ends = [e for e in seen.whole().of(prog) if e["ev"] == "unwind"]
    moments = [moment for i, moment in enumerate(json.loads(out.read_text())) for _ in range(1 + i // 60)]
    assert len(ends) == len(moments) == 60 * (1 + 2 + 3)
    off = [max(before - e["ts_ns"], e["ts_ns"] - behind) for (before, behind), e in zip(moments, ends)]
    assert max(off) <= 1000, sorted(off)[-5:]


# --- another evaluator (PEP 523) ---

EVALUATOR = """import ctypes, mmap, struct, sys, time
code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
api = ctypes.pythonapi
usual = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
code.write(b'\\x48\\xb8' + struct.pack('<Q', usual) + b'\\xff\\xe0')  # mov rax, usual; jmp rax
other = ctypes.addressof(ctypes.c_char.from_buffer(code))
api.PyInterpreterState_Get.restype = ctypes.c_void_p
def use(function): api._PyInterpreterState_SetEvalFrameFunc(ctypes.c_void_p(api.PyInterpreterState_Get()), ctypes.c_void_p(function))
def leaf(): return 1
def outer(): return leaf()
use(other if sys.argv[1] == 'other' else usual)
for _ in range(50):
    for _ in range(20): outer()
    time.sleep(.01)
"""


@pytest.mark.parametrize("name, which", [(n, "other") for n in lib.every() if pythons.version(n) >= (3, 9) and n not in lib.musl()]
                         + [(n, "usual") for n in lib.pick("3.9", "3.12")])
def test_another_evaluator(name, which, tmp_path):
    """What it hands on is seen; that there can be more is said, once, and only then."""
    seen, done = lib.traced(lib.command(name) + ["-c", EVALUATOR, which], tmp_path, *INLINE)
    seen.whole()
    called = collections.Counter(e["func"] for e in seen.of("<string>") if e["ev"] == "call")
    assert called["outer"] == called["leaf"] == 1000
    assert lib.text(done.stderr).count("run by another evaluator (PEP 523), in memory") == (which == "other")


@pytest.mark.parametrize("name", lib.families() if lib.LONG else lib.pick("3.8", "3.12", "3.13t"))
def test_samples_beside_it(name, tmp_path):
    """Who samples takes a process whose code the engine has changed; probes of the kernel at the same places say whose they are."""
    program = "def leaf(): return 1\ndef busy():\n    while True: leaf()\nprint('up', flush=True)\nbusy()\n"
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", *INLINE, "-o", tmp_path / "t.pyebpf", "-p", target.pid]) as tracer:
            lib.until(lambda: redirected(target.pid), "the probes")
            dump = lib.sh([lib.BINARY, "dump", target.pid])
            assert dump.returncode == 0 and "busy (<string>" in lib.text(dump.stdout), lib.text(dump.stdout + dump.stderr)
            sampled = lib.sh([lib.BINARY, "record", "-q", "-r", "999", "-d", "300ms", "-o", tmp_path / "s.pyebpf", "-p", target.pid])
            assert sampled.returncode == 0, lib.text(sampled.stderr)
            stacks = lib.sh([lib.BINARY, "convert", "-q", tmp_path / "s.pyebpf", "-f", "collapsed", "-o", "-"])
            assert ";busy (<string>" in lib.text(stacks.stdout) and "leaf (<string>" in lib.text(stacks.stdout)
            probes = lib.trace(["-d", "50ms", "-p", target.pid], tmp_path / "p.pyebpf")
            assert probes.returncode == 0 or (probes.returncode == 5 and b"`trace --engine inline` is at work" in probes.stderr), lib.text(probes.stderr)
            tracer.send_signal(signal.SIGINT)
            lib.finish(tracer, 0, 60)
        again = lib.trace(["--force", "-d", "50ms", "-p", target.pid], tmp_path / "p.pyebpf")
        assert again.returncode == 0 and target.poll() is None, lib.text(again.stderr)
