# SPDX-License-Identifier: Apache-2.0
"""stats, diff, merge and svg of a sampled program: the same figures everywhere, and the lines that samples were at."""
import collections
import json
import os
import shutil
import subprocess

import pytest

import firefox_check
import speedscope
import test_chrometrace
import test_pprof
from made import PYEBPF
from test_svg import boxes, name

PROGRAM = """
import time
def spin(n):
    t = 0
    for i in range(n):
        t += i * i
    return t
def nap():
    time.sleep(0.05)
def main():
    for _ in range(8):
        spin(300000)
        nap()
main()
"""


def run(*args):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          check=False)


def stats(*args):
    r = run("stats", *args, "--json", "-n", "0")
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("samples")
    (folder / "prog.py").write_text(PROGRAM)
    r = run("record", "-q", "-r", "500", "-o", folder / "x.pyebpf", "--", "/usr/bin/python3", "-I", "-S", folder / "prog.py")
    assert r.returncode == 0, r.stderr
    return folder / "x.pyebpf"


def own(got):
    return [r for r in got["rows"] if r["file"].endswith("/prog.py")]


def test_lines_are_those_of_the_samples(capture):
    got, lines = stats(capture), stats(capture, "--by", "line")
    assert got["sample_ns"] == 2000000 and 0 < got["off_cpu_ns"] < got["self_ns"]
    for figure in ("calls", "self_ns"):
        assert sum(r[figure] for r in lines["rows"]) == sum(r[figure] for r in got["rows"]) == got[figure]
    at = {(r["function"], r["line"]): r for r in own(lines)}
    by_function = {r["function"]: r for r in own(got)}
    for function, r in by_function.items():
        rows = [row for (f, _), row in at.items() if f == function]
        assert sum(row["self_ns"] for row in rows) == r["self_ns"]
        assert max(row["total_ns"] for row in rows) <= r["total_ns"] <= sum(row["total_ns"] for row in rows)
    # all that nap() does is on its one line, and main() is at two
    assert at["nap", 9]["self_ns"] == by_function["nap"]["self_ns"] >= 8 * 45000000
    assert {line for f, line in at if f == "spin"} & {5, 6}
    assert {line for f, line in at if f == "main"} >= {12, 13}  # and 11, if it was interrupted there
    head = run("stats", capture, "--by", "line").stdout
    assert "     samples       self" in head and "prog.py:9 nap" in head


def test_a_function_has_callers_but_no_latency(capture):
    r = run("stats", capture, "--function", "prog:nap", "--json")
    got = json.loads(r.stdout)
    assert [c["function"] for c in got["callers"]] == ["main"] and got["latency"] == {"count": 0}
    assert got["self_ns"] == {r["function"]: r for r in own(stats(capture))}["nap"]["self_ns"]
    assert "samples do not see calls" in run("stats", capture, "--function", "prog:nap").stdout


def test_svg_and_merge_add_up(capture, tmp_path):
    assert run("convert", capture, "-o", tmp_path / "one.svg").returncode == 0
    assert run("merge", capture, capture, capture, "-o", tmp_path / "three.svg").returncode == 0
    one, three = boxes(tmp_path / "one.svg"), boxes(tmp_path / "three.svg")
    assert one[0].ns == stats(capture)["self_ns"] and three[0].ns == 3 * one[0].ns
    nap = next(b for b in one if name(b).startswith("nap ("))
    assert " sample" in nap.title and "call" not in nap.title
    assert " of it off the CPU" in (tmp_path / "one.svg").read_text("utf-8")


def test_diff_of_the_same(capture):
    got = json.loads(run("diff", capture, capture, "--json").stdout)
    assert {r["verdict"] for r in got["rows"]} <= {"noise", "unknown"}
    assert all(r["change_ns"] == 0 for r in got["rows"])


def test_samples_and_calls_do_not_mix(capture, tmp_path):
    trace = tmp_path / "t.pyebpf"
    assert run("trace", "-q", "-o", trace, "--", "/usr/bin/python3", "-I", "-S", "-c", "pass").returncode == 0
    r = run("diff", capture, trace)
    assert r.returncode == 2 and "one capture holds samples and the other one calls" in r.stderr
    r = run("merge", capture, trace, "-o", tmp_path / "x.pb.gz")
    assert r.returncode == 2 and "holds calls, and those before do not" in r.stderr
    assert not (tmp_path / "x.pb.gz").exists()


