# SPDX-License-Identifier: Apache-2.0
"""-s with the inline engine: a child is traced from its first call on, and what it does is never taken for its parent's."""
import contextlib
import ctypes
import json
import marshal
import os
import pathlib
import signal
import subprocess
import time

import pytest

import lib
import limits
import pythons
import test_children
import test_inline
import test_inline_robust as robust
import test_unusual

INLINE = ["--engine", "inline", "--on-full", "wait", "-s"]
FAMILY = lib.PROGRAMS / "inline_family.py"
FAMILIES = lib.families()
ONE = next(n for n in FAMILIES if pythons.version(n) >= (3, 12))


def works(seen):
    """{pid: calls of work()} of the capture"""
    found = {}
    for e in seen.events:
        if e["ev"] == "call" and e["name"] == "work" and e["file"].endswith("inline_family.py"):
            found[str(e["pid"])] = found.get(str(e["pid"]), 0) + 1
    return found


def python_of(name):
    return {**os.environ, "FAMILY_PYTHON": json.dumps([str(word) for word in lib.command(name)])}


def family(name, tmp_path, what, count):
    seen, done = lib.traced(lib.command(name) + [FAMILY, what, count], tmp_path, *INLINE, stdin=subprocess.DEVNULL, env=python_of(name))
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    return seen.whole(), json.loads(done.stdout)


@pytest.mark.parametrize("what, name", [("fork", n) for n in FAMILIES] + [("both", n) for n in lib.pick("3.8", "3.11", "3.13t", "3.15") + lib.musl()])
def test_every_call_of_every_child(what, name, tmp_path):
    seen, said = family(name, tmp_path, what, 2)
    assert works(seen) == said and len(said) == (3 if what == "fork" else 5)


@pytest.mark.parametrize("what, processes", [("grandchild", 7), ("exec", 4), ("shell", 4), ("threads", 13)])
def test_whatever_way_they_are_started(what, processes, tmp_path):
    seen, said = family(ONE, tmp_path, what, 1 if what == "threads" else 3)
    assert works(seen) == said and len(said) == processes
    # what is executed is seen from its first call on, before its own program
    for pid in said:
        first = next(e for e in seen.events if str(e["pid"]) == pid and e["ev"] in ("call", "open"))
        assert what not in ("exec", "shell") or "importlib" in first["file"], first


@contextlib.contextmanager
def attached(target, cap):
    """A trace of a program, which reads a line of its input once it is attached to."""
    with lib.attach(target.pid, cap, *INLINE) as tracer:
        lib.until(lambda: test_inline.redirected(target.pid), "the attach")
        target.stdin.write(b"\n")
        target.stdin.flush()
        yield tracer


@pytest.mark.parametrize("name", lib.pick("3.8", "3.13t", "3.14") + lib.musl())
def test_children_of_a_running_process(name, tmp_path):
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + [FAMILY, "both", 2], stdin=-1, env=python_of(name)) as target:
        call = pathlib.Path("/proc/%d/syscall" % target.pid)  # what env and ld.so do before that is nothing to attach to
        lib.until(lambda: call.read_text().startswith("0 0x0 "), "it to read its input")
        with attached(target, cap) as tracer:
            said = json.loads(target.stdout.readline())
            assert target.wait(30) == 0
            words = lib.finish(tracer)
    seen = lib.Trace(cap).whole()
    assert works(seen) == said and len(said) == 5, words


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t") + lib.musl())
def test_children_that_run_already(name, tmp_path):
    """And theirs, also below a shell, and what that starts later: the workers of a server that began long ago."""
    check_running_children(name, tmp_path)


def test_children_that_run_already_behind_a_kill(tmp_path):
    """What the one that was killed has left in each of them is taken out."""
    check_running_children(ONE, tmp_path, killed=True)


BUSY = """import os, sys, time
def work(n): return n
for i in range(40):
    if not os.fork():
        while not os.path.exists(sys.argv[1]):
            for i in range(200): work(i)
            time.sleep(.005)
        os._exit(0)
print("up", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(.01)
"""


