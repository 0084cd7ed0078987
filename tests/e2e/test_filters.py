# SPDX-License-Identifier: Apache-2.0
"""Filters: what is recorded is what an unfiltered trace of the same program has, without the frames that are not asked for."""
import collections
import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import zlib

import pytest

import lib

pytestmark = lib.needs_root
FOLDER = lib.PROGRAMS / "filtered"
APP, SHAPES, INNER = (str(FOLDER / n) for n in ("app.py", "shapes.py", "pkg/inner.py"))
OURS = re.compile(re.escape(str(FOLDER)) + "|/made/")


def streams(seen, keep):
    """For each thread that ran our code: [(ev, name, file, depth)] of the frames that keep(event) says, in the order in which the
    threads began. A frame's depth is that among those."""
    out, stacks = collections.OrderedDict(), {}
    for e in seen.events:
        if e["ev"] == "gap":
            assert e["reason"] == "end", e
            stacks[e["tid"]] = []
        if e["ev"] not in lib.ENTER | lib.LEAVE:
            continue
        stack = stacks.setdefault(e["tid"], [])
        kept = keep(e)
        if e["ev"] in lib.LEAVE:
            assert stack.pop() == kept
        depth = sum(stack)
        if e["ev"] in lib.ENTER:
            stack.append(kept)
        if kept and OURS.match(e["file"]):
            out.setdefault(e["tid"], []).append((e["ev"], e["name"], e["file"], depth))
    return list(out.values())


def is_ours(file):
    return bool(OURS.match(file))


def filtered_calls(done):
    return int(re.search(r"^filtered +(\d+) calls", lib.text(done.stderr), re.M)[1])


def traced(name, tmp, *options, engine=()):
    return lib.traced(lib.command(name) + [APP, 12], tmp, *options, *engine)


# What is asked for, and the same in Python.
BY_CODE = [
    (["--include", "app.py"], lambda f: f == APP),
    (["--include", "inner", "--include", "*/filtered/shapes.py"], lambda f: f in (INNER, SHAPES)),
    (["--include", "filtered/*", "--exclude", "shape?"], lambda f: is_ours(f) and f.startswith(str(FOLDER)) and f != SHAPES),
    (["--include", "/made/up0.py", "--include", "app"], lambda f: f in (APP, "/made/up0.py")),
]


@pytest.mark.parametrize("name", lib.some())
def test_code_is_chosen_by_module_and_file(name, tmp_path):
    whole, _ = traced(name, tmp_path)
    whole.whole()
    for options, keep in BY_CODE if name in lib.pick("3.9", "3.12") else BY_CODE[1:2]:
        seen, done = traced(name, tmp_path, *options)
        seen.whole()
        assert b"warning: " not in done.stderr, lib.text(done.stderr)
        assert {e["file"] for e in seen.events if "file" in e} == {e["file"] for e in whole.events if keep(e.get("file", ""))}
        assert streams(seen, lambda e: True) == streams(whole, lambda e: keep(e["file"]))
        assert filtered_calls(done) > 1000


@pytest.mark.parametrize("name", lib.pick("3.9", "3.11", "3.13"))
def test_all_but_our_code(name, tmp_path):
    """What is left out leaves no trace, and what it calls has the caller's caller for its caller."""
    whole, _ = traced(name, tmp_path)
    seen, _ = traced(name, tmp_path, "--exclude", "filtered/*", "--exclude", "threading")
    seen.whole()
    assert not [e for e in seen.events if is_ours(e.get("file", "")) and not e["file"].startswith("/made/")]
    assert not [e for e in seen.events if e.get("file", "").endswith("/threading.py")]
    keep = [e for e in whole.events if e.get("file", "").startswith("/made/")]
    got = [e for e in seen.events if e.get("file", "").startswith("/made/")]
    assert [(e["ev"], e["name"]) for e in got] == [(e["ev"], e["name"]) for e in keep] and got
    assert all(e["depth"] == 0 for e in got)


