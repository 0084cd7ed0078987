# SPDX-License-Identifier: Apache-2.0
"""Samples of processes that are not named: of a whole machine, of a name, a cgroup, a container; those that come later, from
their first moment. Each test has a machine of its own (machine.py)."""
import ast
import collections
import contextlib
import os
import signal
import subprocess
import time

import pytest

import lib
import machine
from limits import MINIMUM, as_nobody
from selected import ID, cgroup, named, pid_of, plain, run, sleeper, started_in, tracing, wake
from test_record import PROGRAMS, Samples

pytestmark = lib.needs_root
WORKER = PROGRAMS / "worker.py"


def recording(capture, *options, **kw):
    return tracing(capture, *options, verb="record", **kw)


def workers(samples, name="work"):
    """{pid: samples in this function}"""
    return collections.Counter(s["pid"] for s, names in samples.of(WORKER) if name in names)


def startups(samples):
    """{pid: samples of the interpreter's own start, before the program's first line}"""
    return collections.Counter(s["pid"] for s in samples.all
                               if s["stack"] and not [f for f in s["stack"] if f["file"] == str(WORKER)]
                               and s["stack"][0]["file"].startswith("<frozen importlib"))


@pytest.mark.parametrize("name", lib.pick("3.6", "3.8", "3.11", "3.12", "3.13t", "3.14", "3.15"))
@machine.alone
def test_all_now_and_later(name, tmp_path):
    """Those that run, and those that come, from their start on."""
    given = machine.private(name, tmp_path)
    with contextlib.ExitStack() as stack:
        early = stack.enter_context(lib.started(given[0] + [WORKER, "60000"], env=given[1]))
        pid = machine.number(early.pid)
        lib.until(lambda: "libpython" in machine.pathlib.Path("/proc/%d/maps" % early.pid).read_text() or len(given[0]) > 1
                  or "LD_LIBRARY_PATH" not in given[1], "the library")
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "2999"):
            later = [run(given, WORKER, 100) for _ in range(4)]
    samples = Samples(tmp_path / "a.pyebpf")
    seen = workers(samples)
    assert set(seen) == {pid, *later} and samples.meta["dropped"] == {k: 0 for k in samples.meta["dropped"]}
    assert {s["state"] for s in samples.all} == {"on"}, "-a is --mode cpu unless it is said"
    begun = startups(samples)
    assert set(begun) - {pid} == set(later), (begun, later)


@machine.alone
def test_a_prefork_server(tmp_path):
    """Its workers, from their first moment: they run little else than what they were forked for."""
    given = machine.private(lib.pick("3.12")[0], tmp_path)
    program = PROGRAMS / "prefork.py"
    with lib.started(given[0] + [program], env=given[1], stdin=subprocess.PIPE) as server:
        pid = pid_of(server)
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "1999"):
            server.stdin.write(b"\n")
            server.stdin.flush()
            pids = {int(p) for p in server.stdout.readline().split()}
        wake(server)
    by_pid = collections.defaultdict(set)
    for sample, names in Samples(tmp_path / "a.pyebpf").of(program):
        by_pid[sample["pid"]].add(tuple(names))
    assert len(pids) == 12 and set(by_pid) - {pid} == pids
    assert all(("<module>", "worker", "work") in by_pid[p] for p in pids), by_pid


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
@machine.alone
def test_workers_that_end_before_they_are_looked_at(name, tmp_path):
    """Nobody can read their memory any more. What the one that forked them was known to have before, has its name; what they
    made themselves has none, and never that of what lies there in the other one."""
    given = machine.private(name, tmp_path)
    rounds = []
    with lib.started(given[0] + [PROGRAMS / "replaced.py"], env=given[1], stdin=subprocess.PIPE) as server:
        pid_of(server)
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "1999") as tracer:
            for _ in range(4):
                tracer.send_signal(signal.SIGSTOP)
                server.stdin.write(b"\n")
                server.stdin.flush()
                rounds.append(ast.literal_eval(lib.text(server.stdout.readline())))
                tracer.send_signal(signal.SIGCONT)
                time.sleep(1)
        wake(server)
    tops = collections.defaultdict(set)
    for sample in Samples(tmp_path / "a.pyebpf").all:
        files = [f["file"] for f in sample["stack"]]
        if len(files) > 2 and files[-2] == str(PROGRAMS / "replaced.py") or files[-1].startswith("/made/"):
            tops[sample["pid"]].add(sample["stack"][-1]["name"])
    for pids in rounds[2:]:
        assert [tops[pid] for pid in pids["inherited"]] == [{"inherited"}], (rounds, tops)
    for pids in rounds:
        for how in ("freed", "since"):
            assert [tops[pid] - {"made_anew", "[unreadable code object]"} for pid in pids[how]] == [set()], (how, rounds, tops)


