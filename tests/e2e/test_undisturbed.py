# SPDX-License-Identifier: Apache-2.0
"""The target is never disturbed: whatever happens to pyebpf, it goes on, and its code is as it was."""
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import shlex
import signal
import subprocess
import threading
import time

import pytest

import lib
import machine

pytestmark = lib.needs_root
STEADY = lib.PROGRAMS / "steady.py"
KILLS = 200 if lib.LONG else 14


class Steady:
    """A running steady.py whose lines are read all the time."""

    def __init__(self, process):
        self.process, self.last, self.at = process, 0, time.monotonic()
        self.pid = int(process.stdout.readline())
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.last = int(line)

    def goes_on(self):
        before = self.last
        lib.until(lambda: self.last > before or self.process.poll() is not None, "a sign of life", 30)
        assert self.process.poll() is None, "the target died: %s" % self.process.returncode


@contextlib.contextmanager
def steady(name):
    with lib.started(lib.command(name) + [STEADY]) as process:
        yield Steady(process)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_killed_at_any_moment(name, tmp_path):
    chance = random.Random(7)
    capture = tmp_path / "t.pyebpf"
    with steady(name) as target:
        assert lib.left_in_code(target.pid) == []
        seen_probes = readable = 0
        whole = 3.0
        for n in range(KILLS // len(lib.pick("3.8", "3.12")) + 1):
            with contextlib.suppress(FileNotFoundError):
                capture.unlink()
            begun = time.monotonic()
            with lib.attach(target.pid, capture, stderr=subprocess.DEVNULL) as tracer:
                wait = chance.random() * whole
                while time.monotonic() - begun < wait and tracer.poll() is None:
                    time.sleep(0.002)
                if n == 0:
                    lib.wait_attached(tracer, target.pid)
                    whole = (time.monotonic() - begun) * 1.3 + 0.2
                    assert lib.code_differs(target.pid), "no probes"
                assert tracer.poll() is None
                tracer.kill()
                tracer.wait(60)
            lib.until(lambda: lib.left_in_code(target.pid) == [], "the code as it was", 10)
            target.goes_on()
            lib.nothing_left()
            if capture.exists() and capture.stat().st_size:
                seen_probes += 1
                done = lib.sh([lib.BINARY, "convert", capture, "--format", "ndjson", "-o", "-"])
                readable += done.returncode == 0
        assert seen_probes and readable == seen_probes


def placed_at(pid):
    """Addresses of what lib.code_differs() tells."""
    code = lib.mapped_code(pid)
    return [start + offset - begin for file, offset in lib.code_differs(pid) for start, end, begin, name in code
            if name == file and begin <= offset < begin + end - start]


def wait_for_traps(mem, places, some):
    """Until some of the places have a breakpoint, or some have none; looks as often as it can."""
    end = time.monotonic() + 60
    while not any((os.pread(mem, 1, at) == b"\xcc") == some for at in places):
        assert time.monotonic() < end


@pytest.mark.parametrize("moment, killed", [("places", "it"), ("takes out", "it"), ("takes out", "its group")])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_killed_while_it_places_probes_or_takes_them_out(name, moment, killed, tmp_path):
    """The kernel gives a probe up half-way when who asks for it is killed, and leaves its breakpoint: a process of its own asks.
    When that is killed as well, the target goes on, and the next trace takes the breakpoints out."""
    chance = random.Random(3)
    command, env = machine.private(name, tmp_path)
    with lib.started(command + [STEADY], env=env) as process:
        target = Steady(process)
        with lib.attach(target.pid, tmp_path / "t.pyebpf") as tracer:
            lib.wait_attached(tracer, target.pid)
            places = placed_at(target.pid)
            lib.stop(tracer)
        assert len(places) > 4
        mem = os.open("/proc/%d/mem" % target.pid, os.O_RDONLY)
        for _ in range(KILLS // 4 + 2):
            with lib.attach(target.pid, tmp_path / "t.pyebpf", "--force", stderr=subprocess.DEVNULL,
                            start_new_session=True) as tracer:
                if moment == "takes out":
                    lib.wait_attached(tracer, target.pid)
                    tracer.send_signal(signal.SIGINT)
                wait_for_traps(mem, places, moment == "places")
                time.sleep(chance.choice((0, 0.001, 0.004)) * chance.random())
                (tracer.kill if killed == "it" else lambda: os.killpg(tracer.pid, signal.SIGKILL))()
                tracer.wait(60)
            if killed == "it":
                lib.until(lambda: lib.left_in_code(target.pid) == [], "the code as it was", 10)
            target.goes_on()
        os.close(mem)
        with lib.attach(target.pid, tmp_path / "t.pyebpf", "--force") as tracer:
            lib.wait_attached(tracer, target.pid)
            lib.stop(tracer)
        assert lib.left_in_code(target.pid) == []
        target.goes_on()
        lib.nothing_left()


@pytest.mark.parametrize("name", lib.pick("3.11"))
def test_killed_while_it_launches(name, tmp_path):
    """The command is ours and was held: it runs on by itself, or it never began; it does not stay stopped."""
    chance = random.Random(11)
    done = stopped = 0
    for n in range(KILLS // 3):
        mark = tmp_path / ("mark%d" % n)
        code = "open(%r, 'w').write('x')" % str(mark)
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / ("t%d.pyebpf" % n), "--"] + lib.command(name)
                         + ["-c", code], stderr=subprocess.DEVNULL) as tracer:
            children = pathlib.Path("/proc/%d/task/%d/children" % (tracer.pid, tracer.pid))
            begun = time.monotonic()
            wait = chance.random() * 1.2
            pids = []
            while time.monotonic() - begun < wait and tracer.poll() is None:
                with contextlib.suppress(OSError):
                    pids = [int(p) for p in children.read_text().split()] or pids
                time.sleep(0.001)
            tracer.kill()
            tracer.wait(60)
        for pid in pids:
            lib.until(lambda: state(pid) not in "RSDtT" or not mine(pid, mark), "the end of the command", 20)
        done += mark.exists()
    lib.nothing_left()


def test_killed_while_descendants_are_held(tmp_path):
    """With -s what the command starts is stopped for a moment, too, at each exec and each mapping of code."""
    chance = random.Random(13)
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    held = 0
    for n in range(KILLS // 3):
        for mark in (begun, ended):
            mark.unlink(missing_ok=True)
        script = "touch %s; for i in $(seq 40); do %s -S -c pass; done; touch %s" % (
            begun, shlex.join(lib.any_python()), ended)
        with lib.started([lib.BINARY, "trace", "-s", "-o", tmp_path / ("s%d.pyebpf" % n), "--", "sh", "-c", script],
                         stderr=subprocess.DEVNULL) as tracer:
            lib.until(begun.exists, "the command", 20)
            time.sleep(chance.random() * 0.4)
            held += ended.exists() is False
            tracer.kill()
            tracer.wait(60)
        lib.until(ended.exists, "the end of the command", 30)
    assert held
    lib.nothing_left()


def keep_programs(pid):
    """BPF programs that a process has attached stay so, as long as these are open: pidfd_getfd(2)."""
    libc, process, kept = ctypes.CDLL(None), os.pidfd_open(pid), []
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            if "bpf" in os.readlink("/proc/%d/fd/%s" % (pid, fd)):
                kept.append(libc.syscall(438, process, int(fd), 0))
    os.close(process)
    return [fd for fd in kept if fd >= 0]


def test_killed_and_programs_of_the_kernel_live_longer(tmp_path):
    """It takes them out when it comes to that, on a busy machine long after we are dead: they hold nobody any more."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = "touch %s; sleep 2; %s -S -c pass; touch %s" % (begun, shlex.join(lib.any_python()), ended)
    with lib.started([lib.BINARY, "trace", "-s", "-o", tmp_path / "t.pyebpf", "--", "sh", "-c", script], stderr=subprocess.DEVNULL) as tracer:
        lib.until(begun.exists, "the command", 20)
        kept = keep_programs(tracer.pid)
        tracer.kill()
        tracer.wait(60)
    try:
        assert kept
        lib.until(ended.exists, "the end of the command", 30)
    finally:
        for fd in kept:
            os.close(fd)
    lib.nothing_left()


def state(pid):
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "-"


def mine(pid, mark):
    with contextlib.suppress(OSError):
        return str(mark).encode() in pathlib.Path("/proc/%d/cmdline" % pid).read_bytes()
    return False


@pytest.mark.parametrize("name", lib.pick("3.10", "3.13"))
def test_the_code_is_as_before_after_a_clean_end(name, tmp_path):
    with steady(name) as target:
        before = lib.left_in_code(target.pid)
        with lib.attach(target.pid, tmp_path / "t.pyebpf") as tracer:
            lib.wait_attached(tracer, target.pid)
            placed = {at for pid, _, at in lib.probes(tracer.pid) if pid == target.pid}
            assert {at for _, at in lib.code_differs(target.pid)} <= placed
            lib.stop(tracer)
        assert before == lib.left_in_code(target.pid) == []
        target.goes_on()


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
@pytest.mark.parametrize("form", ["pid", "command"])
def test_no_ptrace_and_no_write(form, tmp_path):
    log = tmp_path / "strace"
    name = lib.pick("3.12")[0]
    calls = "trace=ptrace,process_vm_writev,process_madvise,open,openat,openat2,pidfd_getfd,kill,tgkill,tkill"
    with steady(name) as target:
        given = ["-p", target.pid] if form == "pid" else ["--"] + lib.command(name) + [lib.PROGRAMS / "leafs.py", 100]
        done = lib.sh(["strace", "-o", log, "-e", calls, lib.BINARY, "trace", "-d", "1s", "-o", tmp_path / "t.pyebpf"] + given)
        assert done.returncode == 0, done.stderr
        target.goes_on()
    said = log.read_text(errors="replace")
    assert "openat" in said
    assert not re.search(r"\bptrace\(|process_vm_writev|process_madvise|pidfd_getfd", said)
    for line in said.splitlines():
        if "/mem\"" in line:
            assert "O_RDONLY" in line, line
        if line.startswith(("kill(", "tgkill(", "tkill(")) and form == "pid":
            assert not re.match(r"\w+\(%d," % target.pid, line), line


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_no_tracer_shows(name, tmp_path):
    with steady(name) as target:
        tracers, states = set(), set()
        with lib.attach(target.pid, tmp_path / "t.pyebpf", "-d", "1s") as tracer:
            while tracer.poll() is None:
                tracers.add(lib.status_field(target.pid, "TracerPid"))
                states.add(lib.status_field(target.pid, "State")[0])
            lib.finish(tracer)
        assert tracers == {"0"} and not states & {"t", "T"}


SPEED = """
import sys, time
def leaf(n): return n
def rounds():
    t = time.process_time()
    for i in range(100000): leaf(i)
    return time.process_time() - t
print("ready", flush=True)
for line in sys.stdin:
    print(rounds(), flush=True)
"""


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_a_process_beside_the_traced_one_pays_nothing(name, tmp_path):
    """Same interpreter file, not traced: a probe costs 30 times a call, so a factor of 2 tells. Interleaved, least of many."""
    def least(process, n=9):
        best = None
        for _ in range(n):
            process.stdin.write(b"\n")
            process.stdin.flush()
            took = float(process.stdout.readline())
            best = took if best is None else min(best, took)
        return best

    with steady(name) as target, lib.started(lib.command(name) + ["-c", SPEED], stdin=subprocess.PIPE) as beside:
        beside.stdout.readline()
        alone = least(beside)
        with lib.attach(target.pid, tmp_path / "t.pyebpf") as tracer:
            lib.wait_attached(tracer, target.pid)
            assert lib.code_differs(target.pid) and not lib.left_in_code(beside.pid, tracer.pid)
            traced = least(beside)
            with lib.attach(beside.pid, tmp_path / "u.pyebpf") as second:
                lib.wait_attached(second, beside.pid)
                own = least(beside, 2)
                lib.stop(second)
            lib.stop(tracer)
        alone = min(alone, least(beside))
    assert traced < 2 * alone, (traced, alone)
    assert own > 3 * alone, "probes would not have shown"


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13"))
def test_two_tracers_at_once(name, tmp_path):
    flag = tmp_path / "flag"
    waits = lib.PROGRAMS / "waits.py"
    with lib.started(lib.command(name) + [waits, flag]) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, tmp_path / "a.pyebpf") as one, lib.attach(pid, tmp_path / "b.pyebpf") as two:
            lib.wait_attached(one, pid)
            lib.wait_attached(two, pid)
            flag.touch()
            assert target.wait(60) == 0
            lib.finish(one)
            lib.finish(two)
    for capture in ("a.pyebpf", "b.pyebpf"):
        assert lib.Trace(tmp_path / capture).whole().count(waits, "call")["mark"] == 1000


@pytest.fixture(autouse=True)
def nothing_pinned():
    yield
    lib.nothing_left()
