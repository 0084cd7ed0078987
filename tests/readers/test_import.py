# SPDX-License-Identifier: Apache-2.0
"""Profiles as input: our own exports read back, and files of other writers (foreign/, see its README).
What they add up to is what the capture, or the tool that wrote them, says."""
import cProfile
import collections
import gzip
import json
import marshal
import os
import pathlib
import pstats
import random
import re
import resource
import subprocess
import sys

import pytest

from made import PYEBPF, peak_kb
from test_pprof import COST_NS, generate, pprof_binary

HERE = pathlib.Path(__file__).resolve().parent
FOREIGN = HERE / "foreign"
# Exports, and whether they have the clock as it was: the profiler's own cost is still in their times.
FORMATS = {".json.gz": True, ".speedscope.json": True, ".pb.gz": False, ".folded": False, ".pstats": False}


def run(*args, **kw):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=60, **kw)


def ok(*args, **kw):
    r = run(*args, **kw)
    assert r.returncode == 0, r.stderr
    return r


def stats(path, *args, **kw):
    return json.loads(ok("stats", path, "--json", "-n", 0, *args, **kw).stdout)


def by_line(report, *members):
    """gen_capture's functions have a line each; processes that are called otherwise, a row each."""
    sums = {}
    for row in report["rows"]:
        sums[row["line"]] = [a + row[m] for a, m in zip(sums.get(row["line"], [0] * len(members)), members)]
    return sums


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("import") / "x.pyebpf"
    return path, generate(str(path), 20000, COST_NS)


def exported(capture, folder, extension, *args):
    out = folder / ("x" + extension)
    ok("convert", capture[0], "-o", out, "--force", *args)
    return out


@pytest.mark.parametrize("extension", FORMATS)
def test_round_trip(capture, tmp_path, extension):
    members = ["self_ns"]
    if extension != ".folded":  # it has no calls
        members.append("calls")
    if extension != ".pstats":  # functions that call each other in circles: below
        members.append("total_ns")
    want = by_line(stats(capture[0], *["--raw"] * FORMATS[extension]), *members)
    report = stats(exported(capture, tmp_path, extension))
    assert len(want) == 40 and by_line(report, *members) == want
    if extension != ".folded":
        assert report["calls"] == sum(f["calls"] for f in capture[1]["funcs"].values())


@pytest.mark.parametrize("extension", [".json.gz", ".speedscope.json", ".pb.gz", ".folded"])
def test_round_trip_keeps_processes_and_threads(capture, tmp_path, extension):
    want = {(t["pid"], t["tid"], t["thread"], t["process"])
            for t in stats(capture[0], "--by", "thread")["rows"] if t["self_ns"]}
    rows = [t for t in stats(exported(capture, tmp_path, extension), "--by", "thread")["rows"] if t["self_ns"]]
    # collapsed has no place for a semicolon
    got = {(t["pid"], t["tid"], t["thread"], t["process"].replace("\\x3b", ";")) for t in rows}
    assert got == want


def test_every_format_into_every_other(capture, tmp_path):
    """What was imported goes through the same exporters: sums stay."""
    want = by_line(stats(capture[0]), "self_ns")
    start = exported(capture, tmp_path, ".pb.gz")
    for extension in [*FORMATS, ".svg", ".txt", ".ndjson", ".trace.json.gz"]:
        out = tmp_path / ("again" + extension)
        ok("convert", start, "-o", out)
        if extension in FORMATS:
            assert by_line(stats(out), "self_ns") == want, extension




