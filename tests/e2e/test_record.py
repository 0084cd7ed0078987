# SPDX-License-Identifier: Apache-2.0
"""`pyebpf record` on programs whose stacks are known: which frames, which lines, on or off the CPU and why."""
import collections
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

import lib

pytestmark = lib.needs_root

PROGRAMS = lib.PROGRAMS / "sampled"


class Samples:
    def __init__(self, capture):
        lines = lib.objects(lib.convert(capture))
        assert lines and lines[-1]["ev"] == "meta"
        self.meta = lines.pop()
        self.all = [e for e in lines if e["ev"] == "sample"]
        assert self.meta["written"] == len(self.all)
        assert self.meta["generated"] == len(self.all) + sum(self.meta["dropped"].values())

    def of(self, path):
        """(sample, names of the frames that are in this file)"""
        for sample in self.all:
            yield sample, [f["name"] for f in sample["stack"] if f["file"] == str(path)]


def record(name, program, tmp_path, *options, args=(), **kw):
    capture = tmp_path / "s.pyebpf"
    path = PROGRAMS / program
    done = lib.sh([lib.BINARY, "record", *options, "-o", capture, "--", *lib.command(name), path, *args], **kw)
    assert done.returncode == 0, lib.text(done.stderr)
    return Samples(capture), path, lib.text(done.stdout)


@pytest.mark.parametrize("name", lib.families())
def test_a_stationary_stack_has_every_frame_and_line(name, tmp_path):
    """What the program says of itself (names and lines, from sys._getframe) is what the samples show."""
    samples, path, said = record(name, "stationary.py", tmp_path, "--mode", "cpu", "-r", "499")
    want = [(n, line) for n, line in json.loads(said)]
    seen = collections.Counter()
    for sample, _ in samples.of(path):
        stack = [(f["name"], f["line"]) for f in sample["stack"] if f["file"] == str(path)]
        if stack and stack[-1][0] == "spin":
            seen[tuple(stack)] += 1
    # the innermost frame moves between the lines of its loop
    right = sum(n for stack, n in seen.items()
                if list(stack[:-1]) == want[:-1] and want[-1][1] - 1 <= stack[-1][1] <= want[-1][1] + 3)
    assert right == sum(seen.values()) > 20, (want, seen.most_common(3))


@pytest.mark.parametrize("name, jit", [(n, "0") for n in lib.families()] +
                         [(n, "1") for n in lib.families() if lib.family(n) in ("3.14", "3.15")])
def test_only_stacks_that_can_be(name, jit, tmp_path):
    """Also where a JIT runs the code, which a trace is refused for."""
    has_jit = lib.sh([*lib.command(name), "-c", "import sys; sys._jit.is_enabled() or sys.exit(1)"], env=dict(os.environ, PYTHON_JIT="1"))
    if jit == "1" and has_jit.returncode:
        pytest.skip("it has no JIT")
    samples, path, _ = record(name, "legal.py", tmp_path, "--mode", "cpu", "-r", "5003", args=["2"],
                              env=dict(os.environ, PYTHON_JIT=jit))
    chains = [["red0", "red1", "red2"], ["green0", "green1", "green2"], ["blue0", "gen_blue"]]
    seen = collections.Counter()
    for _, names in samples.of(path):
        if "main" in names:
            seen[tuple(names[names.index("main") + 1:])] += 1
    wrong = {s: n for s, n in seen.items() if not any(list(s) == c[:len(s)] for c in chains)}
    assert not wrong
    assert {c[-1] for c in chains} <= {s[-1] for s in seen if s} and sum(seen.values()) > 50


@pytest.mark.parametrize("name", lib.families())
def test_threads_are_seen_without_the_lock_and_while_they_wait(name, tmp_path):
    samples, path, _ = record(name, "waits.py", tmp_path, "--mode", "wall", "-r", "199")
    on, off = collections.Counter(), collections.Counter()
    for sample, names in samples.of(path):
        leaf = names[-1] if names else None
        if sample["state"] == "on":
            on[leaf] += sample["weight_ns"]
        else:
            off[leaf, sample["reason"]] += sample["weight_ns"]
    assert on["hashing"] > 0, "a thread that has released the lock has a stack"
    assert off["sleeping", "sleep"] > 10 ** 8, off
    for leaf, reason in (("locked", "lock"), ("reading", "io")):
        assert off[leaf, reason] > 10 ** 9, (leaf, off)
        others = sum(n for (at, why), n in off.items() if at == leaf and why not in (reason, "preempted"))
        assert others < 0.2 * off[leaf, reason], (leaf, off)