NAMED = str(lib.PROGRAMS / "named.py")


def matching(counts, pattern):
    return sum(n for name, n in counts.items() if re.fullmatch(pattern, name))


@pytest.mark.parametrize("name", lib.some())
def test_threads_are_chosen_by_the_name_they_have(name, tmp_path):
    """Also those that are renamed: what a thread did under another name is a gap."""
    seen, done = lib.traced(lib.command(name) + [NAMED], tmp_path, "--thread", "pool-?*")
    seen.whole()
    counts = json.loads(lib.text(done.stdout))
    assert seen.count(NAMED)["tick"] == matching(counts, "pool-.+") == 580
    assert {g["reason"] for g in seen.gaps} == {"window"}
    for e in seen.of(NAMED):
        if e["name"] == "tick" and e["ev"] in lib.ENTER:
            assert e["depth"] >= 4, e  # with the whole stack below, though what began it was not recorded


CHOSEN = str(lib.PROGRAMS / "chosen_threads.py")
LONG_NAME = "pool-" + 300 * "x"


def ticks_of(seen):
    return seen.count(CHOSEN)["tick"]


@pytest.mark.parametrize("name", lib.some())
def test_threads_are_chosen_by_the_names_that_the_program_gives(name, tmp_path):
    """From their first call on, also those that live for an instant; renamed by themselves or others, to the very call."""
    for pattern, wanted in ((["pool-*"], "pool-.+"), (["MainThread"], "MainThread"))[:None if name in lib.pick("3.8", "3.13") else 1]:
        seen, done = lib.traced(lib.command(name) + [CHOSEN], tmp_path, "--thread", *pattern, input=b"\n", stdin=None)
        seen.whole()
        counts = json.loads(lib.text(done.stdout).split("\n", 1)[1])
        assert ticks_of(seen) == matching(counts, wanted) > 0, counts
        assert {g["reason"] for g in seen.gaps} <= {"window"}
    begins = {e["name"] for e in seen.events if e["ev"] == "call" and e["depth"] == 0}
    assert pattern[0] == "MainThread" or any("_bootstrap" in b for b in begins), begins


