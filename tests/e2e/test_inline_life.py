# SPDX-License-Identifier: Apache-2.0
"""The inline engine and the target's life: what it executes, how it dies, what interrupts it, is as without it."""
import os
import re

import pytest

import lib
from test_inline import INLINE, ONE, memfds, redirected
from test_inline_robust import of_files

WAIT = [*INLINE, "--on-full", "wait"]


# --- it executes another program ---

EXECUTES = """import ctypes, os, sys, threading, time
def before(n): return n
def execute():
    for i in range(2000): before(i)
    os.execvp(sys.argv[2], sys.argv[2:])
def spawn():
    libc, actions = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b'fifo', os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(ctypes.c_int()), b'/bin/true', actions, None, (ctypes.c_char_p * 2)(b'true'), None)
print(os.getpid(), flush=True)
sys.stdin.readline()
if sys.argv[1] == 'spawn':
    threading.Thread(target=spawn).start()
    while not open('/proc/self/task/%d/children' % sorted(map(int, os.listdir('/proc/self/task')))[-1]).read(): time.sleep(0.01)
if sys.argv[1] == 'thread': threading.Thread(target=execute).start()
else: execute()
"""
SHELL = ["sh", "-c", "echo new; read x; echo got $x; exit 7"]
PYTHON = ["-S", "-c", "def before(n): return n\n"
                      "for i in range(1000): before(i)\n"
                      "print('new', flush=True)\n"
                      "print('got', input(), flush=True)\n"
                      "import sys; sys.exit(7)"]


def say(stream, line):
    stream.write(line + b"\n")
    stream.flush()


def lives_on(pid, out, to):
    """The new program: nothing of ours is in it, and it does what it does."""
    assert out.readline() == b"new\n"
    assert not memfds(pid) and of_files(pid)[1:] == ([], [])
    yield
    say(to, b"hello")
    assert out.readline() == b"got hello\n"


def ended_there(said, seen, prog):
    assert "executed another program" in said and "stay mapped" not in said and "warning: " not in said, said
    for ev in ("call", "return"):
        assert seen.whole().count(prog, ev)["before"] == 2000
    assert "before" not in seen.count("<string>")


@pytest.mark.parametrize("what", ["shell", "python", "thread", "spawn"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t"))
def test_a_target_that_executes_something_else(name, what, tmp_path):
    """It is not followed, so the capture ends there, as soon as that is seen; the new program is left alone. spawn: a child that does
    not come to its own program keeps the memory of the old one meanwhile."""
    prog, capture = tmp_path / "executes.py", tmp_path / "t.pyebpf"
    prog.write_text(EXECUTES)
    os.mkfifo(tmp_path / "fifo")
    command = lib.command(name) + [prog, what] + (lib.command(name) + PYTHON if what == "python" else SHELL)
    with lib.started(command, stdin=-1, cwd=tmp_path) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", "-o", capture, *WAIT, "-p", pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(pid), "the attach")
            say(target.stdin, b"")
            for _ in lives_on(pid, target.stdout, target.stdin):
                said = lib.finish(tracer)
                if what == "spawn":
                    os.close(os.open(tmp_path / "fifo", os.O_WRONLY | os.O_NONBLOCK))  # somebody waits there
            assert target.wait(60) == 7
    ended_there(said, lib.Trace(capture), prog)


@pytest.mark.parametrize("what", ["shell", "python"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.11", "3.12", "3.13t"))
def test_a_command_that_executes_something_else(name, what, tmp_path):
    """The same, and pyebpf ends with the command, as it does."""
    prog, capture = tmp_path / "executes.py", tmp_path / "t.pyebpf"
    prog.write_text(EXECUTES)
    command = lib.command(name) + [prog, what] + (lib.command(name) + PYTHON if what == "python" else SHELL)
    with lib.started([lib.BINARY, "trace", "-o", capture, *WAIT, "--", *command], stdin=-1, stderr=-1) as tracer:
        pid = int(tracer.stdout.readline())
        say(tracer.stdin, b"")
        for _ in lives_on(pid, tracer.stdout, tracer.stdin):
            assert tracer.poll() is None
        said = lib.finish(tracer, 7)
    ended_there(said, lib.Trace(capture), prog)


@pytest.mark.parametrize("options, want", [
    (["--count"], r"^ +2000 .*\(before\)$"),
    (["--opcodes", "RETURN_VALUE", "--on-full", "wait"], r"^ .*\b2000\b.*\(before\)"),
], ids=["count", "opcodes"])
def test_what_was_counted_before_an_exec(options, want, tmp_path):
    prog = tmp_path / "executes.py"
    prog.write_text(EXECUTES)
    with lib.started(lib.command(ONE) + [prog, "shell", *SHELL], stdin=-1) as target:
        pid = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", *INLINE, *options, "-p", pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(pid), "the attach")
            say(target.stdin, b"")
            for _ in lives_on(pid, target.stdout, target.stdin):
                out, said = map(lib.text, tracer.communicate(timeout=60))
            assert target.wait(60) == 7
    assert tracer.returncode == 0 and "executed another program" in said and "stay mapped" not in said, said
    assert re.search(want, out, re.M), out
