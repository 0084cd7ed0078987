# SPDX-License-Identifier: Apache-2.0
"""Targets that are not named: what the tests of `trace` and `record` share. To be used on a machine of its own (machine.py)."""
import contextlib
import os
import subprocess
import time

import pytest

import lib
import machine

SLEEPER = lib.PROGRAMS / "sleeper.py"


@contextlib.contextmanager
def tracing(capture, *options, files=1, user=(), verb="trace"):
    """pyebpf trace (or another verb) OPTIONS, from when its probes are in this many files until the block ends."""
    with lib.started(machine.INSIDE + [*user, lib.BINARY, verb, "-o", capture, *options], stderr=subprocess.PIPE) as tracer:
        def placed():
            assert tracer.poll() is None, lib.text(tracer.stderr.read())
            return len({file for _, file, _ in lib.probes(tracer.pid) if file != lib.BINARY}) >= files
        lib.until(placed, "the probes", 60)
        if user:
            time.sleep(0.5)
        else:  # what it gives up when the last probe is in place
            lib.until(lambda: lib.status_field(tracer.pid, "CapEff") != lib.status_field(os.getpid(), "CapEff"), "the beginning")
        yield tracer
        tracer.said = lib.stop(tracer)


def run(given, *args, **kw):
    """A program to its end; its pid."""
    command, env = given
    process = subprocess.Popen(command + [str(a) for a in args], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, **kw)
    pid = machine.number(process.pid)
    assert process.wait(60) == 0
    return pid


def sleeper(given):
    """A program that waits for a line, then calls mark 1000 times."""
    return lib.started(given[0] + ["-S", SLEEPER], env=given[1], stdin=subprocess.PIPE)


def pid_of(process):
    return int(process.stdout.readline())


def wake(process):
    process.stdin.close()
    assert process.wait(60) == 0


def named(given, name):
    """The same under another name: comm is that of the file."""
    command, env = given
    if len(command) > 1:
        pytest.skip("a loader's name is not the program's")
    path = machine.pathlib.Path(command[0]).with_name(name)
    if not path.exists():
        os.link(command[0], path)
    return [str(path)], env


def plain():
    return next(n for n in lib.families() if len(lib.command(n)) == 1 and lib.family(n) != "3.6")


@contextlib.contextmanager
def cgroup(path, version=2):
    """A cgroup below the root of the hierarchy: that of version 2, or one of version 1 of our own."""
    at = (machine.cgroup2() if version == 2 else machine.cgroup1()) / path
    at.mkdir(parents=True)
    try:
        yield at
    finally:
        for _ in path.split("/"):
            lib.until(lambda: removed(at), "an empty cgroup")
            at = at.parent


def removed(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
        return True


def started_in(folder):
    return {"preexec_fn": lambda: (folder / "cgroup.procs").write_text("0")}


ID = "c0ffee" + 58 * "1"
