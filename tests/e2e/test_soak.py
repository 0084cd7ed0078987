# SPDX-License-Identifier: Apache-2.0
"""The short forms of scripts/soak."""
import sys

import lib

pytestmark = lib.needs_root


def test_processes_threads_exec_and_attaches_come_and_go():
    done = lib.sh([sys.executable, lib.HERE / "soak.py", 600 if lib.LONG else 8], timeout=1200)
    assert done.returncode == 0, lib.text(done.stdout + done.stderr)[-3000:]
    assert done.stdout.startswith(b"soak: ")


def test_no_impossible_stack_in_many_samples():
    """All interpreters have 10^5 of them in test_record.py."""
    samples = 1000000 if lib.LONG else 8000
    names = lib.families() if lib.LONG else [n for n in lib.families() if lib.family(n) in ("3.12", "3.14")]
    done = lib.sh([sys.executable, lib.HERE / "soak_samples.py", samples, *names], timeout=3600)
    assert done.returncode == 0, lib.text(done.stdout + done.stderr)[-3000:]
    assert b"0 impossible" in done.stdout.splitlines()[-1]