@pytest.mark.alone
def test_many_that_are_busy_all_the_time(tmp_path):
    """What they do while others are attached to, and let go, is read meanwhile: a ring has room for less than 0.1 s, all of that takes some 0.5."""
    cap, flag = tmp_path / "t.pyebpf", tmp_path / "flag"
    with lib.started(lib.command(ONE) + ["-S", "-c", BUSY, flag]) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.attach(target.pid, cap, "--engine", "inline", "-s", "--ring", "64K", "-d", "200ms") as tracer:
            words = lib.finish(tracer)
        flag.touch()
        assert target.wait(30) == 0
    assert len(lib.Trace(cap).whole().pids()) == 41, words


def test_detach_of_a_family(tmp_path):
    with test_children.waiting_children(ONE) as (target, pids):
        pids.append(target.pid)
        with lib.attach(target.pid, tmp_path / "t.pyebpf", *INLINE) as tracer:
            lib.until(lambda: all(map(test_inline.redirected, pids)), "the attach")
            tracer.kill()
            tracer.wait()
        assert ctypes.CDLL(None).ptrace(0x4206, pids[0], 0, 0) == 0  # PTRACE_SEIZE: of one we are the tracer
        try:
            done = lib.sh([lib.BINARY, "detach", "-s", target.pid])
            assert done.returncode == 3 and "another tracer" in lib.text(done.stderr), lib.text(done.stderr)
            assert lib.text(done.stderr).count("is as it was before") == 4 and len(stubs_of(pids)) == 1
        finally:
            libc_detach(pids[0])
        done = lib.sh([lib.BINARY, "detach", "-s", target.pid])
        assert done.returncode == 0 and not stubs_of(pids), lib.text(done.stderr)
        assert lib.text(done.stderr).count("is as it was before") == 1
        assert len(test_children.let_work(target)) == 10


def libc_detach(pid):
    """Of a thread that we have seized."""
    libc = ctypes.CDLL(None)
    libc.ptrace(0x4207, pid, 0, 0)  # PTRACE_INTERRUPT
    os.waitpid(pid, 0x40000000)  # __WALL
    assert libc.ptrace(17, pid, 0, 0) == 0  # PTRACE_DETACH


def stubs_of(pids):
    """The files that their stubs are mapped from."""
    lines = [line.split() for pid in pids for line in pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines()]
    return {line[4] for line in lines if line[1] == "r-xp" and "/memfd:" in line[-1] + line[-2]}


def check_running_children(name, tmp_path, killed=False):
    cap, left = tmp_path / "t.pyebpf", set()
    with test_children.waiting_children(name) as (target, pids):
        pids.append(target.pid)
        there = lambda: not stubs_of(pids) & left and all(map(test_inline.redirected, pids))
        if killed:
            with lib.attach(target.pid, tmp_path / "left.pyebpf", *INLINE) as first:
                lib.until(there, "the first attach")
                left = stubs_of(pids)
                first.kill()
        with lib.attach(target.pid, cap, *INLINE) as tracer:
            lib.until(there, "the attach")
            said = test_children.let_work(target)
            words = lib.finish(tracer)
    assert len(left) == 5 * killed
    assert test_children.calls_of_work(cap) == said and sorted(said.values()) == [200, 201, 202, 300, 300, 301, 301, 302, 400, 401], words
    assert "warning: " not in words


MANY = """
import os, sys, threading, time
def work(n): return n
def forks():
    sys.stdin.readline()
    pid = os.fork()
    if not pid:
        for i in range(300): work(i)
        os._exit(0)
    os.waitpid(pid, 0)
    print(pid, flush=True)
for i in range(20): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
threading.Thread(target=forks, daemon=True).start()
print("up", flush=True)
while True: pass
"""