@machine.alone
def test_two_hundred_processes_of_several_versions(tmp_path):
    names = lib.pick("3.8", "3.11", "3.12", "3.13t")
    given = [machine.private(n, tmp_path) for n in names]
    with contextlib.ExitStack() as stack:
        early = [stack.enter_context(sleeper(g)) for g in given]
        for process in early:
            pid_of(process)
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "4999", files=len(names)) as recorder:
            started = [stack.enter_context(lib.started([*given[i % len(given)][0], "-S", WORKER, "30"], env=given[i % len(given)][1]))
                       for i in range(200)]
            pids = [machine.number(p.pid) for p in started]
            for process in started:
                assert process.wait(120) == 0
            hwm = int(lib.status_field(recorder.pid, "VmHWM").split()[0])
    samples = Samples(tmp_path / "a.pyebpf")
    assert len(names) == 4 and len(pids) == 200 and {s["pid"] for s in samples.all} >= set(pids)
    # one that computes for 30 ms and ends can be gone before its functions are named, and then says so
    named, nameless = set(workers(samples)), {s["pid"] for s in samples.all if "[unreadable" in str(s["stack"])}
    assert named <= set(pids) <= named | nameless and len(named) >= 180
    assert hwm < 80 << 10, "kB"


@machine.alone
def test_a_new_interpreter_file(tmp_path):
    """Nobody ran it when the recording began."""
    names = lib.families()
    first, new = machine.private(names[0], tmp_path), machine.private(names[-1], tmp_path)
    with sleeper(first) as other:
        pid_of(other)
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "999"):
            pids = [run(new, WORKER, 200) for _ in range(2)]
    samples = Samples(tmp_path / "a.pyebpf")
    assert set(workers(samples)) == set(pids)
    assert startups(samples)[pids[1]], "the second one is known from its start"


@pytest.mark.parametrize("names", [("3.8", "3.14"), ("3.13t", "3.11"), ("3.12", "3.12")])
@machine.alone
def test_exec_into_another_interpreter(names, tmp_path):
    by_family = {lib.family(n): n for n in lib.families()}
    one, two = (machine.private(by_family[n], tmp_path) for n in names)
    home = ";".join("%s=%s" % (k, two[1][k]) for k in ("PYTHONHOME", "LD_LIBRARY_PATH") if k in two[1])
    again = tmp_path / "again.py"
    again.write_text(WORKER.read_text().replace("work(", "after("))
    with sleeper(one) as a, sleeper(two) as b:
        pid_of(a)
        pid_of(b)
        with recording(tmp_path / "a.pyebpf", "-a", "-r", "1999", files=len(set(names))):
            pid = run(one, WORKER, 100, home, *two[0], again, 300)
    samples = Samples(tmp_path / "a.pyebpf")
    assert set(workers(samples)) == {pid}
    assert {s["pid"] for s, functions in samples.of(again) if "after" in functions} == {pid}
    bad = [s for s in samples.all if [f for f in s["stack"] if f["name"].startswith("[unreadable")]]
    assert len(bad) <= 0.01 * len(samples.all), bad[:3]


@machine.alone
def test_by_name(tmp_path):
    given = machine.private(plain(), tmp_path)
    ours, theirs = named(given, "our-app"), named(given, "their-app")
    with lib.started(ours[0] + [WORKER, "60000"], env=ours[1]) as early:
        pid = machine.number(early.pid)
        with recording(tmp_path / "a.pyebpf", "--comm", "our-app", "--comm", "absent", "--mode", "cpu", "-r", "999"):
            later = run(ours, "-S", WORKER, 100)
            run(theirs, "-S", WORKER, 100)
    assert set(workers(Samples(tmp_path / "a.pyebpf"))) == {pid, later}


