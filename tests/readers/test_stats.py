# SPDX-License-Identifier: Apache-2.0
"""`pyebpf stats`: its figures are those that gen_capture computed, and those of the pprof export."""
import collections
import json
import os
import re
import shutil
import subprocess

import pytest

import test_pprof
from made import Script
from test_pprof import COST_NS, PYEBPF, generate

FUNCTION_KEYS = {"function", "module", "file", "line", "calls", "self_ns", "total_ns", "doubt_ns"}
ROW_KEYS = {
    "function": FUNCTION_KEYS,
    "line": FUNCTION_KEYS,
    "module": {"module", "file", "calls", "self_ns", "total_ns", "doubt_ns"},
    "thread": {"pid", "process", "python", "tid", "thread", "main", "calls", "self_ns", "gap_ns", "lost"},
    "process": {"pid", "process", "python", "calls", "self_ns", "gap_ns", "lost"},
}


def stats(*args, **kw):
    return subprocess.run([PYEBPF, "stats", *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **kw)


def said(*args, **kw):
    r = stats(*args, **kw)
    assert r.returncode == 0 and not r.stderr, r.stderr
    return r.stdout.decode()


def as_json(*args):
    return json.loads(said(*args, "--json"))


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("stats") / "x.pyebpf")
    return path, generate(path, 50000, COST_NS)


def functions(capture):
    return {int(line): f for line, f in capture[1]["funcs"].items()}


def test_functions_are_those_of_the_calls(capture):
    got = as_json(capture[0], "-n", "0")
    assert {r["line"]: {k: r[k] for k in ("calls", "self_ns", "total_ns")} for r in got["rows"]} == functions(capture)
    assert got["row_count"] == len(got["rows"]) == 40
    assert got["events"] == got["generated"] == capture[1]["events"]
    assert got["lost"] == dict.fromkeys(["ring", "map", "read", "kernel", "user", "throttle"], 0)
    assert got["calls"] == sum(f["calls"] for f in functions(capture).values())
    assert got["self_ns"] == sum(f["self_ns"] for f in functions(capture).values())
    assert (got["processes"], got["threads"], got["gaps"], got["gap_ns"]) == (2, 4, 0, 0)
    assert got["complete"] is True and got["raw"] is False and got["wall_ns"] > 10**7


@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc")
@pytest.mark.parametrize("raw", [(), ("--raw",)], ids=["net", "raw"])
def test_totals_are_those_of_pprof(capture, tmp_path, raw):
    out = tmp_path / "x.pb.gz"
    assert test_pprof.convert(capture[0], "-o", out, *raw).returncode == 0
    profile = test_pprof.decode(out)
    want = test_pprof.sums(profile)
    got = as_json(capture[0], "-n", "0", *raw)
    assert {r["line"]: [r["calls"], r["self_ns"], r["total_ns"]] for r in got["rows"]} == want
    assert got["self_ns"] == sum(v[1] for v in want.values())
    assert got["profiler_ns"] > 0 and got["raw"] is bool(raw)


def test_what_is_below_the_cost_is_said_to_be(tmp_path):
    """A function of which the profiler took more time than it has, one of which it took nearly as much, and one that runs."""
    s = Script(cost=(100, 200, 300, 400))  # inside a leaf: after its entry and before its exit, 500 a call
    for func, (name, ns, calls) in enumerate([("nothing", 480, 40), ("hardly", 570, 40), ("something", 600, 40)], 1):
        s.func(func, 1, 10 * func, name, "/srv/x.py")
    s.func(9, 1, 90, "outer", "/srv/x.py")
    s.process(1, 7, "app")
    s.thread(1, 1, 7, "main")
    s.lines.sort(key=lambda line: ["cost", "process", "thread", "func"].index(line.split("\t")[0]))
    at = 1000
    s.call(1, at, 9)
    for func, ns in ((1, 480), (2, 570), (3, 600)):
        for _ in range(40):
            s.call(1, at + 10000, func)
            s.return_(1, at + 10000 + ns)
            at += 10000 + ns
    s.return_(1, at + 10000)
    path = s.write(tmp_path / "x.pyebpf")
    rows = {r["function"]: r for r in as_json(path)["rows"]}
    assert {name: (r["self_ns"], r["doubt_ns"]) for name, r in rows.items() if name != "outer"} == {
        "nothing": (40, 3000), "hardly": (2800, 3000), "something": (4000, 3000)}
    table = said(path)
    shown = {line.split(" (")[0].split()[-1]: line.split()[1:3] for line in table.splitlines() if "/srv/x.py:" in line}
    assert shown["nothing"][0] == "~40" and shown["hardly"] == ["~2.80", "us"] and shown["something"] == ["4.00", "us"]
    assert not shown["outer"][0].startswith("~")
    assert re.search(r"^~ .* 15 %$", table, re.M)
    raw = said(path, "--raw")
    assert "~" not in raw and {r["doubt_ns"] for r in as_json(path, "--raw")["rows"]} == {0}
    assert as_json(path, "--by", "module")["rows"][0]["doubt_ns"] > 9000