ORPHAN = """import os, sys, time
def work(n): return n
def grandchild():
    for i in range(300): work(i)
    with open(sys.argv[1] + '.new', 'w') as f: f.write(str(os.getpid()))
    os.rename(sys.argv[1] + '.new', sys.argv[1])
    os._exit(0)
pid = os.fork()
if not pid:
    print(os.getpid(), flush=True)
    os.read(0, 1)
    if not os.fork(): grandchild()
    time.sleep(60)
os.waitpid(pid, 0)
while not os.path.exists(sys.argv[1]): time.sleep(.01)
time.sleep(.2)
"""


def stopped(pid):
    return pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] in "Tt"


def test_a_child_whose_parent_is_killed_before_it_told_of_it(tmp_path):
    """The kernel traces it from its birth on: it does not stand still until the trace ends, and is recorded."""
    cap, flag = tmp_path / "t.pyebpf", tmp_path / "flag"
    with lib.started([lib.BINARY, "trace", "-o", cap, *INLINE, "--", *lib.command(ONE), "-c", ORPHAN, flag], stdin=-1, stderr=-1) as tracer:
        parent = int(tracer.stdout.readline())
        tracer.send_signal(signal.SIGSTOP)
        lib.until(lambda: stopped(tracer.pid), "the stop of pyebpf")
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        lib.until(lambda: stopped(parent), "the fork")
        os.kill(parent, signal.SIGKILL)
        lib.until(lambda: lib.status_field(parent, "State")[0] == "Z", "its end")
        tracer.send_signal(signal.SIGCONT)
        lib.until(flag.exists, "the grandchild", 10)
        words = lib.finish(tracer)
    calls = [e for e in lib.Trace(cap).whole().events if e["ev"] == "call" and e["name"] == "work"]
    assert len(calls) == 300 and {str(e["pid"]) for e in calls} == {flag.read_text()}, words


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_a_thread_that_was_idle_forks(name, tmp_path):
    """One of many that did nothing when they were attached to: it is followed all the same."""
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(name) + ["-c", MANY], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with attached(target, cap) as tracer:
            child = target.stdout.readline().decode().strip()
            words = lib.stop(tracer)
    calls = [e for e in lib.Trace(cap).whole().events if e["ev"] == "call" and e["name"] == "work" and str(e["pid"]) == child]
    assert len(calls) == 300, words


STORM = """
import os, threading, time
def forks():
    while True:
        pid = os.fork()
        if not pid:
            time.sleep(.1)
            os._exit(0)
        kids.append(pid)
        time.sleep(.002)
        while len(kids) > 8: os.waitpid(kids.pop(0), 0)
kids = []
threading.Thread(target=forks, daemon=True).start()
print("up", flush=True)
while True: time.sleep(.0001)
"""


@pytest.mark.parametrize("name", lib.pick("3.12", "3.14"))
def test_another_thread_forks_during_the_attach(name, tmp_path):
    """While the first one makes the calls of the attach, too: all are followed before that."""
    with lib.started(lib.command(name) + ["-c", STORM], stderr=subprocess.DEVNULL) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(15):
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "20ms", "-p", target.pid])
            assert done.returncode == 0 and b"traced" not in done.stderr, lib.text(done.stderr)
        assert target.poll() is None


EXECS = """
import os, pathlib, random, sys, threading, time
path, turn, how = sys.argv[1:]
for i in range(40): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
pathlib.Path(path + ".new").write_text(turn)
os.rename(path + ".new", path)
end = time.monotonic() + random.random() * .35
while how == "runs" and time.monotonic() < end: pass
time.sleep(max(0, end - time.monotonic()))
os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], path, str(int(turn) + 1), how])
"""


@pytest.mark.parametrize("how", ["runs", "sleeps"])
def test_many_threads_and_an_exec_at_any_moment(how, tmp_path):
    """They are kept, or one of them stands still, or all run: the program that is executed goes on, attached to or not."""
    count = tmp_path / "count"
    with lib.started(lib.command(ONE) + ["-c", EXECS, count, 1, how]) as target:
        lib.until(count.exists, "the first one")
        for _ in range(8):
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "300ms", "-p", target.pid])
            assert done.returncode == 0 or (done.returncode == 4 and b"executed" in done.stderr), lib.text(done.stderr)
            turn = int(count.read_text())
            lib.until(lambda: int(count.read_text()) > turn + 1, "that it goes on")
        assert target.poll() is None


