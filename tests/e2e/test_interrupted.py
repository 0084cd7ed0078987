# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C once more, when the capture is whole and the output is being made: it ends at once, and nothing is lost."""
import os
import pathlib
import signal
import subprocess

import pytest

import lib

BUSY = "import time\nend = time.monotonic() + %g\ndef f(): pass\nwhile time.monotonic() < end:\n    for _ in range(1000): f()\n"
ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
RT_SIGTIMEDWAIT = "128"
INLINE = ("--engine", "inline")


def trace(output, *options):
    return lib.started([lib.BINARY, "trace", *INLINE, "-o", output, *options, "--", *lib.any_python(), "-S", "-c", BUSY % 1.2],
                       stderr=subprocess.PIPE)


def bytes_read(pid):
    return int(pathlib.Path("/proc/%d/io" % pid).read_text().split()[1])


def await_reading(process, capture, before=0):
    """Until it has begun to read a capture."""
    lib.until(lambda: bytes_read(process.pid) - before > capture.stat().st_size / 20, "the reading of the capture")


def children(pid):
    return pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text()


def syscall(pid):
    return pathlib.Path("/proc/%d/syscall" % pid).read_text().split()[0]


def interrupt(tracer, capture, *numbers):
    """Status and stderr of what is interrupted after its command has ended."""
    for there in (True, False):
        lib.until(lambda t=there: bool(children(tracer.pid)) == t, "the command")
    await_reading(tracer, capture, bytes_read(tracer.pid))
    for number in numbers:
        tracer.send_signal(number)
    err = lib.text(tracer.communicate(timeout=60)[1])
    return tracer.returncode, err


@pytest.mark.parametrize("number", ENDS)
def test_while_the_output_is_made(tmp_path, number):
    with trace(tmp_path / "t.json.gz", "--split", "0") as tracer:
        status, err = interrupt(tracer, tmp_path / "t.pyebpf", number, next(n for n in ENDS if n != number))
    assert status == 125 and "interrupted" in err and "the capture is kept in" in err, (status, err)
    assert [f.name for f in tmp_path.iterdir()] == ["t.pyebpf"]
    assert "<string>:3(f)" in lib.text(lib.convert(tmp_path / "t.pyebpf", "text"))


def test_once_is_not_enough(tmp_path):
    """Whoever stops a run that has just ended by itself wants its output."""
    with trace(tmp_path / "t.json.gz") as tracer:
        status, err = interrupt(tracer, tmp_path / "t.pyebpf", signal.SIGINT)
    assert status == 0 and "wrote " in err and "interrupted" not in err, (status, err)
    assert (tmp_path / "t.json.gz").exists() and not (tmp_path / "t.pyebpf").exists()


def test_while_the_summary_is_made(tmp_path):
    """The capture is what was asked for: it is whole, and all is well."""
    with trace(tmp_path / "t.pyebpf") as tracer:
        status, err = interrupt(tracer, tmp_path / "t.pyebpf", signal.SIGINT, signal.SIGTERM)
    assert status == 0 and "wrote " in err and "interrupted" not in err, (status, err)
    assert "calls" not in err.split("wrote ")[0].splitlines()[-1]
    assert "<string>:3(f)" in lib.text(lib.convert(tmp_path / "t.pyebpf", "text"))


def test_while_parts_are_made(tmp_path):
    """What no output was made of yet stays as captures, and each is named."""
    with lib.started([*lib.any_python(), "-S", "-c", BUSY % 60]) as target, \
            lib.attach(target.pid, tmp_path / "t.json.gz", *INLINE, "--split", "2M") as tracer:
        maker = lib.until(lambda: (tmp_path / "t-2.pyebpf").exists() and children(tracer.pid), "who makes a part")
        os.kill(int(maker), signal.SIGSTOP)
        begun = len(list(tmp_path.iterdir()))
        lib.until(lambda: len(list(tmp_path.iterdir())) > begun + 1, "more parts")
        tracer.send_signal(signal.SIGINT)
        lib.until(lambda: syscall(tracer.pid) == RT_SIGTIMEDWAIT, "the end of the capture")
        tracer.send_signal(signal.SIGINT)
        err = lib.text(tracer.communicate(timeout=60)[1])
        assert tracer.returncode == 0 and not pathlib.Path("/proc", maker.strip()).exists(), err
    captures = sorted(tmp_path.glob("*.pyebpf"))
    made = sorted(tmp_path.glob("*.json.gz"))
    assert captures and len(captures) + len(made) == len(list(tmp_path.iterdir())), list(tmp_path.iterdir())
    for capture in captures:
        assert str(capture) in err, (capture, err)
        assert "<string>:3(f)" in lib.text(lib.convert(capture, "text"))
    assert not [m for m in made if m.with_name(m.name.replace(".json.gz", ".pyebpf")) in captures]


def test_a_conversion_leaves_nothing(tmp_path):
    """However it ends: what has no name yet is gone with the process."""
    with trace(tmp_path / "t.pyebpf", "-q") as tracer:
        lib.finish(tracer)
    for number in (signal.SIGINT, signal.SIGKILL):
        with lib.started([lib.BINARY, "convert", tmp_path / "t.pyebpf", "-o", tmp_path / "t.json.gz"]) as convert:
            await_reading(convert, tmp_path / "t.pyebpf")
            convert.send_signal(number)
            assert convert.wait(60) == -number
        assert [f.name for f in tmp_path.iterdir()] == ["t.pyebpf"]
