# SPDX-License-Identifier: Apache-2.0
"""The capture file while it is written: killed, disk full, memory."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import lib

pytestmark = lib.needs_root
LOAD = lib.PROGRAMS / "load.py"


def begin_load(name, tmp_path, seconds, threads=2):
    flag = tmp_path / "flag"
    flag.touch()
    return lib.started(lib.command(name) + [LOAD, tmp_path / "out", seconds, threads, flag])


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_killed_while_writing(name, tmp_path):
    """Readable to the last whole chunk: at every kill more than a second's worth is there, nested right."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "slow.py"]) as target:
        pid = int(target.stdout.readline())
        sizes = []
        for n in range(10 if lib.LONG else 2):
            capture = tmp_path / ("t%d.pyebpf" % n)
            with lib.attach(pid, capture, stderr=subprocess.DEVNULL) as tracer:
                lib.wait_attached(tracer, pid)
                time.sleep(1.3 + 0.37 * n)
                tracer.kill()
                tracer.wait(60)
            done = lib.sh([lib.BINARY, "convert", capture, "--format", "ndjson", "-o", "-"])
            assert done.returncode == 0, done.stderr
            lines = done.stdout.decode().splitlines()
            events = [json.loads(line) for line in lines]
            meta = events.pop()
            assert meta["ev"] == "meta"
            lib.ndjson.check_nesting(events)
            assert sum(e["ev"] in lib.ENTER | lib.LEAVE for e in events) == meta["written"] > 1000
            assert meta.get("complete") is not True
            assert target.poll() is None
            sizes.append(capture.stat().st_size)
    lib.nothing_left()


def test_cut_at_any_byte(tmp_path):
    """Every prefix is readable or refused; none crashes or shows wrong stacks."""
    name = lib.pick("3.12")[0]
    # long enough for several chunks
    with lib.started(lib.command(name) + [lib.PROGRAMS / "slow.py"]) as target:
        with lib.attach(int(target.stdout.readline()), tmp_path / "t.pyebpf", "-d", "3500ms") as tracer:
            lib.finish(tracer)
    whole = (tmp_path / "t.pyebpf").read_bytes()
    cut = tmp_path / "cut.pyebpf"
    seen = grown = 0
    step = max(len(whole) // (200 if lib.LONG else 6), 1)
    for size in list(range(0, min(len(whole), 400), 97)) + list(range(400, len(whole), step)):
        cut.write_bytes(whole[:size])
        done = lib.sh([lib.BINARY, "convert", cut, "--format", "ndjson", "-o", "-"])
        assert done.returncode in (0, 2, 6), (size, done.returncode, done.stderr)
        if done.returncode == 0:
            events = [json.loads(line) for line in done.stdout.decode().splitlines()]
            lib.ndjson.check_nesting(events[:-1])
            assert events[-1]["written"] >= seen
            grown += events[-1]["written"] > seen
            seen = events[-1]["written"]
    assert seen and grown > 1


@contextlib.contextmanager
def small_disk(tmp_path, size):
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s" % size, "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("out", ["t.pyebpf", "t.json.gz"])
@pytest.mark.parametrize("engine", ["uprobe", "inline"])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_disk_full(name, engine, out, tmp_path):
    with small_disk(tmp_path, "1m") as disk, begin_load(name, tmp_path, 6, 2) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, disk / out, "--engine", engine) as tracer:
            err = lib.finish(tracer, 6, 90)
        assert target.wait(60) == 0, "the target was disturbed"
        capture, = disk.glob("*.pyebpf")
        assert "cannot write %s: No space left on device" % capture in err, err
        assert "what was captured until the error is in %s" % capture in err, err
        done = lib.sh([lib.BINARY, "convert", capture, "--format", "collapsed", "-o", tmp_path / "o.folded"])
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "o.folded").read_text().count(" ") > 1
    assert sum(json.loads((tmp_path / "out").read_text()).values()) > 0


def test_disk_full_behind_a_shell(tmp_path):
    """That the shell was not Python is no reason for anything once its successor is."""
    script = tmp_path / "w.sh"
    script.write_text('#!/bin/sh\nexec "$@"\n')
    script.chmod(0o755)
    with small_disk(tmp_path, "64k") as disk:
        done = lib.sh([lib.BINARY, "trace", "-q", "--engine", "inline", "-o", disk / "t.pyebpf", "--", script, *lib.command(lib.pick("3.12")[0]),
                       "-c", "def f(): pass\nfor i in range(300000): f()"])
        assert "cannot write %s: No space left on device" % (disk / "t.pyebpf") in lib.text(done.stderr), lib.text(done.stderr)
        assert (disk / "t.pyebpf").stat().st_size > 0


def test_disk_full_of_samples(tmp_path):
    """A few kB of it are enough: the samples of a second have no room."""
    with small_disk(tmp_path, "8k") as disk, begin_load(lib.pick("3.12")[0], tmp_path, 6, 2) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "record", "-r", "999", "-o", disk / "t.pyebpf", "-p", pid], stderr=subprocess.PIPE) as tracer:
            err = lib.finish(tracer, 6, 90)
        assert target.wait(60) == 0, "the target was disturbed"
        assert "cannot write %s: No space left on device" % (disk / "t.pyebpf") in err, err
        done = lib.sh([lib.BINARY, "convert", disk / "t.pyebpf", "--format", "collapsed", "-o", tmp_path / "o.folded"])
        assert done.returncode == 0, done.stderr


def rings_shared_kb(pid):
    """Resident memory that is not the kernel's rings, in kB."""
    return int(lib.status_field(pid, "RssAnon").split()[0])


@pytest.mark.parametrize("name", lib.pick("3.11"))
def test_memory_is_bounded(name, tmp_path):
    """Fresh functions all the time and four threads under load: what the capturing process keeps does not grow with it."""
    program = tmp_path / "p.py"
    seconds = 60 if lib.LONG else 8
    program.write_text("""
import threading, time
END = time.time() + %d
def leaf(n): return n
def work():
    while time.time() < END:
        for i in range(2000): leaf(i)
def fresh():
    i = 0
    while time.time() < END:
        space = {}
        exec('def name_%%d_%%s(): return 1\\nname_%%d_%%s()' %% (i, 'x' * 200, i, 'x' * 200), space)
        i += 1
ts = [threading.Thread(target=f) for f in (work, work, work, fresh)]
for t in ts: t.start()
print('ready', flush=True)
for t in ts: t.join()
""" % seconds)
    most = 0
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "-o", capture, "--"] + lib.command(name) + [program], stderr=subprocess.PIPE) as tracer:
        tracer.stdout.readline()
        while tracer.poll() is None:
            with contextlib.suppress(OSError, KeyError, ProcessLookupError):
                most = max(most, rings_shared_kb(tracer.pid))
            if state_of_targets(tracer.pid) == 0:
                break  # from here on it converts, which has a budget of its own
            time.sleep(0.05)
        tracer.communicate(timeout=120)
        assert tracer.returncode == 0
    assert 0 < most <= 64 * 1024


def state_of_targets(pid):
    """How many children are no helpers of its own, whose names begin with its name."""
    try:
        children = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
        return sum(not pathlib.Path("/proc/%s/comm" % child).read_text().startswith("pyebpf") for child in children)
    except OSError:
        return 0
