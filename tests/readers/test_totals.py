# SPDX-License-Identifier: Apache-2.0
"""One capture of a real program, in every format: they all say the same."""
import collections
import gzip
import json
import pathlib
import re

import pytest

import speedscope
import test_chrometrace
import test_text
from test_pprof import all_of, convert, decode, number, unquote

PROGRAM = pathlib.Path(__file__).resolve().parent / "pstats_program.py"
ENTER = ("call", "resume", "throw", "open")
pytestmark = pytest.mark.needs_root


@pytest.fixture(scope="module")
def capture(captures, any_python):
    return captures.of(any_python, PROGRAM)[0]


def converted(capture, tmp_path, name, *args):
    done = convert(capture, "-o", tmp_path / name, "--force", *args)
    assert done.returncode == 0, done.stderr
    return tmp_path / name


def pprof(path):
    """{(name, file, line): [calls, self, total]}"""
    profile = decode(path)
    strings = [unquote(s) for s in all_of(profile, "string_table")]
    funcs = {number(f, "id"): (strings[number(f, "name")], strings[number(f, "filename")], number(f, "start_line"))
             for f in all_of(profile, "function")}
    where = {}
    for location in all_of(profile, "location"):
        (line,) = all_of(location, "line")
        where[number(location, "id")] = funcs[number(line, "function_id")]
    got = collections.defaultdict(lambda: [0, 0, 0])
    for sample in all_of(profile, "sample"):
        stack = [where[int(i)] for i in all_of(sample, "location_id")]
        calls, self_ns = map(int, all_of(sample, "value"))
        got[stack[0]][0] += calls
        got[stack[0]][1] += self_ns
        for func in set(stack):
            got[func][2] += self_ns
    return got


def slices(capture):
    """{(name, file, line): slices}, from ndjson: each time that a frame is entered or found."""
    lines = convert(capture, "-f", "ndjson", "-o", "-").stdout.decode().splitlines()[:-1]
    return collections.Counter((e["func"], e["file"], e["line"]) for e in map(json.loads, lines)
                               if e["ev"] in ENTER)


def test_speedscope_and_pprof(capture, tmp_path):
    with open(converted(capture, tmp_path, "x.speedscope.json"), encoding="utf-8") as f:
        group = json.load(f)
    frames, entered = group["shared"]["frames"], slices(capture)
    want = pprof(converted(capture, tmp_path, "x.pb.gz", "--raw"))
    got = {(f["name"], f.get("file", ""), f.get("line", 0)): values
           for f, values in ((frames[i], v) for i, v in speedscope.sums(group).items())}
    assert len(got) > 50 and set(got) == set(entered)
    for func, (count, self_ns, total_ns) in got.items():
        assert count == entered[func]
        assert [self_ns, total_ns] == want[func][1:], func


def test_chrometrace_and_speedscope(capture, tmp_path):
    with open(converted(capture, tmp_path, "x.speedscope.json"), encoding="utf-8") as f:
        group = json.load(f)
    with gzip.open(converted(capture, tmp_path, "x.trace.json.gz")) as f:
        trace = json.load(f)
    names = [f["name"] for f in group["shared"]["frames"]]
    want = sorted((begin, end, depth, names[frame]) for profile in group["profiles"]
                  for frame, begin, end, depth in speedscope.evented(profile))
    got = sorted((begin, end, depth, re.sub(r" \([^()]*:\d+\)$", "", name))
                 for _, begin, end, depth, name in test_chrometrace.slices_of(trace))
    assert len(got) > 1000 and got == want


def test_text_and_pprof(capture, tmp_path):
    want = pprof(converted(capture, tmp_path, "x.pb.gz"))
    text = converted(capture, tmp_path, "x.txt").read_text("utf-8")
    head = text.splitlines()[0]
    assert head.startswith("%d function calls (" % sum(v[0] for v in want.values()))
    assert head.endswith(" in %.6f seconds" % (sum(v[1] for v in want.values()) / 1e9))
    shown = {re.search(r":\d+\((.*)\)$", row.rstrip())[1] for row in text.split("\n\n")[1].splitlines()[1:]}
    assert shown == {name for (name, _, _), values in want.items() if values[0] or values[2]}
    assert test_text.TITLES[2] in text
