# SPDX-License-Identifier: Apache-2.0
"""`pyebpf record` where it is easily wrong: waits for a page, stacks that cannot be read, threads that C has started, threads that
wait all the time, code objects that take each other's place."""
import collections
import json
import os
import re
import signal
import subprocess

import pytest

import lib

pytestmark = lib.needs_root

PROGRAMS = lib.PROGRAMS / "sampled"


def samples_in(capture):
    lines = lib.objects(lib.convert(capture))
    assert lines[-1]["generated"] == lines[-1]["written"] + sum(lines[-1]["dropped"].values())
    return [e for e in lines if e["ev"] == "sample"]


def record(name, program, tmp_path, *options):
    capture = tmp_path / "s.pyebpf"
    done = lib.sh([lib.BINARY, "record", *options, "-o", capture, "--", *lib.command(name), PROGRAMS / program])
    assert done.returncode == 0, lib.text(done.stderr)
    return samples_in(capture), lib.text(done.stdout), lib.text(done.stderr)


def own(sample, program):
    return [f["name"] for f in sample["stack"] if f["file"] == str(PROGRAMS / program)]


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14"))
def test_a_page_that_comes_late_is_told(name, tmp_path):
    samples, said, _ = record(name, "faulting.py", tmp_path, "--mode", "offcpu")
    if said == "0\n":
        pytest.skip("the kernel has no userfaultfd")
    off = collections.Counter()
    for sample in samples:
        if "touching" in own(sample, "faulting.py"):
            off[sample["reason"]] += sample["weight_ns"]
    assert 4.5e8 < off["fault"] < float(said) * 1e9, (off, said)


def restart(pid):
    """Every thread runs for a moment, and waits again where it did."""
    os.kill(pid, signal.SIGSTOP)
    lib.until(lambda: lib.status_field(pid, "State").startswith("T"), "the stop")
    os.kill(pid, signal.SIGCONT)
    lib.until(lambda: lib.status_field(pid, "State").startswith("S"), "its wait")


@pytest.mark.parametrize("name", lib.pick("3.13"))
def test_what_cannot_be_read_is_there_with_the_reason(name, tmp_path):
    """Counted, and no part of the time is lost; the target never notices."""
    capture = tmp_path / "s.pyebpf"
    with lib.started([*lib.command(name), PROGRAMS / "hidden.py"], stdin=subprocess.PIPE) as target:
        tid = int(target.stdout.readline().split()[1])
        command = [lib.BINARY, "record", "-v", "--mode", "wall", "-p", target.pid, "-o", capture]
        with open(tmp_path / "said", "wb") as said, lib.started(command, stderr=said) as recorder:
            lib.wait_attached(recorder, target.pid)
            for _ in range(5):
                restart(target.pid)
            recorder.send_signal(signal.SIGINT)
            assert recorder.wait(60) == 0
        target.stdin.write(b"\n")
        target.stdin.flush()
        assert target.stdout.readline() == b"done\n" and target.wait(30) == 0
    stacks = collections.Counter(tuple(f["name"] for f in s["stack"]) for s in samples_in(capture) if s["tid"] == tid)
    hidden = {s: n for s, n in stacks.items() if "[unreadable: page fault]" in s}
    assert sum(hidden.values()) >= 4, stacks
    assert int(re.search(r"counter SAMPLE_FAULT: (\d+)", (tmp_path / "said").read_text())[1]) >= 4


@pytest.mark.parametrize("name", lib.families())
def test_threads_that_c_has_started(name, tmp_path):
    samples, said, _ = record(name, "foreign.py", tmp_path, "--mode", "cpu", "-r", "997")
    cpu = collections.Counter()
    for sample in samples:
        names = own(sample, "foreign.py")
        if names[-1:] == ["inside"]:
            # what called it is C's, and nothing of the main thread
            assert names == ["callback", "inside"], names
            cpu[sample["tid"]] += sample["weight_ns"]
    assert set(cpu) == set(map(int, said.split())) and len(cpu) == 2, (cpu, said)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14"))
def test_threads_that_wait_all_the_time_have_few_stacks_and_all_their_time(name, tmp_path):
    samples, said, _ = record(name, "pingpong.py", tmp_path, "--mode", "offcpu", "-r", "99")
    for tid, switches, away in json.loads(said):
        of = [s for s in samples if s["tid"] == tid and "player" in own(s, "pingpong.py")]
        marked = [s for s in samples if s["tid"] == tid and any("waits too often" in f["name"] for f in s["stack"])]
        assert switches > 2000 and len(of) < switches / 4, (switches, len(of))
        told = sum(s["weight_ns"] for s in of + marked)
        assert 0.9 * away < told < 1.1 * away, (told, away)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.14"))
def test_code_objects_that_take_each_others_place(name, tmp_path):
    """By number, name and file a sample shows which function ran: its caller is the right one of two, and time goes on. Of one that was
    gone before it was looked at the line is not known."""
    samples, said, _ = record(name, "reused.py", tmp_path, "--mode", "cpu", "-r", "1997")
    made, addresses = map(int, said.split())
    assert made > 10 * addresses, "no address was used again"
    last, seen = -1, set()
    for sample in sorted(samples, key=lambda s: s["ts_ns"]):
        leaf = sample["stack"][-1] if sample["stack"] else {"name": ""}
        found = re.fullmatch(r"f_(\d{6})", leaf["name"])
        if not found:
            continue
        number = int(found[1])
        assert leaf["file"] == "<made %06d>" % number and leaf["line"] in (0, 2, 3, 4), leaf
        assert own(sample, "reused.py")[-1] == ("odd" if number & 1 else "even"), sample["stack"]
        assert number >= last, (number, last)
        last = number
        seen.add(number)
    assert len(seen) > 0.8 * made, (len(seen), made)


@pytest.mark.parametrize("name", lib.pick("3.6", "3.13"))
def test_a_wait_for_a_signal_is_none_for_io(name, tmp_path):
    samples, _, _ = record(name, "signals.py", tmp_path, "--mode", "offcpu")
    off = collections.Counter()
    for sample in samples:
        off.update({(f, sample["reason"]): sample["weight_ns"] for f in own(sample, "signals.py")[-1:]})
    for wait in ("with_a_timeout", "for_one_of_a_set", "for_any"):
        assert off[wait, "other"] > 2.8e8 > off[wait, "io"] + off[wait, "sleep"], off
