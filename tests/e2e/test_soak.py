# SPDX-License-Identifier: Apache-2.0
"""The short form of scripts/soak."""
import sys

import lib

pytestmark = lib.needs_root


def test_processes_threads_exec_and_attaches_come_and_go():
    done = lib.sh([sys.executable, lib.HERE / "soak.py", 600 if lib.LONG else 8], timeout=1200)
    assert done.returncode == 0, lib.text(done.stdout + done.stderr)[-3000:]
    assert done.stdout.startswith(b"soak: ")