@pytest.mark.parametrize("name", [n for n in lib.families() if lib.family(n) != "3.13t"] + lib.musl())
def test_waiting_for_the_interpreter_lock_is_told(name, tmp_path):
    samples, path, _ = record(name, "contend.py", tmp_path, "--mode", "offcpu")
    off = collections.Counter()
    for sample, names in samples.of(path):
        assert sample["state"] == "off"
        if names and names[-1] == "fight":
            off[sample["reason"]] += sample["weight_ns"]
    assert off["gil"] > off["lock"] and off["gil"] > 10 ** 8, off


@pytest.mark.parametrize("name", lib.pick("3.10", "3.12"))
def test_time_on_and_off_the_cpu_is_all_the_time(name, tmp_path):
    samples, path, said = record(name, "clocked.py", tmp_path, "-r", "999")
    lived = int(said)
    spent = sum(s["weight_ns"] for s, names in samples.of(path) if "work" in names)
    assert abs(spent - lived) < 0.05 * lived, (spent, lived)


@pytest.mark.parametrize("name", lib.pick("3.9", "3.11", "3.13"))
@pytest.mark.parametrize("depth", (1000, 10000))
def test_deep_stacks(name, depth, tmp_path):
    samples, path, _ = record(name, "deep.py", tmp_path, "--mode", "cpu", "-r", "199", args=[str(depth)])
    seen = 0
    for sample, names in samples.of(path):
        if names[-1:] != ["spin"]:
            continue
        seen += 1
        cut = [i for i, f in enumerate(sample["stack"]) if f["name"].startswith("[truncated")]
        assert not any(f["name"].startswith("[unreadable") for f in sample["stack"])
        if depth == 1000:
            assert names.count("down") == depth and not cut
        else:
            assert (cut, len(sample["stack"])) == ([512], 1025), sample["stack"][:3]
            assert sample["stack"][-2]["name"] == sample["stack"][513]["name"] == "down"
    assert seen > 5


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14"))
def test_a_deep_stack_that_has_waited_since_before(name, tmp_path):
    """Its thread never runs, so that it is read from outside: the middle is left out there, too, not the root."""
    capture = tmp_path / "s.pyebpf"
    target = [*lib.command(name), PROGRAMS / "deep.py", "5000", "waits"]
    with lib.started(target, stdin=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(0.2)  # by now it waits
        done = lib.sh([lib.BINARY, "record", "-p", process.pid, "-d", "500ms", "-o", capture])
        assert done.returncode == 0, lib.text(done.stderr)
    samples = lib.objects(lib.convert(capture))
    deep = [s["stack"] for s in samples if s["ev"] == "sample" and len(s["stack"]) > 1000]
    assert deep
    for stack in deep:
        cut = [i for i, f in enumerate(stack) if f["name"].startswith("[truncated")]
        assert (cut, len(stack)) == ([512], 1025), stack[:3]
        assert stack[0]["name"].endswith("_bootstrap") and stack[511]["name"] == stack[-1]["name"] == "down"


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.14"))
def test_children_are_sampled(name, tmp_path):
    samples, path, said = record(name, "parent.py", tmp_path, "-s", "--mode", "cpu", "-r", "999")
    by_pid = collections.defaultdict(collections.Counter)
    for sample, names in samples.of(path):
        by_pid[sample["pid"]].update(names)
    pids = [int(p) for p in said.split()]
    assert len(pids) == 3
    for pid in pids:
        assert by_pid[pid]["child"] > 0, (pid, {p: dict(c) for p, c in by_pid.items()})


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14"))
def test_children_that_execute_their_parents_interpreter_at_once(name, tmp_path):
    """While their clocks are being set up: what was known of the parent's memory is not theirs any more."""
    capture = tmp_path / "s.pyebpf"
    with lib.started(lib.command(name) + [PROGRAMS / "runs.py", *lib.command(name)], stdin=subprocess.PIPE) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "record", "-s", "-p", target.pid, "-r", "199", "-o", capture], stderr=subprocess.PIPE) as tracer:
            lib.wait_attached(tracer, target.pid)
            pids = target.communicate(b"\n", timeout=60)[0].split()
            lib.finish(tracer)
    slept = collections.Counter()
    for sample in Samples(capture).all:
        if sample["stack"][-1]["name"] == "nap":
            slept[sample["pid"]] += sample["weight_ns"]
    assert len(pids) == 6 and all(slept[int(pid)] > 2.5e8 for pid in pids), (pids, slept)


