# SPDX-License-Identifier: Apache-2.0
"""What the machine does to a trace: CPUs that go, memory and time that are short, tables that are full, numbers that come again.
What the program counted itself is in the trace, or counted as lost."""
import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

import lib
import machine
from exact_load import LOAD, check_exact, counted

pytestmark = lib.needs_root
LEAFS = lib.PROGRAMS / "leafs.py"
CPU = pathlib.Path("/sys/devices/system/cpu/cpu1/online")


@contextlib.contextmanager
def load(name, tmp_path, seconds, threads, *options, **kw):
    """load.py, attached to with these options: (process, pyebpf, function that begins it and waits for its end)."""
    out, flag, capture = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [LOAD, out, seconds, threads, flag]) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, *options, **kw) as tracer:
            lib.wait_attached(tracer, pid)

            def whole_run(then=lambda: None):
                flag.touch()
                assert target.wait(120) == 0
                then()
                lib.finish(tracer, 0, 120)
                seen = lib.Trace(capture)
                check_exact(seen, counted(out))
                return seen
            yield target, tracer, whole_run


# --- CPUs ---

@contextlib.contextmanager
def cpus_that_come_and_go(rounds):
    """CPU 1 goes and comes back so often; on again whatever happens."""
    done = []

    def change():
        for _ in range(rounds):
            CPU.write_text("0")
            time.sleep(0.1)
            CPU.write_text("1")
            time.sleep(0.1)
            done.append(1)
    changer = threading.Thread(target=change)
    try:
        changer.start()
        yield done
    finally:
        changer.join()
        CPU.write_text("1")


@pytest.mark.alone
@pytest.mark.skipif(not CPU.exists(), reason="this machine's CPU 1 cannot be switched off")
@pytest.mark.parametrize("name", lib.pick("3.9", "3.13t"))
def test_cpus_that_come_and_go(name, tmp_path):
    with load(name, tmp_path, 2, 3) as (_, _, whole_run), cpus_that_come_and_go(5) as done:
        seen = whole_run()
    assert len(done) == 5 and seen.meta["written"] > 10000


@pytest.mark.alone
@pytest.mark.skipif(not CPU.exists(), reason="this machine's CPU 1 cannot be switched off")
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_a_cpu_that_was_away_is_sampled_again(name, tmp_path):
    """Its clock is gone with it. The target runs on nothing else, so samples after its return are of that CPU."""
    capture = tmp_path / "t.pyebpf"
    spin = "import os, time\nos.sched_setaffinity(0, [1])\nprint(1, flush=True)\nwhile True: pass"
    with lib.started(lib.command(name) + ["-c", spin]) as target:
        target.stdout.readline()
        with lib.started([lib.BINARY, "record", "-p", target.pid, "-o", capture], stderr=subprocess.PIPE) as tracer:
            time.sleep(1)
            with cpus_that_come_and_go(1):
                pass
            os.sched_setaffinity(target.pid, [1])  # the kernel let it run elsewhere
            back = time.monotonic_ns()
            time.sleep(4)
            lib.stop(tracer)
    samples = lib.objects(lib.convert(capture))
    late = [e["ts_ns"] for e in samples if e["ev"] == "sample" and e["ts_ns"] > back + 2e9]
    assert len(late) > 20, "99 a second were due for two seconds"


# --- memory and time of pyebpf ---

@contextlib.contextmanager
def cgroup(controller):
    """A cgroup (version 1) below its root."""
    root = next((at for at, kind in hierarchies() if controller in kind), None)
    if not root:
        pytest.skip("no hierarchy of version 1 with " + controller)
    path = root / ("pyebpf-test-%d" % os.getpid())
    path.mkdir()
    try:
        yield path
    finally:
        lib.until(lambda: emptied(path), "an empty cgroup")


def emptied(path):
    with contextlib.suppress(OSError):
        path.rmdir()
        return True


def hierarchies():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if " - cgroup " in line:
            yield pathlib.Path(fields[4]), fields[-1].split(",")


def inside(path):
    return {"preexec_fn": lambda: (path / "cgroup.procs").write_text("0")}


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_a_memory_cgroup_at_its_limit(name, tmp_path):
    """It is full of pages of files when the target begins to work, and stays so."""
    filler = tmp_path / "filler"
    with cgroup("memory") as group:
        (group / "memory.limit_in_bytes").write_text("44M")
        with load(name, tmp_path, 1, 4, "--ring", "8M", **inside(group)) as (_, tracer, whole_run):
            assert int((group / "memory.usage_in_bytes").read_text()) > 20 << 20, "what the kernel holds for it is not counted"
            script = "head -c 24M /dev/zero >$0; sync $0; cat $0 >/dev/null"
            lib.sh(["sh", "-c", script, filler], **inside(group))
            assert int((group / "memory.failcnt").read_text()) > 0
            assert tracer.poll() is None
            whole_run()


