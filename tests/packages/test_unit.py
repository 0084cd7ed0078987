# SPDX-License-Identifier: Apache-2.0
"""The systemd unit of the agent: what systemd says of it, and the agent run as the unit has it run, as far as that can be
done where systemd is not the first process."""
import os
import pathlib
import re
import sys

import pytest

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/pyebpf-agent.service"


def settings(name):
    """The words of each line of a setting."""
    return [line.split() for line in re.findall("^%s=(.*)$" % name, UNIT.read_text("utf-8"), re.M)]


@pytest.fixture
def unit(tmp_path, pyebpf):
    """With the program that is tested, since that of the package need not be there."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text("utf-8").replace("/usr/bin/pyebpf", str(pyebpf.path)))
    return path


def test_systemd_has_nothing_against_it(unit):
    pages = unit.parent / "man/man1"  # the manual that the unit names, for a systemd that looks it up
    pages.mkdir(parents=True)
    with open(ROOT / "docs/man/pyebpf-agent.1.scd", "rb") as source:
        (pages / "pyebpf-agent.1").write_bytes(lib.sh(["scdoc"], stdin=source).stdout)
    done = lib.sh(["systemd-analyze", "verify", unit], env=dict(os.environ, MANPATH=str(pages.parent)))
    assert done.returncode == 0 and UNIT.name not in lib.text(done.stderr), done.stderr


def allowed(name):
    """The system calls of a word of SystemCallFilter, as this systemd has its groups."""
    if not name.startswith("@"):
        return {name}
    lines = lib.text(lib.sh(["systemd-analyze", "syscall-filter", name]).stdout).splitlines()[1:]
    assert lines, "no group " + name
    return set().union(*(allowed(word) for word in map(str.strip, lines) if word and word[0] != "#"))


@lib.needs_root
def test_it_runs_as_the_unit_says(pyebpf, tmp_path):
    """Root with five capabilities and no new ones, and no system call that the unit forbids."""
    sets = ",".join("+" + word.lower()[4:] for word in settings("CapabilityBoundingSet")[0])
    command = ["setpriv", "--no-new-privs", "--bounding-set", "-all," + sets, "--inh-caps", "-all", pyebpf.path,
               *settings("ExecStart")[0][1:], "--store", tmp_path / "store", "--socket", tmp_path / "socket",
               "--listen", "127.0.0.1:0", "-d", "2s"]
    with lib.started([sys.executable, "-c", "while True: pass"]):
        done = lib.sh(["strace", "-f", "-qq", "-o", tmp_path / "calls", *command], timeout=120)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "store").glob("*.pb.gz")), done.stderr
    called = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", (tmp_path / "calls").read_text("utf-8", "replace"), re.M))
    assert {"bpf", "perf_event_open"} <= called
    may = set()
    for words in settings("SystemCallFilter"):
        if words[0][0] == "~":
            may -= set().union(*(allowed(word) for word in [words[0][1:], *words[1:]]))
        else:
            may |= set().union(*map(allowed, words))
    assert called <= may