@pytest.mark.parametrize("path", ["whole", ID])
@machine.alone
def test_by_cgroup_and_container(path, tmp_path):
    given = machine.private(plain(), tmp_path)
    with cgroup("pyebpf-test-%d/%s" % (machine.os.getpid(), path)) as inside:
        choice = ["--container", ID[:12]] if path == ID else ["--cgroup", inside.parent]
        with lib.started(given[0] + [WORKER, "60000"], env=given[1], **started_in(inside)) as early:
            pid = machine.number(early.pid)
            with recording(tmp_path / "a.pyebpf", *choice, "-r", "999", "--mode", "cpu"):
                later = run(given, "-S", WORKER, 100, **started_in(inside))
                run(given, "-S", WORKER, 100)
            early.kill()
            early.wait()
    assert set(workers(Samples(tmp_path / "a.pyebpf"))) == {pid, later}


# As a container has it on a host of version 2: nothing but its own cgroup can be seen.
OWN_CGROUP = ["unshare", "--cgroup", "--mount", "sh", "-ec",
              'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"', "own"]


@contextlib.contextmanager
def hidden(folder):
    machine.mounts("-t", "tmpfs", "none", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("seen", ["in the container", "on the host"])
@machine.alone
def test_a_container_from_a_cgroup_namespace(seen, tmp_path):
    """Its cgroup is found where its own mount, or the host's, shows it."""
    given, inside = machine.private(plain(), tmp_path), seen == "in the container"
    program, capture, top = given[0] + [WORKER, "60000"], tmp_path / "a.pyebpf", machine.cgroup2()
    with cgroup("pyebpf-test-%d/pods/one/%s" % (os.getpid(), ID)) as theirs, cgroup("pyebpf-test-own-%d" % os.getpid()) as ours, \
         (ours / "cgroup.procs").open("w") as place, \
         lib.started((OWN_CGROUP if inside else []) + program, env=given[1], **started_in(theirs)) as target, lib.started(program, env=given[1]):
        pid = machine.number(target.pid)
        lib.until(lambda: lib.status_field(target.pid, "Name").startswith("own-"), "the program")
        with hidden(top) if inside else contextlib.nullcontext():
            done = subprocess.run([*machine.INSIDE, *OWN_CGROUP, lib.BINARY, "record", "--container", ID[:12], "-r", "999", "-d", "1s", "-o", capture],
                                  stderr=subprocess.PIPE, encoding="utf-8", check=False, preexec_fn=lambda: os.write(place.fileno(), b"0"))
        assert done.returncode == 0, done.stderr
        target.kill()
        target.wait()
    assert set(workers(Samples(capture))) == {pid}


@machine.alone
def test_without_root(tmp_path):
    """With exactly the capabilities it takes."""
    given = machine.private(lib.pick("3.11")[0], tmp_path)
    folder = machine.pathlib.Path(lib.sh(["mktemp", "-d"]).stdout.decode().strip())
    folder.chmod(0o777)
    try:
        with sleeper(given) as target:
            pid_of(target)
            with recording(folder / "a.pyebpf", "-a", "-r", "999", user=as_nobody(*MINIMUM)):
                later = run(given, "-S", WORKER, 100)
        samples = Samples(folder / "a.pyebpf")
    finally:
        machine.shutil.rmtree(folder)
    assert set(workers(samples)) == {later}


@machine.alone
def test_all_of_nobody(tmp_path):
    out = tmp_path / "none.pyebpf"
    done = lib.sh(machine.INSIDE + [lib.BINARY, "record", "-a", "-d", "500ms", "-o", out])
    assert done.returncode == 4 and b"no Python process" in done.stderr, done.stderr
    assert not out.exists()


def test_what_does_not_go_together(tmp_path):
    out = tmp_path / "t.pyebpf"
    for options in (["-a", "-p", "1"], ["-a", "--comm", "x"], ["--comm", ""]):
        done = lib.sh([lib.BINARY, "record", "-o", out, *options])
        assert done.returncode == 2 and len(done.stderr.splitlines()) <= 3 and not out.exists(), done.stderr
