# SPDX-License-Identifier: Apache-2.0
"""An interpreter whose calls cannot be traced, since a check of the probe plan fails: all that samples takes it nevertheless."""
import json
import pathlib
import re
import struct

import pytest

import lib
import machine

pytestmark = lib.needs_root

SPIN = ("import sys, time\n"
        "def inner(seconds):\n"
        "    end = time.monotonic() + seconds\n"
        "    while time.monotonic() < end: pass\n"
        "def outer(): inner(float(sys.argv[1]))\n"
        "print('up', flush=True)\n"
        "outer()\n")
# behind a return, up to the next function: nothing runs it
PADDING = b"\xc3\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"


def place_of_resume(file):
    """(vaddr, offset) of the probe, None where the file has none."""
    said = lib.text(lib.sh([lib.BINARY, "list", "--probes", file]).stdout)
    found = re.search(r"^ *0x(\w+) +0x(\w+) +resume ", said, re.M)
    return found and [int(number, 16) for number in found.groups()]


def add_jump(file, vaddr, offset):
    code = bytearray(file.read_bytes())
    at = code.index(PADDING) + 1
    code[at:at + 5] = b"\xe9" + struct.pack("<i", vaddr - (at + vaddr - offset + 5))
    file.write_bytes(code)


@pytest.fixture(name="command", params=lib.pick("3.11", "3.13", "3.14"))
def untraceable(request, tmp_path):
    """A copy of an interpreter with two more jumps to where a probe is. That nobody takes them, no plan can know."""
    command, env = machine.private(request.param, tmp_path)
    file = next(f for f in [pathlib.Path(command[-1]), *tmp_path.glob("copy-*/lib/libpython3.*")] if place_of_resume(f))
    add_jump(file, *place_of_resume(file))  # the probe makes way to the handler's first instruction
    add_jump(file, *place_of_resume(file))
    assert not place_of_resume(file)
    return ["env", *("%s=%s" % item for item in env.items()), *command]


def test_it_is_recorded(command, tmp_path):
    prog, out = tmp_path / "spin.py", tmp_path / "s.folded"
    prog.write_text(SPIN)
    done = lib.sh([lib.BINARY, "record", "-o", out, "--", *command, prog, 1])
    assert done.returncode == 0, lib.text(done.stderr)
    weights = [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in out.read_text().splitlines()]
    inner = sum(weight for stack, weight in weights if ";outer (" in stack and ";inner (" in stack)
    assert inner > sum(weight for _, weight in weights) / 3, weights


def test_what_is_said_of_it(command, tmp_path):
    prog = tmp_path / "spin.py"
    prog.write_text(SPIN)
    with lib.started([*command, prog, 60]) as target:
        assert target.stdout.readline() == b"up\n"
        row, = json.loads(lib.sh([lib.BINARY, "list", "--json", target.pid]).stdout)
        assert not row["supported"] and row["record_engine"] == "sample" and row["version"]
        shown = lib.text(lib.sh([lib.BINARY, "list", target.pid]).stdout)
        assert "record, top and dump take it; trace not" in shown
        assert "inner (" in lib.text(lib.sh([lib.BINARY, "dump", target.pid]).stdout)
        done = lib.sh([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", "-d", "50ms", "-p", target.pid])
        assert done.returncode == 5 and row["why_not"] in lib.text(done.stderr)
