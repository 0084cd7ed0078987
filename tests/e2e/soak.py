#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: soak.py SECONDS (called by scripts/soak and test_soak.py): under one trace with -a, processes, threads and programs that
are executed come and go, and other traces attach and go. Its memory has to stay where it is, and its counts to be those of the
programs. Prints a line of figures; fails when something is not as it has to be."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import lib
import machine

sys.path.insert(0, str(lib.HERE.parents[1] / "bench"))
import growth  # noqa: E402 pylint: disable=wrong-import-position

CALLS, KINDS = 200, ("calls", "threads", "forks", "exec")
GROWTH_BYTES = 1 << 20


def churn(given):
    """One program of each kind, side by side, to their ends; the calls that they made."""
    command, env = given
    programs = [subprocess.Popen(command + ["-S", str(lib.PROGRAMS / "churn.py"), kind, str(CALLS)], env=env,
                                 stdin=subprocess.DEVNULL) for kind in KINDS]
    for program in programs:
        assert program.wait(120) == 0
    return CALLS * len(programs)


def attach(pid, capture):
    """Another trace for a moment, of the one process that stays."""
    done = lib.sh(machine.INSIDE + [lib.BINARY, "trace", "-q", "--force", "-o", capture, "-p", pid, "-d", "100ms"])
    assert done.returncode == 0, done.stderr
    return 1


def counted(capture):
    """Calls of mark in a capture, and whether nothing was lost."""
    text = lib.convert(capture)
    meta = lib.json.loads(text.splitlines()[-1])
    assert meta["generated"] == meta["written"] + sum(meta["dropped"].values())
    return sum(b'"ev":"call"' in line and b'"name":"mark"' in line for line in text.splitlines()), sum(meta["dropped"].values())


def soak(given, folder, seconds):
    capture, rounds, calls, attaches, memory = folder / "all.pyebpf", 0, 0, 0, []
    with lib.started(given[0] + ["-S", lib.PROGRAMS / "sleeper.py"], env=given[1], stdin=subprocess.PIPE) as stays:
        pid = int(stays.stdout.readline())
        with lib.started(machine.INSIDE + [lib.BINARY, "trace", "-a", "-q", "-o", capture], stderr=subprocess.PIPE) as tracer:
            lib.until(lambda: [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY], "the probes", 60)
            lib.until(lambda: lib.status_field(tracer.pid, "CapEff") != lib.status_field(os.getpid(), "CapEff"), "the beginning")
            begin = time.monotonic()
            while time.monotonic() - begin < seconds or rounds < 8:
                calls += churn(given)
                attaches += attach(pid, folder / "one.pyebpf")
                rounds += 1
                memory.append((growth.memory_of(tracer.pid), len(os.listdir("/proc/%d/fd" % tracer.pid))))
            lib.stop(tracer)
    seen, lost = counted(capture)
    warm = memory[len(memory) // 2:]
    grown = warm[-1][0] - warm[0][0]
    print("soak: %.0f s, %d rounds, %d processes, %d attaches; %d calls, %d seen, %d events lost; memory %.1f MB, grown by %.2f MB "
          "in the second half, %d files open, %d then" % (time.monotonic() - begin, rounds, rounds * (len(KINDS) + 4), attaches, calls,
                                                       seen, lost, warm[-1][0] / 1e6, grown / 1e6, warm[0][1], warm[-1][1]))
    assert seen == calls and not lost, "mismatches"
    assert grown <= GROWTH_BYTES and warm[-1][1] <= warm[0][1], "not flat: %s" % memory[::max(1, len(memory) // 20)]


def main():
    # an interpreter with one copy of its files, and a machine of its own: nothing else is traced
    name = next(n for n in lib.families() if lib.family(n) == "3.12")
    with tempfile.TemporaryDirectory(prefix="pyebpf-soak-") as folder:
        given = machine.private(name, folder)
        machine.alone(lambda: soak(given, pathlib.Path(folder), float(sys.argv[1])))()


if __name__ == "__main__":
    main()
