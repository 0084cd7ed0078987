# SPDX-License-Identifier: Apache-2.0
"""The inline engine in a pyebpf with AddressSanitizer, which scripts/test builds for the unit tests: what is freed too early at the end of a
run, or never, shows in no result."""
import contextlib
import os
import pathlib
import signal

import pytest

import lib
import test_inline

ONE = lib.pick("3.12")[0]
BINARY = pathlib.Path(os.environ.get("PYEBPF_BUILD_ASAN", lib.pythons.ROOT / "build-asan")) / "pyebpf"
pytestmark = pytest.mark.skipif(not BINARY.exists(), reason="no build-asan/pyebpf: cmake --preset asan && cmake --build --preset asan")
ENV = {**os.environ, "ASAN_OPTIONS": "exitcode=99:detect_leaks=1"}
INLINE = ["--engine", "inline", "--on-full", "wait"]
FORMATS = {"json.gz": "firefox", "pb.gz": "pprof", "speedscope.json": "speedscope", "trace.json": "chrometrace", "folded": "collapsed", "svg": "svg",
           "html": "html", "pstats": "pstats", "txt": "text", "ndjson": "ndjson"}
WORK = """import os, sys, threading, time
def leaf(n): return n + 1
def gen(n):
    for i in range(n): yield leaf(i)
def work(n):
    try: list(gen(n))
    finally: exec("def made(): return 1\\nmade()", {})
def child():
    pid = os.fork()
    if not pid:
        work(10)
        os._exit(0)
    os.waitpid(pid, 0)
print("up", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    threads = [threading.Thread(target=work, args=(200,)) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    child()
"""


def run(*args, status=0, **kw):
    """What it said."""
    done = lib.sh([BINARY, *args], env=ENV, timeout=120, **kw)
    said = lib.text(done.stderr)
    assert done.returncode == status and "Sanitizer" not in said, (done.returncode, said)
    return said


@contextlib.contextmanager
def working():
    with lib.started([*lib.command(ONE), "-W", "ignore", "-c", WORK, 100]) as target:
        assert target.stdout.readline() == b"up\n"
        yield target.pid
        assert target.poll() is None


@pytest.mark.parametrize("options", [[], ["-s"], ["-s", "--on-full", "drop", "--ring", "64K"], ["--include", "*leaf*"], ["--min-duration", "1ms"],
                                     ["--count"], ["--count", "--time", "-s"], ["--opcodes", "all"], ["--flight-recorder", "5s", "-s"]], ids=" ".join)
def test_a_process(options, tmp_path):
    """With a snapshot where it makes some, and each format that a capture becomes."""
    sums = "--count" in options or "--opcodes" in options
    cap = tmp_path / ("t.txt" if sums else "t.pyebpf")
    with working() as pid, lib.started([BINARY, "trace", *INLINE, *options, "-o", cap, "-p", pid], env=ENV, stderr=-1) as tracer:
        lib.until(lambda: test_inline.redirected(pid), "the attach")
        for _ in range(2 if sums or "--flight-recorder" in options else 0):
            before = len(list(tmp_path.iterdir()))
            tracer.send_signal(signal.SIGUSR1)
            lib.until(lambda: len(list(tmp_path.iterdir())) > before, "a snapshot")
        said = lib.stop(tracer)
    assert "Sanitizer" not in said, said
    made = [f for f in tmp_path.iterdir() if f.suffix == ".pyebpf"]
    assert made or sums
    for form in FORMATS if options == ["-s"] else []:
        run("convert", made[0], "-o", tmp_path / ("t." + form), "-f", FORMATS[form])


@pytest.mark.parametrize("options", [[], ["-s"], ["--count"], ["--opcodes", "all"]], ids=" ".join)
def test_a_command(options, tmp_path):
    cap = tmp_path / ("t.txt" if options and options[0] != "-s" else "t.pyebpf")
    run("trace", *INLINE, *options, "-o", cap, "--", *lib.command(ONE), "-W", "ignore", "-c", WORK, 0.3)
    assert cap.stat().st_size


def test_a_command_that_is_no_python(tmp_path):
    for options in ([], ["-s"]):
        run("trace", "--force", *INLINE, *options, "-o", tmp_path / "t.pyebpf", "--", "sh", "-c", "exit 0", status=125)
        run("trace", "--force", *INLINE, *options, "-d", "100ms", "-o", tmp_path / "t.pyebpf", "--", "sh", "-c", "sleep 0.5")


def test_refusals_and_leftovers(tmp_path):
    """A target that is stopped; one that has another pyebpf, which is killed; one that has what that left; one that ends meanwhile."""
    with working() as pid:
        os.kill(pid, signal.SIGSTOP)
        lib.until(lambda: lib.status_field(pid, "State")[0] == "T", "the stop")
        run("trace", *INLINE, "-o", tmp_path / "a.pyebpf", "-p", pid, status=5)
        os.kill(pid, signal.SIGCONT)
        for last in ("detach", "trace"):
            with lib.started([BINARY, "trace", *INLINE, "-q", "-s", "-o", tmp_path / (last + ".pyebpf"), "-p", pid], env=ENV) as tracer:
                lib.until(lambda: test_inline.redirected(pid), "the attach")
                run("trace", *INLINE, "-o", tmp_path / "b.pyebpf", "-p", pid, status=5)
                tracer.kill()
                tracer.wait()
            if last == "detach":
                run("detach", "-s", pid)
            else:
                run("trace", "--force", *INLINE, "-d", "100ms", "-o", tmp_path / "c.pyebpf", "-p", pid)
            assert not test_inline.redirected(pid)
    with lib.started([*lib.command(ONE), "-W", "ignore", "-c", WORK, 1]) as target:
        run("trace", *INLINE, "-s", "-o", tmp_path / "d.pyebpf", "-p", target.pid)
