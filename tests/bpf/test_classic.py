# SPDX-License-Identifier: Apache-2.0
"""The way of the oldest kernel, by --classic-uprobes: a perf event and a link for each probe, for every
process, and programs that may not sleep. Its traces are as exact as those of newer kernels."""
import functools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import lib
import pythons
from conftest import interpreter_named
from ndjson import events

pytestmark = pytest.mark.needs_root

HERE = pathlib.Path(__file__).resolve().parent
ACCEPT = HERE.parent / "accept"
TARGET = ACCEPT / "targets" / "attach_target.py"
# One of each shape of the probe plan, and that with USDT notes: what differs from the newest way is how a probe is
# placed, not where.
PROGRAMS = [p for p in sorted((ACCEPT / "workloads").glob("*.py")) if lib.LONG or p.stem in ("calls", "generators", "threads")]
SHAPES = sorted(set(lib.pick("3.6", "3.10", "3.11", "3.13t", "3.15")) | {"3.9-bullseye"} & set(pythons.names()))


@pytest.fixture(params=SHAPES)
def interpreter(request):
    return interpreter_named(request.param)


@pytest.fixture
def classic(pyebpf, monkeypatch):
    monkeypatch.setenv("PYEBPF", str(pyebpf.path))
    return HERE / "classic"


def check(script, classic, interpreter, *args):
    return subprocess.run([sys.executable, script, "--pyebpf", classic, "--python",
                           shlex.join(interpreter.command), *args], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", check=False)


@functools.lru_cache(maxsize=None)
def has_usdt(program, command):
    """Whether the engine usdt takes this build: its probes must see every call (exit 5 if not)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "trace", "--engine", "usdt", "-q", "-o", folder + "/u.pyebpf", "--",
                               *command, "-c", "pass"], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def engines(pyebpf, interpreter):
    usdt = has_usdt(pyebpf.path, tuple(interpreter.command))
    return ["--engine", "auto"] + ["--engine", "usdt"] * usdt


def test_events_are_exact(pyebpf, classic, interpreter):
    programs = [p for p in PROGRAMS if p.name != "coroutines.py" or interpreter.version >= (3, 7)]  # asyncio.run
    done = check(ACCEPT / "trace_exact.py", classic, interpreter, *engines(pyebpf, interpreter), *programs)
    assert done.returncode == 0, done.stdout


def test_attaches_exactly(pyebpf, classic, interpreter, tmp_path):
    done = check(HERE / "attach.py", classic, interpreter, "--work", tmp_path, *engines(pyebpf, interpreter))
    assert done.returncode == 0, done.stdout


def semaphores(pid, elf):
    """The words in memory that a program reads to know whether a USDT probe has a listener."""
    notes = subprocess.run(["readelf", "-n", elf], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           encoding="utf-8", check=True).stdout
    addresses = [int(a, 16) for a in re.findall(
        r"Name: function__(?:entry|return)\n.*Semaphore: (0x[0-9a-f]+)", notes)]
    with open("/proc/%d/mem" % pid, "rb") as memory:
        for address in addresses:
            memory.seek(address)
            yield int.from_bytes(memory.read(2), "little")


def test_usdt_semaphores_are_raised_and_lowered(pyebpf, classic, interpreter, tmp_path):
    """The kernel counts them up where the event says they are (bits 32 to 63 of its config)."""
    if not has_usdt(pyebpf.path, tuple(interpreter.command)):
        pytest.skip("this build has no complete USDT probes")
    with subprocess.Popen(interpreter.command + [TARGET, tmp_path / "flag"], stdout=subprocess.PIPE) as target:
        try:
            pid = int(target.stdout.readline())
            elf = os.path.realpath(interpreter.command[-1])
            before = list(semaphores(pid, elf))
            assert before and set(before) == {0}
            with subprocess.Popen([classic, "trace", "--engine", "usdt", "-q", "-o", tmp_path / "a.pyebpf",
                                   "-p", str(pid)]) as tracer:
                end = time.monotonic() + 30
                while set(semaphores(pid, elf)) == {0} and time.monotonic() < end:
                    time.sleep(0.05)
                time.sleep(0.2)
                during = set(semaphores(pid, elf))
                tracer.send_signal(signal.SIGINT)
            assert during == {1}
            assert tracer.returncode == 0
            assert set(semaphores(pid, elf)) == {0}
        finally:
            target.kill()


def test_other_processes_of_the_file_are_ignored(classic, any_python, tmp_path):
    """Classic probes fire in every process that runs the file."""
    capture = tmp_path / "a.pyebpf"
    command = any_python.command + [TARGET]
    with subprocess.Popen(command + [tmp_path / "1"], stdout=subprocess.PIPE) as wanted, \
            subprocess.Popen(command + [tmp_path / "2"], stdout=subprocess.PIPE) as other:
        try:
            pid = int(wanted.stdout.readline())
            other.stdout.readline()
            subprocess.run([classic, "trace", "-q", "-d", "300ms", "-o", capture, "-p", str(pid)], check=True)
        finally:
            wanted.kill()
            other.kill()
    assert {e["pid"] for e in events(str(classic), str(capture))} == {pid}