@pytest.mark.parametrize("name", lib.every() if lib.LONG else lib.families())
def test_threads_that_ran_before_are_chosen_by_their_names(name, tmp_path):
    with lib.started(lib.command(name) + [CHOSEN], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"ready\n"
        with lib.attach(target.pid, tmp_path / "t.pyebpf", "--thread", "pool-*") as tracer:
            lib.wait_attached(tracer, target.pid)
            counts = json.loads(lib.text(target.communicate(b"\n", timeout=60)[0]))
            lib.finish(tracer)
    seen = lib.Trace(tmp_path / "t.pyebpf").whole()
    assert ticks_of(seen) == matching(counts, "pool-.+") > 0, counts


@pytest.mark.parametrize("pattern, names", [
    ("pool-\u00fcn?*", {"pool-\u00fcn\u00ef\u4e2d"}), ("*early", {"pool-early", "early"}), ("pool", {"pool"}),
    ("pool-a name of more than fifteen bytes", {"pool-a name of more than fifteen bytes"}), (LONG_NAME[:60] + "*", {LONG_NAME})])
def test_names_of_threads_of_all_sorts(pattern, names, tmp_path):
    name = lib.pick("3.12")[0]
    seen, done = lib.traced(lib.command(name) + [CHOSEN], tmp_path, "--thread", pattern, input=b"\n", stdin=None)
    counts = json.loads(lib.text(done.stdout).split("\n", 1)[1])
    assert ticks_of(seen.whole()) == sum(counts[n] for n in names) > 0, counts


@pytest.mark.parametrize("name", lib.some())
def test_depth(name, tmp_path):
    whole, _ = traced(name, tmp_path)
    seen, done = traced(name, tmp_path, "--max-depth", "7")
    seen.whole()
    assert max(e["depth"] for e in seen.events if "depth" in e) == 6
    assert streams(seen, lambda e: True) == streams(whole, lambda e: e["depth"] < 7)
    assert filtered_calls(done) > 1000


def test_depth_is_that_of_what_is_recorded(tmp_path):
    name = lib.pick("3.12")[0]
    whole, _ = traced(name, tmp_path)
    seen, _ = traced(name, tmp_path, "--max-depth", "3", "--include", "filtered/*", "--exclude", "shapes")
    seen.whole()
    keep = [[row for row in rows if row[3] < 3] for rows in streams(whole, lambda e: is_ours(e["file"]) and e["file"].startswith(
        str(FOLDER)) and e["file"] != SHAPES)]
    assert streams(seen, lambda e: True) == keep


def durations(seen):
    """(name, ns) of each call that is entered and left without a gap between."""
    out, stacks = [], {}
    for e in seen.events:
        stack = stacks.setdefault(e.get("tid"), [])
        if e["ev"] in lib.ENTER | {"open"}:
            stack.append(e)
        elif e["ev"] in lib.LEAVE:
            out.append((e["name"], e["ts_ns"] - stack.pop()["ts_ns"]))
        elif e["ev"] == "gap":
            stack.clear()
    return out


@pytest.mark.parametrize("name, engine", [(n, "auto") for n in lib.some()] + [(n, "inline") for n in lib.pick("3.8", "3.12", "3.13t")])
def test_short_calls_are_folded_and_counted(name, engine, tmp_path):
    options = ["--engine", engine, "--include", "named.py"]
    plain, _ = lib.traced(lib.command(name) + [NAMED], tmp_path, *options)
    seen, done = lib.traced(lib.command(name) + [NAMED], tmp_path, *options, "--min-duration", "2000")
    seen.whole()
    shown = durations(seen)
    assert shown and min(ns for _, ns in shown) >= 2000000
    assert [n for n, _ in shown].count("slow") == 3 and seen.count(NAMED)["main"] == 1
    folded, took, unit = re.search(r"^folded +(\d+) short calls, ([\d.]+) (\w+) in all", lib.text(done.stderr), re.M).groups()
    assert int(folded) + sum(seen.count(NAMED).values()) == sum(plain.count(NAMED).values()) > 1000
    assert float(took) > 0 and unit in ("us", "ms", "s")


TIMED = str(lib.PROGRAMS / "timed.py")


def qualified(name):
    """To 3.10 code objects have no qualified name: a method is called as a function is."""
    return lib.pythons.version(name) >= (3, 11)


@pytest.mark.parametrize("name", lib.some())
def test_root(name, tmp_path):
    """While handle() is on the stack everything is recorded, with handle() below; else nothing."""
    seen, done = lib.traced(lib.command(name) + [TIMED, tmp_path / "out"], tmp_path, "--root", "timed:handle")
    seen.whole()
    truth = json.loads((tmp_path / "out").read_text())
    stacks, methods = {}, 0
    for e in seen.events:
        stack = stacks.setdefault(e.get("tid"), [])
        if e["ev"] in lib.ENTER:
            methods += e["line"] == truth_line("class Other") + 1
            assert e["depth"] == len(stack) and (stack or [e["name"]])[0] == "handle", e
            stack.append(e["name"])
        elif e["ev"] in lib.LEAVE:
            stack.pop()
    counts = seen.count(TIMED)
    assert methods == (0 if qualified(name) else truth["outer"])
    assert counts["handle"] - methods == truth["outer"] + truth["recursive"]
    assert counts["inner"] + counts["leaf"] - methods == truth["under"]
    assert set(counts) == {"handle", "inner", "leaf"} and not seen.gaps
    assert filtered_calls(done) > truth["under"]


def truth_line(text):
    lines = open(TIMED).read().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.startswith(text))


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12", "3.14"))
def test_root_that_is_open_at_the_attach(name, tmp_path):
    with lib.started(lib.command(name) + [TIMED, tmp_path / "out", 60]) as program:
        program.stdout.readline()
        root = "timed:run:%d" % truth_line("def run")  # to 3.10 there is another one
        with lib.attach(program.pid, tmp_path / "a.pyebpf", "--root", root, "--exclude", "threading") as tracer:
            lib.wait_attached(tracer, program.pid)
            lib.stop(tracer)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    main = [e for e in seen.events if e.get("tid") == program.pid]
    assert main and main[0]["ev"] == "open" and main[0]["name"] == "run", main[:3]
    # those that it starts have other stacks
    assert {e["tid"] for e in seen.of(TIMED)} == {program.pid}
    assert seen.count(TIMED)["handle"] > 0


