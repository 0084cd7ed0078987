# SPDX-License-Identifier: Apache-2.0
"""Losses: counted exactly, per thread, shown as gaps at their place, and never a wrong stack after them."""
import collections
import os
import signal
import subprocess
import time

import pytest

import lib
from exact_load import LOAD, check_exact, counted

pytestmark = lib.needs_root


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t"))
def test_a_small_ring(name, threads, tmp_path):
    """64 KiB for everything, and a reader that stands still again and again."""
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "--ring", "64K", "-o", capture, "--"] + lib.command(name)
                     + [LOAD, out, 1.5, threads], stderr=-1) as tracer:
        tracer.stdout.readline()
        for _ in range(8):
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            tracer.send_signal(signal.SIGCONT)
            time.sleep(0.1)
        lib.finish(tracer, 0, 120)
    seen = lib.Trace(capture)
    assert seen.lost > 0 and len(seen.gaps) >= threads
    check_exact(seen, counted(out))


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_threads_that_live_while_nothing_is_read(name, tmp_path):
    """None of their events has room, nor what begins and ends them: each has a gap with its number all the same."""
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [lib.PROGRAMS / "brief.py", out, 3], stdin=subprocess.PIPE) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, "--ring", "64K") as tracer:
            lib.wait_attached(tracer, pid)
            tracer.send_signal(signal.SIGSTOP)
            target.stdin.write(b"go\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"done\n"
            tracer.send_signal(signal.SIGCONT)
            target.stdin.close()
            assert target.wait(60) == 0
            lib.finish(tracer, 0, 120)
    seen, counts, gaps = lib.Trace(capture), counted(out), collections.Counter()
    for g in seen.gaps:
        gaps[g["tid"]] += g["n"]
    assert sum(gaps.values()) == seen.lost and seen.meta["generated"] == seen.meta["written"] + seen.lost
    assert len(counts) == 3 and all(n <= gaps[tid] <= n + 60 for tid, n in counts.items()), (counts, gaps)


@pytest.mark.parametrize("name", lib.pick("3.9", "3.14"))
def test_a_reader_that_stops(name, tmp_path):
    out, flag, capture = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pyebpf"
    stopped = 5 if lib.LONG else 1
    with lib.started(lib.command(name) + [LOAD, out, stopped + 1, 2, flag]) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, "--ring", "1M") as tracer:
            lib.wait_attached(tracer, pid)
            flag.touch()
            time.sleep(0.5)
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(stopped)
            tracer.send_signal(signal.SIGCONT)
            assert target.wait(60) == 0
            lib.finish(tracer, 0, 120)
    seen = lib.Trace(capture)
    assert seen.lost > 0
    assert max(g["until_ns"] - g["ts_ns"] for g in seen.gaps) > stopped * 0.5e9
    check_exact(seen, counted(out))


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_the_summary_names_the_losses(name, tmp_path):
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "--ring", "64K", "-o", capture, "--"] + lib.command(name) + [LOAD, out, 1, 1],
                     stderr=-1) as tracer:
        tracer.stdout.readline()
        tracer.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        tracer.send_signal(signal.SIGCONT)
        err = lib.finish(tracer)
    seen = lib.Trace(capture)
    lost = next(line for line in err.splitlines() if line.startswith("lost"))
    assert str(seen.lost) in lost.replace(",", "") and "ring %d" % seen.meta["dropped"]["ring"] in lost


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_fresh_names_under_losses(name, tmp_path):
    """Definitions have a ring of their own; when events are lost, those that are left are still named right."""
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "--ring", "64K", "-o", capture, "--"] + lib.command(name)
                     + [lib.PROGRAMS / "fresh.py", 4000, 4], stderr=-1) as tracer:
        for _ in range(20):
            if tracer.poll() is not None:
                break
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            tracer.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        lib.finish(tracer, 0, 120)
    seen = lib.Trace(capture)
    assert seen.meta["generated"] == seen.meta["written"] + seen.lost
    want = set()
    for k in range(1, 5):
        for i in range(2000):
            want.add(("f_%d_%d" % (k, i), 1 + (i * 7919 + k) % 1000003))
            want.add(("<lambda>", 1 + k * 1000000 + i))
    got = collections.Counter((e["name"], e["line"]) for e in seen.of("<made>") if e["ev"] == "call" and e["name"] != "<module>")
    assert set(got) <= want and set(got.values()) <= {1}


