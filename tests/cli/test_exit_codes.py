# SPDX-License-Identifier: Apache-2.0
"""The exit codes of pyebpf(1), one after the other. test_errors.py has what is said with them, and more ways to each."""
import contextlib
import functools
import pathlib
import re
import subprocess
import sys

import pytest

import lib
import pythons

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUAL = (ROOT / "docs/man/pyebpf.1.scd").read_text("utf-8").split("# EXIT STATUS")[1].split("\n# ")[0]
STACKS = "main;f 3\n"


@contextlib.contextmanager
def target():
    with pythons.running([sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"]) as (process, _):
        yield process.pid


def well(pyebpf):
    return pyebpf("stats", "-", stdin=None, input=STACKS)


def no_memory(pyebpf):
    """At the first limit under which the program starts at all."""
    many = "".join("a%d;b;c%d 1\n" % (i, i) for i in range(60000))
    return lib.short_of_memory(functools.partial(pyebpf, "stats", "-", "--max-input", "0", stdin=None, input=many))


def wrong_usage(pyebpf):
    return pyebpf("stats", "--nope")


def no_privilege(pyebpf):
    """Root that has lost all that makes it root."""
    with target() as pid:
        return lib.sh(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", pyebpf.path, "trace", "-o", "x.pyebpf", pid])


def no_target(pyebpf):
    return pyebpf("trace", "4194304")


def no_kernel(pyebpf):
    """One whose types nobody knows."""
    return lib.sh(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel && exec "$0" doctor', pyebpf.path])


def full_disk(pyebpf):
    with open("/dev/full", "w", encoding="ascii") as full:
        return pyebpf("stats", "-", stdin=None, input=STACKS, stdout=full)


def losses(_, tmp_path):
    """Events for which a small ring has no room, since nobody reads it."""
    status, err = lib.lossy([sys.executable], tmp_path / "x.pyebpf", "-q", "--fail-on-loss", "0")
    return subprocess.CompletedProcess([], status, "", err)


def command_fails(pyebpf):
    return pyebpf("trace", "-q", "-o", "x.pyebpf", "--", sys.executable, "-c", "raise SystemExit(42)")


def command_is_killed(pyebpf):
    return pyebpf("trace", "-q", "-o", "x.pyebpf", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")


def failed_before_the_command(pyebpf):
    return pyebpf("trace", "--nope", "--", "true")


CODES = [(0, well, "of a CPU|events|samples"), (1, no_memory, "Cannot allocate memory"), (2, wrong_usage, "--nope is not an option"),
         (3, no_privilege, "CAP_"), (4, no_target, "there is no process"), (5, no_kernel, "the kernel lacks something"),
         (6, full_disk, "No space left"), (7, losses, "more than --fail-on-loss allows"), (42, command_fails, ""),
         (128 + 9, command_is_killed, ""), (125, failed_before_the_command, "--nope is not an option")]


@pytest.mark.needs_root
@pytest.mark.parametrize("code, way, said", CODES, ids=["%d %s" % (code, way.__name__) for code, way, _ in CODES])
def test_exit_code(pyebpf, tmp_path, monkeypatch, code, way, said):
    monkeypatch.chdir(tmp_path)
    done = way(pyebpf, tmp_path) if way is losses else way(pyebpf)
    text = "".join(lib.text(part) if isinstance(part, bytes) else part or "" for part in (done.stdout, done.stderr))
    assert done.returncode == code and re.search(said, text), text


def test_each_of_the_manual_is_above():
    told = {int(code) for code in re.findall(r"^\|\[ \*(\d+)\*$", MANUAL, re.M)}
    assert told == set(range(8)) and told < {code for code, *_ in CODES}
    said = " ".join(MANUAL.split())
    assert "125 if pyebpf failed before" in said and "128 + n" in said
