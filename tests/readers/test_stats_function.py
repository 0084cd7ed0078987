# SPDX-License-Identifier: Apache-2.0
"""`pyebpf stats --function`: counts and latencies of programs that know them, and of the same capture's ndjson."""
import collections
import json
import math
import os
import re
import subprocess

import pytest

from made import PYEBPF, Script

ERROR = 1 / 256  # of a quantile, as docs/formats.md says
SHARES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99}


def run(*args):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False)


def ask(path, name, *args):
    r = run("stats", path, "--function", name, "--json", *args)
    assert r.returncode == 0 and not r.stderr, r.stderr
    return json.loads(r.stdout)


def nearest_rank(values, share):
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def check_latency(got, values):
    """A histogram against the numbers that went into it."""
    latency = got["latency"]
    assert latency["count"] == len(values)
    assert latency["min_ns"] == min(values) and latency["max_ns"] == max(values)
    assert abs(latency["mean_ns"] - sum(values) / len(values)) <= 1
    for name, share in SHARES.items():
        want = nearest_rank(values, share)
        assert abs(latency[name] - want) <= want * ERROR, (name, latency[name], want)
    for bucket in got["histogram"]:
        inside = [v for v in values if bucket["from_ns"] <= v <= bucket["to_ns"]]
        assert bucket["count"] == len(inside) > 0
    assert sum(b["count"] for b in got["histogram"]) == len(values)


def edges(rows):
    return {r["function"]: (r["calls"], r["self_ns"], r["total_ns"]) for r in rows}


# --- captures that are made up ---

def app(cost=None):
    s = Script(cost)
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    s.thread(2, 1, 78, "worker")
    for number, name in enumerate(("f", "g", "h", "C.f"), 1):
        s.func(number, 1, number * 10, name, "/app/pkg/x.py")
    return s


def test_latencies_are_those_of_the_calls(tmp_path):
    s, now, values = app(), 1000, []
    for i in range(1000):
        values.append(i * i + 3)
        s.call(1, now, 1)
        now += values[-1]
        s.return_(1, now)
        now += 100
    got = ask(s.write(tmp_path / "x"), "f")
    check_latency(got, values)
    assert (got["calls"], got["returned"], got["unwound"], got["yielded"], got["not_whole"]) == (1000, 1000, 0, 0, 0)
    assert got["self_ns"] == got["total_ns"] == sum(values)
    assert edges(got["callers"]) == {None: (1000, sum(values), sum(values))} and got["callees"] == []


def test_how_runs_end(tmp_path):
    s = app()
    s.call(1, 100, 1)
    s.yield_(1, 110)
    s.resume(1, 200, 1)
    s.yield_(1, 230)
    s.throw(1, 300, 1)
    s.unwind(1, 350)
    s.call(1, 400, 1)  # until the gap
    s.gap(1, 420, 500, 2, 0)
    s.open(1, 500, 1)  # from the gap on
    s.call(1, 510, 2)
    s.return_(1, 511)
    s.return_(1, 520)
    s.call(2, 600, 1)  # until the end
    got = ask(s.write(tmp_path / "x", 700), "f")
    assert (got["calls"], got["returned"], got["unwound"], got["yielded"], got["not_whole"]) == (3, 0, 1, 2, 3)
    check_latency(got, [10, 30, 50])
    assert got["self_ns"] == 10 + 30 + 50 + 20 + 19 + 100
    text = run("stats", tmp_path / "x", "--function", "f").stdout
    assert re.search("^runs +3: 0 returned, 1 left by an exception, 2 yielded$", text, re.M)
    assert re.search("^not whole 3 more", text, re.M)


def test_callers_and_callees(tmp_path):
    s = app()
    s.call(1, 1000, 2)    # g
    s.call(1, 1100, 1)    #   f
    s.call(1, 1110, 3)    #     h
    s.return_(1, 1150)
    s.call(1, 1160, 4)    #     C.f
    s.return_(1, 1190)
    s.return_(1, 1200)
    s.return_(1, 1300)
    s.call(2, 2000, 3)    # h
    s.call(2, 2010, 1)    #   f
    s.return_(2, 2500)
    s.return_(2, 2600)
    got = ask(s.write(tmp_path / "x"), "pkg/x.py:f")
    assert (got["function"], got["module"], got["file"], got["line"]) == ("f", "x", "/app/pkg/x.py", 10)
    assert edges(got["callers"]) == {"g": (1, 30, 100), "h": (1, 490, 490)}
    assert edges(got["callees"]) == {"h": (1, 40, 40), "C.f": (1, 30, 30)}
    assert (got["calls"], got["self_ns"], got["total_ns"]) == (2, 520, 590)
    check_latency(got, [100, 490])
    assert [r["function"] for r in ask(tmp_path / "x", "f", "-n", "1")["callers"]] == ["h"]


