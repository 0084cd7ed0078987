# SPDX-License-Identifier: Apache-2.0
"""Targets that are not named: all of a machine, those of a name, a cgroup, a container; those that come later, from their
first call. Each test has a machine of its own (machine.py)."""
import collections
import contextlib
import os
import shutil
import subprocess
import time

import pytest

import lib
import machine
from limits import MINIMUM, as_nobody
from selected import ID, SLEEPER, cgroup, named, pid_of, plain, run, sleeper, started_in, tracing, wake

pytestmark = lib.needs_root
LEAFS = lib.PROGRAMS / "leafs.py"


def marks(seen):
    return collections.Counter(e["pid"] for e in seen.of(SLEEPER) if e["ev"] == "call" and e["name"] == "mark")


def leafs(seen):
    return collections.Counter(e["pid"] for e in seen.of(LEAFS) if e["ev"] == "call" and e["name"] == "leaf")


def from_the_first_call(seen, pid):
    """Nothing of this process was open or missing when it was seen first; an exec ends what was open."""
    return not [e for e in seen.events if e["ev"] in ("open", "gap") and e.get("pid") == pid and e.get("reason") != "end"]


@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.13t", "3.14"))
@machine.alone
def test_all_now_and_later(name, tmp_path):
    """Those that run, and those that come, from their first call to their last."""
    given = machine.private(name, tmp_path)
    whole, _ = lib.traced(given[0] + [LEAFS, 300], tmp_path, env=given[1])
    with sleeper(given) as target:
        pid = pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a"):
            later = [run(given, LEAFS, 300) for _ in range(5)]
            wake(target)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert leafs(seen) == {p: 300 for p in later}
    assert marks(seen) == {pid: 1000} and seen.pids() == {pid, *later}
    events = collections.Counter(e["pid"] for e in seen.events if e["ev"] in lib.ENTER | lib.LEAVE)
    assert {events[p] for p in later} == {whole.meta["written"]}, "not the same as of a command"
    assert all(from_the_first_call(seen, p) for p in later)


@machine.alone
def test_a_process_that_lives_ten_milliseconds(tmp_path):
    """As many as there are, whatever they do."""
    given = machine.private(lib.families()[-1], tmp_path)
    with sleeper(given) as target:
        pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a"):
            pids = [run(given, "-S", "-c", "def own(): pass\n[own()]") for _ in range(15)]
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    owns = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "own")
    assert owns == {p: 1 for p in pids}
    assert all(from_the_first_call(seen, p) for p in pids)


@machine.alone
def test_a_new_interpreter_file(tmp_path):
    """Nobody ran it when the trace began: what its first process did before it was found is a gap; the next one is whole."""
    names = lib.families()
    first, new = machine.private(names[0], tmp_path), machine.private(names[-1], tmp_path)
    with sleeper(first) as target:
        pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a") as tracer:
            with sleeper(new) as early:
                pid = pid_of(early)
                lib.until(lambda: len({f for _, f, _ in lib.probes(tracer.pid)}) >= 2, "the probes of the new file")
                time.sleep(0.5)
                late = run(new, LEAFS, 100)
                wake(early)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert leafs(seen) == {late: 100} and from_the_first_call(seen, late)
    assert marks(seen) == {pid: 1000}
    assert [e for e in seen.gaps if e["pid"] == pid], "what it did before is a gap"


@pytest.mark.parametrize("names", [("3.8", "3.14"), ("3.13t", "3.11"), ("3.12", "3.12")])
@machine.alone
def test_exec_into_another_interpreter(names, tmp_path):
    by_family = {lib.family(n): n for n in lib.families()}
    one, two = (machine.private(by_family[n], tmp_path) for n in names)
    program = tmp_path / "p.py"
    program.write_text("import os, sys\ndef before(): pass\nfor _ in range(50): before()\n"
                       "for k in ('PYTHONHOME', 'LD_LIBRARY_PATH'): os.environ.pop(k, 0)\nos.environ.update(e.split('=', 1) for e in sys.argv[1].split(';') if e)\n"
                       "os.execvp(sys.argv[2], sys.argv[2:])\n")
    home = ";".join("%s=%s" % (k, two[1][k]) for k in ("PYTHONHOME", "LD_LIBRARY_PATH") if k in two[1])
    with sleeper(one) as a, sleeper(two) as b:
        pid_of(a)
        pid_of(b)
        with tracing(tmp_path / "a.pyebpf", "-a", files=len(set(names))):
            pid = run(one, program, home, *two[0], LEAFS, 70)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert seen.count(program, "call")["before"] == 50
    assert leafs(seen) == {pid: 70}
    assert from_the_first_call(seen, pid)


