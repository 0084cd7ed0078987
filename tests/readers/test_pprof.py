# SPDX-License-Identifier: Apache-2.0
"""`pyebpf convert`, read back by programs that are not ours: protoc and pprof, a JSON parser, and
a reader of collapsed stacks. The captures come from gen_capture, which says what they add up to."""
import collections
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PYEBPF_BUILD", os.path.join(HERE, "../../build"))
PYEBPF = os.path.join(BUILD, "pyebpf")
GEN_CAPTURE = os.path.join(BUILD, "tests/readers/gen_capture")
COST_NS = 70

def pprof_binary():
    cache = os.environ.get("PYEBPF_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pyebpf")
    return shutil.which("pprof", path=os.path.join(cache, "bin")) or shutil.which("pprof")


def generate(path, events, *cost):
    out = subprocess.run([GEN_CAPTURE, path, str(events), *map(str, cost)], check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def convert(*args, **kw):
    return subprocess.run([PYEBPF, "convert", *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **kw)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("pprof") / "x.pyebpf")
    return path, generate(path, 50000, COST_NS)


def converted(capture, tmp_path, extension, *args):
    out = tmp_path / ("x" + extension)
    r = convert(capture[0], "-o", out, *args)
    assert r.returncode == 0, r.stderr
    return out


def parse_textproto(text):
    """What `protoc --decode` prints, as (key, value) lists; a message is a list again."""
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith("{"):
            stack[-1].append((line[:-1].strip(), []))
            stack.append(stack[-1][-1][1])
        elif line == "}":
            stack.pop()
        else:
            key, value = line.split(": ", 1)
            stack[-1].append((key, value))
    assert len(stack) == 1
    return stack[0]


def all_of(message, key):
    return [v for k, v in message if k == key]


def number(message, key):
    return int(dict(message).get(key, 0))


def unquote(text):
    """The bytes of a C-like string literal."""
    simple = {"n": b"\n", "r": b"\r", "t": b"\t", '"': b'"', "'": b"'", "\\": b"\\"}

    def one(m):
        return bytes([int(m.group(1), 8)]) if m.group(1) else simple[m.group(2)]

    out, pos = b"", 0
    for m in re.finditer(r"\\(?:([0-7]{3})|(.))", text[1:-1]):
        out += text[1:-1][pos:m.start()].encode() + one(m)
        pos = m.end()
    return (out + text[1:-1][pos:].encode()).decode("utf-8")


def decode(path):
    with gzip.open(path) as f:
        raw = f.read()
    r = subprocess.run(["protoc", "--decode=perftools.profiles.Profile", "-I", HERE,
                        os.path.join(HERE, "profile.proto")], input=raw, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    assert r.returncode == 0, r.stderr
    profile = parse_textproto(r.stdout.decode())
    # nothing that the description does not know
    assert {k for k, _ in profile} <= {"sample_type", "sample", "mapping", "location", "function", "string_table",
                                       "time_nanos", "duration_nanos", "period_type", "period", "comment",
                                       "default_sample_type"}
    return profile


def sums(profile):
    """{first line: [calls, self, total]}; in a generated capture the line tells the function."""
    lines = {number(f, "id"): number(f, "start_line") for f in all_of(profile, "function")}
    where = {}
    for location in all_of(profile, "location"):
        (line,) = all_of(location, "line")
        assert number(line, "line") == lines[number(line, "function_id")]
        where[number(location, "id")] = lines[number(line, "function_id")]
    got = collections.defaultdict(lambda: [0, 0, 0])
    for sample in all_of(profile, "sample"):
        stack = [where[int(i)] for i in all_of(sample, "location_id")]
        calls, self_ns = map(int, all_of(sample, "value"))
        got[stack[0]][0] += calls
        got[stack[0]][1] += self_ns
        for line in set(stack):
            got[line][2] += self_ns
    return got


def expected(capture):
    return {int(k): [v["calls"], v["self_ns"], v["total_ns"]] for k, v in capture[1]["funcs"].items()}


@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc")
def test_pprof_sums_are_those_of_the_calls(capture, tmp_path):
    profile = decode(converted(capture, tmp_path, ".pb.gz"))
    assert sums(profile) == expected(capture)
    strings = [unquote(s) for s in all_of(profile, "string_table")]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    names = {strings[number(f, "name")] for f in all_of(profile, "function")}
    assert {"<module>", "f.<locals>.<lambda>", "Caf\u00e9.m\\udc80thod", 'esc\\x1b[31m;"\\\\x0a',
            "nul\\x00nul", "bad\\xff\\xfe", "\\u202ertl", "a b", "func_30"} <= names
    for f in all_of(profile, "function"):
        assert not number(f, "system_name")  # with one that is the name pprof would take it for C++
    comments = [strings[int(c)] for c in all_of(profile, "comment")]
    assert "events lost (ring): 0" in comments
    assert "events generated: %d, written: %d" % ((capture[1]["events"],) * 2) in comments
    for sample in all_of(profile, "sample"):
        labels = {strings[number(label, "key")]: label for label in all_of(sample, "label")}
        assert set(labels) == {"pid", "tid", "process", "thread"}
        assert number(labels["tid"], "num") // 2 == 500 + (number(labels["pid"], "num") - 1000)
        assert strings[number(labels["process"], "str")] == "py thon;3"


@pytest.mark.skipif(not shutil.which("protoc"), reason="no protoc")
def test_raw_keeps_the_cost(capture, tmp_path):
    profile = decode(converted(capture, tmp_path, ".pb.gz", "--raw"))
    got, want = sums(profile), expected(capture)
    for line, (calls, self_ns, _) in want.items():
        assert got[line][0] == calls
        assert got[line][1] >= self_ns + calls * 2 * COST_NS
    # an event costs twice COST_NS; all but the part outside of any frame falls into the times
    own = sum(g[1] for g in got.values()) - sum(w[1] for w in want.values())
    outside = sum(g[0] for g in got.values()) * 4 * COST_NS - own
    assert 0 <= outside < own / 2


@pytest.mark.skipif(not pprof_binary(), reason="no pprof in the cache (scripts/setup)")
def test_the_real_pprof_agrees(capture, tmp_path):
    path = converted(capture, tmp_path, ".pb.gz")
    want = expected(capture)
    for index, column in (("calls", 0), ("wall", 1)):
        r = subprocess.run([pprof_binary(), "-top", "-lines", "-nodecount=1000", "-nodefraction=0", "-unit=ns",
                            "-sample_index=" + index, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=dict(os.environ, HOME=str(tmp_path)))
        assert r.returncode == 0, r.stderr
        got = {}
        for row in r.stdout.decode().splitlines():
            m = re.match(r"\s*(\d+)(?:ns)?\s+[\d.]+%\s+[\d.]+%\s+(\d+)(?:ns)?\s+[\d.]+%\s+.*:(\d+)$", row)
            if m:
                got[int(m.group(3))] = [int(m.group(1)), int(m.group(2))]
        assert {line: v[0] for line, v in got.items()} == {line: v[column] for line, v in want.items()}
        if index == "wall":
            assert {line: v[1] for line, v in got.items()} == {line: v[2] for line, v in want.items()}
            assert b"<module>" in r.stdout
    r = subprocess.run([pprof_binary(), "-tags", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=dict(os.environ, HOME=str(tmp_path)))
    assert r.returncode == 0 and b"py thon;3" in r.stdout and b"1003" in r.stdout


def test_collapsed_sums_are_those_of_the_calls(capture, tmp_path):
    got = collections.Counter()
    for line in converted(capture, tmp_path, ".folded").read_text("utf-8").splitlines():
        stack, weight = line.rsplit(" ", 1)
        frames = stack.split(";")
        assert re.fullmatch(r"py thon\\x3b3-100[01]", frames[0])
        assert re.fullmatch(r"(main|worker)-100[0-3]", frames[1])
        got[int(re.search(r":(\d+)\)$", frames[-1]).group(1))] += int(weight)
    assert got == {line: v[1] for line, v in expected(capture).items()}


def test_ndjson_has_every_call(capture, tmp_path):
    calls, depth, clock, rows = collections.Counter(), collections.Counter(), 0, 0
    with open(converted(capture, tmp_path, ".ndjson"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    meta = lines.pop()
    assert meta["ev"] == "meta" and meta["generated"] == meta["written"] == len(lines) == capture[1]["events"]
    assert meta["dropped"] == dict.fromkeys(["ring", "map", "read", "kernel", "user", "throttle"], 0)
    assert meta["probe_ns"] == 2 * COST_NS
    for e in lines:
        assert e["ts_ns"] >= clock
        clock = e["ts_ns"]
        depth[e["tid"]] -= e["ev"] != "call"
        assert e["depth"] == depth[e["tid"]]
        depth[e["tid"]] += e["ev"] == "call"
        calls[e["line"]] += e["ev"] == "call"
    assert calls == {line: v[0] for line, v in expected(capture).items()}
    assert {e["func"] for e in lines if e["line"] in (3, 5, 6)} == {
        "Caf\u00e9.m\udc80thod", "nul\0nul", "bad\udcff\udcfe"}


def test_a_pipe_in_and_out(capture, tmp_path):
    with open(capture[0], "rb") as f:
        r = convert("-", "-f", "ndjson", "-o", "-", stdin=f)
    assert r.returncode == 0 and r.stderr == b""
    assert r.stdout == converted(capture, tmp_path, ".ndjson").read_bytes()


def test_a_capture_that_was_cut(capture, tmp_path):
    with open(capture[0], "rb") as f:
        data = f.read()
    cut = tmp_path / "cut.pyebpf"
    cut.write_bytes(data[:-20])
    r = convert(cut, "-f", "ndjson", "-o", "-")
    assert r.returncode == 0
    assert b"what is whole was read" in r.stderr
    assert json.loads(r.stdout.decode().splitlines()[-1])["complete"] is False


@pytest.mark.parametrize("args, code, said", [
    (["{in}", "-o", "{dir}/there.pb.gz"], 6, "exists"),
    (["{in}", "-o", "{dir}/link.pb.gz", "--force"], 6, "symbolic link"),
    (["{in}", "-o", "/dev/full"], 6, "device"),
    (["{in}", "-o", "{dir}/missing/x.pb.gz"], 6, "No such file"),
    (["{in}", "-o", "{dir}"], 6, "directory"),
    (["{dir}/nothing.pyebpf", "-o", "{dir}/x.pb.gz"], 2, "No such file"),
    (["{dir}/there.pb.gz", "-o", "{dir}/x.pb.gz"], 2, "capture"),
    (["{dir}", "-o", "{dir}/x.pb.gz"], 2, "directory"),
    (["/dev/null", "-o", "{dir}/x.pb.gz"], 2, "empty"),
    (["{in}", "-f", "nope"], 2, "ndjson"),
    (["{in}", "{in}"], 2, "one capture"),
    ([], 2, "one capture"),
    (["--nope"], 2, "--help"),
])
def test_refusals(capture, tmp_path, args, code, said):
    (tmp_path / "there.pb.gz").write_text("precious")
    (tmp_path / "link.pb.gz").symlink_to("there.pb.gz")
    r = convert(*[a.replace("{in}", capture[0]).replace("{dir}", str(tmp_path)) for a in args])
    assert r.returncode == code, r.stderr
    assert said in r.stderr.decode(), r.stderr
    assert (tmp_path / "there.pb.gz").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.pb.gz", "there.pb.gz"]


def test_parts(capture, tmp_path):
    out = converted(capture, tmp_path, ".json.gz", "--split", "20000")
    parts = sorted(p.name for p in tmp_path.iterdir())
    assert parts == ["x-2.json.gz", "x-3.json.gz", "x.json.gz"]
    for part in parts:
        with gzip.open(tmp_path / part) as f:
            assert json.load(f)["threads"]
    whole = converted(capture, tmp_path, "-whole.json.gz")
    assert len(list(tmp_path.iterdir())) == 4
    # a part that is there is not overwritten, and what came before it stays
    out.unlink()
    (tmp_path / "x-3.json.gz").write_text("precious")
    (tmp_path / "x-2.json.gz").unlink()
    r = convert(capture[0], "-o", out, "--split", "20000")
    assert r.returncode == 6 and b"x-3.json.gz exists" in r.stderr
    assert (tmp_path / "x-3.json.gz").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(parts + [whole.name])
    r = convert(capture[0], "-o", out, "--split", "20000", "--force")
    assert r.returncode == 0 and b"and 2 more parts" in r.stderr


def test_a_full_disk(capture, tmp_path):
    with open("/dev/full", "wb") as full:
        r = subprocess.run([PYEBPF, "convert", capture[0], "-f", "ndjson", "-o", "-"], stdout=full,
                           stderr=subprocess.PIPE)
    assert r.returncode == 6
    assert r.stderr == b"pyebpf convert: cannot write standard output: No space left on device\n"


def test_help_goes_to_stdout():
    for args in (["convert", "--help"], ["help", "convert"], ["--help"], ["--version"]):
        r = subprocess.run([PYEBPF, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert r.returncode == 0 and r.stdout and not r.stderr
        assert max(map(len, r.stdout.decode().splitlines())) <= 80
    r = subprocess.run([PYEBPF], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.returncode == 2 and r.stderr and not r.stdout