@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_a_memory_cgroup_that_is_too_small(name, tmp_path):
    """Too small for the tables: refused in a sentence. Too small for what comes later: the kernel kills pyebpf, the target goes on
    and the capture can be read."""
    capture = tmp_path / "t.pyebpf"
    command, env = machine.private(name, tmp_path)
    with cgroup("memory") as group, lib.started(command + [lib.PROGRAMS / "steady.py"], env=env) as target:
        pid = int(target.stdout.readline())
        (group / "memory.limit_in_bytes").write_text("40M")
        done = lib.trace(["-p", pid, "-d", "1s"], capture, **inside(group))
        assert done.returncode == 1 and b"no memory; try a smaller --ring" in done.stderr, (done.returncode, done.stderr)
        assert not capture.exists()
        (group / "memory.limit_in_bytes").write_text("128M")
        with lib.attach(pid, capture, "--ring", "8M", **inside(group)) as tracer:
            lib.until(lambda: capture.exists() and capture.stat().st_size > 10000, "events", 60)
            pathlib.Path("/proc/%d/oom_score_adj" % tracer.pid).write_text("1000")
            room = (128 << 20) - int((group / "memory.usage_in_bytes").read_text())
            hungry = "import sys; x = bytearray(%d); x[::4096] = b'x' * len(x[::4096]); sys.stdin.read()" % (room + (16 << 20))
            with lib.started(["python3", "-c", hungry], stdin=subprocess.PIPE, **inside(group)):
                lib.until(lambda: tracer.poll() is not None, "the end of pyebpf", 60)
            assert tracer.returncode == -9
        lib.until(lambda: lib.left_in_code(pid) == [], "the code as it was")
        assert target.poll() is None
    assert lib.Trace(capture).events


@pytest.mark.parametrize("name", lib.pick("3.11"))
def test_a_cpu_limit(name, tmp_path):
    """pyebpf may use 5 % of a CPU: it cannot follow, and what is lost is counted."""
    with cgroup("cpu") as group:
        if not (group / "cpu.cfs_quota_us").exists():
            pytest.skip("a kernel without CPU limits")
        with load(name, tmp_path, 2, 2, "--ring", "256K", **inside(group)) as (_, _, whole_run):
            (group / "cpu.cfs_quota_us").write_text("5000")
            seen = whole_run(lambda: (group / "cpu.cfs_quota_us").write_text("-1"))
    assert seen.lost > 0


# --- who reads the output ---

@pytest.mark.parametrize("name", lib.pick("3.10"))
def test_a_slow_reader_of_a_pipe(name, tmp_path):
    """Nothing is read before the target has ended and its probes are gone; then a little at a time. All of it comes."""
    out = tmp_path / "out"
    with lib.started([lib.BINARY, "trace", "--format", "ndjson", "-o", "-", "--"] + lib.command(name) + [LOAD, out, 0.3, 2],
                     stderr=subprocess.PIPE) as tracer:
        lib.until(out.exists, "the end of the target", 60)
        lib.until(lambda: not [p for p in lib.probes(tracer.pid) if p[1] != lib.BINARY], "the end of the probes", 60)
        text = b""
        while True:
            part = os.read(tracer.stdout.fileno(), 65536)
            if not part:
                break
            text += part
            time.sleep(0.001)
        assert tracer.wait(60) == 0
    lines = [line for line in text.decode().splitlines() if line.startswith("{")]
    meta = json.loads(lines[-1])
    assert meta["generated"] == meta["written"] and not sum(meta["dropped"].values())
    got = collections.Counter()
    for line in lines[:-1]:
        e = json.loads(line)
        if e["ev"] in lib.ENTER | lib.LEAVE and e["file"] == str(LOAD) and e["name"] in ("leaf", "branch", "root", "numbers"):
            got[e["tid"]] += 1
    assert got == counted(out)


# --- tables that are full ---

