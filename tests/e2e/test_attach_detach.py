# SPDX-License-Identifier: Apache-2.0
"""Attached and detached again and again while the target works, and beside another tracer: both are right, and nothing stays."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest

import exact_load
import lib
import machine

pytestmark = lib.needs_root


def has_tests(name):
    """Whether it came with the library's own tests: Debian has them in a package of their own."""
    return lib.sh(lib.command(name) + ["-c", "import test.test_generators"]).returncode == 0


SHORT = [n for n in lib.families() if lib.family(n) in ("3.8", "3.12") and n.startswith("pyenv")]  # others come without the library's tests
WITH_TESTS = [n for n in lib.families() if has_tests(n)] if lib.LONG else SHORT
ROUNDS = 1000 if lib.LONG else 20 // max(1, len(WITH_TESTS)) + 1  # of the long form with each


def read_runs(process, runs):
    """Reads what stdlib_tests.py prints: the number of tests of each whole run."""
    runs.extend(int(line) for line in process.stdout)


def is_fine(target):
    assert target.poll() is None, "the target: exit %s, " % target.poll() + lib.text(target.stderr.read())
    return True


def a_round(target, capture, objects):
    """Attaches, sees events, detaches; nothing of it stays in the target's code. The number of events."""
    with lib.attach(target.pid, capture, "--force") as tracer:
        def placed():
            assert is_fine(target) and tracer.poll() is None, lib.text(tracer.stderr.read())
            return [p for p in lib.probes(tracer.pid) if p[0] == target.pid]
        lib.until(placed, "probes", 60)
        objects |= lib.kernel_objects(tracer.pid)
        time.sleep(0.05)
        assert is_fine(target)
        lib.stop(tracer)
    lib.until(lambda: is_fine(target) and lib.left_in_code(target.pid) == [], "the code as it was")
    # Cheaper than to look at each event, which test_counts does.
    done = lib.sh([lib.BINARY, "stats", capture])
    assert done.returncode == 0, done.stderr
    return int(re.search(r"^events +(\d+)", lib.text(done.stdout), re.M).group(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_TESTS)
def test_while_tests_of_the_library_pass(name, tmp_path):
    """The target runs tests of the standard library all the time; they pass as they do without a tracer. Its files are its own:
    who traces all processes of an interpreter has probes in them, too."""
    command, env = machine.private(name, tmp_path)
    flag, runs, events = tmp_path / "flag", [], []
    objects = set()
    with lib.started(command + [lib.PROGRAMS / "stdlib_tests.py", flag], env=env, stderr=subprocess.PIPE) as target:
        target.stdout.readline()
        reader = threading.Thread(target=read_runs, args=(target, runs))
        reader.start()
        lib.until(lambda: is_fine(target) and runs, "a whole run without a tracer", 120)
        events = [a_round(target, tmp_path / "t.pyebpf", objects) for _ in range(ROUNDS)]
        traced = len(runs)
        lib.until(lambda: is_fine(target) and len(runs) > traced, "a whole run after them", 120)
        flag.touch()
        assert target.wait(120) == 0, lib.text(target.stderr.read())
        reader.join()
    assert len(set(runs)) == 1 and runs[0] > 150, "not the same tests each time"
    assert sum(n > 0 for n in events) > ROUNDS / 4, "mostly nothing was traced"
    assert {kind for kind, _ in objects} == {"prog", "map", "link"}
    lib.until(lambda: not objects & lib.all_kernel_objects(), "the end of what was in the kernel")
    lib.nothing_left()


# What ends or begins each frame: pyebpf's own probe sits on the first instruction of these, too.
SAME = {"3.8": "_PyEval_EvalFrameDefault", "3.12": "_PyEvalFrameClearAndPop", "3.13": "_PyEval_FrameClearAndPop"}


@pytest.mark.parametrize("first", ["bpftrace", "pyebpf"])
@pytest.mark.parametrize("name", [n for n in lib.pick(*SAME) if lib.family(n) in SAME and n.startswith("pyenv")])
def test_bpftrace_beside_it(name, first, tmp_path):
    """On the same instruction, whichever came first: each counts every call, and goes on when the other ends."""
    program, capture = lib.PROGRAMS / "sleeper.py", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + ["-S", program], stdin=subprocess.PIPE) as target:
        pid = int(target.stdout.readline())
        library = next(file for _, _, _, file in lib.mapped_code(pid) if "libpython3" in file)
        script = 'BEGIN { printf("ready\\n"); } uprobe:%s:%s / pid == %d / { @n++; }' % (library, SAME[lib.family(name)], pid)
        other = lib.started(["bpftrace", "-p", pid, "-e", script], stderr=subprocess.PIPE)
        ours = lib.attach(pid, capture)
        with (other if first == "bpftrace" else ours) as one:
            began(one, pid)
            with (ours if first == "bpftrace" else other) as two:
                began(two, pid)
                target.stdin.close()
                assert target.wait(60) == 0
                one, two = (one, two) if first == "pyebpf" else (two, one)
                lib.finish(one)
                counted = two.communicate(timeout=60)[0]
    seen = lib.Trace(capture).whole()
    assert seen.count(program, "call")["mark"] == 1000
    # the module's own call began before, so only its return is seen
    assert int(re.search(rb"@n: (\d+)", counted).group(1)) == sum(
        e["ev"] in (lib.ENTER if lib.family(name) == "3.8" else lib.LEAVE) for e in seen.events)


def has_clocks(pid):
    """Whether a process holds events of perf open."""
    fds = pathlib.Path("/proc/%d/fd" % pid)
    return any("[perf_event]" in os.readlink(fd) for fd in fds.iterdir())


@pytest.mark.parametrize("command", ["trace", "record"])
def test_perf_beside_it(command, tmp_path):
    """It samples the same process by the clocks that our record uses: both see the program, and all of our events are there."""
    out, flag, capture, data = (tmp_path / n for n in ("out", "flag", "t.pyebpf", "perf.data"))
    name, = lib.pick("3.12")
    with lib.started(lib.command(name) + [exact_load.LOAD, out, 1, 2, flag]) as target:
        pid = int(target.stdout.readline())
        with lib.started(["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-p", pid, "-o", data], stderr=subprocess.PIPE) as perf:
            lib.until(lambda: is_fine(perf) and has_clocks(perf.pid), "its clocks", 60)
            with lib.started([lib.BINARY, command, "-o", capture, "-p", pid], stderr=subprocess.PIPE) as ours:
                lib.until(lambda: is_fine(ours) and lib.waits_for_events(ours.pid), "our clocks", 60)
                if command == "trace":
                    lib.wait_attached(ours, pid)
                flag.touch()
                assert target.wait(60) == 0
                lib.finish(ours)
            perf.send_signal(signal.SIGINT)
            perf.communicate(timeout=60)
    theirs = lib.sh(["perf", "script", "-i", data, "-F", "pid"]).stdout.split()
    assert theirs and set(theirs) == {b"%d" % pid}
    if command == "trace":
        exact_load.check_exact(lib.Trace(capture).whole(), exact_load.counted(out))
    else:
        on = [s for s in map(json.loads, lib.convert(capture).splitlines()) if s["ev"] == "sample" and s["state"] == "on"]
        assert {"root", "branch"} <= {f["func"] for s in on for f in s["stack"]}


def began(tracer, pid):
    if tracer.args[0] == "bpftrace":
        while tracer.stdout.readline() not in (b"ready\n", b""):
            pass
    else:
        lib.wait_attached(tracer, pid)
