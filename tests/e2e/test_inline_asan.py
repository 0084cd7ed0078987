# SPDX-License-Identifier: Apache-2.0
"""The inline engine by a pyebpf that AddressSanitizer and UBSan look at, for a moment in each way: no error of memory, no leak.

It is the build of the preset asan, which scripts/test makes before this runs; $PYEBPF_ASAN_BUILD names another one. Leaks are looked for,
too: LeakSanitizer traces the threads of pyebpf itself, at its end, when it traces nobody any more."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import lib
import pythons
import test_inline
import test_inline_robust as robust

BUILD = pathlib.Path(os.environ.get("PYEBPF_ASAN_BUILD", pythons.ROOT / "build-asan")).resolve()
INLINE = ["--engine", "inline"]
pytestmark = pytest.mark.slow  # --quick builds no sanitizers
# Threads make calls of several sorts, so many again and again, and one child after another begins one, until a file exists or there were
# so many children.
FAMILY = """
import os, sys, threading, time
end, rounds, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def leaf(n): return n
def numbers(): yield from map(leaf, range(3))
def fail(n):
    if not n: raise ValueError
    fail(n - 1)
def goes_on(): return not os.path.exists(end)
def work():
    while goes_on():
        for i in range(calls): leaf(i)
        sum(numbers())
        try: fail(20)
        except ValueError: pass
        exec("def made(): pass\\nmade()")
        time.sleep(.002)