def test_a_command_that_is_no_python(tmp_path):
    python = lib.shell_words(lib.command(ONE) + [FAMILY, "report", 12])
    seen, done = lib.traced(["sh", "-c", "true; %s; sh -c '%s'" % (python, python)], tmp_path, *INLINE)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 2
    done = lib.trace([*INLINE, "--", "sh", "-c", "true"], tmp_path / "none.pyebpf")
    assert done.returncode == 125 and b"is not Python" in done.stderr


LOADS = """
import time
def work(n): return n
end = time.time() + 30
while "memfd:" not in open("/proc/self/maps").read() and time.time() < end:
    time.sleep(0.01)
time.sleep(1)  # the attach begins with that
for i in range(300): work(i)
"""


@pytest.mark.parametrize("how, processes, options", [("itself", 1, INLINE[:-1]), ("itself", 1, INLINE), ("exec", 1, INLINE[:-1]),
                                                    ("twice", 2, INLINE), ("forked", 1, INLINE)])
def test_a_program_that_loads_python_later(how, processes, options, tmp_path):
    """As those of PyInstaller do. The second time it is executed it is known for none; a child of what is no Python loads it, too."""
    if not os.path.exists(test_unusual.LIBRARY):
        pytest.skip("no libpython to load")
    assert lib.sh(["cc", "-o", tmp_path / "server", lib.PROGRAMS / "embed.c", "-ldl"]).returncode == 0
    program = tmp_path / "p.py"
    program.write_text(LOADS)
    server = [str(tmp_path / "server"), str(program), "1", test_unusual.LIBRARY, "50"]
    words = lib.shell_words(server)
    command = {"itself": server, "exec": ["sh", "-c", "true; exec " + words], "twice": ["sh", "-c", f"{words}; {words}; true"],
               "forked": ["sh", "-c", f"({words}) & wait; true"]}[how]
    seen, done = lib.traced(command, tmp_path, *options)
    called = [e["pid"] for e in seen.whole().of(program) if e["ev"] == "call" and e["name"] == "work"]
    assert len(called) == 300 * processes and len(set(called)) == processes
    assert done.stderr.count(b"loads Python while it runs") == processes and b"warning: " not in done.stderr, lib.text(done.stderr)


@pytest.mark.parametrize("options", [INLINE[:-1], INLINE])
def test_what_it_loads_later_and_is_refused(options, tmp_path):
    """It runs on, and why it was not traced is said."""
    if not os.path.exists(test_unusual.LIBRARY):
        pytest.skip("no libpython to load")
    assert lib.sh(["cc", "-o", tmp_path / "server", lib.PROGRAMS / "embed.c", "-ldl"]).returncode == 0
    program = tmp_path / "p.py"
    program.write_text("import time\ntime.sleep(2)\nprint('ran on')\n")
    server = [tmp_path / "server", program, "1", test_unusual.LIBRARY, "50"]
    done = lib.trace([*options, "--", *server], tmp_path / "t.pyebpf", preexec_fn=limits.refuse_call(999999, 0))
    assert done.stdout == b"ran on\n" and done.returncode == 125, (done.returncode, lib.text(done.stderr))
    assert b"seccomp" in done.stderr, lib.text(done.stderr)


@pytest.mark.parametrize("name", [n for n in lib.every() if n == "3.11-debian"])
def test_a_program_that_was_no_python_before(name, tmp_path):
    """What was none is not looked into when it is executed again, but for when its file is another one by then, or holds something else."""
    python, = lib.command(name)
    report = lib.shell_words([FAMILY, "report", 12])
    script = f"""
        cp /bin/true changed; cp /bin/true replaced
        for i in 1 2 3; do ./changed; ./replaced; /bin/true; done
        cat {python} >changed; cp {python} other; mv other replaced
        for i in 1 2 3; do ./changed {report}; /bin/true; ./replaced {report}; done"""
    seen, done = lib.traced(["sh", "-c", script], tmp_path, *INLINE, cwd=tmp_path)
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 6