@machine.alone
def test_a_prefork_server(tmp_path):
    """Workers that are forked while the server is traced, from their first call."""
    program = tmp_path / "server.py"
    program.write_text("import os, sys, time\ndef work(): pass\ndef worker():\n    for _ in range(200): work()\n    os._exit(0)\n"
                       "print('ready', flush=True)\nsys.stdin.readline()\npids = []\nfor _ in range(12):\n    pid = os.fork()\n"
                       "    if not pid: worker()\n    pids.append(pid)\nfor pid in pids: os.waitpid(pid, 0)\nprint(*pids)\n")
    given = machine.private(lib.pick("3.12")[0], tmp_path)
    with lib.started(given[0] + [program], env=given[1], stdin=subprocess.PIPE) as server:
        server.stdout.readline()
        with tracing(tmp_path / "a.pyebpf", "-a"):
            server.stdin.write(b"\n")
            server.stdin.flush()
            pids = {int(p) for p in server.stdout.readline().split()}
            assert server.wait(60) == 0
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    works = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "work")
    assert works == {pid: 200 for pid in pids} and len(pids) == 12


@machine.alone
def test_two_hundred_processes_of_several_versions(tmp_path):
    """Half of them wait when the trace begins, half are started meanwhile, all at once."""
    names = lib.pick("3.8", "3.10", "3.11", "3.12", "3.13t")
    given = [machine.private(n, tmp_path) for n in names]
    with contextlib.ExitStack() as stack:
        early = [stack.enter_context(sleeper(given[i % len(given)])) for i in range(100)]
        pids = [pid_of(process) for process in early]
        with tracing(tmp_path / "a.pyebpf", "-a", "--ring", "256M", files=len(names)):
            late = [stack.enter_context(sleeper(given[i % len(given)])) for i in range(100)]
            pids += [pid_of(process) for process in late]
            for process in early + late:
                process.stdin.close()
            for process in early + late:
                assert process.wait(60) == 0
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert len(names) >= 5
    assert marks(seen) == {pid: 1000 for pid in pids} and len(set(pids)) == 200
    assert all(from_the_first_call(seen, pid) for pid in pids[100:])


@machine.alone
def test_all_of_nobody(tmp_path):
    """No Python process: it waits for one, and says so when none has come."""
    done = lib.sh(machine.INSIDE + [lib.BINARY, "trace", "-a", "-d", "500ms", "-o", tmp_path / "none.pyebpf"])
    assert done.returncode == 4 and b"no Python process" in done.stderr, done.stderr
    assert not (tmp_path / "none.pyebpf").exists()


@machine.alone
def test_all_of_one_that_calls_nothing(tmp_path):
    """It has an interpreter and does not use it: that is said, in place of an empty trace."""
    _, env = machine.private(lib.pick("3.8")[0], tmp_path)
    library = next(machine.pathlib.Path(env["LD_LIBRARY_PATH"]).iterdir())
    with lib.started(machine.INSIDE + [lib.BINARY, "trace", "-a", "-o", tmp_path / "none.pyebpf"], stderr=subprocess.PIPE) as tracer:
        lib.until(lambda: lib.status_field(tracer.pid, "CapEff") != lib.status_field(os.getpid(), "CapEff"), "the beginning")
        with lib.started(["sleep", "60"], env=dict(os.environ, LD_PRELOAD=str(library))):
            lib.until(lambda: [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY], "the probes")
            time.sleep(0.5)
            assert lib.stop(tracer, 4).startswith("pyebpf trace: no process that was meant called Python code")
    assert not (tmp_path / "none.pyebpf").exists()


@machine.alone
def test_without_root(tmp_path):
    """With exactly the capabilities it takes: what runs, what comes, and a file that is new when privileges were dropped."""
    names = lib.pick("3.13t", "3.11")
    first, new = (machine.private(n, tmp_path) for n in names)
    folder = machine.pathlib.Path(lib.sh(["mktemp", "-d"]).stdout.decode().strip())
    folder.chmod(0o777)
    try:
        with sleeper(first) as target:
            pid = pid_of(target)
            with tracing(folder / "a.pyebpf", "-a", user=as_nobody(*MINIMUM)) as tracer:
                with sleeper(new) as early:
                    early_pid = pid_of(early)
                    lib.until(lambda: len({f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY}) >= 2, "the new file's probes")
                    time.sleep(0.5)
                    late = [run(given, "-S", LEAFS, 80) for given in (first, new)]
                    wake(early)
                wake(target)
        seen = lib.Trace(folder / "a.pyebpf").whole()
    finally:
        shutil.rmtree(folder)
    assert marks(seen) == {pid: 1000, early_pid: 1000} and leafs(seen) == {p: 80 for p in late}


