# SPDX-License-Identifier: Apache-2.0
"""`pyebpf dump`: every thread of a process, with names and lines, without a trace of it in the process."""
import re
import time

import pytest

import lib

pytestmark = lib.needs_root
PROGRAM = lib.PROGRAMS / "sampled" / "attached.py"


@pytest.mark.parametrize("name", lib.families())
def test_every_thread_has_its_stack(name):
    with lib.started([*lib.command(name), PROGRAM]) as target:
        limit = time.monotonic() + 20
        while True:
            done = lib.sh([lib.BINARY, "dump", target.pid])
            said = lib.text(done.stdout)
            if "sleeps" in said or time.monotonic() > limit:
                break
            time.sleep(0.05)
        assert done.returncode == 0, lib.text(done.stderr)
        status = open("/proc/%d/status" % target.pid, encoding="ascii").read()
    assert "TracerPid:\t0" in status
    threads = [t.splitlines() for t in said.split("\nThread ")[1:]]
    assert len(threads) == 2, said
    asleep = next(t for t in threads if re.search(r" sleeps \(.*attached.py:13\)$", t[1]))
    assert re.search(r"(Thread\.)?run \(.*threading.py:\d+\)$", asleep[2]) and len(asleep) == 5
    busy = next(t for t in threads if t is not asleep)
    # "while True: pass" holds still as far as frames go
    assert re.search(r" busy \(.*attached.py:[89]\)$", busy[1]), said
    assert re.search(r" <module> \(.*attached.py:19\)$", busy[2]), said


def test_what_is_no_python_is_said():
    with lib.started(["sleep", "60"]) as target:
        done = lib.sh([lib.BINARY, "dump", target.pid])
    assert done.returncode == 4 and b"not Python" in done.stderr, done.stderr
