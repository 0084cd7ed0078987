# SPDX-License-Identifier: Apache-2.0
"""--max-overhead: the probes are there in windows only; what is in the windows is exact, what is between them is a gap."""
import bisect
import pathlib
import time

import pytest

import lib

pytestmark = lib.needs_root
TICKS = lib.PROGRAMS / "ticks.py"
MS = 1000000


def times(out):
    return [int(line) for line in pathlib.Path(out).read_text().splitlines()]


def windows_of(seen, tid):
    """The gaps of a thread that say that its process had no probes."""
    return [(g["ts_ns"], g["until_ns"]) for g in seen.gaps if g["reason"] == "window" and g["tid"] == tid]


def check_counts(seen, calls):
    """Every call that is not in a gap is there, once; none of a gap is."""
    ticks = [e for e in seen.of(TICKS) if e["ev"] == "call" and e["name"] == "tick"]
    tid = ticks[0]["tid"]
    off = windows_of(seen, tid)
    got = [e["ts_ns"] for e in ticks]
    for begin, end in off:
        inside = got[bisect.bisect_right(got, begin):bisect.bisect_left(got, end)]
        assert not inside, "a call in a gap"
    numbers = [bisect.bisect_right(calls, ts) for ts in got]
    assert len(set(numbers)) == len(numbers)
    checked = 0
    for begin, end in zip([0] + [end + MS for _, end in off], [begin - MS for begin, _ in off] + [1 << 62]):
        there = bisect.bisect_right(got, end) - bisect.bisect_right(got, begin)
        made = bisect.bisect_right(calls, end) - bisect.bisect_right(calls, begin)
        # a call lies a moment after the time that the program noted
        assert abs(there - made) <= 1 or end < begin, (there, made, begin, end)
        checked += there
    assert checked > 100
    return off


def check_stacks(seen):
    """The first stack after each gap is the whole one."""
    stacks = {}
    for e in seen.events:
        stack = stacks.setdefault(e["tid"], [])
        if e["ev"] == "gap":
            stack.clear()
        elif e["ev"] in lib.LEAVE:
            stack.pop()
        else:
            if e["name"] in ("tick", "leaf") and e["file"] == str(TICKS):
                assert stack[:3] == ["<module>", "main", "work"], stack
            stack.append(e["name"])


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t", "3.14"))
def test_a_dense_program_keeps_its_speed(name, tmp_path):
    """Alone, then with a budget of 10 %: it makes a third of the calls at least (fully traced it is less than a tenth)."""
    alone, out, capture = tmp_path / "alone", tmp_path / "out", tmp_path / "t.pyebpf"
    assert lib.sh(lib.command(name) + [TICKS, alone, 0.6]).returncode == 0
    done = lib.trace(["--max-overhead", "10", "--"] + lib.command(name) + [TICKS, out, 2], capture)
    err = lib.text(done.stderr)
    assert done.returncode == 0, err
    assert "switched off" in err and "malformed" not in err
    calls = times(out)
    assert len(calls) / 2 > len(times(alone)) / 0.6 / 3
    seen = lib.Trace(capture).whole()
    off = check_counts(seen, calls)
    assert off and sum(end - begin for begin, end in off) > 500 * MS
    check_stacks(seen)


@pytest.mark.alone
def test_more_windows_with_more_budget(tmp_path):
    """They come and go, and each begins with the right stack."""
    name = lib.pick("3.12")[0]
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    done = lib.trace(["--max-overhead", "25%", "--"] + lib.command(name) + [TICKS, out, 2.5], capture)
    assert done.returncode == 0, lib.text(done.stderr)
    seen = lib.Trace(capture).whole()
    assert len(check_counts(seen, times(out))) >= 2
    check_stacks(seen)


@pytest.mark.alone
def test_a_busy_process_does_not_starve_a_quiet_one(tmp_path):
    """Both in one trace: only the one that calls without a pause has gaps."""
    name = lib.pick("3.11")[0]
    busy, quiet, capture = tmp_path / "busy", tmp_path / "quiet", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [TICKS, quiet, 60, 0.01]) as second, \
            lib.started(lib.command(name) + [TICKS, busy, 60]) as first:
        assert first.stdout.readline() and second.stdout.readline()
        with lib.attach([first.pid, second.pid], capture, "--max-overhead", "20") as tracer:
            lib.until(lambda: second.pid in [p[0] for p in lib.probes(tracer.pid)], "the probes")
            time.sleep(3)
            lib.stop(tracer)
        first.terminate()
        second.terminate()
        assert second.wait(30) == 0
    seen = lib.Trace(capture)
    gaps = {pid: [g for g in seen.gaps if g["reason"] == "window" and g["pid"] == pid] for pid in (first.pid, second.pid)}
    assert gaps[first.pid] and not gaps[second.pid]
    check_stacks(seen)
    got = [e["ts_ns"] for e in seen.of(TICKS) if e["pid"] == second.pid and e["ev"] == "call" and e["name"] == "tick"]
    numbers = [bisect.bisect_right(times(quiet), ts) for ts in got]
    assert len(got) > 50 and numbers == list(range(numbers[0], numbers[0] + len(got)))


def test_the_budget_with_a_recorder(tmp_path):
    """Gaps and a file that begins in the middle go together."""
    name = lib.pick("3.11")[0]
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    done = lib.trace(["--max-overhead", "30", "--flight-recorder", "1500ms", "--"] + lib.command(name) + [TICKS, out, 4],
                     capture)
    assert done.returncode == 0, lib.text(done.stderr)
    seen = lib.Trace(capture).whole()
    assert seen.meta["before"]["events"] > 0
    check_stacks(seen)


@pytest.mark.parametrize("value", ["0", "96", "x", "5.5"])
def test_a_budget_that_makes_no_sense_is_refused(value):
    done = lib.sh([lib.BINARY, "trace", "--max-overhead", value, "--", "true"])
    assert done.returncode == 125 and b"1 to 95 percent" in done.stderr


def test_a_budget_needs_probes_of_its_own(tmp_path):
    """Where the probes reach every process they cannot be taken out of one."""
    for options in (["-s"], ["--classic-uprobes"]):
        done = lib.trace(["--max-overhead", "5"] + options + ["--"] + lib.any_python() + ["-c", "pass"], tmp_path / "t.pyebpf")
        assert done.returncode == 125, options
        assert b"--max-overhead" in done.stderr