GLUE = {"none": "int start(int n, char **words) { (void)n; (void)words; return 0; }",
        "python": "int Py_BytesMain(int, char **); int start(int n, char **words) { return Py_BytesMain(n, words); }"}
LOADER = "/lib64/ld-linux-x86-64.so.2"
LIBPYTHON = "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"


@pytest.mark.parametrize("how", ["LD_LIBRARY_PATH=python ./tool", "cp python/libglue.so none/new; mv none/new none/libglue.so; ./tool",
                                 "cat python/libglue.so >none/libglue.so; ./tool"])
def test_a_program_whose_libraries_change(how, tmp_path):
    """It is no Python, and the same file is one with another library."""
    if not os.path.exists(LIBPYTHON):
        pytest.skip("no shared library of 3.11")

    def build(code, *words):
        subprocess.run(["gcc", "-x", "c", "-", "-x", "none", *words], input=code.encode(), check=True, cwd=tmp_path)

    for what, code in GLUE.items():
        (tmp_path / what).mkdir()
        build(code, "-shared", "-fPIC", "-o", what + "/libglue.so", *[LIBPYTHON] * (what == "python"))
    build("int start(int, char **); int main(int n, char **words) { return start(n, words); }", "-o", "tool", "-Lnone", "-lglue",
          "-Wl,-rpath," + str(tmp_path / "none"))
    script = "./tool; ./tool; %s %s; ./tool" % (how, lib.shell_words([FAMILY, "report", 12]))
    seen, done = lib.traced(["sh", "-c", script], tmp_path, *INLINE, cwd=tmp_path, stdin=subprocess.DEVNULL)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 1


@pytest.mark.parametrize("name", [n for n in lib.every() if n == "3.11-debian"])
def test_the_loader_is_whatever_it_is_given(name, tmp_path):
    python, = lib.command(name)
    script = "%s /bin/true; %s %s %s" % (LOADER, LOADER, python, lib.shell_words([FAMILY, "report", 12]))
    seen, done = lib.traced(["sh", "-c", script], tmp_path, *INLINE)
    said = dict(json.loads(line) for line in done.stdout.decode().splitlines())
    assert works(seen.whole()) == {str(pid): calls for pid, calls in said.items()} and len(said) == 1


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
@pytest.mark.parametrize("how", ["--", "-p"])
def test_what_the_process_executes_that_was_asked_for(name, how, tmp_path):
    """Python, Python again, a shell, and Python."""
    python, = lib.command(name)
    prog, cap = tmp_path / "again.py", tmp_path / "t.pyebpf"
    prog.write_text("import os, sys\ndef f(): pass\nn = int(sys.argv[1])\nif n == 3: input()\nfor _ in range(10): f()\n"
                    "words = [sys.executable, __file__, str(n - 1)]\n"
                    "if n == 2: words = ['sh', '-c', 'exec ' + ' '.join(words)]\n"
                    "if n: os.execvp(words[0], words)\n")
    command = [python, prog, 3]
    if how == "--":
        (tmp_path / "line").write_bytes(b"\n")
        with open(tmp_path / "line", "rb") as line:
            done = lib.trace([*INLINE, "--", *map(str, command)], cap, stdin=line)
        assert done.returncode == 0 and b"warning: " not in done.stderr, lib.text(done.stderr)
    else:
        with lib.started(command, stdin=-1) as target, attached(target, cap) as tracer:
            target.stdin.close()
            assert target.wait(30) == 0
            lib.finish(tracer)
    calls = [e for e in lib.Trace(cap).whole().events if e["ev"] == "call" and e["name"] == "f"]
    assert len(calls) == 40 and len({e["pid"] for e in calls}) == 1


