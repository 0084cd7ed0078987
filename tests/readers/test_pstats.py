# SPDX-License-Identifier: Apache-2.0
"""Files in the form of cProfile's dumps, read by the pstats of each Python there is, and compared with what
cProfile itself counts in the same program."""
import collections
import json
import os
import pathlib
import subprocess

import pytest

from made import Script
from test_pprof import PYEBPF, convert, expected, generate

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "pstats_program.py"
GENERATORS = {"count", "walk", "<genexpr>"}
CACHE = pathlib.Path(os.environ.get("PYEBPF_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pyebpf")
COMPARED = ["3.9-bullseye", "3.11-debian", "3.13-trixie", "3.15-sid"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("pstats") / "x.pyebpf")
    return path, generate(path, 20000, 70)


def dump(capture, tmp_path, *args):
    out = tmp_path / "x.pstats"
    done = convert(capture, "-o", out, *args)
    assert done.returncode == 0, done.stderr
    assert b"python3 -m pstats" in done.stderr
    return out


def read(command, path):
    done = subprocess.run([*command, HERE / "pstats_read.py", path], stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, PYTHONIOENCODING="utf-8"))
    return json.loads(done.stdout.decode())


def by_line(values):
    return {int(key.split(":")[1]): v for key, v in values.items()}


def test_each_pstats_reads_it(capture, tmp_path, interpreter):
    got = read(interpreter.command, dump(capture[0], tmp_path))
    want = expected(capture)
    sums = by_line(got["funcs"])
    assert set(sums) == set(want) and len(got["funcs"]) == len(want)
    for line, (calls, self_ns, total_ns) in want.items():
        assert sums[line][1:] == [calls, pytest.approx(self_ns / 1e9, abs=1e-12),
                                  pytest.approx(total_ns / 1e9, abs=1e-12)]
        assert 0 < sums[line][0] <= calls
    assert got["calls"] == sum(v[0] for v in want.values()) == got["twice"] / 2
    assert got["seconds"] == pytest.approx(sum(v[1] for v in want.values()) / 1e9)
    for line, callers in by_line(got["callers"]).items():
        # what no caller is known of was called by the thread itself
        assert sum(edge[0] for edge in callers.values()) <= want[line][0]
        assert sum(edge[2] for edge in callers.values()) <= want[line][1] / 1e9 + 1e-9
        assert set(callers) <= set(got["funcs"])
    assert "\x1b" not in got["printed"] and "\0" not in got["printed"]
    names = {key.split(":", 2)[2] for key in got["funcs"]}
    assert {"bad\\xff\\xfe", "Caf\u00e9.m\\udc80thod", "nul\\x00nul", "", "</script><script>alert(1)</script>"} <= names


def test_recursion_against_a_simple_count(capture, tmp_path, any_python):
    """Primitive calls and callers, from the events in their order."""
    lines = convert(capture[0], "-f", "ndjson", "-o", "-").stdout.decode().splitlines()
    stacks, funcs, edges = collections.defaultdict(list), collections.Counter(), collections.Counter()
    primitive, primitive_edges = collections.Counter(), collections.Counter()
    for event in map(json.loads, lines[:-1]):
        stack = stacks[event["tid"]]
        if event["ev"] != "call":
            stack.pop()
            continue
        line, pairs = event["line"], list(zip(stack, stack[1:]))
        funcs[line] += 1
        primitive[line] += line not in stack
        if stack:
            edges[stack[-1], line] += 1
            primitive_edges[stack[-1], line] += (stack[-1], line) not in pairs
        stack.append(line)
    got = read(any_python.command, dump(capture[0], tmp_path))
    assert {line: v[:2] for line, v in by_line(got["funcs"]).items()} == {
        line: [primitive[line], calls] for line, calls in funcs.items()}
    assert {(caller, line): edge[:2] for line, callers in by_line(got["callers"]).items()
            for caller, edge in by_line(callers).items()} == {
                pair: [calls, primitive_edges[pair]] for pair, calls in edges.items()}


def own(values):
    """{(line, name): value} of the program's own functions; a name as it was before 3.11."""
    def short(key):
        _, line, name = key.split(":", 2)
        return int(line), name.rsplit(".", 1)[-1]
    return {short(key): v for key, v in values.items() if key.startswith(str(PROGRAM) + ":")}


@pytest.mark.needs_root
@pytest.mark.parametrize("interpreter", COMPARED, indirect=True)
def test_counts_are_those_of_cprofile(interpreter, captures, tmp_path):
    subprocess.run([*interpreter.command, PROGRAM, tmp_path / "theirs"], check=True)
    theirs = read(interpreter.command, tmp_path / "theirs")
    capture, _ = captures.of(interpreter, PROGRAM)
    ours = read(interpreter.command, dump(capture, tmp_path))
    again = collections.Counter()
    for event in map(json.loads, convert(capture, "-f", "ndjson", "-o", "-").stdout.decode().splitlines()[:-1]):
        if event["ev"] in ("resume", "throw") and event["file"] == str(PROGRAM):
            again[event["line"], event["name"]] += 1
    want, got = own(theirs["funcs"]), own(ours["funcs"])
    assert len(want) > 10 and {name for _, name in again} == GENERATORS
    # the module and the body of its class ran before main()
    assert {func for func in got if func[1] not in ("<module>", "Shape")} == set(want)
    for func, (primitive, calls, self_s, total_s) in want.items():
        if func[1] in GENERATORS:
            # cProfile takes each time that a generator goes on for a call
            assert got[func][1] + again[func] == calls
            continue
        assert got[func][:2] == [primitive, calls], func
        assert self_s >= 0 and total_s >= 0
    for func, callers in own(theirs["callers"]).items():
        if func[1] in GENERATORS:
            continue
        mine = {c: edge[:2] for c, edge in own(own(ours["callers"])[func]).items() if c[1] != "<module>"}
        assert mine == {c: edge[:2] for c, edge in own(callers).items()}, func


