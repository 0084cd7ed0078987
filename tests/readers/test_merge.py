# SPDX-License-Identifier: Apache-2.0
"""`pyebpf merge`: what comes out is the sum, as gen_capture, stats and the real pprof have it."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import test_pprof
from made import peak_kb, PYEBPF, Script
from test_pprof import COST_NS, decode, generate, pprof_binary, sums
from test_svg import boxes

EVENTS = (10000, 20000, 30000)


def run(*args, **kw):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **kw)


def ok(*args):
    r = run(*args)
    assert r.returncode == 0, r.stderr
    return r


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """[(path, what it adds up to)]"""
    folder = tmp_path_factory.mktemp("merge")
    return [(str(folder / ("%d.pyebpf" % n)), generate(str(folder / ("%d.pyebpf" % n)), n, COST_NS)) for n in EVENTS]


def paths(captures):
    return [path for path, _ in captures]


def expected(captures):
    want = collections.defaultdict(lambda: [0, 0, 0])
    for _, adds_up in captures:
        for line, f in adds_up["funcs"].items():
            for i, figure in enumerate(("calls", "self_ns", "total_ns")):
                want[int(line)][i] += f[figure]
    return want


@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc")
def test_pprof_has_the_sums(captures, tmp_path):
    said = ok("merge", *paths(captures), "-o", tmp_path / "x.pb.gz").stderr.decode()
    profile = decode(tmp_path / "x.pb.gz")
    assert sums(profile) == expected(captures)
    strings = [test_pprof.unquote(s) for s in test_pprof.all_of(profile, "string_table")]
    events = sum(c[1]["events"] for c in captures)
    assert "events generated: %d, written: %d" % (events, events) in strings
    # both processes are "py thon;3": one, with a thread of each name
    assert re.search(r"^events +%d in .*, 2 threads$" % events, said, re.M)
    size = re.search(r"^wrote .*x\.pb\.gz \((\d+) (bytes|kB)\)$", said, re.M)
    unit = {"bytes": 1, "kB": 1000}[size[2]]
    assert abs(int(size[1]) * unit - (tmp_path / "x.pb.gz").stat().st_size) < unit and "next: go tool pprof -top " in said


@pytest.mark.skipif(not pprof_binary(), reason="no pprof in the cache (scripts/setup)")
def test_the_real_pprof_merges_alike(captures, tmp_path):
    ok("merge", *paths(captures), "-o", tmp_path / "ours.pb.gz", "-q")
    alone = []
    for number, (path, _) in enumerate(captures):
        alone.append(tmp_path / ("%d.pb.gz" % number))
        ok("convert", path, "-o", alone[-1])
    tops = []
    for files in ([tmp_path / "ours.pb.gz"], alone):
        r = subprocess.run([pprof_binary(), "-top", "-lines", "-nodecount=1000", "-nodefraction=0", "-unit=ns", *files],
                           stdout=subprocess.PIPE, env=dict(os.environ, HOME=str(tmp_path)), check=True)
        rows = re.findall(r"^\s*\d+ns.*$", r.stdout.decode(), re.M) or re.findall(r"^\s*\d.*%.*$", r.stdout.decode(), re.M)
        tops.append(sorted(" ".join(row.split()) for row in rows))
    assert len(tops[0]) >= 40 and tops[0] == tops[1]


def test_collapsed_and_svg_have_the_sums(captures, tmp_path):
    want = {line: v[1] for line, v in expected(captures).items()}
    got = collections.Counter()
    for line in ok("merge", *paths(captures), "-f", "collapsed", "-o", "-", "-q").stdout.decode("utf-8").splitlines():
        stack, weight = line.rsplit(" ", 1)
        # numbers that are not the same in all are 0
        assert re.match(r"py thon\\x3b3-0;(main|worker)-0;", stack)
        got[int(re.search(r":(\d+)\)$", stack)[1])] += int(weight)
    assert got == want
    ok("merge", *paths(captures), "-o", tmp_path / "x.svg")
    assert boxes(tmp_path / "x.svg")[0].ns == sum(want.values())


def test_raw(captures, tmp_path):
    net, raw = [sum(int(line.rsplit(" ", 1)[1]) for line in ok(
        "merge", *paths(captures), "-f", "collapsed", "-o", "-", "-q", *o).stdout.decode().splitlines())
        for o in ([], ["--raw"])]
    alone = [json.loads(ok("stats", path, "--json").stdout) for path in paths(captures)]
    assert raw - net == sum(a["profiler_ns"] for a in alone) > 0


def single(tmp_path, name, pid, losses=0):
    s = Script()
    s.process(1, pid, "app")
    s.thread(1, 1, pid, "main")
    s.func(1, 1, 1, "f", "/x.py")
    s.func(2, 1, 2, "g", "/x.py")
    s.call(1, 1000, 1)
    s.call(1, 1100, 2)
    s.return_(1, 1150)
    s.gap(1, 1200, 1300, losses, 0)
    return s.write(tmp_path / name, 1500, lost=losses)


def test_losses_and_gaps_add_up(tmp_path):
    files = [single(tmp_path, "a", 7, 3), single(tmp_path, "b", 7, 4)]
    r = ok("merge", *files, "-f", "collapsed", "-o", "-")
    # the pid and the tid are the same in both
    assert sorted(r.stdout.decode().splitlines()) == [
        "app-7;main-7;[lost 7] 200", "app-7;main-7;f (/x.py:1) 300", "app-7;main-7;f (/x.py:1);g (/x.py:2) 100"]
    out = tmp_path / "x.folded"
    said = ok("merge", *files, "-o", out).stderr.decode()
    assert re.search(r"^lost +7 \(53\.85 %\): ring 7,", said, re.M) and re.search(r"^gaps +2 .*, 200 ns$", said, re.M)
    assert re.search(r"^events +6 in 3\.00 us ", said, re.M)


def test_one_is_as_it_is(tmp_path):
    a = single(tmp_path, "a", 7)
    assert ok("merge", a, "-f", "collapsed", "-o", "-").stdout == ok("convert", a, "-f", "collapsed", "-o", "-").stdout


def test_many_need_no_more_memory(captures, tmp_path):
    path = captures[1][0]
    few = peak_kb("merge", *[path] * 5, "-o", tmp_path / "few.pb.gz", "-q")
    many = peak_kb("merge", *[path] * 100, "-o", tmp_path / "many.pb.gz", "-q")
    assert many < few * 1.2 + 4000, (few, many)


@pytest.mark.parametrize("args, code, said", [
    (["{a}"], 2, "want -o OUT, or -o - for stdout"),
    ([], 2, "want captures to merge"),
    (["{a}", "-o", "{dir}/x.json.gz"], 2, "firefox shows calls in time, and sums have none; there are pprof, collapsed, svg, pstats and text"),
    (["{a}", "-o", "{dir}/x", "-f", "ndjson"], 2, "ndjson shows calls in time, and sums have none; there are pprof, collapsed, svg, pstats and text"),
    (["{a}", "{dir}/none", "-o", "{dir}/x"], 2, "cannot read {dir}/none: No such file or directory"),
    (["{a}", "/dev/null", "-o", "{dir}/x"], 2, "/dev/null: the file is empty"),
    (["{a}", "-o", "{a}"], 6, "{a} exists"),
    (["{a}", "-o", "{dir}/no/x"], 6, "cannot write {dir}/no/x: No such file or directory"),
])
def test_refusals(tmp_path, args, code, said):
    a = single(tmp_path, "a", 7)
    fill = lambda s: s.replace("{a}", str(a)).replace("{dir}", str(tmp_path))  # noqa: E731
    before = a.read_bytes()
    r = run("merge", *map(fill, args))
    assert r.returncode == code and r.stderr.decode().splitlines()[0] == "pyebpf merge: " + fill(said)
    assert os.listdir(tmp_path) == ["a"] and a.read_bytes() == before


def test_a_full_disk(captures):
    with open("/dev/full", "wb") as full:
        r = subprocess.run([PYEBPF, "merge", captures[0][0], "-o", "-", "-q"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert r.returncode == 6
    assert r.stderr == b"pyebpf merge: cannot write standard output: No space left on device\n"


def test_a_cut_one_is_said(captures, tmp_path):
    with open(captures[0][0], "rb") as f:
        (tmp_path / "cut").write_bytes(f.read()[:-20])
    r = run("merge", captures[1][0], tmp_path / "cut", "-o", tmp_path / "x.pb.gz")
    assert r.returncode == 0 and re.search(rb"cut: the capture is (cut|damaged) at byte", r.stderr)
    assert b"ends before its proper end" in r.stderr
