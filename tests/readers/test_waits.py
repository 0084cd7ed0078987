# SPDX-License-Identifier: Apache-2.0
"""What threads wait for, in the Firefox Profiler: a leaf in a category of its own, and a marker of each wait, which say
the same as ndjson does of the samples."""
import collections
import json
import os
import subprocess

import pytest

import firefox_check
from made import PYEBPF
from test_firefox import cli, compare_cli  # noqa: F401  (a fixture)

PROGRAM = """
import os, sys, threading, time
sys.setswitchinterval(0.002)
lock = threading.Lock()
r, w = os.pipe()
end = time.monotonic() + 2
def spin():
    t = 0
    while time.monotonic() < end:
        for i in range(2000):
            t += i
def spin_too():
    spin()
def ask():
    while time.monotonic() < end:
        with lock:
            pass
def hold():
    while time.monotonic() < end:
        with lock:
            time.sleep(0.02)
        os.write(w, b"x")
    os.write(w, b"xx")
def read():
    while time.monotonic() < end:
        os.read(r, 1)
threads = [threading.Thread(target=f) for f in (spin, spin_too, ask, hold, read)]
for t in threads: t.start()
for t in threads: t.join()
"""
LEAVES = {"gil": ("[GIL wait]", "GIL wait", "GIL wait"), "lock": ("[lock wait]", "Lock wait", "Lock wait"),
          "io": ("[I/O wait]", "I/O wait", "I/O wait"), "sleep": ("[sleep]", "Idle", "Sleep"),
          "preempted": ("[preempted]", "Preempted", "Preempted"), "fault": ("[page fault]", "Page fault", "Page fault"),
          "other": ("[waiting]", "Idle", "Wait")}


def run(*args):
    r = subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                       check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(path of the Firefox file, its profile, the lines of ndjson)"""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("waits")
    (folder / "prog.py").write_text(PROGRAM)
    run("record", "-q", "-o", folder / "x.pyebpf", "--", "/usr/bin/python3", "-I", "-S", folder / "prog.py")
    run("convert", "-q", folder / "x.pyebpf", "-o", folder / "x.json.gz")
    lines = [json.loads(line) for line in run("convert", folder / "x.pyebpf", "-f", "ndjson", "-o", "-").splitlines()]
    profile = firefox_check.load(folder / "x.json.gz")
    assert not firefox_check.check(profile)
    return folder / "x.json.gz", profile, lines


def waits_by_thread(lines):
    by_tid = collections.defaultdict(list)
    for e in lines:
        if e["ev"] == "sample" and e["state"] == "off":
            by_tid[e["tid"]].append(e)
    return by_tid


def test_each_wait_is_a_marker(made):
    _, profile, lines = made
    strings, want = profile["shared"]["stringArray"], waits_by_thread(lines)
    start = next(e for e in lines if e["ev"] == "meta")["start_ns"]
    reasons = collections.Counter()
    for thread in profile["threads"]:
        markers, got = thread["markers"], []
        for name, begin, end, data in zip(*(markers[c] for c in ("name", "startTime", "endTime", "data"))):
            if "Wait" in data["type"]:
                got.append((round(end * 1e6), data, strings[name], round((end - begin) * 1e6)))
        got.sort(key=lambda g: g[0])
        assert [g[0] for g in got] == [max(e["ts_ns"] - start, 0) for e in want[thread["tid"]]]
        for (_, data, name, ns), e in zip(got, want[thread["tid"]]):
            assert data["reason"] == e["reason"] and name == LEAVES[e["reason"]][2]
            reasons[name] += 1
            leaf = e["stack"][-1]
            assert strings[data["function"]] == leaf["func"] and ns <= e["weight_ns"]
            if leaf["line"]:
                assert data["line"] == f"{leaf['file']}:{leaf['line']}"
            assert data.get("lock") == (e.get("lock") if e["reason"] == "lock" else None)
            assert data.get("lockType") == (e.get("lock_type", "lock") if e["reason"] == "lock" else None)
            if e["reason"] == "gil":
                held = e.get("holder", {"func": "not known"})
                assert strings[data["holder"]] == held["func"]
                assert not held.get("line") or data["holderLine"] == f"{held['file']}:{held['line']}"
    assert all(reasons[n] >= 5 for n in ("GIL wait", "Lock wait", "I/O wait", "Sleep")), reasons


def test_the_leaf_says_what_is_waited_for(made):
    _, profile, lines = made
    shared, want = profile["shared"], waits_by_thread(lines)
    frames, stacks = shared["frameTable"], shared["stackTable"]
    categories = [c["name"] for c in profile["meta"]["categories"]]
    known = {leaf: category for leaf, category, _ in LEAVES.values()}
    for thread in profile["threads"]:
        leaves = []
        for stack in thread["samples"]["stack"]:
            if stack is None:
                continue
            frame = stacks["frame"][stack]
            name = shared["stringArray"][shared["funcTable"]["name"][frames["func"][frame]]]
            if name in known:
                assert categories[frames["category"][frame]] == known[name]
                leaves.append(name)
        assert leaves == [LEAVES[e["reason"]][0] for e in want[thread["tid"]]]
    # no leaf is in the middle of a stack
    inner = {i - offset for i, offset in enumerate(stacks["prefixOffset"]) if offset}
    for i in inner:
        assert shared["stringArray"][shared["funcTable"]["name"][frames["func"][stacks["frame"][i]]]] not in known


def test_the_viewers_loader_shows_them(made, cli):  # noqa: F811
    path, profile, lines = made
    want = waits_by_thread(lines)
    compare_cli(cli, path)
    for i, thread in enumerate(profile["threads"]):
        reasons = {e["reason"] for e in want[thread["tid"]]}
        markers = cli.run("thread", "markers", "--thread", f"t-{i}", "--json", text=True)
        for reason in reasons:
            assert f'"{LEAVES[reason][2]}"' in markers
        # what sleeps is idle to the viewer, and nothing else is
        busy = cli.run("thread", "functions", "--thread", f"t-{i}", "--limit", "0", "--json")["functions"]
        leaves = {f["name"] for f in busy if f["name"].startswith("[")}
        assert leaves & {leaf for leaf, _, _ in LEAVES.values()} == {
            LEAVES[r][0] for r in reasons if LEAVES[r][1] != "Idle"}