def test_recursion_counts_once(tmp_path):
    s = app()
    for depth in range(5):
        s.call(1, 100 + depth, 1)
    s.call(1, 200, 3)
    s.return_(1, 260)
    for depth in range(5):
        s.return_(1, 300 + depth)
    got = ask(s.write(tmp_path / "x"), "f")
    assert (got["calls"], got["total_ns"]) == (5, 204)
    check_latency(got, [304 - 100, 303 - 101, 302 - 102, 301 - 103, 300 - 104])
    assert edges(got["callers"])[None] == (1, 1 + 1, 204)
    assert edges(got["callees"])["f"] == (4, 202 - 60, 202)
    assert got["self_ns"] + edges(got["callees"])["h"][1] == 204


def test_the_cost_is_taken_out(tmp_path):
    """Of a run: what comes after its first event and before its last, and all of what happens in between."""
    s = app(cost=(1, 20, 300, 4000))
    s.call(1, 100000, 1)
    s.call(1, 200000, 3)
    s.return_(1, 300000)
    s.return_(1, 400000)
    path = s.write(tmp_path / "x")
    check_latency(ask(path, "f"), [300000 - 20 - (1 + 20) - (300 + 4000) - 300])
    check_latency(ask(path, "h"), [100000 - 20 - 300])
    check_latency(ask(path, "f", "--raw"), [300000])
    assert ask(path, "f")["total_ns"] == ask(path, "f")["latency"]["max_ns"]


def test_the_same_in_two_processes(tmp_path):
    s = Script()
    for p in (1, 2):
        s.process(p, p, "app")
        s.thread(p, p, p, "main")
        s.func(p, p, 10, "f", "/app/x.py")
    s.call(1, 100, 1)
    s.call(2, 110, 2)
    s.return_(2, 140)
    s.return_(1, 150)
    got = ask(s.write(tmp_path / "x"), "x:f")
    assert got["calls"] == 2
    check_latency(got, [30, 50])


def test_names(tmp_path):
    s = Script()
    s.process(1, 77, "app")
    s.thread(1, 1, 77, "main")
    names = [("run", "/app/a.py", 1), ("run", "/app/b.py", 1), ("run", "/app/b.py", 9), ("x\x1b[31m.run", "/app/c.py", 1),
             ("Ca.run", "/usr/lib/python3.12/json/decoder.py", 3)]
    for number, (name, file, line) in enumerate(names, 1):
        s.func(number, 1, line, name, file)
        s.call(1, number * 1000, number)
        s.return_(1, number * 1000 + number)
    path = s.write(tmp_path / "x")
    for name, want in (("a:run", 1), ("a.run", 1), ("a.py:run", 1), ("/app/a.py:run", 1), ("b:run:1", 2), ("b:run:9", 3),
                       ("run:9", 3), ("json.decoder:Ca.run", 5), ("json.decoder.Ca.run", 5), ("decoder:Ca.run", 5),
                       ("Ca.run", 5), ("json/decoder.py:Ca.run:3", 5), ("x\x1b[31m.run", 4)):
        assert ask(path, name)["total_ns"] == want, name
    r = run("stats", path, "--function", "run")
    assert r.returncode == 2 and not r.stdout
    assert r.stderr.splitlines() == [
        "pyebpf stats: 3 functions are called run; give one of these:",
        "  a:run:1  (/app/a.py)", "  b:run:1  (/app/b.py)", "  b:run:9  (/app/b.py)"]
    for line in r.stderr.splitlines()[1:]:
        assert ask(path, line.split()[0])["calls"] == 1
    r = run("stats", path, "--function", "Cb.ru")
    assert r.returncode == 2 and r.stderr.splitlines()[0] == "pyebpf stats: no function in the capture is called Cb.ru"
    assert "  json.decoder:Ca.run:3  (/usr/lib/python3.12/json/decoder.py)" in r.stderr.splitlines()
    assert r"  c:x\x1b[31m.run:1  (/app/c.py)" in r.stderr.splitlines()
    r = run("stats", path, "--function", "\x1b[31mno")
    assert r.returncode == 2 and r.stderr.splitlines() == [
        r"pyebpf stats: no function in the capture is called \x1b[31mno", "pyebpf stats FILE -n 0 shows every function"]


# --- a real program ---

