# SPDX-License-Identifier: Apache-2.0
"""Files for speedscope, read by speedscope's own page (see speedscope.py)."""
import gzip
import json

import pytest

import speedscope
from test_pprof import convert, expected, generate

MANY = 4_300_000
ESCAPED = ["<module>", "f.<locals>.<lambda>", "Caf\u00e9.m\\udc80thod", 'esc\\x1b[31m;"\\\\x0a', "nul\\x00nul",
           "bad\\xff\\xfe", "", "\\u202ertl", "a b", "</script><script>alert(1)</script>", "<img src=x onerror=x>"]
needs_speedscope = pytest.mark.skipif(speedscope.MISSING, reason=str(speedscope.MISSING))


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("speedscope") / "x.pyebpf")
    return path, generate(path, 20000)


@pytest.fixture(scope="module")
def file(capture):
    out = capture[0].replace(".pyebpf", ".speedscope.json.gz")
    done = convert(capture[0], "-o", out)
    assert done.returncode == 0, done.stderr
    assert b"www.speedscope.app" in done.stderr and b"warning" not in done.stderr
    return out


def load(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as f:
        return json.load(f)


def test_every_call_is_in_the_file(capture, file):
    group = load(file)
    assert speedscope.by_line(group) == expected(capture)
    assert {p["name"] for p in group["profiles"]} == {
        "py thon;3 1000 / main 1000", "py thon;3 1000 / worker 1001",
        "py thon;3 1001 / main 1002", "py thon;3 1001 / worker 1003"}
    assert [f["name"] for f in sorted(group["shared"]["frames"], key=lambda f: f["line"])][:len(ESCAPED)] == ESCAPED
    busiest = max(range(4), key=lambda i: len(group["profiles"][i]["events"]))
    assert group["activeProfileIndex"] == busiest
    for profile in group["profiles"]:
        assert speedscope.evented(profile)


def test_a_name_in_json_is_not_compressed(capture, file, tmp_path):
    done = convert(capture[0], "-o", tmp_path / "x.speedscope.json")
    assert done.returncode == 0
    assert (tmp_path / "x.speedscope.json").read_bytes() == gzip.open(file).read()


@needs_speedscope
def test_speedscope_reads_it(capture, file):
    got = speedscope.imported(file)
    assert speedscope.by_line(got.group) == expected(capture)
    assert [p["name"] for p in got.profiles] == [p["name"] for p in load(file)["profiles"]]
    assert got.title == "pyebpf: py thon;3 1000 and 1 more - speedscope"
    shown = {row.splitlines()[-1].strip() for row in got.table}
    # the thread that is shown at first is one of the first process: lines 1 to 20
    assert shown == {name.strip() for name in [*ESCAPED, *("func_%d" % i for i in range(len(ESCAPED), 20))]}


@needs_speedscope
def test_too_many_events_become_sums(tmp_path):
    capture, out = tmp_path / "x.pyebpf", tmp_path / "x.speedscope.json.gz"
    generated = generate(capture, MANY, 70, 3)
    done = convert(capture, "-o", out)
    assert done.returncode == 0
    assert b"%d events are too many for speedscope (4000000)" % generated["events"] in done.stderr
    got = speedscope.imported(out)
    assert len(got.profiles) == 4
    assert all(p["name"].endswith(
        "(aggregated: not in order of time, %d events are too many)" % generated["events"]) for p in got.profiles)
    want = {line: [0, *values[1:]] for line, values in expected((capture, generated)).items()}
    for group in (got.group, load(out)):
        sums = speedscope.by_line(group)
        for nothing in ("[other stacks]", "[unknown]"):
            assert sums.pop(nothing, [0, 0, 0]) == [0, 0, 0]
        assert {line: [0, *values[1:]] for line, values in sums.items()} == want


def test_an_empty_capture(tmp_path):
    capture = tmp_path / "x.pyebpf"
    generate(capture, 0)
    assert convert(capture, "-o", tmp_path / "x.speedscope.json").returncode == 0
    (profile,) = load(tmp_path / "x.speedscope.json")["profiles"]
    assert profile["name"] == "no Python function was on a stack" and profile["events"] == []
