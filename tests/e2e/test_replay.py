# SPDX-License-Identifier: Apache-2.0
"""A recorded run, played again without a kernel or a target, gives the same events."""
import json

import pytest

import lib
import pythons

pytestmark = lib.needs_root


def events(capture):
    lines = lib.convert(capture).decode().splitlines()
    meta = json.loads(lines[-1])
    return lines[:-1], {key: meta[key] for key in ("generated", "written", "dropped")}


@pytest.mark.parametrize("name, options, program", [
    (lib.pick("3.12")[0], [], ["counted.py", "OUT", "mixed", 300]),
    (lib.pick("3.9")[0], [], ["counted.py", "OUT", "mixed", 300]),
    (lib.pick("3.12")[0], ["--ring", "64K"], ["counted.py", "OUT", "threads", 30000]),
    (lib.pick("3.12")[0], ["-s"], ["children_many.py", 20, 100, 0]),
])
def test_the_same_events(name, options, program, tmp_path):
    rings, cap, again = tmp_path / "rings", tmp_path / "t.pyebpf", tmp_path / "again.pyebpf"
    args = [tmp_path / "out" if a == "OUT" else a for a in program[1:]]
    done = lib.trace(options + ["--record-rings", rings, "--"] + lib.command(name) +
                     [lib.PROGRAMS / program[0]] + args, cap)
    assert done.returncode == 0, lib.text(done.stderr)
    played = lib.sh([pythons.BUILD / "tests" / "e2e" / "replay", rings, again])
    assert played.returncode == 0, lib.text(played.stderr)
    live, replayed = events(cap), events(again)
    assert live[0] and live[1] == replayed[1]
    assert replayed[0] == live[0]