def test_a_running_process(tmp_path):
    """Attached in mid-run: the thread that sleeps since before is there, too."""
    with lib.started([*lib.any_python(), PROGRAMS / "attached.py"]) as target:
        target.stdout.readline()
        capture = tmp_path / "s.pyebpf"
        done = lib.sh([lib.BINARY, "record", "-p", target.pid, "-d", "1s", "-o", capture])
        assert done.returncode == 0, lib.text(done.stderr)
    leaves = {names[-1] for _, names in Samples(capture).of(PROGRAMS / "attached.py") if names}
    assert leaves >= {"busy", "sleeps"}


def test_every_format_has_the_same_time(tmp_path):
    name = lib.pick("3.11")[0]
    samples, _, _ = record(name, "waits.py", tmp_path, "-r", "199")
    want = sum(s["weight_ns"] for s in samples.all)
    folded = lib.convert(tmp_path / "s.pyebpf", "collapsed").decode("utf-8").splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded) == want
    assert lib.convert(tmp_path / "s.pyebpf", "pprof") and lib.convert(tmp_path / "s.pyebpf", "firefox")


@pytest.mark.parametrize("name", lib.families())
def test_line_tables(name):
    """Every position of some large modules, as the interpreter itself reads its tables."""
    said = lib.sh([*lib.command(name), PROGRAMS / "lines.py"])
    assert said.returncode == 0, lib.text(said.stderr)
    done = subprocess.run([lib.pythons.BUILD / "tests/e2e/lines"], input=said.stdout, stdout=subprocess.PIPE,
                          check=True)
    compared, wrong = map(int, done.stdout.split())
    assert compared > 5000 and wrong == 0


@pytest.fixture
def second_cpu():
    """A CPU that can go, and is back afterwards whatever happens."""
    online = pathlib.Path("/sys/devices/system/cpu/cpu1/online")

    def switch(on):
        online.write_text("%d\n" % on)
    try:
        switch(0)
        switch(1)
    except OSError as why:
        pytest.skip("CPU 1 cannot be taken: %s" % why)
    yield switch
    switch(1)


@pytest.mark.alone
def test_a_cpu_that_goes_and_comes_back(second_cpu, tmp_path):
    """Its clock dies with it. A process that runs on no other CPU is sampled again, also when it was gone for a moment only."""
    capture = tmp_path / "s.pyebpf"
    with lib.started([*lib.any_python(), PROGRAMS / "attached.py"]) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "record", "-p", target.pid, "--mode", "cpu", "-r", "999", "-o", capture],
                         stderr=subprocess.PIPE) as recorder:
            lib.wait_attached(recorder, target.pid)
            back = []
            for away in (1.5, 0):
                second_cpu(0)
                time.sleep(away)
                second_cpu(1)
                os.sched_setaffinity(target.pid, {1})
                back.append(time.monotonic_ns())
                time.sleep(4)
                os.sched_setaffinity(target.pid, {0, 1})
            lib.stop(recorder)
    times = [s["ts_ns"] for s, names in Samples(capture).of(PROGRAMS / "attached.py") if "busy" in names]
    for at in back:
        assert [t for t in times if at + 2 * 10 ** 9 < t < at + 4 * 10 ** 9], "not sampled again"


def test_the_name_of_the_output(tmp_path):
    done = lib.sh([lib.BINARY, "record", "--", *lib.any_python(), "-c", "pass"], cwd=tmp_path)
    assert done.returncode == 0, lib.text(done.stderr)
    assert [p for p in os.listdir(tmp_path) if p.startswith("pyebpf-record-python3") and p.endswith(".json.gz")]


def locked(samples, path, leaf, reason):
    return [s for s, names in samples.of(path) if names and names[-1] == leaf and s["reason"] == reason]


@pytest.mark.parametrize("name", [n for n in lib.families() if lib.family(n) != "3.13t"] + lib.musl())
def test_who_held_the_interpreter_lock(name, tmp_path):
    """One thread computes without end, the other one wants the lock now and then: it has the first one's function as its holder."""
    samples, path, _ = record(name, "hog.py", tmp_path, "--mode", "offcpu", "-r", "999")
    waits = locked(samples, path, "polite", "gil")
    holders = collections.Counter(s["holder"]["name"] for s in waits if "holder" in s)
    lines = {s["holder"]["line"] for s in waits if "holder" in s and s["holder"]["name"] == "hog"}
    assert len(waits) > 20 and holders["hog"] >= 0.3 * len(waits), (len(waits), holders)
    # the main thread takes it, too, now and then
    assert sum(holders[n] for n in ("hog", "polite", "short")) >= 0.95 * sum(holders.values()), holders
    first = 1 + next(i for i, line in enumerate(path.read_text().splitlines()) if line.startswith("def hog"))
    assert lines and all(first < line <= first + 3 for line in lines), lines
    assert len({s["lock"] for s in waits}) < 10, "a lock has some words"