@pytest.mark.parametrize("name", [n for n in lib.every() if n == "3.14-sid"])
@machine.alone
def test_a_jit_that_starts_later(name, tmp_path):
    """It cannot be refused any more, so it is named."""
    given = machine.private(name, tmp_path)
    with sleeper(given) as target:
        pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a") as tracer:
            with sleeper((given[0], dict(given[1], PYTHON_JIT="1"))) as other:
                pid = pid_of(other)
                time.sleep(2.5)
                wake(other)
            with sleeper(given) as other:
                plain_pid = pid_of(other)
                time.sleep(0.7)
                wake(other)
    assert "not all calls of process %d are seen" % pid in tracer.said and "JIT" in tracer.said
    assert "process %d " % plain_pid not in tracer.said


@machine.alone
def test_what_is_executed_is_looked_at_cheaply(tmp_path):
    """A machine that executes other programs all the time: looking at them costs little."""
    given = machine.private(plain(), tmp_path)
    with sleeper(given) as target:
        pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a") as tracer:
            before = cpu_seconds(tracer.pid)
            lib.sh(["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"])
            later = run(given, "-S", LEAFS, 50)
            spent = cpu_seconds(tracer.pid) - before
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert leafs(seen) == {later: 50}
    print("looking at 300 programs: %.2f s" % spent)
    assert spent < 300 * 0.01


def cpu_seconds(pid):
    fields = machine.pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def replayed(rings, capture):
    done = lib.sh([lib.pythons.BUILD / "tests" / "e2e" / "replay", rings, capture])
    assert done.returncode == 0, done.stderr
    return lib.Trace(capture)


@machine.alone
def test_its_records_can_be_replayed(tmp_path):
    given = machine.private(plain(), tmp_path)
    with sleeper(given) as target:
        pid_of(target)
        with tracing(tmp_path / "a.pyebpf", "-a", "--record-rings", tmp_path / "rings"):
            later = run(given, "-S", LEAFS, 50)
            wake(target)
    seen, again = lib.Trace(tmp_path / "a.pyebpf").whole(), replayed(tmp_path / "rings", tmp_path / "b.pyebpf")
    assert leafs(again) == leafs(seen) == {later: 50}
    assert again.events == seen.events


# --- some of them ---

@machine.alone
def test_by_name(tmp_path):
    """Those of the names, now and later; others of the same file are not seen, and said to pay."""
    given = machine.private(plain(), tmp_path)
    ours, theirs = named(given, "our-app"), named(given, "their-app")
    with sleeper(ours) as mine, sleeper(theirs) as other:
        pid, other_pid = pid_of(mine), pid_of(other)
        with tracing(tmp_path / "a.pyebpf", "--comm", "our-app", "--comm", "absent") as tracer:
            later = run(ours, "-S", LEAFS, 50)
            run(theirs, "-S", LEAFS, 50)
            wake(other)
            wake(mine)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert seen.pids() == {pid, later} and other_pid not in seen.pids()
    assert marks(seen) == {pid: 1000} and leafs(seen) == {later: 50}
    assert from_the_first_call(seen, later)
    assert "1 other process of" in tracer.said


@machine.alone
def test_a_process_that_takes_the_name(tmp_path):
    """From then on, with the stack that it has; and no more once it executes something else."""
    given = machine.private(plain(), tmp_path)
    program = tmp_path / "p.py"
    program.write_text("import os, sys\ndef early(): pass\ndef later(): pass\ndef main():\n    for _ in range(20): early()\n"
                       "    open('/proc/self/comm', 'w').write('worker-7')\n    for _ in range(30): later()\n"
                       "main()\nos.execv(sys.executable, [sys.executable, '-S'] + sys.argv[1:])\n")
    with sleeper(named(given, "worker-7")) as first:
        pid_of(first)
        with tracing(tmp_path / "a.pyebpf", "--comm", "worker-7"):
            pid = run(given, "-S", program, LEAFS, 40)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    count = seen.count(program, "call")
    assert (count["early"], count["later"]) == (0, 30) and not leafs(seen)
    assert [e["name"] for e in seen.events if e["ev"] == "open" and e["pid"] == pid] == ["<module>", "main"]


@machine.alone
def test_children_of_a_name(tmp_path):
    """With -s also when they are called otherwise and run another interpreter."""
    given = machine.private(plain(), tmp_path)
    program = tmp_path / "p.py"
    program.write_text("import subprocess, sys\nsubprocess.check_call(sys.argv[1:])\n")
    for options, want in ((["-s"], 50), ([], 0)):
        with sleeper(named(given, "our-app")) as first:
            pid_of(first)
            capture = tmp_path / ("a%d.pyebpf" % want)
            with tracing(capture, "--comm", "our-app", *options):
                run(named(given, "our-app"), "-S", program, *given[0], "-S", LEAFS, 50)
        seen = lib.Trace(capture).whole()
        assert sum(leafs(seen).values()) == want
        assert seen.count(program, "call")["<module>"] == 1