def latency(name, tmp, function, *options):
    done = lib.sh([lib.BINARY, "trace", "--latency", function, "--json", *options, "--", *lib.command(name), TIMED, tmp / "out"])
    assert done.returncode == 0, lib.text(done.stderr)
    ready, _, table = lib.text(done.stdout).partition("\n")
    assert ready == "ready"
    return json.loads(table), json.loads((tmp / "out").read_text())


@pytest.mark.parametrize("name", lib.some())
def test_latency(name, tmp_path):
    got, truth = latency(name, tmp_path, "timed.py:handle:%d" % truth_line("def handle"))
    assert got["lost"] == got["open"] == got["began_before"] == got["yields"] == 0 and got["functions"] == 1
    assert got["calls"] == got["runs"] == got["latency"]["count"] == truth["outer"] + truth["recursive"]
    assert got["recursive"] == truth["recursive"] and got["unwound"] == truth["raised"]
    assert sum(row["count"] for row in got["histogram"]) == got["calls"]
    # each lies within what the program measured around it
    ours = sorted(int(t * 1e9) for t in truth["handle"])
    assert got["latency"]["max_ns"] <= ours[-1] and got["latency"]["max_ns"] >= 20000000
    long = sum(row["count"] for row in got["histogram"] if row["to_ns"] >= 20000000)
    assert long >= sum(t >= 20000000 for t in ours) * 0.5
    assert got["latency"]["p50_ns"] <= got["latency"]["p90_ns"] <= got["latency"]["p99_ns"] <= got["latency"]["max_ns"]


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.13"))
def test_latency_of_what_yields(name, tmp_path):
    got, truth = latency(name, tmp_path, "timed:steps")
    # the address of a frame can be another thread's a moment later, whose ring is read before: then its beginning is not known
    assert got["began_before"] <= 3 and got["calls"] + got["began_before"] == truth["steps"]
    assert (got["runs"], got["yields"]) == (truth["runs"], truth["runs"] - truth["steps"])
    assert got["of_runs"]["latency"]["count"] == truth["runs"] and got["lost"] == 0


def test_latency_as_text(tmp_path):
    name = lib.pick("3.12")[0]
    done = lib.sh([lib.BINARY, "trace", "--latency", "timed:handle", "--", *lib.command(name), TIMED, tmp_path / "out"])
    truth = json.loads((tmp_path / "out").read_text())
    assert done.returncode == 0, lib.text(done.stderr)
    text = lib.text(done.stdout)
    assert "\x1b" not in text and text.count("function  ") == 1
    assert int(re.search(r"^calls +(\d+) in ", text, re.M)[1]) == truth["outer"] + truth["recursive"]
    assert re.search(r"^latency   min .* p50 .* p90 .* p99 .* max ", text, re.M)