def test_pstats_totals(tmp_path):
    """Where nobody calls in a circle, totals and callers are those of the capture."""
    program = tmp_path / "shop.py"
    program.write_text("def leaf(n):\n    return sum(range(n))\n"
                       "def a():\n    return [leaf(2000) for _ in range(20)]\n"
                       "def b():\n    return [leaf(9000) for _ in range(40)]\n"
                       "def main():\n    for _ in range(30):\n        a()\n        b()\n")
    names = {}
    exec(compile(program.read_text(), str(program), "exec"), names)  # pylint: disable=exec-used
    profile = cProfile.Profile()
    profile.runcall(names["main"])
    profile.dump_stats(tmp_path / "c.prof")
    want = pstats.Stats(profile).stats
    rows = {(r["file"], r["line"], r["function"]): r for r in stats(tmp_path / "c.prof")["rows"]}
    for (file, line, name), (_, calls, self_s, total_s, _) in want.items():
        row = rows[file, line, name]
        assert row["calls"] == calls
        assert row["self_ns"] == round(self_s * 1e9)
        assert abs(row["total_ns"] - total_s * 1e9) < 1e-6 * total_s * 1e9 + 1000, name
    callers = stats(tmp_path / "c.prof", "--function", "leaf")["callers"]
    below = {"a": "<listcomp>", "b": "<listcomp>"}
    assert {c["function"] for c in callers} <= {"a", "b", *below.values()}


def test_pstats_with_recursion(tmp_path):
    def fib(n):
        return n if n < 2 else even(n - 1) + fib(n - 2)

    def even(n):
        return fib(n)
    profile = cProfile.Profile()
    profile.runcall(fib, 14)
    profile.dump_stats(tmp_path / "c.prof")
    want = pstats.Stats(profile)
    report = stats(tmp_path / "c.prof")
    assert report["calls"] == want.total_calls
    assert abs(report["self_ns"] - want.total_tt * 1e9) < 1000
    ok("convert", tmp_path / "c.prof", "-o", tmp_path / "again.prof")
    again = pstats.Stats(str(tmp_path / "again.prof"))
    assert again.total_calls == want.total_calls and abs(again.total_tt - want.total_tt) < 1e-6


