# SPDX-License-Identifier: Apache-2.0
"""-s with the inline engine: a child is traced from its first call on, and what it does is never taken for its parent's."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

import lib
import pythons
import test_children
import test_inline
import test_inline_robust as robust

INLINE = ["--engine", "inline", "--on-full", "wait", "-s"]
FAMILY = lib.PROGRAMS / "inline_family.py"
FAMILIES = lib.families()
ONE = next(n for n in FAMILIES if pythons.version(n) >= (3, 12))


def works(seen):
    """{pid: calls of work()} of the capture"""
    found = {}
    for e in seen.events:
        if e["ev"] == "call" and e["name"] == "work" and e["file"].endswith("inline_family.py"):
            found[str(e["pid"])] = found.get(str(e["pid"]), 0) + 1
    return found


def python_of(name):
    return {**os.environ, "FAMILY_PYTHON": json.dumps([str(word) for word in lib.command(name)])}


def family(name, tmp_path, what, count):
    seen, done = lib.traced(lib.command(name) + [FAMILY, what, count], tmp_path, *INLINE, stdin=subprocess.DEVNULL, env=python_of(name))
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    return seen.whole(), json.loads(done.stdout)


@pytest.mark.parametrize("what, name", [("fork", n) for n in FAMILIES] + [("both", n) for n in lib.pick("3.8", "3.11", "3.13t", "3.15")])
def test_every_call_of_every_child(what, name, tmp_path):
    seen, said = family(name, tmp_path, what, 2)
    assert works(seen) == said and len(said) == (3 if what == "fork" else 5)


@pytest.mark.parametrize("what, processes", [("grandchild", 7), ("exec", 4), ("shell", 4), ("threads", 13)])
def test_whatever_way_they_are_started(what, processes, tmp_path):
    seen, said = family(ONE, tmp_path, what, 1 if what == "threads" else 3)
    assert works(seen) == said and len(said) == processes
    # what is executed is seen from its first call on, before its own program
    for pid in said:
        first = next(e for e in seen.events if str(e["pid"]) == pid and e["ev"] in ("call", "open"))
        assert what not in ("exec", "shell") or "importlib" in first["file"], first


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t", "3.14"))
def test_children_of_a_running_process(name, tmp_path):
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [FAMILY, "both", 2], stdin=-1, env=python_of(name)) as target:
        with lib.started([lib.BINARY, "trace", "-o", cap, *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            said = json.loads(target.stdout.readline())
            assert target.wait(30) == 0
            lib.finish(tracer)
    seen = lib.Trace(cap).whole()
    assert works(seen) == said and len(said) == 5


def test_a_command_that_is_no_python(tmp_path):
    python = lib.shell_words(lib.command(ONE) + [FAMILY, "report", 12])
    seen, done = lib.traced(["sh", "-c", "true; %s; sh -c '%s'" % (python, python)], tmp_path, *INLINE)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 2
    done = lib.trace([*INLINE, "--", "sh", "-c", "true"], tmp_path / "none.pyebpf")
    assert done.returncode == 125 and b"is not Python" in done.stderr


@pytest.mark.parametrize("name", [n for n in lib.every() if n == "3.11-debian"])
def test_a_program_that_was_no_python_before(name, tmp_path):
    """What was none is not looked into when it is executed again, but for when its file is another one by then, or holds something else."""
    python, = lib.command(name)
    report = lib.shell_words([FAMILY, "report", 12])
    script = f"""
        cp /bin/true changed; cp /bin/true replaced
        for i in 1 2 3; do ./changed; ./replaced; /bin/true; done
        cat {python} >changed; cp {python} other; mv other replaced
        for i in 1 2 3; do ./changed {report}; /bin/true; ./replaced {report}; done"""
    seen, done = lib.traced(["sh", "-c", script], tmp_path, *INLINE, cwd=tmp_path)
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 6


def test_many_children(tmp_path):
    """As test_children.py, with fewer descriptors than children."""
    many = lib.PROGRAMS / "children_many.py"
    seen, done = lib.traced(lib.command(ONE) + [many, 70, 500, 0], tmp_path, *INLINE, stdin=subprocess.DEVNULL,
                            preexec_fn=test_children.few_files(40))
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    own = [e for e in seen.whole().events if e["ev"] == "call" and e["name"] == "own"]
    assert len({e["pid"] for e in own}) == len(own) == 70
    assert not [e for e in seen.events if "unreadable" in e.get("func", "")]


# signals, stops and waits of a process that stays traced
WAITER = """import os, signal, sys, time
got = []
signal.signal(signal.SIGALRM, lambda *_: got.append(1))
def f(): return 1
print('up', flush=True)
input()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
n = 0
while len(got) < 50:
    n += f()
    time.sleep(0.0005)
signal.setitimer(signal.ITIMER_REAL, 0)
os.kill(os.getpid(), signal.SIGSTOP)
pid = os.fork()
if not pid: f(); os.kill(os.getpid(), signal.SIGKILL)
assert os.waitpid(pid, 0)[1] == signal.SIGKILL
print('fine', n, flush=True)
"""


def test_signals_and_stops(tmp_path):
    """Each signal is delivered once; a stopped process stays stopped until it is continued; a killed child is seen to be."""
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(ONE) + ["-c", WAITER], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-o", cap, *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            lib.until(lambda: os.waitpid(target.pid, os.WUNTRACED | os.WNOHANG)[0], "the stop")
            assert pathlib.Path("/proc/%d/stat" % target.pid).read_text().split()[2] in "Tt"
            os.kill(target.pid, signal.SIGCONT)
            assert target.stdout.readline().startswith(b"fine ")
            assert target.wait(30) == 0
            lib.finish(tracer)
    seen = lib.Trace(cap).whole()
    assert len(seen.pids()) == 2


FORKS = """import os, sys
def f(n): return n
print('up', flush=True)
while not os.path.exists(sys.argv[1]):
    pid = os.fork()
    if not pid:
        sum(f(n) for n in range(100))
        os._exit(7)
    assert os.waitpid(pid, 0)[1] >> 8 == 7
    sum(f(n) for n in range(100))
print('fine', flush=True)
"""


@pytest.mark.parametrize("end", ["interrupt", "kill"])
def test_the_end_in_the_middle_of_forks(end, tmp_path):
    """Whatever moment it is, target and children go on, and nothing is left in them."""
    flag = tmp_path / "flag"
    with lib.started(lib.command(ONE) + ["-c", FORKS, flag]) as target:
        assert target.stdout.readline() == b"up\n"
        for i in range(4):
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid],
                             stderr=-1) as tracer:
                lib.until(lambda: robust.word(target.pid, 0), "the first events")
                time.sleep(0.013 * i)
                if end == "kill":
                    tracer.kill()
                    tracer.wait()
                    code, said = robust.detach(target.pid)
                    assert code == 0, said
                else:
                    lib.stop(tracer)
                    lib.Trace(tmp_path / "t.pyebpf").whole()
            assert not test_inline.memfds(target.pid)
        flag.touch()
        assert target.stdout.readline() == b"fine\n" and target.wait(30) == 0
