# SPDX-License-Identifier: Apache-2.0
"""The tables of the format text, taken apart again."""
import collections
import re

import pytest

from test_pprof import convert, expected, generate

ROW = re.compile(r" *(\d+)(?:/(\d+))? +(\d+\.\d{6}) +(\d+\.\d{9})? +(\d+\.\d{6}) +(\d+\.\d{9})?  (.*)")
TITLES = ["filename:lineno(function)", "filename:lineno", "module (filename)"]


def tables(text):
    """The lines of the head, and for each title its rows: (calls, primitive calls, self ns, total ns, name)."""
    head, *parts = text.split("\n\n")
    out = {}
    for part in parts:
        title, *rows = part.rstrip("\n").split("\n")
        got = []
        for row in rows:
            calls, primitive, self_s, per_call, total_s, per_primitive, name = ROW.fullmatch(row).groups()
            values = int(calls), int(primitive or calls), float(self_s) * 1e9, float(total_s) * 1e9
            # what is printed is rounded to microseconds
            assert float(per_call) == pytest.approx(values[2] / values[0] / 1e9, abs=1e-6)
            assert float(per_primitive) == pytest.approx(values[3] / values[1] / 1e9, abs=1e-6)
            got.append((*values, name))
        assert [r[2] for r in got] == sorted((r[2] for r in got), reverse=True)
        out[re.fullmatch(r" +ncalls +tottime +percall +cumtime +percall  (.*)", title)[1]] = got
    return head.split("\n"), out


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("text") / "x.pyebpf")
    return path, generate(path, 20000, 70)


@pytest.fixture(scope="module")
def parsed(capture):
    done = convert(capture[0], "-f", "text", "-o", "-")
    assert done.returncode == 0 and not done.stderr
    return tables(done.stdout.decode("utf-8"))


def near(ns):
    return pytest.approx(ns, abs=501)


def test_functions_and_lines(capture, parsed):
    want = expected(capture)
    head, got = parsed
    assert list(got) == TITLES
    for title, pattern in ((TITLES[0], r":(\d+)\(.*\)$"), (TITLES[1], r":(\d+)$")):
        rows = {int(re.search(pattern, row[4])[1]): row for row in got[title]}
        assert len(rows) == len(got[title])
        assert {line: (row[0], near(row[2]), near(row[3])) for line, row in rows.items()} == {
            line: tuple(values) for line, values in want.items()}
    primitive = sum(row[1] for row in got[TITLES[0]])
    assert head[0] == "%d function calls (%d primitive calls) in %.6f seconds" % (
        sum(v[0] for v in want.values()), primitive, sum(v[1] for v in want.values()) / 1e9)
    assert head[1] == "events written: %d, lost: 0; gaps in which a stack is not known: 0" % capture[1]["events"]
    assert {"mod4.py:5(nul\\x00nul)", "mod5.py:6(bad\\xff\\xfe)", 'mod3.py:4(esc\\x1b[31m;"\\\\x0a)',
            "mod2.py:3(Caf\u00e9.m\\udc80thod)", "mod0.py:8(\\u202ertl)", "mod6.py:7()",
            "mod2.py:10(</script><script>alert(1)</script>)"} <= {row[4] for row in got[TITLES[0]]}


def test_modules(capture, parsed):
    calls, self_ns = collections.Counter(), collections.Counter()
    for line, values in expected(capture).items():
        name = "mod{0} (mod{0}.py)".format((line - 1) % 7)
        calls[name] += values[0]
        self_ns[name] += values[1]
    rows = {row[4]: row for row in parsed[1][TITLES[2]]}
    assert {name: (row[0], row[2]) for name, row in rows.items()} == {
        name: (calls[name], near(self_ns[name])) for name in calls}
    for name, row in rows.items():
        assert row[1] < row[0] and self_ns[name] < row[3] <= sum(self_ns.values())


def test_an_empty_capture(tmp_path):
    generate(tmp_path / "x.pyebpf", 0)
    done = convert(tmp_path / "x.pyebpf", "-o", tmp_path / "x.txt")
    assert done.returncode == 0
    head, got = tables((tmp_path / "x.txt").read_text("utf-8"))
    assert not got and head[0].startswith("0 function calls") and "no Python function was on a stack" in head