def test_pstats_with_circles(tmp_path):
    """Direct and mutual recursion: calls, self and total times are those that cProfile says of the same program."""
    with open(tmp_path / "events", "wb") as events:
        subprocess.run([sys.executable, HERE / "pstats_ticks.py", tmp_path / "c.prof"], check=True, stdout=events,
                       env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    want = {(file, line): values for (file, line, _), values in pstats.Stats(str(tmp_path / "c.prof")).stats.items()}
    got = {(r["file"], r["line"]): r for r in stats(tmp_path / "c.prof")["rows"]}
    assert set(got) == {key for key in want if key[0] != "~"}
    assert any(primitive < calls for primitive, calls, *_ in want.values())
    for key, row in got.items():
        _, calls, self_s, total_s, _ = want[key]
        assert row["calls"] == calls, key
        assert [row["self_ns"] / 1e9, row["total_ns"] / 1e9] == pytest.approx([self_s, total_s], abs=1e-6), key


def cpu_of(path):
    """(report, seconds of CPU that it took)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = stats(path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return report, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tangled(count):
    """Of so many stacks of 12 out of 300 functions, each of which calls each in the end: rows as cProfile has them."""
    pick = random.Random(1)
    keys = [("/srv/app/m%d.py" % (n % 9), n + 1, "f%d" % n) for n in range(300)]
    rows = {key: [0, 0, 0.0, 0.0, {}] for key in keys}
    for _ in range(count):
        stack = pick.choices(keys, k=12)
        for depth, key in enumerate(stack):
            rows[key][0] += 1
            rows[key][1] += 1
            rows[key][2] += 0.001
            if key not in stack[:depth]:
                rows[key][3] += 0.001 * (12 - depth)
            if depth:
                edge = rows[key][4].setdefault(stack[depth - 1], [0, 0, 0.0, 0.0])
                for i, more in enumerate((1, 1, 0.001, 0.001 * (12 - depth))):
                    edge[i] += more
    return rows


def chain(count):
    """A function calls the next one, and so on."""
    keys = [("/srv/m.py", n + 1, "f%d" % n) for n in range(count)]
    rows = {}
    for n, key in enumerate(keys):
        sums = (1, 1, 0.001, 0.001 * (count - n))
        rows[key] = [*sums, {keys[n - 1]: sums} if n else {}]
    return rows


@pytest.mark.parametrize("make, few, many", [(tangled, 4000, 60000), (chain, 20000, 200000)], ids=["circles", "chain"])
def test_pstats_time_grows_with_the_file(make, few, many, tmp_path):
    """Neither circles without end nor a stack without end take more than their share; calls and self times stay."""
    took = []
    for count in (few, many):
        rows = {key: (*sums, {k: tuple(v) for k, v in callers.items()}) for key, (*sums, callers) in make(count).items()}
        (tmp_path / "x.prof").write_bytes(marshal.dumps(rows))
        report, cpu_s = cpu_of(tmp_path / "x.prof")
        took.append((os.path.getsize(tmp_path / "x.prof"), cpu_s))
        want = {key: (row[1], row[2]) for key, row in rows.items()}
        got = {(r["file"], r["line"], r["function"]): (r["calls"], pytest.approx(r["self_ns"] / 1e9, abs=1e-6))
               for r in report["rows"]}
        assert got == want
    (small, short), (large, long) = took
    assert long < 4 * large / small * max(short, 0.1), took


def seconds(text):
    value, unit = re.fullmatch(r"([\d.]+)(ms|s|us)?", text).groups()
    return float(value) * {"ms": 1e-3, "us": 1e-6}.get(unit, 1)


def test_a_go_profile():
    """The real pprof says what is in it."""
    out = subprocess.run([pprof_binary(), "-top", FOREIGN / "go-cpu.pb.gz"], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, encoding="utf-8").stdout
    want = {row[5]: (seconds(row[0]), seconds(row[3])) for row in map(str.split, out.splitlines()) if len(row) == 6
            and row[1].endswith("%")}
    report = stats(FOREIGN / "go-cpu.pb.gz")
    got = {r["function"]: (r["self_ns"] / 1e9, r["total_ns"] / 1e9) for r in report["rows"]}
    assert len(want) == 5 and got == want
    assert report["sample_ns"] == 10**7 and report["calls"] == 30


def test_memory_is_no_time():
    r = run("stats", FOREIGN / "go-heap.pb.gz")
    assert r.returncode == 2 and b"measures inuse_space in bytes, and not time" in r.stderr


@pytest.mark.parametrize("first", ["<module> (/a.py:1)", "[no Python]", "[no Python frame]"])
def test_collapsed_without_threads(first, tmp_path):
    """As record writes it: nanoseconds, although no thread is named."""
    path, again = tmp_path / "x.folded", tmp_path / "again.folded"
    path.write_text("py-7;%s 30\npy-7;<module> (/a.py:1);f (/a.py:2) 12\n-8;f (/b.py:2) 5\n" % first)
    assert stats(path)["self_ns"] == 47
    rows = stats(path, "--by", "thread")["rows"]
    assert [(r["process"], r["pid"], r["thread"], r["tid"], r["self_ns"]) for r in rows] == [
        ("py", 7, "all threads", 0, 42), ("", 8, "all threads", 0, 5)]
    ok("convert", path, "-o", again)
    assert stats(again)["self_ns"] == 47


def test_collapsed_of_nobodys_thread(tmp_path):
    path = tmp_path / "x.folded"
    path.write_text("py-7;t-7;f (/a.py:2) 12\npy-7;-8;f (/a.py:2) 30\n")
    rows = stats(path, "--by", "thread")["rows"]
    assert [(r["thread"], r["tid"], r["self_ns"]) for r in rows] == [("", 8, 30), ("t", 7, 12)]


def test_collapsed_of_perf_with_processes(tmp_path):
    """stackcollapse-perf.pl --pid: counts."""
    path = tmp_path / "x.folded"
    path.write_text("python-7;[unknown];main 3\npython-7;[libc.so.6];f 2\n")
    assert stats(path)["self_ns"] == 5 * 10**7


def test_py_spy_raw(tmp_path):
    """A count and a line where the sample was; functions of the same name and file are one."""
    want, total = collections.Counter(), 0
    for line in (FOREIGN / "py-spy.raw").read_text("utf-8").splitlines():
        stack, count = line.rsplit(" ", 1)
        want[stack.split(";")[-1].split(" ")[0]] += int(count)
        total += int(count)
    r = ok("stats", FOREIGN / "py-spy.raw", "--json", "-n", 0)
    report = json.loads(r.stdout)
    assert {row["function"]: row["calls"] for row in report["rows"] if row["calls"]} == want
    assert report["self_ns"] == total * 10**7 and b"--count-time" in r.stderr
    assert stats(FOREIGN / "py-spy.raw", "--count-time", "1ms")["self_ns"] == total * 10**6
    lines = {(row["function"], row["line"]) for row in stats(FOREIGN / "py-spy.raw", "--by", "line")["rows"]}
    assert {("price", 7), ("price", 8), ("idle", 17)} <= lines


def test_py_spy_speedscope():
    with open(FOREIGN / "py-spy.speedscope.json", encoding="utf-8") as f:
        group = json.load(f)
    names = [frame["name"] for frame in group["shared"]["frames"]]
    want = collections.Counter()
    for profile in group["profiles"]:
        for stack, weight in zip(profile["samples"], profile["weights"]):
            want[names[stack[-1]]] += round(weight * 1e9)
    report = stats(FOREIGN / "py-spy.speedscope.json")
    assert {r["function"]: r["self_ns"] for r in report["rows"] if r["self_ns"]} == want
    threads = stats(FOREIGN / "py-spy.speedscope.json", "--by", "thread")["rows"]
    assert {t["thread"] for t in threads} == {p["name"] for p in group["profiles"]}


def test_perf_script():
    text = (FOREIGN / "perf-script.txt").read_text("utf-8")
    want = collections.Counter()
    for sample in text.split("\n\n"):
        lines = sample.splitlines()
        if lines:
            want[lines[1].split()[1].rsplit("+0x", 1)[0]] += int(lines[0].split()[3])
    report = stats(FOREIGN / "perf-script.txt")
    assert {r["function"]: r["self_ns"] for r in report["rows"] if r["self_ns"]} == want
    assert {t["tid"] for t in stats(FOREIGN / "perf-script.txt", "--by", "thread")["rows"]} == \
        {int(line.split()[1]) for line in text.splitlines() if line.startswith("python3 ")}


def test_perf_script_with_other_fields(tmp_path):
    """Names with spaces, pid/tid, a CPU, no period, Python's trampolines, more columns, comments, no stack."""
    path = tmp_path / "perf.txt"
    path.write_text("# a comment\n"
                    "my app 2 10/11 [001] 5.000000100: cycles:P: \n"
                    "\t    7f00 py::C.work:/srv/my app.py+0x8 (/tmp/perf-10.map)\n"
                    "\t    7f10 py::<module>:/srv/my app.py (/tmp/perf-10.map)\n"
                    "\n"
                    "python3 12 5.1: 1 cycles:  7f55 leaf+0x1 (/usr/lib/libx.so)\n")
    r = ok("stats", path, "--json", "-n", 0)
    rows = {row["function"]: row for row in json.loads(r.stdout)["rows"]}
    assert rows["C.work"]["file"] == "/srv/my app.py" and rows["C.work"]["self_ns"] == 10**7
    assert rows["<module>"]["total_ns"] == 10**7 and rows["leaf"]["file"] == "/usr/lib/libx.so"
    threads = {(t["process"], t["pid"], t["tid"]) for t in stats(path, "--by", "thread")["rows"]}
    assert threads == {("my app 2", 10, 11), ("python3", 12, 12)}
    assert b"--count-time" in r.stderr


def test_an_older_firefox_profile(tmp_path):
    """Tables in the thread, absolute times, samples by number, a thread without any."""
    profile = {"meta": {"version": 27, "preprocessedProfileVersion": 48, "interval": 2, "startTime": 1700000000000,
                        "product": "Firefox"},
               "threads": [{"name": "GeckoMain", "pid": 7, "tid": 7, "processName": "Parent",
                            "samples": {"time": [0.5, 2.5, 4.5, 6.5], "stack": [1, 1, None, 0], "weight": None},
                            "stackTable": {"frame": [0, 1], "prefix": [None, 0], "length": 2},
                            "frameTable": {"func": [0, 1], "line": [None, 5], "length": 2},
                            "funcTable": {"name": [0, 1], "fileName": [None, 2], "lineNumber": [None, 3]},
                            "stringTable": ["(root)", "run", "app.js"]},
                           {"name": "idle", "pid": 7, "tid": 8, "samples": {"time": [], "stack": []}}]}
    (tmp_path / "p.json").write_text(json.dumps(profile))
    report = stats(tmp_path / "p.json")
    rows = {r["function"]: (r["file"], r["line"], r["calls"], r["self_ns"], r["total_ns"]) for r in report["rows"]}
    assert rows == {"(root)": ("", 0, 1, 2000000, 6000000), "run": ("app.js", 3, 2, 4000000, 4000000)}
    assert report["start_unix_ns"] == 1700000000000 * 10**6 and report["sample_ns"] == 2000000


def test_speedscope_with_shared_at_the_end_and_a_count(tmp_path):
    group = {"profiles": [{"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 5,
                           "samples": [[0, 1], [0]], "weights": [3, 2]}],
             "$schema": "x", "shared": {"frames": [{"name": "outer"}, {"name": "inner", "file": "a.py", "line": 4}]}}
    (tmp_path / "s.json").write_text(json.dumps(group))
    rows = {r["function"]: (r["calls"], r["self_ns"]) for r in stats(tmp_path / "s.json")["rows"]}
    assert rows == {"inner": (3, 3 * 10**7), "outer": (2, 2 * 10**7)}


@pytest.mark.parametrize("extension", FORMATS)
def test_gzip_and_pipes(capture, tmp_path, extension):
    plain = exported(capture, tmp_path, extension).read_bytes()
    want = stats(tmp_path / ("x" + extension))["self_ns"]
    if plain[:2] == b"\x1f\x8b":
        plain = gzip.decompress(plain)
    # two members, as of files that were joined
    packed = gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])
    for data in (plain, packed):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
            writer = subprocess.Popen([PYEBPF, "stats", "-", "--json"], stdin=cat.stdout, stdout=subprocess.PIPE)
            cat.stdout.close()
            cat.stdin.write(data)
            cat.stdin.close()
            out, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0 and json.loads(out)["self_ns"] == want