PROGRAM = """
import time

def work(ns):
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass

def fails():
    raise KeyError

def gen():
    yield 1
    yield 2

def other(ns):
    work(ns)

def main():
    for i in range(100):
        (other if i % 4 else work)(100000 if i < 90 else 1000000 if i < 99 else 20000000)
        try:
            fails()
        except KeyError:
            list(gen())

main()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.py").write_text(PROGRAM)
    subprocess.run([PYEBPF, "trace", "-q", "-o", folder / "x.pyebpf", "--", "/usr/bin/python3", folder / "prog.py"],
                   check=True)
    return folder / "x.pyebpf"


def runs_of(path, name):
    """Durations of the runs of a function from the ndjson of a capture, by how they ended."""
    lines = [json.loads(line) for line in run("convert", path, "-f", "ndjson", "-o", "-").stdout.splitlines()]
    stacks, runs = collections.defaultdict(list), collections.defaultdict(list)
    for e in lines[:-1]:
        if e["ev"] in ("call", "resume", "throw"):
            stacks[e["tid"]].append(e)
        elif e["ev"] in ("return", "yield", "unwind"):
            begin = stacks[e["tid"]].pop()
            assert begin["func"] == e["func"]
            if e["func"] == name and e["file"].endswith("/prog.py"):
                runs[e["ev"]].append(e["ts_ns"] - begin["ts_ns"])
    return runs


def test_known_latencies(program):
    """They are at least what the program made of them, and exactly those of the events."""
    got = ask(program, "prog:work")
    assert (got["calls"], got["returned"], got["not_whole"]) == (100, 100, 0)
    latency = got["latency"]
    for name, least in (("p50_ns", 100000), ("p90_ns", 100000), ("p99_ns", 1000000), ("max_ns", 20000000)):
        # work() takes so long between two readings of the clock inside of it
        assert latency[name] >= least * (1 - ERROR) - 2000, (name, latency)
    check_latency(ask(program, "prog:work", "--raw"), runs_of(program, "work")["return"])
    assert {f: calls for f, (calls, _, _) in edges(got["callers"]).items()} == {"main": 25, "other": 75}
    outer = ask(program, "prog:other")
    assert {f: calls for f, (calls, _, _) in edges(outer["callees"]).items()} == {"work": 75}


@pytest.mark.parametrize("name", ["work", "other", "fails", "gen", "main"])
def test_runs_are_those_of_the_events(program, name):
    want = runs_of(program, name)
    got = ask(program, "prog.py:" + name, "--raw")
    check_latency(got, sum(want.values(), []))
    assert (got["returned"], got["unwound"], got["yielded"]) == tuple(
        len(want[e]) for e in ("return", "unwind", "yield"))
    assert (got["unwound"], got["yielded"]) == {"fails": (100, 0), "gen": (0, 200)}.get(name, (0, 0))


def test_the_table(program):
    text = run("stats", program, "--function", "prog:work").stdout
    assert re.search(r"^function  work \(.*/prog\.py:4\)$", text, re.M)
    assert re.search(r"^calls     100, self .* total ", text, re.M)
    assert re.search(r"^latency   min .* mean .* p50 .* p90 .* p99 .* max ", text, re.M)
    bars = re.findall(r"^ +[\d.]+ \w+ - +[\d.]+ \w+ +(\d+)(?: #+)?$", text, re.M)
    assert sum(map(int, bars)) == 100
    assert re.search(r"^ +75 .* other \(", text, re.M) and re.search(r"^ +none$", text, re.M)


def test_what_is_less_than_can_be_told_is_marked(tmp_path):
    """A pair of events costs 3 us here, known to 15 %: 450 ns. A longer run has more of them in it."""
    s, now = app((0, 2000, 1000, 0)), 1000
    for ns in (3000, 3400, 3600, 10000):
        s.call(1, now, 1)
        s.return_(1, now + ns)
        now += 100000
    s.call(1, now, 1)
    for i in range(10):
        s.call(1, now + 100 + 3100 * i, 2)
        s.return_(1, now + 3150 + 3100 * i)
    s.return_(1, now + 40000)
    text = run("stats", s.write(tmp_path / "x"), "--function", "f").stdout
    assert re.search(r"^latency   min ~0 ns, mean 3.00 us, p50 602 ns, p90 7.00 us, p99 7.00 us, max 7.00 us$", text, re.M), text
    assert re.search(r"^ +10 +~\d+ ns +~\d+ ns  g ", text, re.M), text
    assert text.splitlines()[-1].startswith("~ not sure to be more than nothing")
    assert "~" not in run("stats", tmp_path / "x", "--raw", "--function", "f").stdout


def test_it_is_asked_of_the_right_command(program):
    r = run("stats", program, "--function", "")
    assert r.returncode == 2 and "no function in the capture is called" in r.stderr
    assert len(r.stderr.splitlines()) == 22