def test_timelines_show_the_samples(capture):
    """speedscope and Chrome's trace events have the same slices. A function has the time of its samples, and less
    than a tick before each, when the tick came late."""
    for extension in (".speedscope.json", ".trace.json"):
        r = run("convert", capture, "--force", "-q", "-o", capture.with_suffix(extension))
        assert r.returncode == 0, r.stderr
    group = json.loads(capture.with_suffix(".speedscope.json").read_text())
    names = [f["name"] for f in group["shared"]["frames"]]
    total = {}
    for frame, (count, _, total_ns) in speedscope.sums(group).items():
        assert count > 0
        total[names[frame]] = total.get(names[frame], 0) + total_ns
    got = stats(capture)
    for r in own(got):
        assert 0 < total[r["function"]] <= r["total_ns"] + got["calls"] * got["sample_ns"]
    slices = sorted((b, e, d, names[f]) for p in group["profiles"] for f, b, e, d in speedscope.evented(p))
    trace = json.loads(capture.with_suffix(".trace.json").read_text())
    assert slices == sorted((b, e, d, n.rsplit(" (", 1)[0] if n.endswith(")") else n)
                            for _, b, e, d, n in test_chrometrace.slices_of(trace))


def events(capture):
    """The samples of its only thread, from ndjson."""
    r = run("convert", capture, "-f", "ndjson", "-o", "-")
    assert r.returncode == 0, r.stderr
    all_of_them = [json.loads(line) for line in r.stdout.splitlines()]
    return [e for e in all_of_them if e["ev"] == "sample"]


def frames_of(capture):
    """The frames of a sample, (function, file, line), the innermost first; of one whose line is not known the first."""
    first = {(r["function"], r["file"]): r["line"] for r in stats(capture)["rows"]}

    def frames(e):
        return tuple((f["func"], f["file"], f["line"] or first[f["func"], f["file"]]) for f in reversed(e["stack"]))
    return frames


def expected(capture):
    """{frames: [samples, wall, cpu, off]}"""
    got = collections.defaultdict(lambda: [0, 0, 0, 0])
    frames = frames_of(capture)
    for e in events(capture):
        row = got[frames(e)]
        for i, value in enumerate((1, e["weight_ns"], e["weight_ns"] * (e["state"] == "on"),
                                   e["weight_ns"] * (e["state"] == "off"))):
            row[i] += value
    return got


def pprof_stacks(path):
    profile = test_pprof.decode(path)
    number, all_of = test_pprof.number, test_pprof.all_of
    strings = [test_pprof.unquote(s) for s in all_of(profile, "string_table")]
    types = [(strings[number(t, "type")], strings[number(t, "unit")]) for t in all_of(profile, "sample_type")]
    assert types == [("samples", "count")] + [(t, "nanoseconds") for t in ("wall", "cpu", "off_cpu")]
    functions = {number(f, "id"): (strings[number(f, "name")], strings[number(f, "filename")])
                 for f in all_of(profile, "function")}
    where = {}
    for location in all_of(profile, "location"):
        (line,) = all_of(location, "line")
        where[number(location, "id")] = *functions[number(line, "function_id")], number(line, "line")
    got = collections.defaultdict(lambda: [0, 0, 0, 0])
    for sample in all_of(profile, "sample"):
        stack = tuple(where[int(i)] for i in all_of(sample, "location_id"))
        got[stack] = [a + int(b) for a, b in zip(got[stack], all_of(sample, "value"))]
    return got


@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc")
def test_pprof_has_the_lines_and_the_times(capture, tmp_path):
    assert run("convert", capture, "-o", tmp_path / "one.pb.gz").returncode == 0
    want = expected(capture)
    assert len({line for stack in want for f, _, line in stack if f == "main"}) > 1
    assert pprof_stacks(tmp_path / "one.pb.gz") == want
    assert run("merge", capture, capture, "-o", tmp_path / "two.pb.gz").returncode == 0
    assert pprof_stacks(tmp_path / "two.pb.gz") == {k: [2 * n for n in row] for k, row in want.items()}


def test_firefox_has_the_lines_and_who_had_the_cpu(capture, tmp_path):
    assert run("convert", capture, "-o", tmp_path / "one.json.gz").returncode == 0
    profile = firefox_check.load(tmp_path / "one.json.gz")
    assert not firefox_check.check(profile)
    shared, (thread,) = profile["shared"], profile["threads"]
    frames, stacks = shared["frameTable"], shared["stackTable"]

    def shown(stack, state):
        """Without the leaf that says what is waited for."""
        while stack is not None:
            frame = stacks["frame"][stack]
            name, file, _ = firefox_check.function_key(profile, frames["func"][frame])
            if state == "on":
                yield name, file or "", frames["line"][frame] or 0
            state = "on"
            offset = stacks["prefixOffset"][stack]
            stack = stack - offset if offset else None

    samples = thread["samples"]
    want, wanted = iter(events(capture)), frames_of(capture)
    state, cpu = "off", 0
    for stack, delta, used in zip(samples["stack"], samples["timeDeltas"], samples["threadCPUDelta"]):
        ns = round(delta * 1e6) if state == "on" else 0
        assert used == ns
        cpu += used
        state = "off"
        if stack is not None:
            e = next(want)
            state = e["state"]
            assert tuple(shown(stack, state)) == wanted(e)
    assert next(want, None) is None and cpu > 0
    # a function at several lines is one function
    names = [shared["stringArray"][n] for n in shared["funcTable"]["name"]]
    assert names.count("main") == 1 and shared["frameTable"]["length"] > shared["funcTable"]["length"]
