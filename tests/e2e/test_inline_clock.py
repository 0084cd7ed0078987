# SPDX-License-Identifier: Apache-2.0
"""The inline engine where the processor's time stamp counter is not steady: its stubs read the kernel's clock, and all else is as ever."""
import pathlib
import shlex
import subprocess

import pytest

import lib
import limits
import test_inline
import test_inline_children
import test_inline_count
import test_inline_opcodes
import test_inline_robust

CLOCKS = "/sys/devices/system/clocksource/clocksource0"
TARGET = "import time\nprint(flush=True)\nwhile 1: time.sleep(0.01)"
CALLS = "def f(): pass\nprint(flush=True)\nwhile 1: f()"


@pytest.fixture(autouse=True)
def unsteady(tmp_path, monkeypatch):
    """pyebpf as it runs where the kernel has struck the counter off its list of clocks."""
    script = tmp_path / "pyebpf"
    inside = limits.without(CLOCKS, {"available_clocksource": "kvm-clock acpi_pm\n"})
    script.write_text("#!/bin/sh\nexec %s \"$@\"\n" % shlex.join([*inside, lib.BINARY]))
    script.chmod(0o755)
    monkeypatch.setattr(lib, "BINARY", str(script))


@pytest.mark.parametrize("name", lib.families() if lib.LONG else lib.pick("3.8", "3.11", "3.12", "3.13t", "3.15"))
def test_exact(name, tmp_path):
    command = test_inline.own(name, tmp_path)
    for prog in ("generators.py", "threads.py"):
        path = str(test_inline.ACCEPT / "workloads" / prog)
        assert lib.exactly("inline", command, path, tmp_path) > 10, prog


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.13t", "3.15"))
def test_time_stamps(name, tmp_path):
    """It is the clock that the program reads: a call is between what it read before and behind it, to the nanosecond."""
    test_inline.check_time_stamps(name, tmp_path, 0)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13"))
def test_counting(name, tmp_path):
    test_inline_count.test_times(name, tmp_path)


def test_instructions(tmp_path):
    test_inline_opcodes.check_sequence(*test_inline_opcodes.run(test_inline.ONE, tmp_path, "own"))


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t", "3.14"))
def test_children(name, tmp_path):
    test_inline_children.test_every_call_of_every_child("both", name, tmp_path)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13"))
def test_in_and_out(name, tmp_path):
    """No stub goes while a thread is in the kernel's clock, and comes back to it from there: it is there for a quarter of its time."""
    with lib.started([*lib.command(name), "-c", CALLS], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        for _ in range(100 if lib.LONG else 12):
            done = test_inline.attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "5ms")
            assert done.returncode == 0 and target.poll() is None, lib.text(done.stderr)
        pid = target.pid
        lib.until(lambda: not test_inline.memfds(pid) or test_inline_robust.detach(pid)[0], "the end of the stubs")


@pytest.mark.parametrize("on_full", ["drop", "wait"])
def test_a_dead_reader(on_full, tmp_path):
    test_inline_robust.test_a_dead_reader_does_not_stop_the_target(test_inline.ONE, on_full, tmp_path)


def test_what_is_left(tmp_path):
    """Who reads, and whether somebody does, is told by the same clock."""
    test_inline_robust.test_detach_after_a_kill(test_inline.ONE, tmp_path)


def test_calls_alone_are_left(tmp_path):
    """Where nothing has the time a dead reader is known by its silence, a living one by its signs."""
    with test_inline_robust.quiet(test_inline.ONE) as target:
        with test_inline_robust.inline(target.pid, tmp_path / "t.pstats", "--count") as tracer:
            code, said = test_inline_robust.detach(target.pid)
            assert code == 5 and "another pyebpf" in said, said
            assert b"is at work" in lib.sh([lib.BINARY, "list", target.pid]).stdout
            tracer.kill()
            tracer.wait()
        code, said = test_inline_robust.detach(target.pid)
        assert code == 0 and "as it was before" in said, said


def test_it_is_said(tmp_path):
    done = lib.sh([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *test_inline.INLINE, "--", *lib.command(test_inline.ONE), "-c", "pass"])
    assert done.returncode == 0 and "counter is not steady" in lib.text(done.stderr)
    found = test_inline_robust.what_doctor_says()
    assert "by the kernel's clock" in found and "time stamp of an event" not in found


CHANGED = """import ctypes
start, end = [int(x, 16) for x in next(l for l in open("/proc/self/maps") if "[vdso]" in l).split()[0].split("-")]
assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 7) == 0
ctypes.memset(end - 1, 1, 1)
"""


def test_a_changed_clock(tmp_path):
    """What a target has written into the kernel's code is not called, nor read."""
    with lib.started([*lib.command(test_inline.ONE), "-c", CHANGED + TARGET], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        done = lib.sh([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *test_inline.INLINE, "-d", "50ms", "-p", target.pid])
        assert done.returncode == 5 and "clock was not found" in lib.text(done.stderr), lib.text(done.stderr)
        assert target.poll() is None


def test_another_time_namespace(tmp_path):
    """There the same clock shows another time."""
    inside = ["unshare", "--time", "--monotonic", "1000", "--fork", "--kill-child"]
    with lib.started([*inside, *lib.command(test_inline.ONE), "-c", TARGET], stdout=subprocess.PIPE) as outer:
        outer.stdout.readline()
        pid = int(pathlib.Path("/proc/%d/task/%d/children" % (outer.pid, outer.pid)).read_text())
        done = lib.sh([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *test_inline.INLINE, "-d", "50ms", "-p", pid])
        assert done.returncode == 5 and "time namespace" in lib.text(done.stderr), lib.text(done.stderr)
        # calls alone need no clock
        done = lib.sh([lib.BINARY, "trace", "-o", tmp_path / "t.pstats", *test_inline.INLINE, "--count", "-d", "50ms", "-p", pid])
        assert done.returncode == 0, lib.text(done.stderr)


UNSHARED = """import ctypes, os, sys
def f(): pass
assert ctypes.CDLL(None, use_errno=True).unshare(0x80) == 0
pid = os.fork()
for _ in range(100): f()
if pid: os.waitpid(pid, 0)
"""


def test_a_child_in_another_time_namespace(tmp_path):
    """It goes on untraced, which is said."""
    prog = tmp_path / "unshared.py"
    prog.write_text(UNSHARED)
    done = lib.sh([lib.BINARY, "trace", "-s", "-o", tmp_path / "t.pyebpf", *test_inline.INLINE, "--", *lib.command(test_inline.ONE), prog])
    assert done.returncode == 0 and "time namespace" in lib.text(done.stderr), lib.text(done.stderr)
    assert lib.Trace(tmp_path / "t.pyebpf").count(str(prog), "call")["f"] == 100
