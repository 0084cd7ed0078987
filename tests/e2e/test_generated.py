# SPDX-License-Identifier: Apache-2.0
"""Random programs: the trace must equal what the interpreter's own hooks see, event by event.

The seeds are fixed. PYEBPF_SEEDS=100-400 tries others; a seed that fails alone is a reproduction:
    tests/e2e/progen.py SEED 3.N > p.py; tests/accept/trace_exact.py --pyebpf BIN --python PY p.py
"""
import os

import pytest

import lib
import progen
import pythons

pytestmark = lib.needs_root
FIRST, _, LAST = os.environ.get("PYEBPF_SEEDS", "1-24" if not lib.LONG else "1-240").partition("-")
PER_FILE = 12
STARTS = list(range(int(FIRST), int(LAST or FIRST) + 1, PER_FILE))


def runs():
    """In the short form each family has one file of those that there are, neighbours another one."""
    if lib.LONG:
        return [(name, start) for name in lib.every() for start in STARTS]
    return [(name, STARTS[i % len(STARTS)]) for i, name in enumerate(lib.families())]


@pytest.mark.parametrize("name, start", runs())
def test_exact(name, start, tmp_path):
    prog = tmp_path / ("seeds_%d.py" % start)
    seeds = range(start, min(start + PER_FILE, int(LAST or FIRST) + 1))
    prog.write_text(progen.program(seeds, pythons.version(name)))
    checked = lib.exactly("auto", lib.command(name), prog, tmp_path)
    assert checked > 500 * len(seeds)
