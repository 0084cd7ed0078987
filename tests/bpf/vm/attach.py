# SPDX-License-Identifier: Apache-2.0
"""accept's trace_attach.py for an emulated machine: loading takes longer there than the three seconds
that it gives, so it waits until the capture grows."""
import glob
import os
import sys
import time
import types

sys.path.insert(0, "/tests/accept")
import trace_attach  # noqa: E402


def written():
    """Bytes of the capture, under whatever name while it is made."""
    return sum(os.path.getsize(path) for path in glob.glob("/tmp/tmp*/*pyebpf*") + glob.glob("/tmp/tmp*/.*pyebpf*"))


def wait(_):
    end = time.monotonic() + 60
    while time.monotonic() < end and written() < 2000:
        time.sleep(0.1)


trace_attach.time = types.SimpleNamespace(sleep=wait)
sys.exit(trace_attach.main())
