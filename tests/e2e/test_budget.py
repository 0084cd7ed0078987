# SPDX-License-Identifier: Apache-2.0
"""--max-overhead: the probes are there in windows only; what is in the windows is exact, what is between them is a gap."""
import bisect
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import lib
import machine
import selected

pytestmark = lib.needs_root
TICKS = lib.PROGRAMS / "ticks.py"
MS = 1000000
TICK = os.sysconf("SC_CLK_TCK")


def windows_of(seen, tid):
    """The gaps of a thread that say that its process had no probes."""
    return [(g["ts_ns"], g["until_ns"]) for g in seen.gaps if g["reason"] == "window" and g["tid"] == tid]


@functools.lru_cache(maxsize=8)
def ticks_of(seen, pid=None):
    return [e for e in seen.of(TICKS) if e["ev"] == "call" and e["name"] == "tick" and pid in (None, e["pid"])]


def use_cpu(pid, seconds=0.6):
    """Until a process has used so much CPU time more, and for a second at least."""
    def used():
        return sum(map(int, pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[11:13])) / TICK
    end = used() + seconds
    time.sleep(1)
    lib.until(lambda: used() >= end, "some calls", 120)


def window_pids(seen):
    return {g["pid"] for g in seen.gaps if g["reason"] == "window"}


def check_unbroken(seen, calls, pid, whole=False):
    """No call is missing from the first that is there; whole: from the first that was made."""
    numbers = [bisect.bisect_right(calls, e["ts_ns"]) for e in ticks_of(seen, pid)]
    assert len(numbers) > 50 and numbers == list(range(1 if whole else numbers[0], numbers[0] + len(numbers)))


def check_counts(seen, calls, pid=None, late=False):
    """Every call that is not in a gap is there, once; none of a gap is. late: from the first that is there."""
    ticks = ticks_of(seen, pid)
    tid = ticks[0]["tid"]
    off = windows_of(seen, tid)
    got = [e["ts_ns"] for e in ticks]
    for begin, end in off:
        inside = got[bisect.bisect_right(got, begin):bisect.bisect_left(got, end)]
        assert not inside, "a call in a gap"
    numbers = [bisect.bisect_right(calls, ts) for ts in got]
    assert len(set(numbers)) == len(numbers)
    checked = 0
    for begin, end in zip([got[0] - 1 if late else 0] + [end + MS for _, end in off], [begin - MS for begin, _ in off] + [1 << 62]):
        there = bisect.bisect_right(got, end) - bisect.bisect_right(got, begin)
        made = bisect.bisect_right(calls, end) - bisect.bisect_right(calls, begin)
        # a call lies a moment after the time that the program noted
        assert abs(there - made) <= 1 or end < begin, (there, made, begin, end)
        checked += there
    assert checked > 100
    return off


def check_stacks(seen, pids=None):
    """The first stack after each gap is the whole one."""
    stacks = {}
    for e in seen.events:
        if pids and e.get("pid") not in pids:
            continue
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
    assert lib.sh(lib.command(name) + [TICKS, alone, 0.3, "cpu"]).returncode == 0
    done = lib.trace(["--max-overhead", "10", "--"] + lib.command(name) + [TICKS, out, 1, "cpu"], capture)
    err = lib.text(done.stderr)
    assert done.returncode == 0, err
    assert "switched off" in err and "malformed" not in err
    calls = lib.tick_times(out)
    assert len(calls) > len(lib.tick_times(alone)) / 0.3 / 3
    seen = lib.Trace(capture).whole()
    off = check_counts(seen, calls)
    assert off and sum(end - begin for begin, end in off) > 300 * MS
    check_stacks(seen)


@pytest.mark.alone
def test_more_windows_with_more_budget(tmp_path):
    """They come and go, and each begins with the right stack."""
    name = lib.pick("3.12")[0]
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    done = lib.trace(["--max-overhead", "25%", "--"] + lib.command(name) + [TICKS, out, 1, "cpu"], capture)
    assert done.returncode == 0, lib.text(done.stderr)
    seen = lib.Trace(capture).whole()
    assert len(check_counts(seen, lib.tick_times(out))) >= 2
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
            use_cpu(first.pid)
            lib.stop(tracer)
        first.terminate()
        second.terminate()
        assert second.wait(30) == 0
    seen = lib.Trace(capture)
    gaps = {pid: [g for g in seen.gaps if g["reason"] == "window" and g["pid"] == pid] for pid in (first.pid, second.pid)}
    assert gaps[first.pid] and not gaps[second.pid]
    check_stacks(seen)
    check_unbroken(seen, lib.tick_times(quiet), second.pid)


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
    done = lib.trace(["--max-overhead", "5", "--classic-uprobes", "--"] + lib.any_python() + ["-c", "pass"], tmp_path / "t.pyebpf")
    assert done.returncode == 125 and b"--max-overhead" in done.stderr
    with lib.started(lib.any_python() + ["-c", "input()"], stdin=subprocess.PIPE) as target:
        done = lib.trace(["--max-overhead", "5", "-s", "--host-wide", "-p", target.pid], tmp_path / "t.pyebpf")
        assert done.returncode == 2 and b"--max-overhead does not go with --host-wide" in done.stderr


