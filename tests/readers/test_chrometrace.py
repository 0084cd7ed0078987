# SPDX-License-Identifier: Apache-2.0
"""Files in Chrome's trace event format: our own check of the format's rules, Perfetto and speedscope."""
import collections
import gzip
import json
import re

import pytest

import perfetto
import speedscope
from test_pprof import convert, expected, generate

LINE = re.compile(r":(\d+)\)$")


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("chrometrace") / "x.pyebpf")
    return path, generate(path, 20000)


@pytest.fixture(scope="module")
def file(capture):
    out = capture[0].replace(".pyebpf", ".trace.json.gz")
    done = convert(capture[0], "-o", out)
    assert done.returncode == 0, done.stderr
    assert b"ui.perfetto.dev" in done.stderr
    return out


def load(path):
    with gzip.open(path) as f:
        return json.load(f)


def line_of(name):
    return int(LINE.search(name)[1])


def sums(slices):
    """{first line: [calls, self, total]} of (thread, begin, end, depth, name), in the order of their begin."""
    got, open_ = collections.defaultdict(lambda: [0, 0, 0]), collections.defaultdict(list)
    for thread, begin, end, depth, name in slices:
        stack = open_[thread]
        del stack[depth:]
        assert len(stack) == depth
        line = line_of(name)
        got[line][0] += 1
        got[line][1] += end - begin
        if stack:
            got[stack[-1]][1] -= end - begin
        if line not in stack:
            got[line][2] += end - begin
        stack.append(line)
    return got


def slices_of(trace):
    """The slices, and a check of what the format asks for."""
    slices, open_, clock = [], collections.defaultdict(list), {}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            continue
        thread, at = (event["pid"], event["tid"]), round(event["ts"] * 1000)
        assert abs(event["ts"] * 1000 - at) < 1e-3 and at >= clock.get(thread, 0)
        clock[thread] = at
        if event["ph"] == "B":
            open_[thread].append(len(slices))
            slices.append([thread, at, None, len(open_[thread]) - 1, event["name"]])
        else:
            ended = slices[open_[thread].pop()]
            assert event["ph"] == "E" and event["name"] == ended[4]
            ended[2] = at
    assert not any(open_.values())
    return slices


def test_the_rules_of_the_format(capture, file):
    trace = load(file)
    assert trace["displayTimeUnit"] == "ns"
    assert trace["otherData"]["written"] == str(capture[1]["events"])
    assert trace["otherData"]["lost_ring"] == "0" and trace["otherData"]["complete"] == "true"
    slices = slices_of(trace)
    assert sums(slices) == expected(capture)
    names = {s[4] for s in slices}
    assert {"<module> (mod0.py:1)", "Caf\u00e9.m\\udc80thod (mod2.py:3)", 'esc\\x1b[31m;"\\\\x0a (mod3.py:4)',
            "nul\\x00nul (mod4.py:5)", "bad\\xff\\xfe (mod5.py:6)", "</script><script>alert(1)</script> (mod2.py:10)",
            "\\u202ertl (mod0.py:8)", " (mod6.py:7)"} <= names
    assert {(e["pid"], e["tid"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M"} == {
        (1000, 0, "py thon;3"), (1001, 0, "py thon;3"), (1000, 1000, "main"), (1000, 1001, "worker"),
        (1001, 1002, "main"), (1001, 1003, "worker")}


@pytest.mark.skipif(perfetto.MISSING, reason=str(perfetto.MISSING))
def test_perfetto_reads_it(capture, file):
    with perfetto.opened(file) as query:
        assert query("select name, value from stats where value > 0 and severity != 'info'") == []
        rows = query("select utid, ts, ts + dur, depth, slice.name from slice"
                     " join thread_track on slice.track_id = thread_track.id order by slice.id")
        threads = query("select pid, tid, process.name, thread.name from thread join process using (upid)"
                        " where utid in (select utid from thread_track) order by tid")
    assert sums(rows) == expected(capture)
    # Perfetto keeps a doubled backslash in a string as it is in JSON unless there is a quote in it, too
    assert {row[4].replace("\\\\", "\\") for row in rows} == {
        s[4].replace("\\\\", "\\") for s in slices_of(load(file))}
    assert threads == [[1000, 1000, "py thon;3", "main"], [1000, 1001, "py thon;3", "worker"],
                       [1001, 1002, "py thon;3", "main"], [1001, 1003, "py thon;3", "worker"]]


@pytest.mark.skipif(speedscope.MISSING, reason=str(speedscope.MISSING))
def test_speedscope_reads_it_too(capture, file):
    group = speedscope.imported(file).group
    frames = group["shared"]["frames"]
    got = collections.defaultdict(int)
    for profile in group["profiles"]:
        assert profile["unit"] == "microseconds"
        for frame, _, _, _ in speedscope.evented(profile):
            got[line_of(frames[frame]["name"])] += 1
    assert got == {line: values[0] for line, values in expected(capture).items()}


def test_an_empty_capture(tmp_path):
    generate(tmp_path / "x.pyebpf", 0)
    assert convert(tmp_path / "x.pyebpf", "-o", tmp_path / "x.trace.json").returncode == 0
    with open(tmp_path / "x.trace.json", encoding="utf-8") as f:
        assert {e["ph"] for e in json.load(f)["traceEvents"]} == {"M"}
