# SPDX-License-Identifier: Apache-2.0
"""What programs/load.py counted against the trace of it: every event is there, or in a gap of its thread."""
import collections
import json

import lib

LOAD = lib.PROGRAMS / "load.py"
MINE = {"leaf", "branch", "root", "numbers"}


def check_exact(seen, counts):
    """What each thread counted = its events written + those in its gaps; totals agree; what is after a gap is right."""
    meta = seen.meta
    assert meta["generated"] == meta["written"] + seen.lost
    assert meta["written"] == sum(e["ev"] in lib.ENTER | lib.LEAVE for e in seen.events)
    gaps = collections.Counter()
    for g in seen.gaps:
        gaps[g["tid"]] += g["n"]
        assert g["until_ns"] >= g["ts_ns"]
    assert sum(gaps.values()) == seen.lost, "a loss that is not a gap, or the other way round"
    got, other = collections.Counter(), collections.Counter()
    for e in seen.events:
        if e["ev"] in lib.ENTER | lib.LEAVE:
            (got if e["name"] in MINE and e["file"] == str(LOAD) else other)[e["tid"]] += 1
    for tid, n in counts.items():
        # what else the thread does (its start, its end) is little, and can be in a gap, too
        assert n <= got[tid] + gaps[tid] <= n + 60, (tid, n, got[tid], gaps[tid], other[tid])
        if not gaps[tid]:
            assert got[tid] == n
    legal = {("branch", "leaf"), ("root", "branch"), ("work", "root"), ("work", "numbers"), ("run", "work")}
    stacks = {}
    for e in seen.events:
        if e["ev"] == "gap":
            for t in [t for t in stacks if e.get("tid", t) == t]:
                stacks[t] = []
        elif e["ev"] in lib.LEAVE:
            stacks[e["tid"]].pop()
        elif e["ev"] in lib.ENTER | {"open"}:
            stack = stacks.setdefault(e["tid"], [])
            if e["file"] == str(LOAD) and e["name"] in MINE:
                assert stack and (stack[-1], e["name"]) in legal, (stack, e)
            stack.append(e["name"])


def counted(out):
    return {int(tid): n for tid, n in json.loads(out.read_text()).items()}