def brief(): list(map(leaf, range(50)))
def run(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread
threads = [run(work) for _ in range(3)]
print("up", flush=True)
while goes_on() and rounds:
    pid = os.fork()
    if not pid:
        run(brief).join()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    run(brief).join()
    time.sleep(.005)
    rounds -= 1
open(end, "w").close()
for thread in threads: thread.join()
print("fine", flush=True)
"""


@pytest.fixture(autouse=True)
def sanitized(monkeypatch):
    """Whatever is started here is that build."""
    binary = BUILD / "pyebpf"
    if not binary.exists():
        pytest.skip("%s is not there: cmake --preset asan && cmake --build --preset asan --target pyebpf" % binary)
    monkeypatch.setattr(lib, "BINARY", str(binary))
    monkeypatch.setenv("ASAN_OPTIONS", "exitcode=99:detect_leaks=1")
    monkeypatch.setenv("UBSAN_OPTIONS", "exitcode=99:print_stacktrace=1")


def check(code, said, expect=0):
    assert not [word for word in ("AddressSanitizer", "LeakSanitizer", "runtime error:") if word in said], said[:20000]
    assert code == expect, (code, said[-2000:])
    return said


def run(*args, expect=0):
    done = lib.sh([lib.BINARY, *args])
    return check(done.returncode, lib.text(done.stderr), expect)


def command(tmp_path, rounds=-1, calls=50):
    return [*lib.command(test_inline.ONE), "-W", "ignore", "-c", FAMILY, tmp_path / "end", rounds, calls]


@contextlib.contextmanager
def running(tmp_path, calls=50):
    """A target that comes to its end as well."""
    with lib.started(command(tmp_path, calls=calls)) as target:
        assert target.stdout.readline() == b"up\n"
        yield target
        (tmp_path / "end").touch()
        assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0


@contextlib.contextmanager
def attached(target, path, *options):
    """A trace that has begun; ended by Ctrl-C if it still runs."""
    with lib.started([lib.BINARY, "trace", "-o", path, *INLINE, *options, "-p", target.pid], stderr=subprocess.PIPE) as tracer:
        lib.until(lambda: tracer.poll() is not None or test_inline.redirected(target.pid), "the attach")
        yield tracer
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        said = lib.text(tracer.communicate(timeout=60)[1])
        check(tracer.returncode, said)


def test_a_family_and_every_format(tmp_path):
    path = tmp_path / "t.pyebpf"
    with running(tmp_path) as target:
        run("trace", "-o", path, *INLINE, "-s", "-d", "500ms", "-p", target.pid)
    assert len(lib.Trace(path).pids()) > 2
    formats = re.search("there are (.*)\n", run("convert", path, "-f", "none", expect=2))[1].split(", ")
    assert len(formats) > 10
    for form in formats:
        run("convert", path, "-f", form, "-o", tmp_path / ("as." + form))


def test_a_target_that_ends(tmp_path):
    """While it is traced."""
    with running(tmp_path) as target, attached(target, tmp_path / "t.pyebpf", "-s") as tracer:
        (tmp_path / "end").touch()
        tracer.wait(60)


def test_a_command(tmp_path):
    path = tmp_path / "t.pyebpf"
    run("trace", "-o", path, *INLINE, "-s", "--", *command(tmp_path, 20))
    assert len(lib.Trace(path).pids()) > 20


def test_a_command_that_goes_on(tmp_path):
    """Its trace is over before."""
    with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-s", "-d", "500ms", "--", *command(tmp_path)], stderr=-1) as tracer:
        assert tracer.stdout.readline() == b"up\n"
        pid, = map(int, pathlib.Path("/proc/%d/task/%d/children" % (tracer.pid, tracer.pid)).read_text().split())
        lib.until(lambda: not test_inline.redirected(pid), "the end of the trace")
        (tmp_path / "end").touch()
        out, said = tracer.communicate(timeout=60)
        check(tracer.returncode, lib.text(said))
        assert out == b"fine\n"


def test_losses(tmp_path):
    """Nobody reads for moments, behind which the stacks are read anew."""
    path, seen = tmp_path / "t.pyebpf", 0
    with running(tmp_path, calls=5000) as target, attached(target, path, "-s", "--ring", "64K") as tracer:
        for _ in range(100):
            tracer.send_signal(signal.SIGSTOP)
            time.sleep(0.03)  # a child that is born meanwhile waits for who does not run
            seen += any(robust.words(target.pid, robust.LOST_MODE))
            tracer.send_signal(signal.SIGCONT)
            time.sleep(0.03)
            if seen == 3:
                break
    assert lib.Trace(path).lost and seen == 3


@pytest.mark.parametrize("follow", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("out, options", [("t.pstats", ["--count", "--time"]), ("t.txt", ["--opcodes", "all"]),
                                          ("t.pyebpf", ["--flight-recorder", "300ms"])], ids=["count", "opcodes", "recorder"])
def test_snapshots(out, options, follow, tmp_path):
    path = tmp_path / out
    with running(tmp_path) as target, attached(target, path, *options, *follow) as tracer:
        for number in (1, 2):
            time.sleep(0.2)
            tracer.send_signal(signal.SIGUSR1)
            lib.until(path.with_name("%s-%d%s" % (path.stem, number, path.suffix)).exists, "the snapshot")
    assert path.exists()


def test_what_is_refused(tmp_path):
    path = tmp_path / "t.pyebpf"
    with lib.started(["sleep", "100"]) as target:
        run("trace", "-o", path, *INLINE, "-p", target.pid, expect=4)
    with running(tmp_path) as target, attached(target, path, "-s"):
        assert "another pyebpf" in run("trace", "-o", tmp_path / "other.pyebpf", *INLINE, "-s", "-p", target.pid, expect=5)
    run("trace", "-o", path, "--force", *INLINE, "--", "/bin/false", expect=1)


def test_detach(tmp_path):
    """Behind one that was killed; and where there is nothing to take out any more."""
    with running(tmp_path) as target:
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-s", "-p", target.pid]) as tracer:
            lib.until(lambda: test_inline.redirected(target.pid), "the attach")
            tracer.kill()
            tracer.wait()
        run("detach", "-s", target.pid)
        assert not test_inline.redirected(target.pid)
        run("detach", target.pid)
        run("convert", tmp_path / "t.pyebpf", "-o", tmp_path / "cut.ndjson")


@pytest.mark.parametrize("follow", [[], ["-s"]], ids=["one process", "followed"])
def test_a_command_that_is_no_python(follow, tmp_path):
    """It ends, and it is not waited for any more."""
    path = tmp_path / "t.pyebpf"
    run("trace", "-o", path, *INLINE, *follow, "--", "sh", "-c", "exit 0", expect=125)
    run("trace", "-o", path, "--force", *INLINE, *follow, "-d", "100ms", "--", "sh", "-c", "sleep 0.5")
