# SPDX-License-Identifier: Apache-2.0
"""Interpreters in unusual places: deleted, replaced, renamed, embedded, in other namespaces; and strangers beside a target."""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

import lib
import machine
from test_everybody import leafs, marks, pid_of, run, sleeper, tracing, wake, LEAFS, SLEEPER

pytestmark = lib.needs_root


@contextlib.contextmanager
def attached(pid, capture, *options):
    """pyebpf trace -p in the pid namespace of the test, from when its probes are in place until the target ends."""
    with lib.attach(pid, capture, *options) as tracer:
        lib.wait_attached(tracer, pid)
        yield tracer
        lib.finish(tracer)


def holds_interpreter(given):
    """The private file that has the interpreter: the library of a shared build."""
    command, env = given
    libs = pathlib.Path(env.get("LD_LIBRARY_PATH", "/none"))
    return next(libs.glob("libpython*"), None) or pathlib.Path(command[-1])


def replace(path, by):
    """Another file of this name, as an upgrade makes it: the old one is deleted and goes on running."""
    beside = path.with_name("new")
    shutil.copy(by, beside)
    os.rename(beside, path)


# --- deleted and replaced ---

@pytest.mark.parametrize("how", ["deleted", "replaced"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t"))
def test_a_file_that_is_gone(name, how, tmp_path):
    """A shared library (3.8) and an executable (3.13t): what runs is traced, not what has its name by now."""
    given = machine.private(name, tmp_path)
    file = holds_interpreter(given)
    with sleeper(given) as target:
        pid = pid_of(target)
        if how == "deleted":
            file.unlink()
        else:
            replace(file, "/usr/bin/python3.11")
        with attached(pid, tmp_path / "t.pyebpf"):
            wake(target)
    assert marks(lib.Trace(tmp_path / "t.pyebpf").whole()) == {pid: 1000}


@machine.alone
def test_an_upgrade_while_all_is_traced(tmp_path):
    """The old file's processes are traced on, and those of the new file from the first one that is started, the second whole."""
    given = machine.private(lib.pick("3.8")[0], tmp_path)
    file = holds_interpreter(given)
    with sleeper(given) as old:
        pid = pid_of(old)
        with tracing(tmp_path / "a.pyebpf", "-a") as tracer:
            replace(file, file)
            with sleeper(given) as first:
                pid_of(first)
                lib.until(lambda: len({(f, o) for _, f, o in lib.probes(tracer.pid) if f != lib.BINARY}) and
                          sum("(deleted)" in f for _, f, _ in lib.probes(tracer.pid)) <
                          len([1 for _, f, _ in lib.probes(tracer.pid) if f != lib.BINARY]), "the new file's probes")
                later = [run(given, "-S", LEAFS, 60) for _ in range(3)][-1]
                wake(first)
            wake(old)
    seen = lib.Trace(tmp_path / "a.pyebpf").whole()
    assert marks(seen)[pid] == 1000 and leafs(seen)[later] == 60


# --- renamed and embedded ---

@pytest.mark.parametrize("called", ["app server", "\u00fcber\x1b[31m", "libc.so.6", "a" * 200])
def test_renamed(called, tmp_path):
    copy = tmp_path / called
    shutil.copy("/usr/bin/python3.11", copy)
    given = [str(copy)], dict(os.environ, PYTHONHOME="/usr")
    with sleeper(given) as target:
        pid = pid_of(target)
        with attached(pid, tmp_path / "t.pyebpf"):
            wake(target)
    assert marks(lib.Trace(tmp_path / "t.pyebpf").whole()) == {pid: 1000}
    seen, done = lib.traced([copy, "-S", LEAFS, 40], tmp_path, env=given[1])
    assert sum(leafs(seen.whole()).values()) == 40 and b"\x1b" not in done.stderr


# --- the same, sampled ---

ATTACHED = lib.PROGRAMS / "sampled" / "attached.py"


def leaves(capture, path):
    """{(innermost function of this file, state): samples}; but for few all could be read."""
    seen, unread = collections.Counter(), 0
    for e in (json.loads(line) for line in lib.convert(capture).decode("utf-8").splitlines()):
        if e["ev"] == "sample":
            names = [f["name"] for f in e["stack"] if f["file"] == str(path)]
            unread += any(f["name"].startswith("[unreadable") for f in e["stack"])
            seen[names[-1] if names else None, e["state"]] += 1
    assert unread <= 0.05 * sum(seen.values()), (unread, seen)
    return seen


def recorded(tmp_path, *options, **kw):
    done = lib.sh([lib.BINARY, "record", "-q", "-r", "499", "-o", tmp_path / "s.pyebpf", *options], **kw)
    assert done.returncode == 0, lib.text(done.stderr)
    return tmp_path / "s.pyebpf"


@pytest.mark.parametrize("how", ["deleted", "replaced"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t"))
def test_a_file_that_is_gone_is_sampled(name, how, tmp_path):
    command, env = machine.private(name, tmp_path)
    file = holds_interpreter((command, env))
    with lib.started([*command, ATTACHED], env=env) as target:
        target.stdout.readline()
        if how == "deleted":
            file.unlink()
        else:
            replace(file, "/usr/bin/python3.11")
        seen = leaves(recorded(tmp_path, "-p", target.pid, "-d", "1s"), ATTACHED)
    assert seen["busy", "on"] > 5 and seen["sleeps", "off"] > 0, seen


def test_renamed_and_stripped_is_sampled(tmp_path):
    copy = tmp_path / "libc.so.6"
    shutil.copy("/usr/bin/python3.11", copy)
    assert lib.sh(["strip", "--strip-all", copy]).returncode == 0
    program = tmp_path / "p.py"
    program.write_text("import time\ndef spin():\n    while time.process_time() < END: pass\nEND = time.process_time() + 0.5\nspin()\n")
    seen = leaves(recorded(tmp_path, "--", copy, program, env=dict(os.environ, PYTHONHOME="/usr")), program)
    assert seen["spin", "on"] > 100, seen


LIBRARY = "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"


@pytest.fixture(params=["linked", "loaded"])
def embedder(request, tmp_path):
    """(command, environment) of a C program that has Python in it, by a private copy of libpython."""
    if not os.path.exists(LIBRARY):
        pytest.skip("no libpython to link to")
    libs = tmp_path / "libs"
    libs.mkdir()
    shutil.copy(LIBRARY, libs)
    command = ["cc", "-o", tmp_path / "server", lib.PROGRAMS / "embed.c", "-ldl"]
    if request.param == "linked":
        command[1:1] = ["-DLINKED", "-Wl,--no-as-needed"]
        command += [libs / "libpython3.11.so.1.0"]
    done = lib.sh(command)
    assert done.returncode == 0, done.stderr
    more = [str(libs / "libpython3.11.so.1.0")] if request.param == "loaded" else []
    program = tmp_path / "p.py"
    program.write_text("def work(n): return n\nfor i in range(200): work(i)\n"
                       "import time\ntime.sleep(0.3)\n")  # long enough to be looked at
    env = dict(os.environ, LD_LIBRARY_PATH=str(libs))
    return lambda interpreters: ([str(tmp_path / "server"), str(program), str(interpreters)] + more, env, program)


@pytest.mark.parametrize("interpreters", [1, 3])
def test_embedded(embedder, interpreters, tmp_path):
    """A program that is not Python by name: from its first Python call; and several interpreters in one process."""
    command, env, program = embedder(interpreters)
    seen, _ = lib.traced(command, tmp_path, env=env)
    assert seen.whole().count(program, "call")["work"] == 200 * interpreters
    assert not [e for e in seen.events if e["ev"] == "open"]


def test_embedded_is_sampled(embedder, tmp_path):
    """A program that is not Python by name."""
    command, env, program = embedder(1)
    program.write_text("import time\ndef spin():\n    while time.process_time() < END: pass\nEND = time.process_time() + 0.5\nspin()\n")
    seen = leaves(recorded(tmp_path, "--", *command, env=env), program)
    assert seen["spin", "on"] > 100, seen


def test_embedded_later(embedder, tmp_path):
    """-a: the library is found at its mapping, however it came there; then each process from its first call."""
    command, env, program = embedder(1)

    @machine.alone
    def inside():
        with tracing(tmp_path / "a.pyebpf", "-a", files=0) as tracer:
            def placed():
                run((command, env))
                return [f for _, f, _ in lib.probes(tracer.pid) if "libpython" in f]
            lib.until(placed, "the probes")
            later = [run((command, env)) for _ in range(3)]
        seen = lib.Trace(tmp_path / "a.pyebpf").whole()
        works = collections.Counter(e["pid"] for e in seen.of(program) if e["ev"] == "call" and e["name"] == "work")
        assert {pid: works[pid] for pid in later[1:]} == {pid: 200 for pid in later[1:]}
    inside()


@pytest.mark.parametrize("started", ["before", "after"])
def test_libpython_seconds_after_exec(started, tmp_path):
    """-a looks again, ever more rarely: a server that loads Python with a plug-in."""
    if not os.path.exists(LIBRARY):
        pytest.skip("no libpython to load")
    copy = tmp_path / "libpython3.11.so.1.0"
    shutil.copy(LIBRARY, copy)
    assert lib.sh(["cc", "-o", tmp_path / "server", lib.PROGRAMS / "embed.c", "-ldl"]).returncode == 0
    program = tmp_path / "p.py"
    program.write_text("import time\ndef work(n): return n\nfor i in range(600): work(i); time.sleep(0.01)\n")
    command = [str(c) for c in (tmp_path / "server", program, 1, copy, 2700)]
    env = dict(os.environ, PYTHONHOME="/usr")

    @machine.alone
    def inside():
        with contextlib.ExitStack() as stack:
            if started == "after":
                stack.enter_context(tracing(tmp_path / "a.pyebpf", "-a", files=0))
            server = stack.enter_context(lib.started(command, env=env))
            if started == "before":
                stack.enter_context(tracing(tmp_path / "a.pyebpf", "-a", files=0))
            assert server.wait(60) == 0
        works = [e for e in lib.Trace(tmp_path / "a.pyebpf").whole().of(program) if e["ev"] == "call" and e["name"] == "work"]
        assert 20 < len(works) <= 600, len(works)
    inside()


@pytest.mark.parametrize("engine", ["uprobe", "inline"])
def test_two_libraries_in_one_process(engine, tmp_path):
    """One is traced; that the other one is not is said, by trace and by list."""
    if not os.path.exists(LIBRARY):
        pytest.skip("no libpython to load")
    libs = [tmp_path / "one.so", tmp_path / "two.so"]
    for copy in libs:
        shutil.copy(LIBRARY, copy)
    done = lib.sh(["cc", "-o", tmp_path / "twins", lib.PROGRAMS / "twins.c", "-ldl"])
    assert done.returncode == 0, done.stderr
    program = tmp_path / "p.py"
    program.write_text("def work(n): return n\nfor i in range(200): work(i)\n")
    with lib.started([tmp_path / "twins", program, *libs], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"ready\n"
        row = json.loads(lib.sh([lib.BINARY, "list", "--json", target.pid]).stdout)[0]
        assert {row["file"], row["left_out"]} == set(map(str, libs))
        assert row["left_out"] in lib.text(lib.sh([lib.BINARY, "list", target.pid]).stdout)
        with lib.attach(target.pid, tmp_path / "t.pyebpf", "--engine", engine) as tracer:
            if engine == "inline":
                lib.until(lambda: "/memfd:" in pathlib.Path("/proc/%d/maps" % target.pid).read_text(), "the stubs")
                time.sleep(0.5)
            else:
                lib.wait_attached(tracer, target.pid)
            target.stdin.write(b"x")
            target.stdin.close()
            said = lib.finish(tracer)
    assert "a second interpreter that is left out: %s\n" % row["left_out"] in said
    assert lib.Trace(tmp_path / "t.pyebpf").whole().count(program, "call")["work"] == 200


# --- other namespaces ---

@pytest.mark.parametrize("privilege", ["root", "no map_files"])
@pytest.mark.parametrize("spaces", ["-m", "-mp --fork --kill-child", "-mU -r"])
def test_a_container(spaces, privilege, tmp_path):
    """What the container calls /usr/bin/python3.11 is another file than the host's."""
    given = machine.private(lib.pick("3.13t")[0], tmp_path)
    enter = ["unshare", *spaces.split(), "sh", "-c", "mount --bind %s /usr/bin/python3.11 && exec \"$@\"" % given[0][0], "x"]
    with lib.started(enter + ["/usr/bin/python3.11", "-S", SLEEPER], env=given[1], stdin=subprocess.PIPE) as outer:
        inner = pid_of(outer)
        pid = outer.pid
        if "--fork" in spaces:
            pid = int(pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()[0])
        assert machine.number(pid) == inner
        less = ["setpriv", "--bounding-set", "-sys_admin,-checkpoint_restore"] if privilege != "root" else []
        capture = tmp_path / "t.pyebpf"
        with lib.started(less + [lib.BINARY, "trace", "-o", capture, "-p", pid], stderr=subprocess.PIPE) as tracer:
            lib.wait_attached(tracer, pid)
            wake(outer)
            lib.finish(tracer)
    seen = lib.Trace(capture).whole()
    assert marks(seen) == {pid: 1000}


# --- strangers ---

BATCHES = """import sys, time
def leaf(): pass
def batch():
    begin = time.process_time()
    for _ in range(20000): leaf()
    return time.process_time() - begin
print(0, flush=True)
for line in sys.stdin: print(batch(), flush=True)
"""


def batch(process):
    process.stdin.write(b"\n")
    process.stdin.flush()
    return float(process.stdout.readline())


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.14"))
def test_a_stranger_runs_at_full_speed(name, tmp_path):
    """A process of the same file beside a traced one: its calls cost what they cost without. That the measure would see a
    trap is shown by --host-wide."""
    given = machine.private(name, tmp_path)
    program = tmp_path / "batches.py"
    program.write_text(BATCHES)
    times = collections.defaultdict(list)
    with lib.started(given[0] + ["-S", program], env=given[1], stdin=subprocess.PIPE) as stranger, sleeper(given) as target:
        stranger.stdout.readline()
        pid = pid_of(target)
        for number in range(2):  # in turns, so that a slow moment of the machine is one for all
            for kind in ("none", "-p", "--host-wide"):
                more = ["--host-wide"] if kind == "--host-wide" else []
                with contextlib.ExitStack() as stack:
                    if kind != "none":
                        capture = tmp_path / ("%s%d.pyebpf" % (kind, number))
                        tracer = stack.enter_context(lib.attach(pid, capture, *more))
                        lib.until(lambda t=tracer: [f for _, f, _ in lib.probes(t.pid) if f != lib.BINARY], "the probes")
                        lib.time.sleep(0.3)
                    times[kind] += [batch(stranger) for _ in range(8)]
                    if kind != "none":
                        lib.stop(tracer)
        with attached(pid, tmp_path / "t.pyebpf"):
            wake(target)
    assert marks(lib.Trace(tmp_path / "t.pyebpf").whole()) == {pid: 1000}
    # a trap in each call makes it 12 to 60 times slower; a machine that others share is twice as slow for whole seconds
    alone, beside, paying = (min(times[k]) for k in ("none", "-p", "--host-wide"))
    print("times of a stranger: beside -p %.2f, with --host-wide %.1f" % (beside / alone, paying / alone))
    assert beside < 3 * alone, times
    assert paying > 5 * alone, times


def test_who_pays_is_said_first(tmp_path):
    """A command with -s has its probes in the file, for everybody."""
    given = machine.private(lib.pick("3.13t")[0], tmp_path)
    with sleeper(given) as other, sleeper(given) as another:
        pid_of(other)
        pid_of(another)
        _, done = lib.traced(given[0] + ["-S", LEAFS, 10], tmp_path, "-s", env=given[1])
        assert b"2 other processes of" in done.stderr
        _, done = lib.traced(given[0] + ["-S", LEAFS, 10], tmp_path, env=given[1])
        assert b"other process" not in done.stderr