def test_latency_on_a_terminal_is_drawn_in_place(tmp_path):
    name = lib.pick("3.12")[0]
    ours, theirs = pty.openpty()
    with lib.started(lib.command(name) + [TIMED, tmp_path / "out", 60]) as program:
        program.stdout.readline()
        with lib.started([lib.BINARY, "trace", "--latency", "timed:handle", "-p", program.pid], stdout=theirs,
                         stderr=subprocess.PIPE) as tracer:
            os.close(theirs)
            drawn = b""
            while drawn.count(b"\x1b[J") < 2:
                drawn += os.read(ours, 65536)
            lib.stop(tracer)
            with contextlib.suppress(OSError):
                while True:
                    drawn += os.read(ours, 65536)
    os.close(ours)
    tables = re.split(r"\x1b\[(\d+)A\x1b\[J", lib.text(drawn).replace("\r\n", "\n"))
    for table, lines in zip(tables[::2], tables[1::2]):
        assert table.count("\n") == int(lines), table
    counts = [int(re.search(r"^calls +(\d+) in ", table, re.M)[1]) for table in tables[::2]]
    assert counts == sorted(counts) and counts[-1] > 0
    assert not list(tmp_path.glob("pyebpf*"))


@pytest.mark.parametrize("name", lib.some())
def test_the_inline_engine_leaves_out_the_same(name, tmp_path):
    """Calls of code that is left out leave its ring out, too, if nothing else happens in them; all else is left out behind that."""
    inline = ("--engine", "inline", "--on-full", "wait", "-v")
    whole, _ = traced(name, tmp_path)
    held_back = 0
    for options, keep in BY_CODE:
        seen, done = traced(name, tmp_path, *options, engine=inline)
        seen.whole()
        assert streams(seen, lambda e: True) == streams(whole, lambda e: keep(e["file"]))
        in_target = int(re.search(r"(\d+) calls left out", lib.text(done.stderr))[1])
        assert filtered_calls(done) > max(1000, in_target)
        held_back += in_target
    # where threads run at once all of it is left out behind the ring
    assert bool(held_back) == (lib.family(name) != "3.13t")


@pytest.mark.parametrize("name", lib.families())
def test_the_inline_engine_with_calls_of_all_kinds(name, tmp_path):
    """Random ones between five files, of which random ones are recorded: calls, from C, constructors, generators, exceptions, threads."""
    seeds = range(20) if lib.LONG else [zlib.crc32(name.encode()) % 1000]
    for seed in seeds:
        command = lib.command(name) + [lib.PROGRAMS / "mixed.py", seed, 200]
        whole, _ = lib.traced(command, tmp_path, "--engine", "inline", "--on-full", "wait")
        whole.whole()
        files = sorted({e["file"] for e in whole.events if e.get("file", "").startswith("/made/")})
        for mask in range(1, 2 ** len(files) - 1) if lib.LONG else (5, 18):
            kept = [file for i, file in enumerate(files) if mask >> i & 1]
            options = [word for file in kept for word in ("--include", file)]
            seen, done = lib.traced(command, tmp_path, "--engine", "inline", "--on-full", "wait", *options)
            assert seen.lost == 0 and b"did not fit" not in done.stderr, (seed, kept, lib.text(done.stderr))
            assert sorted(streams(seen, lambda e: True)) == sorted(streams(whole, lambda e: e["file"] in kept)), (seed, kept)


def test_roots_with_the_inline_engine(tmp_path):
    name = lib.pick("3.12")[0]
    seen, _ = lib.traced(lib.command(name) + [TIMED, tmp_path / "out"], tmp_path, "--engine", "inline", "--root", "timed:handle")
    truth = json.loads((tmp_path / "out").read_text())
    counts = seen.whole().count(TIMED)
    assert counts["handle"] == truth["outer"] + truth["recursive"] and counts["inner"] + counts["leaf"] == truth["under"]


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12"))
def test_losses_are_exact_under_a_filter(name, tmp_path):
    """The reader stands still and the ring fills: what is lost is what of the chosen code is missing, nothing else."""
    program = FOLDER / "stepwise.py"
    with lib.started([lib.BINARY, "trace", "-q", "--ring", "512k", "--include", "stepwise.py", "-o", tmp_path / "l.pyebpf", "--"]
                     + lib.command(name) + [program], stdin=subprocess.PIPE) as tracer:
        def step():
            assert tracer.stdout.readline() == b"ready\n"
            tracer.stdin.write(b"\n")
            tracer.stdin.flush()
        step()
        tracer.send_signal(signal.SIGSTOP)
        assert tracer.stdout.readline() == b"ready\n"
        tracer.send_signal(signal.SIGCONT)
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        step()
        truth = int(tracer.stdout.readline())
        assert tracer.wait(60) == 0
    seen = lib.Trace(tmp_path / "l.pyebpf")
    assert seen.lost > 0 and seen.meta["generated"] == truth == seen.meta["written"] + seen.lost
    assert sum(g["n"] for g in seen.gaps) == seen.lost == seen.meta["dropped"]["ring"]
    assert {e["file"] for e in seen.events if "file" in e} == {str(program)}


