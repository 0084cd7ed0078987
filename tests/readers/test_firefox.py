# SPDX-License-Identifier: Apache-2.0
"""Firefox Profiler files: our strict checker, and the viewer's own loader as second opinion.

The files come from tests/unit/test_firefox.c, which feeds made-up traces into the exporter. The
foreign reader is npm's @firefox-devtools/profiler-cli, which scripts/setup puts into the cache.
"""

import copy
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

import firefox_check as ff

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PYEBPF_BUILD", ROOT / "build"))
NAMES = ["twice", "categories", "gaps", "empty", "names", "processes", "long", "wild"]


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Folder with the exported files."""
    feeder = BUILD / "tests" / "unit" / "test_firefox"
    if not feeder.exists():
        pytest.fail(f"{feeder} is missing: cmake --build {BUILD}, or set PYEBPF_BUILD")
    folder = tmp_path_factory.mktemp("firefox")
    subprocess.run([feeder, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def good(files):
    """A right profile with several threads, all tables in use, and a counter."""
    profile = ff.load(files / "processes.json.gz")
    profile["counters"] = [{
        "name": "RSS", "category": "Memory", "description": "", "pid": "4242",
        "mainThreadIndex": 0, "samples": {"length": 2, "timeDeltas": [0, 1], "count": [5, -1]},
        "display": {"graphType": "line-accumulated", "unit": "bytes", "color": "orange",
                    "markerSchemaLocation": "timeline-memory", "sortWeight": 20, "label": "RSS",
                    "tooltipRows": []}}]
    return profile


# --- files that must be refused, and the place that must be named ---

def set_row(*path):
    """Puts the last of path at the place that the others lead to."""
    def change(profile):
        at = profile
        for key in path[:-2]:
            at = at[key]
        at[path[-2]] = path[-1]
    return change


def remove(*path):
    def change(profile):
        at = profile
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]
    return change


def drop_grey(profile):
    profile["meta"]["categories"][0]["color"] = "blue"


# the thirteen that the viewer's command line was tried with, then more
BROKEN = {
    "stack beyond its table": (
        set_row("threads", 0, "samples", "stack", 0, 99),
        "threads[0].samples.stack[0]: 99 is no row of shared.stackTable"),
    "frame beyond its table": (
        set_row("shared", "stackTable", "frame", 1, 99),
        "shared.stackTable.frame[1]: 99 is no row of shared.frameTable"),
    "prefix beyond the own index": (
        set_row("shared", "stackTable", "prefixOffset", 1, 2), "shared.stackTable.prefixOffset[1]"),
    "short column": (
        remove("shared", "funcTable", "lineNumber", 0), "shared.funcTable.lineNumber[2]: 2 rows"),
    "no sources": (remove("shared", "sources"), "shared.sources: missing"),
    "newer version": (
        set_row("meta", "preprocessedProfileVersion", 99), "meta.preprocessedProfileVersion: 99"),
    "no grey category": (drop_grey, "meta.categories: none is grey"),
    "times not sorted": (
        set_row("threads", 1, "samples", "timeDeltas", 1, -1), "threads[1].samples.timeDeltas[1]"),
    "category without subcategories": (
        remove("meta", "categories", 3, "subcategories"),
        "meta.categories[3].subcategories: missing"),
    "name that is no index": (
        set_row("shared", "funcTable", "name", 1, "work"),
        "shared.funcTable.name[1]: 'work' is no index into shared.stringArray"),
    "counter without display": (
        remove("counters", 0, "display"), "counters[0].display: missing"),
    "sources without content": (
        remove("shared", "sources", "content"), "shared.sources.content: missing"),
    "pid a number": (set_row("threads", 0, "pid", 4242), "threads[0].pid: wrong value 4242"),

    "negative prefix": (
        set_row("shared", "stackTable", "prefixOffset", 1, -1), "shared.stackTable.prefixOffset[1]"),
    "resource beyond its table": (
        set_row("shared", "funcTable", "resource", 0, 9), "shared.funcTable.resource[0]"),
    "category beyond the list": (
        set_row("shared", "frameTable", "category", 0, 99), "shared.frameTable.category[0]"),
    "no subcategory": (
        set_row("shared", "frameTable", "subcategory", 0, None), "shared.frameTable.subcategory[0]"),
    "two time columns": (
        set_row("threads", 0, "samples", "time", [0, 1]), "threads[0].samples.timeDeltas: 2 of"),
    "weight that is no gap": (
        set_row("threads", 1, "samples", "weight", 0, 7), "threads[1].samples.weight[0]: 7"),
    "last stack not null": (
        set_row("threads", 0, "samples", "stack", 1, 0), "threads[0].samples.stack[1]"),
    "marker without its start": (
        set_row("threads", 0, "markers", "startTime", 0, None),
        "threads[0].markers.startTime[0]: None in phase 0"),
    "marker of unknown type": (
        set_row("threads", 0, "markers", "data", 0, "type", "Nope"), "threads[0].markers.data[0]"),
    "marker field of the wrong type": (
        set_row("threads", 0, "markers", "data", 0, "comm", 5),
        "threads[0].markers.data[0].comm: 5 is no sanitized-string"),
    "thread that is not there": (
        set_row("meta", "initialSelectedThreads", 0, 3), "meta.initialSelectedThreads[0]"),
    "string twice": (
        set_row("shared", "stringArray", 1, "<module>"), "shared.stringArray[1]"),
    "unreferenced string": (
        lambda p: p["shared"]["stringArray"].append("nobody"), "nothing refers to it (1 such"),
    "no losses": (
        remove("meta", "extra", 1, "entries", 6), "meta.extra: no entry 'Lost: ring'"),
    "reserved thread name": (
        set_row("threads", 1, "name", "GeckoMain"), "threads[1].name: 'GeckoMain'"),
    "main thread twice": (
        set_row("threads", 1, "isMainThread", True), "threads[1].isMainThread"),
    "end of 0": (set_row("meta", "profilingEndTime", 0), "meta.profilingEndTime"),
    "counter of another process": (
        set_row("counters", 0, "pid", "1"), "counters[0].pid"),
}


def test_right_profile_is_accepted(good):
    assert ff.check(good) == []


@pytest.mark.parametrize("name", BROKEN)
def test_broken_profile_is_refused(good, name):
    change, place = BROKEN[name]
    profile = copy.deepcopy(good)
    change(profile)
    complaints = ff.check(profile)
    assert any(place in complaint for complaint in complaints), complaints


@pytest.mark.parametrize("text", [
    b'{"a": NaN}', b'{"a": 1e3}', b'{"a": 0.1234567}', b'{"a": 1.50}', b'{"a": 1, "a": 2}',
    b'{"a": "\xff"}', b'{"a": "\xed\xb2\x80"}', b'{"a": 1', b"\x1f\x8b\x08\x00"])
def test_bad_json_is_refused(text):
    with pytest.raises(ff.Broken):
        ff.parse(text)


# --- what the exporter writes ---

@pytest.mark.parametrize("name", NAMES)
def test_export_is_right(files, name):
    assert ff.check(ff.load(files / f"{name}.json.gz")) == []


def parts_of(files, name):
    paths = sorted(files.glob(f"{name}-*.json.gz"), key=lambda p: int(p.name[len(name) + 1:-8]))
    return [ff.load(path) for path in [files / f"{name}.json.gz"] + paths]


@pytest.mark.parametrize("name, count", [("split", 6), ("wildsplit", 26)])
def test_parts_open_alone(files, name, count):
    parts = parts_of(files, name)
    assert len(parts) == count
    for part in parts:
        assert ff.check(part) == []
    for before, after in zip(parts, parts[1:]):
        assert before["meta"]["profilingEndTime"] == after["meta"]["profilingStartTime"]


def add_up(parts):
    added = {}
    for part in parts:
        for thread, rows in ff.totals(part).items():
            sums = added.setdefault(thread, {})
            for key, times in rows.items():
                old = sums.get(key, (0, 0))
                sums[key] = (old[0] + times[0], old[1] + times[1])
    return added


def test_parts_add_up(files):
    whole = ff.load(files / "long.json.gz")
    parts = parts_of(files, "split")
    for label in ("Events in this file", "Events lost in this file"):
        assert sum(ff.entry(part, label) for part in parts) == ff.entry(whole, label)
    assert add_up(parts) == ff.totals(whole)


def replay(path):
    """{tid: [time, open frames, {function key: (self, total)}]} from the events of the trace."""
    threads, start_ns = {}, 0
    with open(path, encoding="utf-8") as f:
        for line in f:
            e = json.loads(line)
            if e["ev"] == "meta":
                start_ns = e["start_ns"]
                continue
            thread = threads.setdefault(e["tid"], [e["ts_ns"], [], {}])
            now, stack, rows = thread
            account(rows, stack, e["ts_ns"] - now)
            thread[0] = e["ts_ns"]
            if e["ev"] == "gap":
                stack.clear()
            elif e["ev"] in ("return", "yield", "unwind"):
                stack.pop()
            else:
                stack.append((e["func"], e["file"] or None, e["line"] or None))
    return threads, start_ns


def account(rows, stack, ns):
    for key in set(stack):
        mine, total = rows.get(key, (0, 0))
        rows[key] = (mine + (ns if key == stack[-1] else 0), total + ns)


def compare_events(profile, ndjson):
    threads, start_ns = replay(ndjson)
    end_ns = start_ns + round(profile["meta"]["profilingEndTime"] * 1e6)
    found = {tid: rows for (_, tid), rows in ff.totals(profile).items()}
    assert set(found) == set(threads)
    for tid, (now, stack, rows) in threads.items():
        account(rows, stack, end_ns - now)
        assert set(rows) == set(found[tid])
        for key, times in rows.items():
            # two events at one moment are shown 1 ns apart
            assert found[tid][key] == pytest.approx(times, rel=1e-6, abs=20)


@pytest.mark.parametrize("name", ["twice", "categories", "gaps", "long"])
def test_totals_are_those_of_the_events(files, name):
    compare_events(ff.load(files / f"{name}.json.gz"), files / f"{name}.ndjson")


def test_functions_have_place_and_package(files):
    profile = ff.load(files / "categories.json.gz")
    shared, found = profile["shared"], {}
    for row in range(shared["funcTable"]["length"]):
        name, file, line = ff.function_key(profile, row)
        resource = shared["resourceTable"]["name"][shared["funcTable"]["resource"][row]]
        category = profile["meta"]["categories"][shared["frameTable"]["category"][row]]["name"]
        found[name] = (file, line, shared["stringArray"][resource], category)
    assert found["work"] == ("/srv/app/main.py", 10, "main", "User code")
    assert found["get"][2:] == ("requests", "site-packages")
    assert found["JSONEncoder.encode"][2:] == ("json", "stdlib")
    assert found["_find_spec"][2:] == ("importlib", "importlib")


# --- through `pyebpf convert` ---

@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """Folder with a capture of two processes as one file, in parts and as ndjson."""
    folder = tmp_path_factory.mktemp("convert")
    capture = folder / "capture.pyebpf"
    subprocess.run([BUILD / "tests" / "readers" / "gen_capture", capture, "50000"], check=True,
                   stdout=subprocess.DEVNULL)
    for name, *args in (("whole.json.gz",), ("parts.json.gz", "--split", "9000"), ("x.ndjson",)):
        subprocess.run([BUILD / "pyebpf", "convert", capture, "-q", "-o", folder / name, *args],
                       check=True)
    return folder


def test_converted_files_are_right(converted):
    paths = list(converted.glob("*.json.gz"))
    assert len(paths) == 7
    for path in paths:
        assert ff.check(ff.load(path)) == []


def test_converted_parts_add_up(converted):
    whole = ff.load(converted / "whole.json.gz")
    assert add_up(parts_of(converted, "parts")) == ff.totals(whole)


def test_a_name_without_gz_means_plain_json(converted, tmp_path):
    """The same profile, also in parts, whose names keep their end."""
    for name, *args in (("whole.json",), ("parts.json", "--split", "9000")):
        subprocess.run([BUILD / "pyebpf", "convert", converted / "capture.pyebpf", "-q", "-o",
                        tmp_path / name, *args], check=True)
    plain, packed = sorted(tmp_path.iterdir()), sorted(converted.glob("*.json.gz"))
    assert [path.name + ".gz" for path in plain] == [path.name for path in packed]
    for one, other in zip(plain, packed):
        assert json.loads(one.read_text("utf-8")) == ff.load(other)


def test_converted_totals_are_those_of_the_events(converted):
    compare_events(ff.load(converted / "whole.json.gz"), converted / "x.ndjson")


# --- the viewer's own loader ---

class ProfilerCli:
    """One profile in the command line of the viewer; it keeps a daemon, which ends with us."""

    def __init__(self, program, home):
        self.program, self.home = program, home

    def call(self, *args):
        env = {**os.environ, "HOME": self.home}
        return subprocess.run([self.program, *args, "--session", "test"], env=env,
                              capture_output=True, timeout=120, check=False)

    def load(self, path):
        """The client gives its daemon 500 ms to start, which a busy machine does not; it starts all the same."""
        done = self.call("load", str(path))
        for _ in range(300):
            if done.returncode == 0 or b"did not become ready" not in done.stderr + done.stdout:
                break
            time.sleep(0.2)
            if self.call("status").returncode == 0:
                return
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def run(self, *args, text=False):
        done = self.call(*args)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode() if text else json.loads(done.stdout)

    def functions(self, thread):
        return self.run("thread", "functions", "--thread", f"t-{thread}", "--limit", "0",
                        "--include-idle", "--json")


@pytest.fixture
def cli():
    cache = os.environ.get("PYEBPF_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "pyebpf")
    program = pathlib.Path(cache) / "bin" / "profiler-cli"
    if not program.exists() or not shutil.which("node"):
        pytest.skip("profiler-cli is not there: scripts/setup")
    # its socket lies in the home folder: tmp_path is too long for one
    with tempfile.TemporaryDirectory(prefix="pyebpf-") as home:
        reader = ProfilerCli(program, home)
        yield reader
        reader.run("stop", text=True)


def compare_cli(cli, path):
    profile = ff.load(path)
    cli.load(path)
    for index, thread in enumerate(profile["threads"]):
        wanted = ff.thread_totals(profile, thread)
        answer = cli.functions(index)
        assert answer["weightType"] == "tracing-ms"
        found = {f["functionIndex"]: f for f in answer["functions"]}
        assert set(found) == set(wanted)
        for func, (mine, total) in wanted.items():
            assert found[func]["name"] == ff.function_key(profile, func)[0]
            assert found[func]["selfSamples"] * 1e6 == pytest.approx(mine, rel=1e-6, abs=0.01)
            assert found[func]["totalSamples"] * 1e6 == pytest.approx(total, rel=1e-6, abs=0.01)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "empty"] + ["split-3"])
def test_profiler_cli_has_the_same_totals(files, cli, name):
    compare_cli(cli, files / f"{name}.json.gz")


def test_profiler_cli_agrees_on_a_converted_capture(converted, cli):
    compare_cli(cli, converted / "whole.json.gz")


def test_profiler_cli_shows_losses_and_markers(files, cli):
    cli.load(files / "gaps.json.gz")
    meta = cli.run("profile", "meta", "--json")
    values = {e["label"]: e["value"] for group in meta["extra"] for e in group["entries"]}
    assert values["Lost: ring"] == 17
    assert values["Lost: user"] == 0
    assert values["Engine"] == "uprobe"
    markers = cli.run("thread", "markers", "--json", text=True)
    for name in ("Lost events", "Gap", "Process first seen", "Thread first seen"):
        assert f'"{name}"' in markers


def test_profiler_cli_takes_an_empty_trace(files, cli):
    cli.load(files / "empty.json.gz")
    assert "no threads seen" in cli.run("thread", "list", text=True)