@pytest.mark.parametrize("name", [n for n in lib.families() if lib.family(n) != "3.13t"])
def test_only_holders_of_the_interpreter_lock(name, tmp_path):
    """The thread that hashes has let the lock go; the one that computes has it."""
    samples, path, _ = record(name, "holders.py", tmp_path, "-g", "-r", "999")
    leaves = collections.Counter()
    for sample, names in samples.of(path):
        leaves[names[-1] if names else None] += sample["weight_ns"]
    assert leaves["holding"] > 10 ** 8 and leaves["hashing"] < 0.1 * leaves["holding"], leaves


@pytest.mark.parametrize("name", [n for n in lib.families() if lib.family(n) == "3.13t"])
def test_holders_where_nobody_says_who_holds(name, tmp_path):
    done = lib.sh([lib.BINARY, "record", "-g", "-o", tmp_path / "s.pyebpf", "--", *lib.command(name), "-c", "pass"])
    assert done.returncode == 125 and b"do not say who holds the lock" in done.stderr, done.stderr


def test_a_lock_has_its_address(tmp_path):
    samples, path, _ = record(lib.pick("3.12")[0], "waits.py", tmp_path, "--mode", "offcpu")
    locks = {s["lock"] for s in locked(samples, path, "locked", "lock")}
    assert locks and all(int(lock, 16) > 4096 for lock in locks), locks


def counters(said):
    return {name: int(n) for name, n in re.findall(r"counter (\w+): (\d+)", said)}


@pytest.mark.alone
def test_a_budget(tmp_path):
    """Too many samples for 1 % of a CPU: some are left out, and the others stand for the time of all."""
    program, capture = tmp_path / "p.py", tmp_path / "s.pyebpf"
    program.write_text("import time\ndef down(n):\n    if n: return down(n - 1)\n    while time.time() < END: pass\n"
                       "END = time.time() + 3\ndown(150)\n")
    done = lib.sh([lib.BINARY, "record", "-v", "--mode", "cpu", "-r", "9999", "--max-cpu", "1", "-o", capture, "--",
                   *lib.any_python(), program])
    assert done.returncode == 0, lib.text(done.stderr)[-2000:]
    said = lib.text(done.stderr)
    count = counters(said)
    assert count["SAMPLE_SKIPPED"] > 0.2 * count["SAMPLES"] and "left out for --max-cpu" in said
    assert count["SAMPLE_NS"] < 0.05 * 3e9, "without a budget it is more"
    samples = Samples(capture)
    periods = sum(s["weight_ns"] for s in samples.all) / (10 ** 9 // 9999)
    want = count["SAMPLES"] + count["SAMPLE_SKIPPED"]
    assert 0.95 * want < periods <= 1.001 * want, (periods, want)
    assert max(s["weight_ns"] for s in samples.all) <= 0.1e9 + 2 * 10 ** 9 // 9999, "what it owes at its end is lost"


def test_a_budget_is_a_percentage(tmp_path):
    done = lib.sh([lib.BINARY, "record", "--max-cpu", "100001", "-o", tmp_path / "s.pyebpf", "-p", "1"])
    assert done.returncode == 2 and b"--max-cpu" in done.stderr


@pytest.mark.parametrize("name", lib.families())
def test_an_interpreter_with_structures_of_its_own_is_refused(name, tmp_path):
    """One real stack is walked at the attach: where no code objects lie in it, all samples would be wrong."""
    program = [*lib.command(name), PROGRAMS / "other_layout.py"]
    with subprocess.Popen([str(w) for w in program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert int(process.stdout.readline()) >= 2
        lib.until(lambda: lib.sh(["grep", "-q", "State:.S", "/proc/%d/status" % process.pid]).returncode == 0, "its sleep", 20)
        one = lib.sh([lib.BINARY, "record", "-p", process.pid, "-d", "0.2s", "-o", tmp_path / "x.folded"])
        some = lib.sh([lib.BINARY, "record", "--comm", pathlib.Path("/proc/%d/comm" % process.pid).read_text().strip(), "-d", "0.2s",
                       "-f", "ndjson", "-o", "-"])
        process.stdin.close()
    said = lib.text(one.stderr)
    assert one.returncode == 4 and "no code object" in said and "built from changed sources" in said, said
    assert "process %d is not traced" % process.pid in lib.text(some.stderr), lib.text(some.stderr)
    assert '"pid":%d,' % process.pid not in lib.text(some.stdout)
