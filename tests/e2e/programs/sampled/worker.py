# SPDX-License-Identifier: Apache-2.0
"""Computes for so many ms of its own CPU time; then, perhaps, executes what follows."""
import os
import sys
import time


def work(cpu_ms):
    end = time.process_time() + cpu_ms / 1e3  # the interpreter's start has taken some
    while time.process_time() < end:
        pass


work(float(sys.argv[1]))
if sys.argv[2:]:
    for name in ("PYTHONHOME", "LD_LIBRARY_PATH"):
        os.environ.pop(name, None)
    os.environ.update(e.split("=", 1) for e in sys.argv[2].split(";") if e)
    os.execvp(sys.argv[3], sys.argv[3:])