def generated(name, ring, tmp_path):
    capture = tmp_path / ("%s.pyebpf" % ring)
    with lib.started([lib.BINARY, "trace", "--ring", ring, "-o", capture, "--"] + lib.command(name)
                     + ["-S", "-B", lib.PROGRAMS / "thrown.py", 3000], stderr=-1, env=dict(os.environ, PYTHONHASHSEED="0")) as tracer:
        lib.finish(tracer, 0, 120)
    meta = lib.Trace(capture).meta
    assert meta["generated"] == meta["written"] + sum(meta["dropped"].values())
    return meta["generated"], meta["written"]


@pytest.mark.parametrize("name", lib.families())
def test_throws_are_counted_while_events_are_lost(name, tmp_path):
    """A throw has no probe of its own from 3.11 on: it is seen by the events around it, whether those are written or not."""
    whole, lossy = generated(name, "64M", tmp_path), generated(name, "8K", tmp_path)
    assert whole[0] == whole[1]
    assert lossy[1] < lossy[0]
    assert abs(lossy[0] - whole[0]) <= 4, "what start-up varies by; 3,000 rounds would show in thousands"


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12"))
def test_a_stack_deeper_than_the_ring(name, tmp_path):
    """After a loss 5,000 frames do not fit into 64 KiB: the top of the stack is shown all the same, then what comes up."""
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "--ring", "64K", "-o", capture, "--"] + lib.command(name)
                     + [lib.PROGRAMS / "abyss.py", 5000, 0.5], stderr=-1) as tracer:
        lib.finish(tracer, 0, 120)
    seen = lib.Trace(capture)
    assert seen.lost > 0
    stack, wrong, shown = [], 0, 0
    deep = next(e["tid"] for e in seen.events if e.get("name") == "down")
    for e in seen.events:
        if e.get("tid") != deep:
            continue
        if e["ev"] == "gap":
            stack = []
        elif e["ev"] in lib.ENTER | {"open"}:
            stack.append(e["name"])
            if e["ev"] == "call" and e["name"] == "leaf" and e["file"].endswith("abyss.py"):
                shown += 1
                wrong += stack[-2:] != ["down", "leaf"]
        elif e["ev"] in lib.LEAVE and stack:
            wrong += stack.pop() != e["name"]
    assert shown > 2000 and not wrong
    # on the way back each frame of `down` is left, with its leaf before
    assert sum(e["ev"] in lib.LEAVE and e["name"] == "down" for e in seen.events) > 100


@pytest.mark.parametrize("allowed, script_status, status", [("0", 0, 7), ("0", 5, 5), ("100", 0, 0)])
def test_fail_on_loss(allowed, script_status, status, tmp_path):
    """Exit 7 when more was lost; all is written, and a command's own failure counts first."""
    capture = tmp_path / "t.pyebpf"
    got, err = lib.lossy(lib.command(lib.pick("3.12")[0]), capture, "--fail-on-loss", allowed, status=script_status)
    assert got == status, err
    seen = lib.Trace(capture)
    assert seen.lost > 0
    assert ("%d of %d were lost, more than --fail-on-loss allows" % (seen.lost, seen.meta["generated"]) in err) == (allowed == "0")


def test_fail_on_loss_when_nothing_was_lost(tmp_path):
    done = lib.trace(["--fail-on-loss", "0%", "--", *lib.command(lib.pick("3.12")[0]), "-c", "pass"], tmp_path / "t.pyebpf")
    assert done.returncode == 0
    for wrong in ("-1", "101", "x", ""):
        done = lib.trace(["--fail-on-loss", wrong, "--", "true"], tmp_path / "u.pyebpf")
        assert done.returncode == 125 and b"want 0 to 100 percent" in done.stderr