# from 3.14 on cProfile asks its clock for built-in functions too, whatever it is told
@pytest.mark.parametrize("interpreter", COMPARED[:3], indirect=True)
def test_times_are_those_of_cprofile(interpreter, tmp_path):
    """To the last digit, callers too, of direct and mutual recursion: cProfile and a capture of the same clock."""
    ran = subprocess.run([*interpreter.command, HERE / "pstats_ticks.py", tmp_path / "theirs"], check=True,
                         stdout=subprocess.PIPE, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    s, funcs = Script(), {}
    s.process(1, 7, "x")
    s.thread(1, 1, 7, "x")
    for call, file, line, name, us in json.loads(ran.stdout.decode()):
        if (line, name) not in funcs:
            funcs[line, name] = len(funcs) + 1
            s.func(funcs[line, name], 1, line, name, file)
        if call:
            s.call(1, us * 1000, funcs[line, name])
        else:
            s.return_(1, us * 1000)
    theirs = read(interpreter.command, tmp_path / "theirs")
    ours = read(interpreter.command, dump(s.write(str(tmp_path / "x.pyebpf")), tmp_path))
    want, got = own(theirs["funcs"]), own(ours["funcs"])
    assert len(want) > 10 and set(got) == set(want)
    for func, values in want.items():
        assert got[func] == pytest.approx(values, abs=1e-9), func
        callers = own(own(theirs["callers"])[func])
        assert own(own(ours["callers"])[func]) == {c: pytest.approx(edge, abs=1e-9) for c, edge in callers.items()}, func
    assert any(values[0] < values[1] for values in want.values())


@pytest.mark.needs_root
def test_a_function_found_on_the_stack_has_no_calls(any_python, captures, tmp_path):
    """A caller that was never seen to be called is there all the same: readers look it up."""
    capture, _ = captures.of(any_python, PROGRAM)
    got = read(any_python.command, dump(capture, tmp_path))
    for callers in got["callers"].values():
        assert set(callers) <= set(got["funcs"])


SNAKEVIZ = """
import json, pstats, sys
from snakeviz.stats import json_stats, table_rows
stats = pstats.Stats(sys.argv[1])
json.dump({"rows": table_rows(stats), "tree": json_stats(stats)}, sys.stdout)
"""


def test_snakeviz_reads_it(capture, tmp_path):
    """What its page shows: the table, and the tree of who calls whom."""
    python = CACHE / "bin/launched/bin/python"
    if not python.exists():
        pytest.fail("%s is missing: run scripts/setup" % python)
    done = subprocess.run([python, "-c", SNAKEVIZ, dump(capture[0], tmp_path)], stdout=subprocess.PIPE, check=True,
                          env=dict(os.environ, PYTHONIOENCODING="utf-8"))
    got, want = json.loads(done.stdout), expected(capture)
    rows = {int(row[-1].split("(")[0].rsplit(":", 1)[1]): row for row in got["rows"]}
    assert set(rows) == set(want) and len(got["tree"]) == len(want)
    for line, (calls, self_ns, total_ns) in want.items():
        assert rows[line][0][1] == calls
        assert [float(rows[line][1]), float(rows[line][3])] == pytest.approx([self_ns / 1e9, total_ns / 1e9], rel=1e-3)
    assert all(node["children"] and node["callers"] for node in got["tree"].values())


def test_an_empty_capture(tmp_path, any_python):
    generate(tmp_path / "x.pyebpf", 0)
    assert read(any_python.command, dump(tmp_path / "x.pyebpf", tmp_path))["funcs"] == {
        "~:0:[no Python function was on a stack]": [0, 0, 0, 0]}


def test_a_merged_file_is_the_sum(tmp_path, any_python):
    """As pstats itself adds up two files."""
    sums = collections.Counter()
    for name, events in (("a", 3000), ("b", 7000)):
        generate(tmp_path / (name + ".pyebpf"), events)
        got = read(any_python.command, dump(tmp_path / (name + ".pyebpf"), tmp_path, "--force"))
        sums.update({(key, i): got["funcs"][key][i] for key in got["funcs"] for i in (0, 1)})
    merged = tmp_path / "merged.pstats"
    subprocess.run([PYEBPF, "merge", tmp_path / "a.pyebpf", tmp_path / "b.pyebpf", "-q", "-o", merged], check=True)
    got = read(any_python.command, merged)
    assert {(key, i): got["funcs"][key][i] for key in got["funcs"] for i in (0, 1)} == sums