@pytest.mark.parametrize("engine", [INLINE[:-1], INLINE], ids=["one process", "followed"])
def test_the_end_before_python_begins(engine, tmp_path):
    """The command goes on, and its end is waited for."""
    script = "sleep 1; exec %s -c 'print(42); raise SystemExit(7)'" % lib.shell_words(lib.command(ONE))
    for options in (["-d", "200ms"], []):
        with lib.started([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *engine, *options, "--", "sh", "-c", script], stderr=-1) as tracer:
            if not options:
                lib.until(pathlib.Path("/proc/%d/task/%d/children" % (tracer.pid, tracer.pid)).read_text, "the shell")
                time.sleep(0.2)
                tracer.send_signal(signal.SIGINT)
            out, said = tracer.communicate(timeout=60)
            assert (out, tracer.returncode) == (b"42\n", 7) and b"no Python had begun" in said, lib.text(said)


def test_a_child_in_another_pid_namespace(tmp_path):
    """It is not traced, which is said."""
    code = ("import ctypes, os\ndef f(): pass\nassert not ctypes.CDLL(None).unshare(0x20000000)\npid = os.fork()\nf()\n"
            "if pid: assert os.waitpid(pid, 0)[1] == 0\n")
    seen, done = lib.traced(lib.command(ONE) + ["-c", code], tmp_path, *INLINE)
    assert b"is not traced" in done.stderr and b"pid namespace" in done.stderr, lib.text(done.stderr)
    assert [e["name"] for e in seen.whole().events if e["ev"] == "call"].count("f") == 1