@pytest.mark.parametrize("options, said", [
    (["--thread", "nobody"], "no thread that ran is called nobody"),
    (["--thread", "nobody", "--include", "no.such"], "no thread that ran is called nobody"),
    (["--include", "no.such"], "no code that ran is what --include and --exclude leave"),
    (["--exclude", "*"], "no code that ran is what --include and --exclude leave"),
    (["--root", "app:nothing"], "no function that ran is called app:nothing")])
def test_nothing_is_recorded_and_why_is_said(options, said, tmp_path):
    seen, done = traced(lib.pick("3.12")[0], tmp_path, *options)
    assert not seen.whole().events and "pyebpf: warning: %s\n" % said in lib.text(done.stderr)
    if "--include" in options and "--thread" not in options:
        seen, done = traced(lib.pick("3.12")[0], tmp_path, *options, engine=("--engine", "inline"))
        assert not seen.whole().events and "pyebpf: warning: %s\n" % said in lib.text(done.stderr)


@pytest.mark.parametrize("options", [["--min-duration", "x"], ["--min-duration", "0"], ["--min-duration", "11s"],
                                     ["--thread", ""], ["--thread", "n" * 64], ["--include", ""],
                                     ["--max-depth", "5G"], ["--json"], ["--latency", "f", "--root", "g"],
                                     ["--latency", "f", "-o", "x"], ["--root", ""], ["--latency", "f", "--engine", "inline"], ["--thread", "x", "--engine", "inline"]])
def test_what_is_no_filter_is_refused(options):
    done = lib.sh([lib.BINARY, "trace"] + options + ["--", "true"])
    assert done.returncode == 125 and b"--help" in done.stderr


@pytest.mark.parametrize("how", ["script", "module", "package", "code"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.14"))
def test_main_is_what_the_process_runs(name, how, tmp_path):
    """As a user knows it: by __main__, whatever its file is called; not a module that has the same functions."""
    text = "def work(): pass\nif __name__ == '__main__':\n    import other\n    for _ in range(7): work(); other.work()\n"
    (tmp_path / "other.py").write_text("def work(): pass\n")
    (tmp_path / "shop").mkdir()
    for file in ("prog.py", "shop/api.py", "shop/__main__.py"):
        (tmp_path / file).write_text(text)
    arguments = {"script": ["./prog.py"], "module": ["-m", "shop.api"], "package": ["-Bm", "shop"], "code": ["-c", text]}[how]
    command = [*lib.command(name), *arguments]
    done = lib.sh([lib.BINARY, "trace", "--latency", "__main__:work", "--json", "--", *command], cwd=tmp_path,
                  env=dict(os.environ, PYTHONPATH=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"] == 7
    done = lib.sh([lib.BINARY, "trace", "--include", "__main__", "-o", "x.pyebpf", "--", *command], cwd=tmp_path,
                  env=dict(os.environ, PYTHONPATH=str(tmp_path)))
    seen = lib.Trace(tmp_path / "x.pyebpf")
    assert done.returncode == 0
    calls = collections.Counter(e["name"] for e in seen.events if e["ev"] == "call")
    # what -c runs has the file <string>, as has what others give to exec() without a name
    assert calls["work"] == 7 and set(calls) == {"<module>", "work"} and (calls["<module>"] == 1 or how == "code")
