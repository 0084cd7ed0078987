# SPDX-License-Identifier: Apache-2.0
"""Snapshots of `--count`, while the program goes on: what they show was so at one moment."""
import contextlib
import re
import select
import signal
import subprocess

import pytest

import lib
from test_capture import small_disk
from test_inline import ONE, redirected
from test_inline_count import COUNT, calls, count, sums

FREED = """
import sys, time
made = []
for i in range(10000):
    ns = {}
    exec("def u_%d(): pass" % i, ns)
    made.append(ns.pop("u_%d" % i))
print(flush=True); sys.stdin.readline()
for f in made:
    for _ in range(10): f()
print(flush=True)
while made:
    made.pop()
    until = time.time() + 1e-4
    while time.time() < until: pass
print(flush=True); sys.stdin.readline()
"""


@pytest.mark.parametrize("options", [(), ("--time",)], ids=" ".join)
def test_snapshots_of_functions_that_are_freed(options, tmp_path):
    """What leaves its place while a snapshot is taken is in it all the same."""
    path = tmp_path / "t.pstats"
    with lib.started(lib.command(ONE) + ["-c", FREED], stdin=subprocess.PIPE) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "trace", "-o", path, *COUNT, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            target.stdout.readline()
            while not select.select([target.stdout], [], [], 0.02)[0]:
                tracer.send_signal(signal.SIGUSR1)
            target.communicate(b"\n", timeout=60)
            lib.finish(tracer)
    for file in [*tmp_path.glob("t-*.pstats"), path]:
        got = {f: n for f, n in calls(file, "<string>").items() if f.startswith("u_")}
        assert len(got) == 10000 and set(got.values()) == {10}, file


NAPS = """
import os, random, signal, sys, threading, time
begun, done = [], False
def nap(s): time.sleep(s)
def worker(seed):
    begun.append(time.perf_counter())
    r = random.Random(seed)
    while not done: nap(r.uniform(.2, .3))
def so_far():
    now = time.perf_counter()
    return sum(now - b for b in begun)
threads = [threading.Thread(target=worker, args=(i,)) for i in range(150)]
for t in threads: t.start()
for i in range(1, 21):
    before = so_far()
    os.kill(os.getppid(), signal.SIGUSR1)
    while not os.path.exists(sys.argv[1] % i): time.sleep(.002)
    print(before, so_far(), flush=True)
done = True
for t in threads: t.join()
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_calls_that_end_while_a_snapshot_is_made(name, tmp_path):
    """The time of each is in it, once: all that the threads have done is to call what takes its time."""
    done = count(lib.command(name) + ["-c", NAPS, tmp_path / "t-%d.pstats"], tmp_path / "t.pstats", "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    lines = lib.text(done.stdout).splitlines()
    assert len(lines) == 20
    for i, line in enumerate(lines, 1):
        before, after = map(float, line.split())
        got = sums(tmp_path / ("t-%d.pstats" % i), "<string>")["worker"][3]
        assert before - 0.1 < got < after + 0.1, (i, before, got, after)  # a call takes twice that


SHORT = """
import os, signal, sys, threading, time
done = []
def inner(): time.sleep(.006)
def outer(): inner()
def worker():
    while not done: outer()
threads = [threading.Thread(target=worker) for _ in range(40)]
for t in threads: t.start()
for i in range(1, 41):
    os.kill(os.getppid(), signal.SIGUSR1)
    while not os.path.exists(sys.argv[1] % i): time.sleep(.002)
done.append(True)
for t in threads: t.join()
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_short_calls_that_end_while_a_snapshot_is_made(name, tmp_path):
    """Nor does their time go to their caller, which does nothing itself: what has been its own would be less in the next snapshot."""
    done = count(lib.command(name) + ["-c", SHORT, tmp_path / "t-%d.pstats"], tmp_path / "t.pstats", "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    own = [sums(tmp_path / ("t-%d.pstats" % i), "<string>")["outer"][2] for i in range(1, 41)]
    less = [before - after for before, after in zip(own, own[1:]) if before - after > 0.001]
    assert len(less) <= 1, less  # of 40 of 6 ms each


FRESH = """
import os, signal, sys, time
for i in range(1, 16):
    os.kill(os.getppid(), signal.SIGUSR1)
    number = 0
    while not os.path.exists(sys.argv[1] % i):
        number += 1
        ns = {}
        exec("def fresh_%d_%d(): pass" % (i, number), ns)
        ns["fresh_%d_%d" % (i, number)]()
        time.sleep(.0002)
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13"))
def test_functions_that_begin_while_a_snapshot_is_made(name, tmp_path):
    """There is room for how long they take; that it is not known yet is another thing."""
    done = count(lib.command(name) + ["-c", FRESH, tmp_path / "t-%d.txt"], tmp_path / "t.txt", "--time")
    assert done.returncode == 0, lib.text(done.stderr)
    files = [tmp_path / "t.txt", *tmp_path.glob("t-*.txt")]
    assert len(files) == 16 and not [f for f in files if "there was no room" in f.read_text("utf-8")]


STEADY = "import time\ndef f(): pass\nprint(flush=True)\nwhile 1:\n    for _ in range(100): f()\n    time.sleep(.001)"


@pytest.mark.parametrize("room", [False, True], ids=["full", "room again"])
@pytest.mark.parametrize("options", [["--count"], ["--count", "--time"], ["--opcodes", "all"]], ids=" ".join)
def test_a_disk_that_is_full(options, room, tmp_path):
    """A snapshot that could not be written fails the run; what the last file does not hold is shown instead."""
    with small_disk(tmp_path, "64k") as disk, lib.started(lib.command(ONE) + ["-c", STEADY]) as target:
        assert target.stdout.readline() == b"\n"
        filler, path = disk / "filler", disk / "t.txt"
        with contextlib.suppress(OSError):
            filler.write_bytes(bytes(1 << 20))
        with lib.started([lib.BINARY, "trace", "-q", "--engine", "inline", *options, "-o", path, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            tracer.send_signal(signal.SIGUSR1)
            first = lib.text(tracer.stderr.readline())
            if room:
                filler.unlink()
            said = first + lib.stop(tracer, 6)
        assert "cannot write %s: No space left on device" % (disk / "t-1.txt") in first, said
        assert path.exists() == room and ("1 of the files could not be made" in said) == room, said
        shown = path.read_text() if room else said.split("what could not be written:\n")[1]
        assert re.search(r"\bf\b|LOAD_GLOBAL", shown), said
        assert target.poll() is None