def test_diff_and_merge_take_profiles(capture, tmp_path):
    pb, folded = exported(capture, tmp_path, ".pb.gz"), exported(capture, tmp_path, ".folded")
    rows = json.loads(ok("diff", capture[0], pb, "--json", "-n", 0).stdout)["rows"]
    changes = {row["line"]: row["change_ns"] for row in rows if row["function"].startswith("func_")}
    assert len(changes) == 29 and not any(changes.values())  # the other names are escaped in one of the two
    ok("merge", capture[0], pb, folded, "-o", tmp_path / "all.pb.gz", "-q")
    want = {line: [3 * self_ns, 2 * calls] for line, (self_ns, calls) in
            by_line(stats(capture[0]), "self_ns", "calls").items()}
    assert by_line(stats(tmp_path / "all.pb.gz"), "self_ns", "calls") == want


# --- what is hostile, cut or something else ---

def refused(r, what):
    assert r.returncode == 2 and not r.stdout, (what, r)
    text = r.stderr.decode()
    assert text.startswith("pyebpf stats: ") and len(text.splitlines()) <= 2 and len(text) < 600, (what, text)
    return text


@pytest.mark.parametrize("data,says", [
    (b"", "empty"),
    (b"\x00\x01\x02", "none of the formats"),
    (b"hello, world\nthis is a text\n", "none of the formats"),
    (b'{"traceEvents":[]}', "Chrome trace events"),
    (b'{"ts_ns":5,"pid":1,"tid":1,"ev":"call","func":"f"}\n{"ev":"meta","ts_ns":6}\n', "pyebpf's own ndjson"),
    (b'{"a":1}', "neither a firefox nor a speedscope"),
    (b'{"meta":{"version":5},"threads":[]}', "raw Gecko"),
    (b'{"threads":' + b"[" * 100000, "nested"),
    (b'{"profiles":[{"unit":"bytes","type":"sampled","samples":[],"weights":[]}]}', "bytes"),
    (b'{"profiles":[{"type":"evented","unit":"seconds","events":[{"type":"C","frame":0,"at":1}]}]}', "not the innermost"),
    (b'{"profiles":[{"type":"sampled","unit":"seconds","samples":[[5]],"weights":[1]}],"shared":{"frames":[]}}',
     "frame 5"),
    (b'{"profiles":[{"type":"sampled","unit":"seconds","samples":[[0]],"weights":[1e300]}],"shared":{"frames":[{}]}}',
     "36 years"),
    (b'{"profiles": nonsense}', "damaged at byte"),
    (b"a;b 99999999999999999999\n", "none of the formats"),
    (b"a;b 9\nno number here\n", "line 2"),
    (b"a;b 9223372036854775807\n", "36 years"),
    (b"a " * 3000000 + b"1", "longer than"),
    (b"a;b 1\n" + b"a;" * 3000000 + b" 1", "longer than"),
    (b"a;b 1\n" + b"a;" * 70000 + b"a 1", "frames"),
    (b"\x0a\x04\x08\x01\x10\x02\x12\xff\xff\xff\xff\x7f", "cut after 12 bytes"),
    (b"\x0a\x04\x08\x01\x10\x02" + b"\x32\x00\x32\x03cpu\x32\x0bnanoseconds\x12\x05\x0a\x01\x07\x12\x00", "location 7"),
    (b"\xfb(\x03\x00\x00\x00r\xff\xff\xff\x7f", "reference to nothing"),
    (b"{(\x03\x00\x00\x00u\xff\xff\xff\x7f", "longer than"),
    (gzip.compress(b"a;b 1\n" * 1000)[:-30], "cut"),
    (b"\x1f\x8b\x08\x00garbage that is no deflate stream", "gzip data are damaged"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_what_cannot_be_read_is_said(tmp_path, data, says):
    (tmp_path / "x").write_bytes(data)
    assert says in refused(run("stats", tmp_path / "x"), says)


def pieces(data, cnt):
    return sorted({len(data) * i // cnt for i in range(1, cnt)})


@pytest.mark.parametrize("extension", [e for e in FORMATS if e != ".folded"])
def test_a_cut_file_is_an_error(capture, tmp_path, extension):
    """Anywhere: it is never taken for a whole one. Collapsed stacks have no end to miss."""
    small = tmp_path / "small.pyebpf"
    generate(str(small), 60)
    data = exported((small,), tmp_path, extension).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    taken = 0
    for at in pieces(data, 40):
        (tmp_path / "cut").write_bytes(data[:at])
        r = run("stats", tmp_path / "cut")
        if r.returncode:
            refused(r, at)
        taken += not r.returncode
    # a protobuf may be cut between two of its parts: what is there is whole
    assert taken <= (4 if extension == ".pb.gz" else 0)


@pytest.mark.parametrize("extension", FORMATS)
def test_damage_never_kills(tmp_path, extension):
    small = tmp_path / "small.pyebpf"
    generate(str(small), 60)
    data = exported((small,), tmp_path, extension).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    chance = random.Random(7)
    for _ in range(40):
        bad = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        (tmp_path / "bad").write_bytes(bad)
        r = run("convert", tmp_path / "bad", "-o", tmp_path / "out.speedscope.json", "--force")
        assert r.returncode in (0, 2), r


def test_names_are_shown_harmless(tmp_path):
    (tmp_path / "x.folded").write_bytes(b"\x1b[31mred;\xff\xfe<script> 3\n")
    r = ok("stats", tmp_path / "x.folded")
    assert b"\x1b" not in r.stdout and b"\\x1b[31mred" in r.stdout and b"\\xff\\xfe<script>" in r.stdout


def test_memory_does_not_grow_with_what_repeats(tmp_path):
    """Sums, of four times as many lines and samples."""
    block = b"".join(b"main (a.py:1);f%d (a.py:%d);g (b.py:7) %d\n" % (i, i, i + 1) for i in range(1000))
    used = []
    for times in (100, 400):
        (tmp_path / "big.folded").write_bytes(block * times)
        used.append(peak_kb("stats", tmp_path / "big.folded"))
    assert used[1] < used[0] * 1.2 and used[1] < 40000