# --- what is filtered out costs, too ---

@pytest.mark.alone
@pytest.mark.parametrize("wanted, options", [("3.9", ["--include", TICKS]), ("3.14", ["--max-depth", "4"]),
                                             ("3.12", ["--root", "__main__:work"]), ("3.11", ["--thread", "*"])])
def test_with_a_filter_that_lets_calls_pass(wanted, options, tmp_path):
    """What is in the windows is exact."""
    name = lib.pick(wanted)[0]
    out, capture = tmp_path / "out", tmp_path / "t.pyebpf"
    done = lib.trace(["--max-overhead", "20"] + options + ["--"] + lib.command(name) + [TICKS, out, 0.7, "cpu"], capture)
    assert done.returncode == 0, lib.text(done.stderr)
    assert check_counts(lib.Trace(capture).whole(), lib.tick_times(out))


@pytest.mark.alone
@pytest.mark.parametrize("options", [["--exclude", TICKS], ["--root", "__main__:rest"], ["--thread", "absent"],
                                     ["--min-duration", "1000000"]], ids=lambda options: options[0])
def test_what_is_not_recorded_is_paid_for(options, tmp_path):
    """There are next to no events and still windows, and the program keeps its speed."""
    name = lib.pick("3.12")[0]
    alone, out, capture = tmp_path / "alone", tmp_path / "out", tmp_path / "t.pyebpf"
    assert lib.sh(lib.command(name) + [TICKS, alone, 0.3, "cpu"]).returncode == 0
    done = lib.trace(["--max-overhead", "10"] + options + ["--"] + lib.command(name) + [TICKS, out, 1, "cpu"], capture)
    err = lib.text(done.stderr)
    assert done.returncode == 0, err
    off = int(re.search(r"switched off (\d+) times", err).group(1))
    assert off >= 1
    # what is open at a gap is kept
    assert len(ticks_of(lib.Trace(capture))) <= (off if "--min-duration" in options else 0)
    assert len(lib.tick_times(out)) > len(lib.tick_times(alone)) / 0.3 / 3


@pytest.mark.alone
def test_a_latency_in_windows(tmp_path):
    """Calls are measured in the windows, and only there."""
    name = lib.pick("3.12")[0]
    out = tmp_path / "out"
    done = lib.sh([lib.BINARY, "trace", "--max-overhead", "20", "--latency", "__main__:tick", "--json", "--"] + lib.command(name) +
                  [TICKS, out, 1, "cpu"])
    assert done.returncode == 0, lib.text(done.stderr)
    assert b"switched off" in done.stderr
    assert 100 < json.loads(done.stdout[done.stdout.index(b"{"):])["calls"] < len(lib.tick_times(out)) / 2


# --- processes that were not named ---

STARTS = """
import os, subprocess, sys
program, busy, quiet, forked = sys.argv[1:5]
jobs = [subprocess.Popen([sys.executable, program, busy, "0.6", "cpu"], stdout=subprocess.DEVNULL),
        subprocess.Popen([sys.executable, program, quiet, "2", "0.005"], stdout=subprocess.DEVNULL)]
pid = os.fork()
if not pid:
    sys.argv = [program, forked, "1.5", "cpu"]  # its probes come some time after its birth
    exec(compile(open(program).read(), program, "exec"), {"__name__": "__main__"})
    os._exit(0)
with open(busy + "-pids", "w") as f:
    f.write("%d %d %d" % (jobs[0].pid, jobs[1].pid, pid))
for job in jobs:
    job.wait()
os.wait()
"""


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_the_children_of_a_command(name, tmp_path):
    """Each has a bucket of its own. What executes is there from its first call, what is forked has a gap at first."""
    busy, quiet, forked, capture = (tmp_path / n for n in ("busy", "quiet", "forked", "t.pyebpf"))
    done = lib.trace(["-s", "--max-overhead", "15", "--"] + lib.command(name) + ["-c", STARTS, TICKS, busy, quiet, forked], capture)
    assert done.returncode == 0, lib.text(done.stderr)
    seen = lib.Trace(capture)
    pids = [int(word) for word in (tmp_path / "busy-pids").read_text("utf-8").split()]
    assert set(pids) <= seen.pids()
    assert window_pids(seen) == {pids[0], pids[2]}
    check_counts(seen, lib.tick_times(busy), pids[0])
    check_unbroken(seen, lib.tick_times(quiet), pids[1], whole=True)
    late = [g for g in seen.gaps if g["pid"] == pids[2]][0]
    assert late["ts_ns"] < ticks_of(seen, pids[2])[0]["ts_ns"]
    check_stacks(lib.Trace(capture), {pids[0], pids[1]})


