# SPDX-License-Identifier: Apache-2.0
"""accept's trace_attach.py for an emulated machine: loading takes longer there than the three seconds
that it gives, so it waits until the probes are in its target."""
import glob
import sys
import time
import types

sys.path.insert(0, "/tests/accept")
import trace_attach  # noqa: E402


def has_probes(maps):
    """The kernel maps a page into a process that hits probes; pyebpf hits its own when it measures."""
    try:
        with open(maps) as f, open(maps.replace("maps", "comm")) as comm:
            return "[uprobes]" in f.read() and comm.read() != "pyebpf\n"
    except OSError:
        return False


def wait(_):
    end = time.monotonic() + 60
    while time.monotonic() < end and not any(map(has_probes, glob.glob("/proc/[0-9]*/maps"))):
        time.sleep(0.2)
    time.sleep(2)


trace_attach.time = types.SimpleNamespace(sleep=wait)
sys.exit(trace_attach.main())