def test_a_command_that_is_refused_does_not_run(tmp_path):
    python = next((p for p in ("/usr/bin/python2.7", os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python2.7")) if os.path.exists(p)), None)
    if not python:
        pytest.skip("no Python 2")
    done = lib.trace([*INLINE, "--", "sh", "-c", "exec %s -c 'print 42'" % python], tmp_path / "t.pyebpf")
    assert (done.returncode, done.stdout) == (125, b"") and b"it is Python 2" in done.stderr, lib.text(done.stderr)


@contextlib.contextmanager
def nobody_reads():
    """The two ends of a pipe that is full: who writes waits until it is read."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    os.set_blocking(write, True)
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb"):
        yield write, reader


def test_a_command_that_is_refused_where_it_is_attached_to_does_not_run(tmp_path):
    """However long it takes to say so."""
    marker = tmp_path / "marker"
    with nobody_reads() as (write, read):
        with lib.started([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "--", *lib.command(ONE), "-c", "open(%r, 'w')" % str(marker)],
                         stderr=write, preexec_fn=limits.refuse_call(999999, 0)) as tracer:
            time.sleep(2)
            os.set_blocking(read.fileno(), False)
            said = b""
            while tracer.poll() is None:
                said += read.read() or b""
            said += read.read() or b""
    assert tracer.returncode == 125 and b"seccomp" in said, lib.text(said)
    assert not marker.exists()


@pytest.mark.parametrize("form", ["-static", "-static-pie"])
def test_a_static_program_is_let_go(form, tmp_path):
    """It has no loader that could be waited for: each of its system calls would stop it for ever."""
    code = """
        #include <stdio.h>
        #include <time.h>
        #include <unistd.h>
        int main(void) { for (int i = 0; i < 100000; i++) getppid(); printf("%ld\\n", (long)clock()); return 0; }"""
    subprocess.run(["gcc", form, "-o", "quick", "-x", "c", "-"], input=code.encode(), check=True, cwd=tmp_path)
    alone = int(subprocess.run([tmp_path / "quick"], stdout=subprocess.PIPE, check=True).stdout)
    python = lib.shell_words(lib.command(ONE) + [FAMILY, "report", 12])
    seen, done = lib.traced(["sh", "-c", "./quick; %s" % python], tmp_path, *INLINE, cwd=tmp_path)
    assert works(seen.whole())
    assert int(done.stdout.split()[0]) < 10 * max(alone, 1000), "where each call stops it is some hundred times"
    done = lib.trace(["--force", *INLINE, "--", tmp_path / "quick"], tmp_path / "t.pyebpf")
    assert done.returncode == 125 and b"is not Python" in done.stderr


def test_many_children(tmp_path):
    """As test_children.py, with fewer descriptors than children."""
    many = lib.PROGRAMS / "children_many.py"
    seen, done = lib.traced(lib.command(ONE) + [many, 70, 500, 0], tmp_path, *INLINE, stdin=subprocess.DEVNULL,
                            preexec_fn=test_children.few_files(40))
    assert b"warning: child" not in done.stderr, lib.text(done.stderr)
    own = [e for e in seen.whole().events if e["ev"] == "call" and e["name"] == "own"]
    assert len({e["pid"] for e in own}) == len(own) == 70
    assert not [e for e in seen.events if "unreadable" in e.get("func", "")]


@pytest.mark.parametrize("options", [[], ["--time"]], ids=["", "--time"])
def test_many_children_that_are_counted(options, tmp_path):
    """What has ended leaves its sums, and no descriptor."""
    out = tmp_path / "t.pstats"
    done = lib.trace([*INLINE, "--count", *options, "--", *lib.command(ONE), lib.PROGRAMS / "children_many.py", 70, 1, 0], out, stdin=subprocess.DEVNULL,
                     preexec_fn=test_children.few_files(40))
    assert done.returncode == 0 and b"warning" not in done.stderr, lib.text(done.stderr)
    assert [calls for (_, _, name), (calls, *_) in marshal.loads(out.read_bytes()).items() if name == "own"] == [70]


# signals, stops and waits of a process that stays traced
WAITER = """import os, signal, sys, time
got = []
signal.signal(signal.SIGALRM, lambda *_: got.append(1))
def f(): return 1
print('up', flush=True)
input()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
n = 0
while len(got) < 50:
    n += f()
    time.sleep(0.0005)
signal.setitimer(signal.ITIMER_REAL, 0)
os.kill(os.getpid(), signal.SIGSTOP)
pid = os.fork()
if not pid: f(); os.kill(os.getpid(), signal.SIGKILL)
assert os.waitpid(pid, 0)[1] == signal.SIGKILL
print('fine', n, flush=True)
"""


@pytest.mark.parametrize("options", [INLINE[:-1], INLINE], ids=["one process", "followed"])
def test_a_command_that_stops_itself(options, tmp_path):
    """Before there is Python: it stays stopped until it is continued, and is traced then."""
    python = " ".join(str(c) for c in lib.command(ONE))
    script = "echo $$ >%s; kill -STOP $$; exec %s -c 'def f(): pass\nf()'" % (tmp_path / "pid", python)
    with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *options, "--", "sh", "-c", script], stderr=-1) as tracer:
        lib.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"), "the shell")
        pid = int((tmp_path / "pid").read_text())
        lib.until(lambda: pathlib.Path("/proc/%d/stat" % pid).read_text().split()[2] in "Tt", "the stop")
        time.sleep(0.3)
        assert pathlib.Path("/proc/%d/stat" % pid).read_text().split()[2] in "Tt" and tracer.poll() is None
        os.kill(pid, signal.SIGCONT)
        said = tracer.communicate(timeout=60)[1]
    assert tracer.returncode == 0, said
    assert [e for e in lib.Trace(tmp_path / "t.pyebpf").whole().events if e.get("func") == "f"]


STORM = """import signal, sys
signals = range(signal.SIGRTMIN + 2, signal.SIGRTMIN + 12)
for s in signals: signal.signal(s, lambda *_: None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print('up', flush=True)
while 1: fib(12)
"""


@pytest.mark.alone
def test_an_end_in_a_storm_of_signals(tmp_path):
    """Some thousands a second, where CPUs are wanted: each stops one that is followed, and more may come than it is let go after. It is attached to,
    and nothing stays in it."""
    with contextlib.ExitStack() as others, lib.started(lib.command(ONE) + ["-c", STORM]) as target:
        for _ in range(5):
            others.enter_context(lib.started(["sh", "-c", "while :; do :; done"]))
        assert target.stdout.readline() == b"up\n"
        for _ in range(8):
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "200ms", "-p", target.pid], stderr=-1) as tracer:
                while tracer.poll() is None:
                    for number in range(signal.SIGRTMIN + 2, signal.SIGRTMIN + 12):
                        target.send_signal(number)
                    time.sleep(0.002)
                said = lib.text(tracer.stderr.read())
            assert tracer.returncode == 0 and "stay mapped" not in said, said
            assert not test_inline.memfds(target.pid)
        assert target.poll() is None


def test_signals_and_stops(tmp_path):
    """Each signal is delivered once; a stopped process stays stopped until it is continued; a killed child is seen to be."""
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(ONE) + ["-c", WAITER], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with attached(target, cap) as tracer:
            lib.until(lambda: os.waitpid(target.pid, os.WUNTRACED | os.WNOHANG)[0], "the stop")
            assert pathlib.Path("/proc/%d/stat" % target.pid).read_text().split()[2] in "Tt"
            os.kill(target.pid, signal.SIGCONT)
            assert target.stdout.readline().startswith(b"fine ")
            assert target.wait(30) == 0
            lib.finish(tracer)
    seen = lib.Trace(cap).whole()
    assert len(seen.pids()) == 2


FORKS = """import os, sys
def f(n): return n
print('up', flush=True)
while not os.path.exists(sys.argv[1]):
    pid = os.fork()
    if not pid:
        sum(f(n) for n in range(100))
        os._exit(7)
    assert os.waitpid(pid, 0)[1] >> 8 == 7
    sum(f(n) for n in range(100))
print('fine', flush=True)
"""


@pytest.mark.parametrize("end", ["interrupt", "kill"])
def test_the_end_in_the_middle_of_forks(end, tmp_path):
    """Whatever moment it is, target and children go on, and nothing is left in them."""
    flag = tmp_path / "flag"
    with lib.started(lib.command(ONE) + ["-c", FORKS, flag]) as target:
        assert target.stdout.readline() == b"up\n"
        for i in range(4):
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid],
                             stderr=-1) as tracer:
                lib.until(lambda: robust.word(target.pid, 0), "the first events")
                time.sleep(0.013 * i)
                if end == "kill":
                    tracer.kill()
                    tracer.wait()
                    code, said = robust.detach(target.pid)
                    assert code == 0, said
                else:
                    lib.stop(tracer)
                    lib.Trace(tmp_path / "t.pyebpf").whole()
            assert not test_inline.memfds(target.pid)
        flag.touch()
        assert target.stdout.readline() == b"fine\n" and target.wait(30) == 0


STARTS = """import os, subprocess, sys, threading
def start():
    while not os.path.exists(sys.argv[1]):
        ends.append(subprocess.run(sys.argv[2:] + ['-V'], stdout=subprocess.DEVNULL).returncode)
ends = []
threads = [threading.Thread(target=start) for i in range(3)]
for t in threads: t.start()
print('up', flush=True)
for t in threads: t.join()
print(len(ends), set(ends), flush=True)
"""


@pytest.mark.parametrize("name", [n for n in lib.every() if n in ("3.11-debian", "3.13-trixie")] + lib.musl())
def test_the_end_in_the_middle_of_starts(name, tmp_path):
    """Nothing has been written into a program that has not begun, whatever its loader is; nor is it taken for its own trap while another one
    is attached to."""
    flag = tmp_path / "flag"
    with lib.started(lib.command(ONE) + ["-c", STARTS, flag] + lib.command(name)) as target:
        assert target.stdout.readline() == b"up\n"
        for i in range(6):
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid],
                             stderr=-1) as tracer:
                lib.until(lambda: robust.word(target.pid, 0), "the first events")
                time.sleep(0.1 + 0.007 * i)
                if i % 2:
                    tracer.kill()
                    tracer.wait()
                else:
                    lib.stop(tracer)
                    lib.Trace(tmp_path / "t.pyebpf").whole()
        flag.touch()
        count, ends = lib.text(target.stdout.readline()).split(maxsplit=1)
        assert int(count) > 10 and ends.strip() == "{0}" and target.wait(30) == 0
