# SPDX-License-Identifier: Apache-2.0
"""The memory of a sampled process: what the program itself reads in /proc, and the counter of the Firefox Profiler."""
import itertools
import json
import os
import subprocess

import pytest

import firefox_check
from made import PYEBPF
from test_firefox import cli  # noqa: F401  (a fixture)

PROGRAM = """
import time
def rss():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))
def stay(name):
    begin = time.monotonic_ns()
    while time.monotonic_ns() - begin < 300000000:
        sum(range(5000))
    print(name, time.monotonic_ns(), rss(), flush=True)
stay("little")
big = b"x" * (60 << 20)
stay("much")
del big
stay("little again")
"""
# the kernel adds up what each CPU counted when that is 32 pages or more; three counters
SLACK = 65536 + 3 * 4096 * max(32, 2 * os.cpu_count()) * os.cpu_count() + (1 << 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(path of the Firefox file, its profile, memory of ndjson, [(name, ns, bytes)] of the program)"""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path_factory.mktemp("memory")
    (folder / "prog.py").write_text(PROGRAM)
    out = run("record", "-q", "-o", folder / "x.pyebpf", "--", "/usr/bin/python3", "-I", "-S", folder / "prog.py")
    truth = [(name, int(ns), int(size)) for name, ns, size in (line.rsplit(" ", 2) for line in out.splitlines())]
    run("convert", "-q", folder / "x.pyebpf", "-o", folder / "x.json.gz")
    lines = [json.loads(line) for line in run("convert", folder / "x.pyebpf", "-f", "ndjson", "-o", "-").splitlines()]
    profile = firefox_check.load(folder / "x.json.gz")
    assert not firefox_check.check(profile)
    return folder / "x.json.gz", profile, [e for e in lines if e["ev"] == "memory"], truth


def run(*args):
    r = subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                       check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


def test_it_is_what_the_program_has(made):
    _, _, memory, truth = made
    assert [name for name, _, _ in truth] == ["little", "much", "little again"]
    assert truth[1][2] - truth[0][2] > 50 << 20
    for _, ns, size in truth:
        said = [e["rss_bytes"] for e in memory if e["ts_ns"] <= ns][-1]
        assert abs(said - size) <= SLACK, (said, size)


def test_the_counter_says_the_same(made, cli):  # noqa: F811
    path, profile, memory, _ = made
    (counter,) = profile["counters"]
    assert counter["pid"] == profile["threads"][counter["mainThreadIndex"]]["pid"] == str(memory[0]["pid"])
    assert list(itertools.accumulate(counter["samples"]["count"])) == [e["rss_bytes"] for e in memory]
    times = list(itertools.accumulate(round(ms * 1e6) for ms in counter["samples"]["timeDeltas"]))
    assert [t - times[0] for t in times] == [e["ts_ns"] - memory[0]["ts_ns"] for e in memory]
    cli.load(path)
    assert "RSS" in cli.run("counter", "list", text=True)