FORKS = """
import os, sys
def own(n): return n
pids = []
for n in range(12):
    pid = os.fork()
    if not pid:
        sys.stdin.read()  # they live at the same time
        for i in range(10): own(i)
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
sys.stdin.read()
for pid in pids: os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_a_full_table_of_processes(name, tmp_path):
    """Children that find no room run on untraced and are counted; the others are whole."""
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "-s", "--table-entries", 8, "-o", capture, "--"] + lib.command(name) + ["-c", FORKS],
                     stdin=subprocess.PIPE, stderr=subprocess.PIPE) as tracer:
        pids = {int(pid) for pid in tracer.stdout.readline().split()}
        tracer.stdin.close()
        tracer.stdin = None
        said = lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    owns = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "own")
    assert owns == {pid: 10 for pid in owns} and set(owns) < pids and len(owns) >= 4
    assert "%d children were not traced" % (12 - len(owns)) in said


CALLS = """
import os, sys
def mark(n): return n
print(os.getpid(), flush=True)
sys.stdin.readline()
for i in range(1000): mark(i)
print("done", flush=True)
sys.stdin.readline()
"""


@machine.alone
def test_a_full_table_of_processes_that_nobody_named(tmp_path):
    """With -a: each call of those that find no room is counted as lost."""
    given = machine.private(lib.pick("3.12")[0], tmp_path)
    capture = tmp_path / "t.pyebpf"
    with contextlib.ExitStack() as stack:
        def waiting():
            process = stack.enter_context(lib.started(given[0] + ["-S", "-c", CALLS], env=given[1], stdin=subprocess.PIPE))
            return process, int(process.stdout.readline())
        processes = [waiting() for _ in range(16)]
        with lib.started(machine.INSIDE + [lib.BINARY, "trace", "-a", "--table-entries", 4, "-o", capture],
                         stderr=subprocess.PIPE) as tracer:
            lib.until(lambda: [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY], "the probes", 60)
            lib.until(lambda: lib.status_field(tracer.pid, "CapEff") != lib.status_field(os.getpid(), "CapEff"), "the beginning")
            # first all call, then they end: one that ends would make room
            for process, _ in processes:
                process.stdin.write(b"\n")
                process.stdin.flush()
                assert process.stdout.readline() == b"done\n"
            for process, _ in processes:
                process.stdin.close()
                assert process.wait(60) == 0
            lib.stop(tracer)
    seen = lib.Trace(capture)
    marks = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "mark")
    assert set(marks.values()) == {1000} and 4 <= len(marks) < 16
    assert seen.meta["generated"] == seen.meta["written"] + seen.lost and seen.lost == seen.meta["dropped"]["map"]
    # what else they do, their end, is little
    assert 0 <= seen.lost - 2 * 1000 * (16 - len(marks)) <= 60 * 16, (seen.meta, marks)


@pytest.mark.parametrize("name", lib.pick("3.9", "3.12"))
def test_a_full_table_of_code_objects(name, tmp_path):
    """Names are sent again and again; no event is lost and each has its name."""
    seen, _ = lib.traced(lib.command(name) + [lib.PROGRAMS / "fresh.py", 100, 2], tmp_path, "--table-entries", 16)
    whole, _ = lib.traced(lib.command(name) + [lib.PROGRAMS / "fresh.py", 100, 2], tmp_path)
    assert seen.whole().count("<made>", "call") == whole.whole().count("<made>", "call")
    assert len(seen.count("<made>", "call")) > 100


# --- numbers that come again ---

@pytest.mark.parametrize("name", lib.pick("3.8", "3.13"))
@machine.alone
def test_a_process_number_that_is_used_again(name, tmp_path):
    """Each has its own functions and its own number of calls."""
    given = machine.private(name, tmp_path)
    n = 30 if lib.LONG else 8
    with lib.started(given[0] + ["-S", lib.PROGRAMS / "sleeper.py"], env=given[1], stdin=subprocess.PIPE) as target:
        target.stdout.readline()
        with lib.started(machine.INSIDE + [lib.BINARY, "trace", "-a", "-o", tmp_path / "t.pyebpf"], stderr=subprocess.PIPE) as tracer:
            lib.until(lambda: [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY], "the probes", 60)
            lib.until(lambda: lib.status_field(tracer.pid, "CapEff") != lib.status_field(os.getpid(), "CapEff"), "the beginning")
            for k in range(n):
                run_as(5000, given, "def f%d(): pass\nfor _ in range(%d): f%d()" % (k, 10 + k, k))
            lib.stop(tracer)
    calls = [e for e in lib.Trace(tmp_path / "t.pyebpf").whole().events if e["ev"] == "call" and e["pid"] == 5000]
    names = collections.Counter(e["name"] for e in calls)
    assert {k: v for k, v in names.items() if k[:1] == "f" and k[1:].isdigit()} == {"f%d" % k: 10 + k for k in range(n)}
    assert len([e for e in calls if e["name"] == "<module>" and e["file"] == "<string>"]) == n


def run_as(number, given, code):
    """Runs code in a process that has this number in the test's pid namespace."""
    as_number = ["mount -t proc proc /proc && exec \"$@\"", "sh", sys.executable, "-E", lib.PROGRAMS / "numbered.py", number]
    done = lib.sh(["unshare", "-m", "sh", "-c", *as_number, *given[0], "-S", "-c", code], env=given[1])
    assert done.returncode == 0, done.stderr