@pytest.mark.parametrize("version", [2, 1])
@pytest.mark.parametrize("form", ["whole", "relative", "proc"])
@machine.alone
def test_by_cgroup(form, version, tmp_path):
    """And what is below it; a process beside it is not seen."""
    given = machine.private(plain(), tmp_path)
    name = "pyebpf-test-%d" % os.getpid()
    with cgroup(name + "/below", version) as below:
        path = {"whole": below.parent, "relative": name, "proc": "/" + name}[form]
        command = given[0] + ["-S", SLEEPER]
        with lib.started(command, env=given[1], stdin=subprocess.PIPE, **started_in(below)) as mine, sleeper(given) as other:
            pid = pid_of(mine)
            pid_of(other)
            with tracing(tmp_path / "a.pyebpf", "--cgroup", path) as tracer:
                later = [run(given, LEAFS, 50, **started_in(at)) for at in (below, below.parent)]
                run(given, LEAFS, 50)
                wake(other)
                wake(mine)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert marks(seen) == {pid: 1000} and leafs(seen) == {p: 50 for p in later}
    assert seen.pids() == {pid, *later} and all(from_the_first_call(seen, p) for p in later)
    assert "1 other process of" in tracer.said


@pytest.mark.parametrize("version", [2, 1])
@pytest.mark.parametrize("path", [ID, "docker-%s.scope" % ID, "cri-containerd-%s.scope/init" % ID], ids=["plain", "docker", "cri"])
@machine.alone
def test_by_container(path, version, tmp_path):
    """Also where version 2 has no cgroup of it: each engine's names are in unit/test_container.c."""
    given = machine.private(plain(), tmp_path)
    with cgroup("pyebpf-test-%d/%s" % (os.getpid(), path), version) as inside:
        with lib.started(["sleep", "60"], **started_in(inside)), sleeper(given) as other:
            pid_of(other)
            capture = tmp_path / "a.pyebpf"
            with tracing(capture, "--container", ID[:12], files=0) as tracer:
                # nobody ran the file when the trace began
                first = []

                def placed():
                    first.append(run(given, "-S", "-c", "import time; time.sleep(.2)", **started_in(inside)))
                    return [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY]
                lib.until(placed, "the probes")
                time.sleep(0.3)
                later = run(given, LEAFS, 50, **started_in(inside))
                run(given, LEAFS, 50)
                wake(other)
    seen = lib.Trace(capture).whole()
    assert leafs(seen) == {later: 50} and seen.pids() <= {*first, later}


def test_selections_that_choose_nobody(tmp_path):
    out = tmp_path / "t.pyebpf"
    for options, code in ((["--cgroup", "/no/such/cgroup"], 4), (["--container", "0123456789abcdef"], 4), (["--host-wide"], 2),
                          (["-a", "-p", "1"], 2), (["-a", "--", "true"], 125), (["--comm", ""], 2)):
        done = lib.trace(options, out)
        assert done.returncode == code, (options, done.stderr)
        assert len(done.stderr.splitlines()) <= 3 and not out.exists()


@machine.alone
def test_host_wide(tmp_path):
    """-p and its children, from their first call, whatever they execute; the others are counted first, and not traced."""
    given = machine.private(plain(), tmp_path)
    out = tmp_path / "out"
    program = tmp_path / "p.py"
    program.write_text("import os, subprocess, sys\ndef work(): pass\nprint(os.getpid(), flush=True)\nsys.stdin.readline()\n"
                       "pids = []\nfor _ in range(5):\n    pid = os.fork()\n    if not pid:\n"
                       "        for _ in range(100): work()\n        os._exit(0)\n    pids.append(pid)\n    os.waitpid(pid, 0)\n"
                       "pids.append(subprocess.Popen([sys.executable, '-S'] + sys.argv[2:]))\n"
                       "pids[-1].wait()\nopen(sys.argv[1], 'w').write(repr(pids[:-1] + [pids[-1].pid]))\n")
    with sleeper(given) as other, lib.started(given[0] + [program, out, LEAFS, "60"], env=given[1], stdin=subprocess.PIPE) as target:
        pid_of(other)
        pid = pid_of(target)
        capture = tmp_path / "a.pyebpf"
        with lib.started(machine.INSIDE + [lib.BINARY, "trace", "-o", capture, "-p", pid, "-s", "--host-wide"],
                         stderr=subprocess.PIPE) as tracer:
            lib.until(lambda: [f for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY], "the probes")
            time.sleep(0.5)
            wake(target)
            said = lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    *children, executed = eval(out.read_text())  # pylint: disable=eval-used
    works = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "work")
    assert works == {p: 100 for p in children} and leafs(seen) == {executed: 60}
    assert seen.pids() == {pid, executed, *children}
    assert not [g for g in seen.gaps if g["pid"] in children and g["reason"] != "end"]
    assert "1 other process of" in said