def test_raw_has_the_cost_in_it(capture):
    net, raw = as_json(capture[0]), as_json(capture[0], "--raw")
    assert raw["self_ns"] == net["self_ns"] + net["profiler_ns"]
    assert raw["profiler_ns"] == net["profiler_ns"]
    assert "taken out below" in said(capture[0]) and "still in the times" in said(capture[0], "--raw")


@pytest.mark.parametrize("by", ROW_KEYS)
def test_rows_add_up(capture, by):
    got = as_json(capture[0], "--by", by, "-n", "0")
    assert got["by"] == by and all(set(r) == ROW_KEYS[by] for r in got["rows"])
    for figure in ("calls", "self_ns"):
        assert sum(r[figure] for r in got["rows"]) == got[figure]
    selves = [r["self_ns"] for r in got["rows"]]
    assert selves == sorted(selves, reverse=True)


def test_modules_threads_and_processes(capture):
    """gen_capture: function i lies in mod(i % 7), the first half of them in process 1000."""
    want = collections.Counter()
    pids = collections.Counter()
    for line, f in functions(capture).items():
        want["mod%d" % ((line - 1) % 7)] += f["self_ns"]
        pids[1000 + (line - 1) // 20] += f["calls"]
    got = as_json(capture[0], "--by", "module")["rows"]
    assert {r["module"]: r["self_ns"] for r in got} == want
    assert all(r["file"] == "/usr/lib/python3.12/%s.py" % r["module"] for r in got)
    # what a module calls of itself is in its total once
    alone = {r["line"]: r for r in as_json(capture[0], "-n", "0")["rows"]}
    for r in got:
        parts = [alone[line]["total_ns"] for line in alone if "mod%d" % ((line - 1) % 7) == r["module"]]
        assert max(parts) <= r["total_ns"] < sum(parts)
    assert {r["pid"]: r["calls"] for r in as_json(capture[0], "--by", "process")["rows"]} == pids
    threads = as_json(capture[0], "--by", "thread")["rows"]
    assert {(r["pid"], r["tid"], r["thread"], r["main"]) for r in threads} == {
        (1000, 1000, "main", True), (1000, 1001, "worker", False),
        (1001, 1002, "main", True), (1001, 1003, "worker", False)}


@pytest.mark.parametrize("sort, figure", [("self", "self_ns"), ("total", "total_ns"), ("calls", "calls")])
def test_order_and_number(capture, sort, figure):
    every = [r[figure] for r in as_json(capture[0], "--sort", sort, "-n", "0")["rows"]]
    assert every == sorted(every, reverse=True) and len(every) == 40
    some = as_json(capture[0], "--sort", sort, "-n", "7")
    assert [r[figure] for r in some["rows"]] == every[:7] and some["row_count"] == 40
    rows = said(capture[0], "--sort", sort, "-n", "7").splitlines()
    head = next(i for i, row in enumerate(rows) if row.endswith("  function"))
    assert len(rows) == head + 9 and rows[-1] == "and 33 more"


def test_names_are_escaped(capture):
    out = said(capture[0], "-n", "0")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert r"esc\x1b[31m;" in out and r"\u202ertl" in out and r"nul\x00nul" in out
    names = {r["function"] for r in as_json(capture[0], "-n", "0")["rows"]}
    assert {"esc\x1b[31m;\"\\\n", "nul\0nul", "\u202ertl", "bad\udcff\udcfe"} <= names


def test_a_pipe_and_a_cut_capture(capture, tmp_path):
    with open(capture[0], "rb") as f:
        assert said("-", stdin=f) == said(capture[0])
    with open(capture[0], "rb") as f:
        data = f.read()
    (tmp_path / "cut").write_bytes(data[:-20])
    r = stats(tmp_path / "cut", "--json")
    assert r.returncode == 0 and b"what is whole was read" in r.stderr
    assert json.loads(r.stdout)["complete"] is False
    assert b"ends before its proper end" in stats(tmp_path / "cut").stdout


def test_a_full_disk(capture):
    for args in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            r = subprocess.run([PYEBPF, "stats", capture[0], *args], stdout=full, stderr=subprocess.PIPE)
        assert r.returncode == 6
        assert r.stderr == b"pyebpf stats: cannot write standard output: No space left on device\n"


def test_gaps_and_losses(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 78, "one")
    s.thread(2, 1, 79, "two")
    s.func(1, 1, 10, "f", "/app/x.py")
    s.call(1, 1000, 1)
    s.call(2, 1500, 1)
    s.gap(1, 3000, 4500, 7, 0)
    s.open(1, 4500, 1)
    s.return_(1, 5000)
    s.gap(2, 6000, 6250, 0, 1)
    path = s.write(tmp_path / "x.pyebpf", 10000, lost=7)
    got = as_json(path)
    assert (got["gaps"], got["gap_ns"]) == (2, 1750)
    assert (got["events"], got["generated"], got["lost"]["ring"]) == (3, 10, 7)
    assert got["wall_ns"] == 10000 and got["calls"] == 2
    assert got["rows"] == [{"function": "f", "module": "x", "file": "/app/x.py", "line": 10, "calls": 2,
                            "self_ns": 2000 + 500 + 4500, "total_ns": 7000, "doubt_ns": 0}]
    threads = as_json(path, "--by", "thread")["rows"]
    assert [(t["thread"], t["self_ns"], t["gap_ns"], t["lost"]) for t in threads] == [
        ("two", 4500, 250, 0), ("one", 2500, 1500, 7)]
    head = said(path, "--by", "thread")
    assert re.search(r"^lost +7 \(70\.00 %\): ring 7, map 0", head, re.M)
    assert re.search(r"^gaps +2 in which a thread's stack is not known, 1\.75 us$", head, re.M)
    assert re.search(r"^ +1 +2\.50 us +35\.7 +1\.50 us +7  one 78 in app 77$", head, re.M)


def test_the_same_function_of_two_processes_is_one_row(tmp_path):
    s = Script()
    for p in (1, 2):
        s.process(p, 70 + p, "app")
        s.thread(p, p, 70 + p, "main")
        s.func(p, p, 10, "f", "/app/x.py")
        s.call(p, 1000, p)
        s.return_(p, 1000 + p)
    path = s.write(tmp_path / "x.pyebpf")
    (row,) = as_json(path)["rows"]
    assert (row["calls"], row["self_ns"], row["total_ns"]) == (2, 3, 3)
    assert len(as_json(path, "--by", "process")["rows"]) == 2


def test_nothing_ran(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    path = s.write(tmp_path / "x.pyebpf", 5000)
    assert as_json(path)["rows"] == []
    assert "No Python function was on a stack while this ran." in said(path)


def test_a_capture_of_a_program(tmp_path):
    """Of a real one: exact counts, and the rows of the table."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    code = "def f(): pass\ndef g():\n for i in range(500): f()\nfor i in range(20): g()"
    path = tmp_path / "x.pyebpf"
    subprocess.run([PYEBPF, "trace", "-q", "-o", path, "--", "/usr/bin/python3", "-I", "-S", "-c", code], check=True)
    rows = {r["function"]: r for r in as_json(path, "-n", "0", "--raw")["rows"] if r["file"] == "<string>"}
    assert {name: r["calls"] for name, r in rows.items()} == {"f": 10000, "g": 20, "<module>": 1}
    assert rows["<module>"]["total_ns"] >= rows["g"]["total_ns"] >= rows["f"]["total_ns"] > 0
    assert re.search(r"^ +10000 .* f \(<string>:1\)$", said(path, "--raw"), re.M)