def choose(how, given):
    """(options, how the targets are started) of a selection."""
    if how == "--comm":
        return ["--comm", "our-app"], selected.named(given, "our-app")
    return ["-a"], given


@pytest.mark.alone
@pytest.mark.parametrize("how", ["-a", "--comm"])
@machine.alone
def test_processes_that_are_chosen(how, tmp_path):
    """Those that run, and those that come: only the ones that call without a pause have windows."""
    options, (command, env) = choose(how, machine.private(selected.plain(), tmp_path))
    outs = {n: tmp_path / n for n in ("busy", "quiet", "later", "forked")}
    program = tmp_path / "fork.py"
    program.write_text("import os, sys\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
                       "else: exec(compile(open(sys.argv[1]).read(), sys.argv.pop(1), 'exec'), {'__name__': '__main__'})\n")

    def begin(out, *more, first=()):
        return lib.started(command + ["-S", *first, TICKS, outs[out], 60, *more], env=env)
    with begin("busy") as busy, begin("quiet", 0.01) as quiet:
        assert busy.stdout.readline() and quiet.stdout.readline()
        with selected.tracing(tmp_path / "a.pyebpf", *options, "--max-overhead", "15") as tracer:
            with begin("later", 0.01) as later, begin("forked", 0.01, first=[program]) as parent:
                assert later.stdout.readline() and parent.stdout.readline()
                use_cpu(busy.pid)
                pids = [machine.number(p.pid) for p in (busy, quiet, later)]
                forked = int(lib.sh(["pgrep", "-P", str(parent.pid)]).stdout)
                ended = [busy, quiet, later]
                pids.append(machine.number(forked))
                os.kill(forked, signal.SIGTERM)
                for process in ended:
                    process.terminate()
                assert all(p.wait(60) == 0 for p in ended + [parent])
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert "for its probes" not in tracer.said
    assert window_pids(seen) == {pids[0]}
    assert check_counts(seen, lib.tick_times(outs["busy"]), pids[0], late=True)
    for pid, out in zip(pids[1:], list(outs.values())[1:]):
        check_unbroken(seen, lib.tick_times(out), pid)


@pytest.mark.alone
@pytest.mark.parametrize("how", ["--cgroup", "--container"])
@machine.alone
def test_processes_of_a_cgroup(how, tmp_path):
    """Each gets probes of its own there, too: those that run, those that come; one beside it is not seen."""
    command, env = machine.private(selected.plain(), tmp_path)
    outs = {n: tmp_path / n for n in ("quiet", "later", "stranger")}

    def begin(out, **kw):
        return lib.started(command + ["-S", TICKS, outs[out], 60, 0.01], env=env, **kw)
    with selected.cgroup("pyebpf-test-%d/%s" % (os.getpid(), selected.ID)) as inside:
        which = inside if how == "--cgroup" else selected.ID[:12]
        with begin("quiet", **selected.started_in(inside)) as quiet, begin("stranger") as stranger:
            assert quiet.stdout.readline() and stranger.stdout.readline()
            with selected.tracing(tmp_path / "a.pyebpf", how, which, "--max-overhead", "15") as tracer:
                with begin("later", **selected.started_in(inside)) as later:
                    assert later.stdout.readline()
                    lib.until(lambda: len({p for p, _, _ in lib.probes(tracer.pid) if p}) >= 2, "probes of the one that came")
                    time.sleep(2)
                    pids = [machine.number(p.pid) for p in (quiet, later)]
                    for process in (quiet, later, stranger):
                        process.terminate()
                    assert all(p.wait(60) == 0 for p in (quiet, later, stranger))
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert "for its probes" not in tracer.said
    assert seen.pids() == set(pids)
    for pid, out in zip(pids, ("quiet", "later")):
        check_unbroken(seen, lib.tick_times(outs[out]), pid)
