# SPDX-License-Identifier: Apache-2.0
"""What can be traced and how a trace ends: processes, commands of all sorts, their children, namespaces, users."""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

import lib

pytestmark = lib.needs_root
LEAFS = lib.PROGRAMS / "leafs.py"
WAITS = lib.PROGRAMS / "waits.py"
CHILDREN = lib.PROGRAMS / "children.py"
IDENTITY = lib.PROGRAMS / "identity.py"


# --- commands ---

def script(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return [path]


def plain(py, tmp):
    return py


def venv_link(py, tmp):
    (tmp / "venv" / "bin").mkdir(parents=True)
    (tmp / "venv" / "pyvenv.cfg").write_text("home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(py[0]))
    (tmp / "venv" / "bin" / "python").symlink_to(py[0])
    (tmp / "venv" / "bin" / "python3").symlink_to("python")
    return [tmp / "venv" / "bin" / "python3"]


def shell_shim(py, tmp):
    return script(tmp / "shim", "#!/bin/sh", "exec %s \"$@\"" % lib.shell_words(py))


def pyenv_style(py, tmp):
    return script(tmp / "python3", "#!/usr/bin/env bash", "set -e", "program=\"${0##*/}\"", "found=$(basename \"$program\")",
                  "(true; echo \"$found\" >/dev/null)", "for i in 1 2 3; do /bin/true; done",
                  "exec bash -c 'exec \"$@\"' x %s \"$@\"" % lib.shell_words(py))


def env_s(py, tmp):
    return ["env", "-S", lib.shell_words(py)]


def nested_tools(py, tmp):
    return ["nice", "-n", "1", "env", "A=1"] + py


LAUNCHES = [plain, venv_link, shell_shim, pyenv_style, env_s, nested_tools]
counted = {}  # events of the same program by interpreter, however it was started


def whole_start(seen, n):
    """Everything from the first call on: nothing was open, nothing lost, N calls of leaf."""
    seen.whole()
    assert not [e for e in seen.events if e["ev"] in ("open", "gap")]
    assert seen.count(LEAFS, "call")["leaf"] == n
    assert len(seen.pids()) == 1


@pytest.mark.parametrize("how", LAUNCHES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", lib.pick("3.11", "3.14"))
def test_launched_however(name, how, tmp_path):
    if how is venv_link and len(lib.command(name)) > 1:
        pytest.skip("a virtual environment has no loader")
    cmd = how(lib.command(name), tmp_path)
    seen, _ = lib.traced(cmd + ["-I", "-S", "-B", LEAFS, 300], tmp_path)
    whole_start(seen, 300)
    if how is not venv_link:
        assert counted.setdefault(name, seen.meta["written"]) == seen.meta["written"]


@pytest.mark.parametrize("name", lib.every() if lib.LONG else [n for n in lib.every() if n not in lib.families()])
def test_launched(name, tmp_path):
    whole_start(lib.traced(lib.command(name) + [LEAFS, 200], tmp_path)[0], 200)


@pytest.mark.parametrize("launcher", [["timeout", "60"], ["sh", "-c", '"$@"; exit 7', "sh"],
                                      ["sh", "-c", '(sh -c \'"$@"; true\' sh "$@" & wait $!); exit 7', "sh"]],
                         ids=["timeout", "sh", "sh in sh"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.14"))
def test_a_launcher_that_is_not_python(name, launcher, tmp_path):
    """It starts Python as a child and waits: that is what was meant. The children of Python itself are not, without -s."""
    program = tmp_path / "p.py"
    program.write_text("import subprocess, sys\ndef mine(): pass\nfor _ in range(30): mine()\n"
                       "if len(sys.argv) < 2: subprocess.run(%r + [__file__, 'child'])\n" % [str(c) for c in lib.command(name)])
    status = 0 if launcher[0] == "timeout" else 7
    seen, _ = lib.traced([*launcher, *lib.command(name), "-S", "-B", program], tmp_path, status=status)
    seen.whole()
    assert len(seen.pids()) == 1 and seen.count(program, "call")["mine"] == 30
    assert not [e for e in seen.events if e["ev"] == "open"]


@pytest.mark.parametrize("how", ["absolute", "env", "env -S"])
def test_console_script(how, tmp_path):
    py = lib.any_python()[0]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mypython").symlink_to(py)
    first = {"absolute": "#!%s -B" % py, "env": "#!/usr/bin/env mypython", "env -S": "#!/usr/bin/env -S mypython -B -I"}[how]
    path = tmp_path / "tool"
    path.write_text(first + "\n" + LEAFS.read_text())
    path.chmod(0o755)
    env = dict(os.environ, PATH="%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    capture = tmp_path / "t.pyebpf"
    done = lib.trace(["--", path, 50], capture, env=env)
    assert done.returncode == 0, done.stderr
    seen = lib.Trace(capture).whole()
    assert seen.count(path, "call")["leaf"] == 50


def test_found_in_path(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mypython").symlink_to(lib.any_python()[0])
    env = dict(os.environ, PATH="%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    whole_start(lib.traced(["mypython", LEAFS, 20], tmp_path, env=env)[0], 20)


def test_the_shim_of_pyenv(tmp_path):
    root = pathlib.Path(os.path.expanduser("~/.pyenv"))
    versions = sorted(p.name for p in (root / "versions").glob("3.*")) if root.exists() else []
    if not versions or not (root / "shims" / "python3").exists():
        pytest.skip("no pyenv here")
    env = dict(os.environ, PYENV_VERSION=versions[-1], PATH="%s:%s" % (root / "bin", os.environ["PATH"]))
    whole_start(lib.traced([root / "shims" / "python3", LEAFS, 20], tmp_path, env=env)[0], 20)


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status_is_passed_through(status, tmp_path):
    seen, done = lib.traced(lib.any_python() + [LEAFS, 5, status], tmp_path, status=status)
    whole_start(seen, 5)


def test_stdin_and_stdout_are_the_commands_own(tmp_path):
    out = tmp_path / "t.pyebpf"
    given = os.urandom(1000).hex().encode() * 100
    done = subprocess.run([lib.BINARY, "trace", "-o", out, "--"] + lib.any_python() + [LEAFS, "5"], input=given,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0 and done.stdout == given
    whole_start(lib.Trace(out), 5)


def test_a_command_that_is_not_python(tmp_path):
    done = lib.trace(["--", "/bin/sh", "-c", "exit 0"], tmp_path / "t.pyebpf")
    assert done.returncode == 125, done.stderr
    assert b"Python" in done.stderr and b"sh" in done.stderr
    assert not (tmp_path / "t.pyebpf").exists(), "an empty trace"


def test_a_command_that_is_missing_or_cannot_be_executed(tmp_path):
    done = lib.trace(["--", "/no/such/program"], tmp_path / "t.pyebpf")
    assert done.returncode == 127 and b"/no/such/program" in done.stderr
    (tmp_path / "data").write_text("x")
    done = lib.trace(["--", tmp_path / "data"], tmp_path / "t.pyebpf")
    assert done.returncode == 126 and b"data" in done.stderr
    assert not (tmp_path / "t.pyebpf").exists()


# --- running processes ---

def begin(name, tmp_path, number=0, program=WAITS):
    """A target that waits for a flag: (context, flag, counts)."""
    flag, counts = tmp_path / ("flag%d" % number), tmp_path / ("counts%d" % number)
    return lib.started(lib.command(name) + [program, flag, counts]), flag, counts


@pytest.mark.parametrize("form", ["-p", "--pid=", "positional"])
@pytest.mark.parametrize("name", lib.pick("3.6"))
def test_a_running_process(name, form, tmp_path):
    context, flag, _ = begin(name, tmp_path)
    capture = tmp_path / "t.pyebpf"
    with context as target:
        pid = int(target.stdout.readline())
        given = {"-p": ["-p", pid], "--pid=": ["--pid=%d" % pid], "positional": [pid]}[form]
        with lib.started([lib.BINARY, "trace", "-o", capture] + given, stderr=subprocess.PIPE) as tracer:
            lib.wait_attached(tracer, pid)
            flag.touch()
            assert target.wait(60) == 0
            lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert seen.count(WAITS, "call")["mark"] == 1000
    assert seen.events[-1]["ts_ns"] <= seen.meta.get("end_ns", float("inf"))


@pytest.mark.parametrize("names", [("3.8", "3.8"), ("3.8", "3.12"), ("3.11", "3.13")])
def test_two_processes(names, tmp_path):
    by_family = {lib.family(n): n for n in lib.families()}
    if not set(names) <= set(by_family):
        pytest.skip("not all of %s are here" % (names,))
    a, flag_a, _ = begin(by_family[names[0]], tmp_path, 0)
    b, flag_b, _ = begin(by_family[names[1]], tmp_path, 1)
    capture = tmp_path / "t.pyebpf"
    with a as one, b as two:
        pids = [int(one.stdout.readline()), int(two.stdout.readline())]
        with lib.attach(pids, capture) as tracer:
            lib.wait_attached(tracer, *pids)
            flag_a.touch()
            assert one.wait(60) == 0
            time.sleep(0.2)
            assert tracer.poll() is None  # the other one is still there
            flag_b.touch()
            assert two.wait(60) == 0
            lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert seen.pids() == set(pids)
    marks = collections.Counter(e["pid"] for e in seen.of(WAITS) if e["ev"] == "call" and e["name"] == "mark")
    assert marks == {pid: 1000 for pid in pids}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_trace_and_not_the_target(number, tmp_path):
    context, flag, counts = begin(lib.families()[0], tmp_path)
    capture = tmp_path / "t.pyebpf"
    with context as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture) as tracer:
            lib.wait_attached(tracer, pid)
            lib.stop(tracer, 0, number)
        assert target.poll() is None
        flag.touch()
        assert target.wait(60) == 0
    seen = lib.Trace(capture).whole()
    assert 0 < seen.count(WAITS, "call")["tick"] <= int(counts.read_text())


SPLIT = ["--split", "300"]


@pytest.mark.parametrize("options", [[], ["--flight-recorder", "10s"], SPLIT], ids=" ".join)
def test_one_that_only_waits_is_shown_from_the_attach_on(options, tmp_path):
    """Its stack is as it was at the attach, which a look at the end, or a second later, shows."""
    program, capture = tmp_path / "p.py", tmp_path / "t.pyebpf"
    program.write_text("import os, sys, threading, time\ndef tick(): pass\ndef busy():\n    while 1: tick(); time.sleep(0.001)\n"
                       "threading.Thread(target=busy, daemon=True).start()\n"
                       "def hang():\n    print(os.getpid(), flush=True)\n    sys.stdin.readline()\nhang()\n")
    with lib.started([*lib.any_python(), program], stdin=subprocess.PIPE) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, "-d", "2s", *options) as tracer:
            lib.finish(tracer)
    hangs = ticks = wall = 0
    for part in tmp_path.glob("t*.pyebpf"):
        report = json.loads(lib.sh([lib.BINARY, "stats", part, "--json", "-n", "0"]).stdout)
        times = {row["function"]: row["total_ns"] for row in report["rows"]}
        hangs, ticks, wall = hangs + times.get("hang", 0), ticks + times["busy"], wall + report["wall_ns"]
        assert all(t <= report["wall_ns"] * 1.01 for t in times.values())
        meta = lib.Trace(part).meta
        assert all(e["ts_ns"] >= meta["start_ns"] for e in lib.Trace(part).events)
    assert hangs <= wall * 1.01
    if options != SPLIT:  # then it is in the part in which it was found, and those after it
        assert hangs > ticks * 0.9


@pytest.mark.parametrize("options", [["-d", "300ms"], ["-d", "0.3"], ["--duration=300ms"]])
def test_duration(options, tmp_path):
    context, flag, _ = begin(lib.families()[-1], tmp_path)
    with context as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, tmp_path / "t.pyebpf", *options) as tracer:
            lib.finish(tracer)
        assert target.poll() is None
    assert lib.Trace(tmp_path / "t.pyebpf").whole().count(WAITS, "call")["tick"] > 0


def test_duration_of_a_command(tmp_path):
    """The trace ends, the command goes on to its end and gives its status."""
    flag, counts = tmp_path / "flag", tmp_path / "counts"
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", "-d", "2s", "-o", capture, "--"] + lib.any_python() + [WAITS, flag, counts],
                     stderr=subprocess.PIPE) as tracer:
        pid = int(tracer.stdout.readline())
        lib.wait_attached(tracer, pid)
        lib.until(lambda: not [p for p in lib.probes(tracer.pid) if p[0] == pid], "the end of the trace")
        assert tracer.poll() is None
        flag.touch()
        lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert seen.count(WAITS, "call")["mark"] == 0 and seen.count(WAITS, "call")["tick"] > 0


def test_max_events(tmp_path):
    context, flag, _ = begin(lib.families()[0], tmp_path)
    with context as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, tmp_path / "t.pyebpf", "--max-events", "5000") as tracer:
            lib.finish(tracer)
        assert target.poll() is None
    assert lib.Trace(tmp_path / "t.pyebpf").whole().meta["written"] >= 5000


@pytest.mark.parametrize("engine", ["", "--engine inline", "--engine inline -s"])
def test_interrupt_from_the_terminal_reaches_the_command_once(engine, tmp_path):
    """Ctrl-C goes to both; the command handles it and ends as it likes."""
    program = tmp_path / "p.py"
    program.write_text("import signal, sys, time\ngot = []\ndef handler(*a): got.append(1)\n"
                       "def last(): return 1\nsignal.signal(signal.SIGINT, handler)\nprint('ready', flush=True)\n"
                       "while not got: time.sleep(0.01)\ntime.sleep(0.1)\nlast()\nsys.exit(10 + len(got))\n")
    capture = tmp_path / "t.pyebpf"
    with lib.started([lib.BINARY, "trace", *engine.split(), "-o", capture, "--"] + lib.any_python() + [program], stderr=subprocess.PIPE,
                     start_new_session=True) as tracer:
        assert tracer.stdout.readline() == b"ready\n"
        os.killpg(tracer.pid, signal.SIGINT)
        lib.finish(tracer, 11)
    seen = lib.Trace(capture).whole()
    assert seen.count(program, "call")["last"] == 1 and seen.count(program, "call")["handler"] == 1


def test_a_command_that_dies_of_the_interrupt(tmp_path):
    program = tmp_path / "p.py"
    program.write_text("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('ready', flush=True)\ntime.sleep(60)\n")
    with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", "--"] + lib.any_python() + [program],
                     stderr=subprocess.PIPE, start_new_session=True) as tracer:
        tracer.stdout.readline()
        os.killpg(tracer.pid, signal.SIGINT)
        lib.finish(tracer, 128 + signal.SIGINT)
    lib.Trace(tmp_path / "t.pyebpf").whole()


INHERITED = "import signal, sys\nprint([signal.getsignal(n) == signal.SIG_IGN for n in (1, 2, 3)], signal.pthread_sigmask(0, []))\nsys.exit(7)\n"


@pytest.mark.parametrize("command", ["trace", "record"])
def test_a_command_has_the_signals_of_who_started_us(command, tmp_path):
    """nohup, a shell's "&", a parent that does not wait for its children (whose end nobody is told of then)."""
    capture, program = tmp_path / "t.pyebpf", tmp_path / "p.py"
    program.write_text(INHERITED)
    done = lib.sh(["env", "--ignore-signal=HUP,INT,CHLD", "--block-signal=USR2", lib.BINARY, command, "-q", "-o", capture, "--",
                   *lib.any_python(), program], timeout=60)
    assert done.returncode == 7, done.stderr
    assert done.stdout == b"[True, True, False] {<Signals.SIGUSR2: 12>}\n"
    assert lib.Trace(capture).meta["complete"]


def test_an_interrupt_ends_a_trace_in_the_background(tmp_path):
    """A shell without job control has what it starts with "&" ignore SIGINT."""
    context, flag, _ = begin(lib.families()[0], tmp_path)
    with context as target:
        pid = int(target.stdout.readline())
        with lib.started(["env", "--ignore-signal=INT", lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", "-p", str(pid)],
                         stderr=subprocess.PIPE) as tracer:
            lib.wait_attached(tracer, pid)
            lib.stop(tracer)
        flag.touch()
    lib.Trace(tmp_path / "t.pyebpf").whole()


def test_the_second_interrupt_ends_at_once(tmp_path):
    """A command that ignores Ctrl-C: the second one ends pyebpf, and leaves a capture that can be read."""
    program = tmp_path / "p.py"
    program.write_text("import signal, os, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                       "def leaf(): pass\nprint(os.getpid(), flush=True)\nwhile not os.path.exists(sys.argv[1]): leaf()\n")
    flag, capture = tmp_path / "flag", tmp_path / "t.pyebpf"
    try:
        # not a pipe: the command holds its other end
        with lib.started([lib.BINARY, "trace", "-o", capture, "--"] + lib.any_python() + [program, flag],
                         stderr=subprocess.DEVNULL) as tracer:
            tracer.stdout.readline()
            tracer.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert tracer.poll() is None
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)
    finally:
        flag.touch()
    assert lib.Trace(capture).count(program, "call")["leaf"] > 0


@pytest.mark.parametrize("how", ["no process", "kernel thread", "not Python", "zombie"])
def test_what_cannot_be_traced_is_named(how, tmp_path):
    capture = tmp_path / "t.pyebpf"
    with lib.started(["sleep", "60"]) as sleep, lib.started(["true"]) as zombie:
        pid = {"no process": 4194304, "kernel thread": 2, "not Python": sleep.pid, "zombie": zombie.pid}[how]
        if how == "zombie":
            os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        if how == "kernel thread" and not os.path.exists("/proc/2"):
            pytest.skip("no kernel threads in here")
        done = lib.trace(["-p", pid], capture)
        assert done.returncode == 4 and str(pid).encode() in done.stderr, done.stderr
    assert not capture.exists()


def test_a_process_whose_main_thread_has_ended(tmp_path):
    """The kernel calls it a zombie while others of its threads run on."""
    program = ("import ctypes, threading, time\n"
               "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
               "ctypes.CDLL(None).syscall(60, 0)\n")  # exit() of this thread
    with lib.started(lib.command(lib.families()[-1]) + ["-c", program]) as target:
        lib.until(lambda: lib.status_field(target.pid, "State")[0] == "Z", "the end of its main thread")
        done = lib.trace(["-p", target.pid], tmp_path / "t.pyebpf")
        assert done.returncode == 4 and b"the main thread of PID %d" % target.pid in done.stderr, done.stderr


def test_one_wrong_pid_among_others_is_refused(tmp_path):
    context, flag, _ = begin(lib.families()[0], tmp_path)
    with context as target, lib.started(["sleep", "60"]) as sleep:
        pid = int(target.stdout.readline())
        done = lib.trace(["-p", "%d,%d" % (pid, sleep.pid)], tmp_path / "t.pyebpf")
        assert done.returncode == 4 and str(sleep.pid).encode() in done.stderr


# --- the life of targets ---

@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_target_that_is_killed(number, tmp_path):
    context, flag, _ = begin(lib.families()[-1], tmp_path)
    capture = tmp_path / "t.pyebpf"
    with context as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture) as tracer:
            lib.wait_attached(tracer, pid)
            target.send_signal(number)
            target.wait(10)
            lib.finish(tracer)
    assert lib.Trace(capture).whole().count(WAITS, "call")["tick"] > 0


def child_counts(seen, out):
    """What the children wrote against what was seen of them: {pid: (want, got)} of those that differ."""
    want = collections.Counter()
    for line in out.read_text().splitlines():
        pid, n = map(int, line.split())
        want[pid] += n
    got = collections.Counter(e["pid"] for e in seen.events
                              if e["ev"] == "call" and e["name"] == "child_leaf")
    return want, got


def others(family, *skip):
    return [n for n in lib.families() if lib.family(n) != family and lib.family(n) not in skip]


@pytest.mark.parametrize("how", ["fork", "double", "mp_fork", "spawn", "forkserver", "run", "storm"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_children_of_a_command(name, how, tmp_path):
    """Exact from a child's first call."""
    out = tmp_path / "out"
    more = lib.command(name) if how == "run" else []
    seen, _ = lib.traced(lib.command(name) + [CHILDREN, how, out] + more, tmp_path, "-s")
    seen.whole()
    want, got = child_counts(seen, out)
    assert want == got and len(want) >= 1
    first = seen.events[0]["pid"]
    assert sum(e["pid"] == first and e["ev"] == "call" and e["name"] == "parent_leaf" for e in seen.events) == 200


@pytest.mark.parametrize("how", ["double", "storm"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_children_that_have_ended_before_anybody_looks(name, how, tmp_path):
    """They and their parents: the reader stands still from before the first one to the end of the last one."""
    out, flag, capture = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pyebpf"
    command = [lib.BINARY, "trace", "-s", "-o", capture, "--", *lib.command(name), CHILDREN, how, out]
    with lib.started(command, env=dict(os.environ, PYEBPF_TEST_FLAG=str(flag)), stderr=subprocess.PIPE) as tracer:
        pid = int(tracer.stdout.readline())
        tracer.send_signal(signal.SIGSTOP)
        flag.touch()
        lib.until(lambda: lib.status_field(pid, "State").startswith("Z"), "its end", 60)
        tracer.send_signal(signal.SIGCONT)
        lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    want, got = child_counts(seen, out)
    assert want == got and len(want) == {"double": 3, "storm": 200}[how]


@pytest.mark.parametrize("name", lib.pick("3.9"))
def test_children_of_every_version(name, tmp_path):
    out = tmp_path / "out"
    more = []
    for other in lib.families():
        more += (["--"] if more else []) + lib.command(other)
    seen, _ = lib.traced(lib.command(name) + [CHILDREN, "run_many", out] + more, tmp_path, "-s")
    seen.whole()
    want, got = child_counts(seen, out)
    assert want == got and len(want) == len(lib.families())


@pytest.mark.parametrize("how", ["fork", "storm", "mp_fork", "spawn", "run"])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_without_s_children_are_not_seen(name, how, tmp_path):
    out = tmp_path / "out"
    more = lib.command(name) if how == "run" else []
    seen, _ = lib.traced(lib.command(name) + [CHILDREN, how, out] + more, tmp_path)
    seen.whole()
    assert len(seen.pids()) == 1
    assert seen.count(CHILDREN, "call")["child_leaf"] == 0
    assert seen.count(CHILDREN, "call")["parent_leaf"] == 200


@pytest.mark.parametrize("subprocesses", [False, True])
@pytest.mark.parametrize("how", ["fork", "storm", "spawn", "run", "other"])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_children_of_a_running_process(name, how, subprocesses, tmp_path):
    out, flag, capture = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pyebpf"
    more = lib.command(name) if how == "run" else lib.command(others("3.12")[0]) if how == "other" else []
    env = dict(os.environ, PYEBPF_TEST_FLAG=str(flag), PYEBPF_TEST_DELAY="0" if how == "storm" else "1.5")
    with lib.started(lib.command(name) + [CHILDREN, "run" if how == "other" else how, out] + more, env=env) as target:
        pid = int(target.stdout.readline())
        with lib.attach(pid, capture, *(["-s"] if subprocesses else [])) as tracer:
            lib.wait_attached(tracer, pid)
            flag.touch()
            assert target.wait(60) == 0
            lib.finish(tracer)
    seen = lib.Trace(capture)
    assert seen.meta["generated"] == seen.meta["written"] + seen.lost
    want, got = child_counts(seen, out)
    assert seen.count(CHILDREN, "call")["parent_leaf"] >= 200
    if not subprocesses:
        assert len(seen.pids()) == 1 and not got
        return
    # what a child does before it has its own probes is a gap: never more than it did, never another's
    assert set(got) <= set(want) and all(got[p] <= want[p] for p in want)
    if how != "storm":  # they are there for a while before they call
        assert got == want
        begins = {}
        for e in seen.events:
            begins.setdefault(e.get("pid"), (e["ev"], e.get("depth")))
        late = {pid for pid in want if begins[pid] != ("call", 0)}  # the others were there from their first call
        assert {g["pid"] for g in seen.gaps} >= late, "what was missed at a child's start is a gap"


ORPHAN = """import os, sys, time
def leaf(): pass
sys.stdin.readline()
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
elif os.fork():
    os._exit(0)
else:
    print(os.getpid(), flush=True)
    while not os.path.exists(sys.argv[1]):
        leaf()
        time.sleep(0.01)
    for i in range(100):
        leaf()
        time.sleep(0.01)
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_a_child_whose_parent_ended_before_anybody_looked(name, tmp_path):
    """Its own probes are placed all the same: what runs in it is found anew."""
    program, flag, capture = tmp_path / "orphan.py", tmp_path / "flag", tmp_path / "t.pyebpf"
    program.write_text(ORPHAN)
    with lib.started(lib.command(name) + ["-S", program, flag], stdin=subprocess.PIPE) as target:
        with lib.attach(target.pid, capture, "-s") as tracer:
            lib.wait_attached(tracer, target.pid)
            tracer.send_signal(signal.SIGSTOP)
            target.stdin.close()
            orphan = int(target.stdout.readline())
            assert target.wait(60) == 0
            tracer.send_signal(signal.SIGCONT)
            lib.until(lambda: [p for p in lib.probes(tracer.pid) if p[0] == orphan], "its probes", 60)
            flag.touch()
            lib.finish(tracer)
    assert lib.Trace(capture).whole().count(program, "call")["leaf"] > 0


@pytest.mark.parametrize("attach", [False, True])
@pytest.mark.parametrize("how", ["exec_same", "exec_other", "exec_none"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_exec(name, how, attach, tmp_path):
    out, flag, capture = tmp_path / "out", tmp_path / "flag", tmp_path / "t.pyebpf"
    cmd = lib.command(name) + [CHILDREN, how, out] + (lib.command(others(lib.family(name))[-1]) if how == "exec_other" else [])
    status = 7 if how == "exec_none" else 0
    if attach:
        with lib.started(cmd, env=dict(os.environ, PYEBPF_TEST_FLAG=str(flag))) as target:
            pid = int(target.stdout.readline())
            with lib.attach(pid, capture) as tracer:
                lib.wait_attached(tracer, pid)
                flag.touch()
                # the program that comes after the exec must not wait for it again
                assert target.wait(60) == status
                lib.finish(tracer)
        seen = lib.Trace(capture)
    else:
        seen, _ = lib.traced(cmd, tmp_path, status=status)
        seen.whole()
    assert seen.count(CHILDREN, "call")["parent_leaf"] >= 100
    if how == "exec_none":
        assert seen.whole()
        return
    want, got = child_counts(seen, out)
    if not attach or how == "exec_same":  # the same file keeps its probes
        assert want == got
    else:
        assert all(got[p] <= want[p] for p in want)


# --- namespaces ---

@pytest.mark.parametrize("how", ["-pf", "-Upf", "-Urpf"])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_a_target_in_a_pid_namespace(name, how, tmp_path):
    flag, capture = tmp_path / "flag", tmp_path / "t.pyebpf"
    if lib.sh(["unshare", how, "true"]).returncode:
        pytest.skip("no such namespaces here")
    with lib.started(["unshare", how, "--kill-child"] + lib.command(name) + [WAITS, flag]) as outer:
        assert int(outer.stdout.readline()) == 1
        children = pathlib.Path("/proc/%d/task/%d/children" % (outer.pid, outer.pid)).read_text().split()
        pid = int(children[0])
        with lib.attach(pid, capture) as tracer:
            lib.wait_attached(tracer, pid)
            flag.touch()
            assert outer.wait(60) == 0
            lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert seen.pids() == {pid} and {e["tid"] for e in seen.events if e["ev"] == "call"} == {pid}
    assert seen.count(WAITS, "call")["mark"] == 1000


@pytest.mark.parametrize("form", ["pid", "command", "children"])
@pytest.mark.parametrize("name", lib.pick("3.12"))
def test_all_of_it_in_a_pid_namespace(name, form, tmp_path):
    """Pids are meant, and shown, as the caller's namespace numbers them."""
    flag, capture, out = tmp_path / "flag", tmp_path / "t.pyebpf", tmp_path / "out"
    py = lib.shell_words(lib.command(name))
    if form == "pid":
        attached = "for i in $(seq 600); do grep -qE '^(232|281) ' /proc/$tracer/syscall && break; sleep 0.1; done"  # lib.waits_for_events()
        inner = "%s %s %s & pid=$!; sleep 1; %s trace -o %s -p $pid & tracer=$!; %s; touch %s; wait $tracer; s=$?; wait $pid; echo $pid $s" % (
            py, WAITS, flag, lib.BINARY, capture, attached, flag)
    else:
        inner = "%s trace %s -o %s -- %s %s %s %s; echo 0 $?" % (
            lib.BINARY, "-s" if form == "children" else "", capture, py, CHILDREN, "fork" if form == "children" else "calls", out)
    done = lib.sh(["unshare", "-pf", "--mount-proc", "sh", "-c", inner])
    assert done.stdout, done.stderr
    pid, status = map(int, done.stdout.split()[-2:])
    assert status == 0, done.stderr
    seen = lib.Trace(capture).whole()
    assert all(p < 1000 for p in seen.pids())
    if form == "pid":
        assert seen.pids() == {pid} and seen.count(WAITS, "call")["mark"] == 1000
    else:
        want, got = child_counts(seen, out)
        assert want == got


def test_a_pid_of_another_namespace_is_not_taken_for_ours(tmp_path):
    """Pid 1 in there is not our pid 1; a pid that this namespace does not have is refused."""
    done = lib.sh(["unshare", "-pf", "--mount-proc", "sh", "-c", "%s trace -o %s -p %d" % (lib.BINARY, tmp_path / "t", os.getpid())])
    assert done.returncode == 4, done.stderr


# --- users ---

def system_python():
    for path in ("/usr/bin/python3", "/usr/bin/python3.11"):
        if os.path.exists(path):
            return [path]
    pytest.skip("no interpreter that every user can run")


def open_to_all(path):
    """pytest's folders are closed for others."""
    for at in [path] + list(path.parents):
        if at == pathlib.Path("/") or at.stat().st_mode & 0o5 == 0o5:
            continue
        at.chmod(at.stat().st_mode | 0o5)


@pytest.fixture
def nobodys(tmp_path_factory):
    path = pathlib.Path(lib.sh(["mktemp", "-d"]).stdout.decode().strip())
    os.chown(path, 65534, 65534)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


SUDO = {"SUDO_UID": "65534", "SUDO_GID": "65534", "SUDO_USER": "nobody", "SUDO_COMMAND": "x"}


def test_under_sudo_the_command_is_the_users(nobodys):
    shutil.copy(IDENTITY, nobodys / "identity.py")
    env = dict(os.environ, HOME="/root", **SUDO)
    capture = nobodys / "t.pyebpf"
    done = lib.trace(["--"] + system_python() + [nobodys / "identity.py"], capture, env=env, cwd=nobodys)
    assert done.returncode == 0, done.stderr
    who = json.loads(done.stdout)
    assert set(who["uid"]) == set(who["gid"]) == {"65534"}
    assert "0" not in who["groups"]
    assert int(who["cap"], 16) == 0
    assert who["home"] != "/root"
    assert who["tracer"] == "0"
    assert int(who["sig"][0], 16) == 0 and int(who["sig"][1], 16) & 1 << (signal.SIGINT - 1) == 0
    extra = {fd: to for fd, to in who["fds"].items() if int(fd) > 2}
    assert not [to for to in extra.values() if "bpf" in to or "perf" in to or "pidfd" in to or "pipe" in to or str(nobodys) in to], extra
    owner = capture.stat()
    assert (owner.st_uid, owner.st_gid, owner.st_mode & 0o777) == (65534, 65534, 0o600)
    lib.Trace(capture).whole()


def test_under_sudo_the_output_is_the_users(nobodys):
    shutil.copy(IDENTITY, nobodys / "identity.py")
    for out in ("t.json.gz", "t.pb.gz", "t.folded", "t.ndjson"):
        done = lib.trace(["--"] + system_python() + [nobodys / "identity.py"], nobodys / out, env=dict(os.environ, **SUDO), cwd=nobodys)
        assert done.returncode == 0, done.stderr
    left = {p.name: (p.stat().st_uid, p.stat().st_gid) for p in nobodys.iterdir() if p.name.startswith("t.")}
    assert left == {out: (65534, 65534) for out in ("t.json.gz", "t.pb.gz", "t.folded", "t.ndjson")}


def test_as_root(nobodys):
    shutil.copy(IDENTITY, nobodys / "identity.py")
    done = lib.trace(["--as-root", "--"] + system_python() + [nobodys / "identity.py"], nobodys / "t.pyebpf", env=dict(os.environ, **SUDO))
    assert done.returncode == 0 and set(json.loads(done.stdout)["uid"]) == {"0"}


def test_the_users_folder_only(nobodys, tmp_path):
    """A folder that the user cannot write is not written with root's rights."""
    closed = nobodys / "closed"
    closed.mkdir(mode=0o755)
    done = lib.trace(["--"] + system_python() + ["-c", "pass"], closed / "t.pyebpf", env=dict(os.environ, **SUDO))
    assert done.returncode == 125 and not list(closed.iterdir()), done.stderr


@pytest.mark.parametrize("bad", ["-1", "4294967295", "x", "0x10", "", "1 ", "99999999999"])
def test_a_strange_user_is_not_believed(bad, nobodys):
    shutil.copy(IDENTITY, nobodys / "identity.py")
    env = dict(os.environ, SUDO_UID=bad, SUDO_GID=bad)
    done = lib.trace(["--"] + system_python() + [nobodys / "identity.py"], nobodys / "t.pyebpf", env=env)
    if done.returncode == 0:
        assert set(json.loads(done.stdout)["uid"]) == {"0"}


# --- what it leaves behind ---

@pytest.fixture(autouse=True)
def nothing_pinned():
    yield
    lib.nothing_left()
