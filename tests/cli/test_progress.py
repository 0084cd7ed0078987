# SPDX-License-Identifier: Apache-2.0
"""How far long work is: one line on a terminal, which is gone at the end; nothing on a pipe, nothing with -q."""
import functools
import os
import pty
import re
import subprocess
import sys

import pytest

import lib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../readers"))
from test_pprof import generate  # noqa: E402 pylint: disable=wrong-import-position

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "x.pyebpf"
    generate(str(path), 300000)
    return path


def on_a_terminal(*args, **env):
    """(exit status, what stderr shows), of a program whose stderr is a terminal."""
    here, there = pty.openpty()
    with subprocess.Popen([str(a) for a in args], stderr=there, stdout=there, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env}) as process:
        os.close(there)
        seen = b""
        while True:
            try:
                piece = os.read(here, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not piece:
                break
            seen += piece
        os.close(here)
    return process.returncode, seen


def screen(seen):
    """What stays: the lines, each after its last return to the beginning."""
    return [line.rstrip(b"\r").rsplit(b"\r", 1)[-1].removeprefix(b"\x1b[K") for line in seen.split(b"\n")]


@pytest.mark.parametrize("command, shown", [
    (["convert", "{0}", "-o", "{1}/x.json.gz"], rb"\r0\.1M events read\x1b\[K"),
    (["merge", "{0}", "{0}", "-o", "{1}/x.pb.gz"], rb"\rfile 1 of 2\x1b\[K")], ids=["convert", "merge"])
def test_one_line_on_a_terminal_that_goes(pyebpf, capture, tmp_path, command, shown):
    words = [w.format(capture, tmp_path) for w in [*command, "--color", "never"]]
    status, seen = on_a_terminal(pyebpf.path, *words)
    assert status == 0 and re.search(shown, seen), seen
    assert not any(b"events read" in line or b"file 1" in line for line in screen(seen)), screen(seen)
    assert any(line.startswith(b"wrote ") for line in screen(seen))
    status, seen = on_a_terminal(pyebpf.path, *words, "--force", "-q")
    assert status == 0 and seen == b""
    done = pyebpf(*words, "--force")
    assert done.returncode == 0 and "\r" not in done.stderr and "\x1b" not in done.stderr


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    path = tmp_path_factory.mktemp("slower") / "x.pyebpf"
    generate(str(path), 400000)
    return path


# what --color and the environment say, and whether a terminal and a pipe have colours then
SETTINGS = [([], {}, True, False), ([], {"NO_COLOR": "1"}, False, False), ([], {"NO_COLOR": ""}, True, False),
            ([], {"CLICOLOR_FORCE": "1"}, True, True), ([], {"CLICOLOR_FORCE": "0"}, True, False),
            ([], {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False, False), ([], {"CLICOLOR": "0"}, False, False),
            ([], {"TERM": "dumb"}, False, False), (["--color", "always"], {"NO_COLOR": "1"}, True, True),
            (["--color", "never"], {"CLICOLOR_FORCE": "1"}, False, False), (["--color=auto"], {}, True, False)]


@pytest.mark.parametrize("args, env, on_terminal, on_pipe", SETTINGS, ids=str)
def test_colours(pyebpf, capture, slower, args, env, on_terminal, on_pipe):
    """Tables, differences, progress and errors; the words are the same with and without."""
    env = {"TERM": "xterm-256color", **env}
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE")}
    for words in (["stats", capture, "-n", "3"], ["diff", capture, slower], ["stats", "/none"]):
        words = [pyebpf.path, words[0], *args, *words[1:]]
        _, seen = on_a_terminal(*words, **{"NO_COLOR": "", "CLICOLOR": "", "CLICOLOR_FORCE": "", **env})
        done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**clean, **env})
        assert bool(COLOUR.search(seen)) == on_terminal, (words, seen)
        assert bool(COLOUR.search(done.stdout)) == on_pipe, (words, done.stdout)
        assert COLOUR.sub(b"", seen).replace(b"\r\n", b"\n") == COLOUR.sub(b"", done.stdout)


def test_what_is_coloured(pyebpf, capture, slower):
    _, seen = on_a_terminal(pyebpf.path, "stats", capture, "--color", "always")
    assert re.search(rb"\x1b\[1m +calls +self .*\x1b\[0m", seen) and re.search(rb"\x1b\[32m +\d+\.\d\x1b\[0m", seen)
    _, seen = on_a_terminal(pyebpf.path, "diff", capture, slower, "--color", "always")
    assert re.search(rb"^\x1b\[(1;31m\+|32m-|2m[+-]) +[\d.]+ \w+\x1b\[0m", seen, re.M), seen
    _, seen = on_a_terminal(pyebpf.path, "stats", "/none", "--color", "always")
    assert seen.startswith(b"\x1b[1;31mpyebpf stats:\x1b[0m cannot read /none"), seen
    assert "\x1b" not in pyebpf("stats", capture, "--json", "--color", "always").stdout
    _, seen = on_a_terminal(pyebpf.path, "doctor", "--color", "always")
    assert re.search(rb"^  \x1b\[(32|33|1;31)m(ok|limited|missing) *\x1b\[0m ", seen, re.M), seen
    done = pyebpf("stats", capture, "--color", "red")
    assert done.returncode == 2 and "want auto, always or never" in done.stderr


def test_memory_that_is_short_is_an_error_of_ours(capture):
    """Exit status 1, with a sentence: at the first limit under which the program starts at all."""
    done = lib.short_of_memory(functools.partial(lib.sh, [lib.BINARY, "stats", capture]))
    assert done.returncode == 1 and b"Cannot allocate memory" in done.stderr, done
