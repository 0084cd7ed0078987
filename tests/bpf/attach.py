# SPDX-License-Identifier: Apache-2.0
"""accept's trace_attach.py for a slow machine (emulated, or busy): where the probes take longer to place
than the three seconds that it gives, its target goes on and ends. This waits until the capture grows.

usage: attach.py --work DIR, and what trace_attach.py takes; DIR has nothing else in it
"""
import glob
import os
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "accept"))
import trace_attach  # noqa: E402 pylint: disable=wrong-import-position

WORK = sys.argv[sys.argv.index("--work") + 1]


def written():
    """Bytes of the capture, under whatever name while it is made."""
    names = glob.glob(WORK + "/tmp*/*pyebpf*") + glob.glob(WORK + "/tmp*/.*pyebpf*")
    return sum(os.path.getsize(name) for name in names)


def wait(_):
    end = time.monotonic() + 60
    while time.monotonic() < end and written() < 2000:
        time.sleep(0.1)


trace_attach.time = types.SimpleNamespace(sleep=wait)
sys.exit(trace_attach.main())
