# SPDX-License-Identifier: Apache-2.0
"""greenlet changes a thread's stack under the interpreter: shown as a gap, and right after it. From PyPI, skipped without."""
import json
import os
import pathlib
import subprocess

import pytest

import lib

pytestmark = lib.needs_root
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pyebpf")


def with_greenlet(name):
    """Where it is installed for this interpreter, for PYTHONPATH. What failed once is not tried again for this folder's life."""
    place = CACHE / "greenlet" / name
    if not place.exists():
        place.mkdir(parents=True)
        with_pip = lib.command(name) + ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
                                        "--timeout", "10", "--retries", "1", "--target", str(place), "greenlet"]
        try:
            subprocess.run(with_pip, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        except subprocess.TimeoutExpired:
            pass
    if not (place / "greenlet").exists():
        pytest.skip("greenlet cannot be installed for " + name)
    return str(place)


def callers(trace):
    """Each event with which a frame is on a stack, and the name of the frame below it."""
    stacks = {}
    for e in trace.events:
        stack = stacks.setdefault(e.get("tid"), [])
        if e["ev"] == "gap":
            stack.clear()
        elif e["ev"] in lib.ENTER | {"open"}:
            yield e, stack[-1] if stack else None
            stack.append(e["name"])
        elif e["ev"] in lib.LEAVE:
            stack.pop()


@pytest.mark.parametrize("name", [n for n in lib.pick("3.8", "3.10", "3.11", "3.12", "3.13") if len(lib.command(n)) == 1])
def test_switches(name, tmp_path):
    out = tmp_path / "out.json"
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "greenlets.py", tmp_path, out, env=env)
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    want = json.loads(out.read_text())
    got = seen.count(lib.PROGRAMS / "greenlets.py", "call")
    assert {f: got[f] for f in want} == want
    assert [g for g in seen.gaps if g["reason"] == "switch"]
    mine = [e for e in seen.of(lib.PROGRAMS / "greenlets.py")]
    found = {}
    for e, caller in callers(seen):
        if e["file"].endswith("greenlets.py"):
            found.setdefault(e["name"], set()).add(caller or "")
    assert mine and found["deep"] <= {"worker", "deep"} and found["leaf"] <= {"worker", "deep", "go", "dying"}


@pytest.mark.parametrize("engine", ["auto", "inline"])
@pytest.mark.parametrize("name", [n for n in lib.pick("3.8", "3.10", "3.11", "3.12", "3.13") if len(lib.command(n)) == 1])
def test_calls_belong_to_their_own_greenlet(name, engine, tmp_path):
    """Greenlets' frames lie at the same places of their chunks of memory, and those of an `__init__` look like others."""
    count = 100
    env = dict(os.environ, PYTHONPATH=with_greenlet(name))
    seen, _ = lib.run_program(name, "own_greenlets.py", tmp_path, count, options=("--engine", engine), env=env)
    assert seen.lost == 0 and seen.meta["generated"] == seen.meta["written"]
    got, wrong = 0, []
    for e, caller in callers(seen):
        kind, _, number = e["name"].rpartition("_")
        if e["ev"] != "call" or kind not in ("leaf", "node"):
            continue
        got += 1
        want = ("node_" + number,) if kind == "leaf" else ("root_" + number, "__init__")
        if caller not in want:
            wrong.append((e["name"], caller))
    assert got == 2 * 3 * 20 * count and not wrong, (got, len(wrong), wrong[:5])
