# SPDX-License-Identifier: Apache-2.0
"""What is said of a lock that a thread waits for: its type, its address and the line, by record and by dump, against
what the program knows itself."""
import collections
import json
import re

import pytest

import lib

pytestmark = lib.needs_root
PROGRAM = lib.PROGRAMS / "sampled" / "locks.py"


def line_of(function):
    """Numbers of the lines of a function of the program."""
    lines = PROGRAM.read_text("utf-8").splitlines()
    first = lines.index("def %s():" % function) + 1
    last = next(i for i in range(first, len(lines)) if not lines[i] and not lines[i + 1]) + 1
    return range(first, last)


def check(function, wanted, seen):
    """@seen: [(type, address, line in the function)]"""
    kind, address = wanted
    assert seen, function
    assert {s[0] for s in seen} == {kind}, (function, seen[:5])
    assert all(re.fullmatch("0x[0-9a-f]+", s[1]) for s in seen)
    assert {s[2] for s in seen} <= set(line_of(function)), (function, seen[:5])
    if address:
        assert {s[1] for s in seen} == {address}, (function, seen[:5])


def in_program(stack):
    return next((f for f in reversed(stack) if f["file"] == str(PROGRAM) and f["name"].startswith("for_")), None)


@pytest.mark.parametrize("name", lib.every())
def test_record_tells_the_lock(name, tmp_path):
    capture = tmp_path / "s.pyebpf"
    done = lib.sh([lib.BINARY, "record", "-q", "-o", capture, "--", *lib.command(name), PROGRAM, "1"])
    assert done.returncode == 0, lib.text(done.stderr)
    truth = json.loads(lib.text(done.stdout))
    seen, untold_ns, told_ns = collections.defaultdict(list), collections.Counter(), collections.Counter()
    for line in lib.convert(capture).decode("utf-8").splitlines():
        e = json.loads(line)
        if e["ev"] == "sample" and e["reason"] == "lock" and in_program(e["stack"]):
            where = in_program(e["stack"])
            if "lock_type" in e:
                seen[where["name"]].append((e["lock_type"], e["lock"], where["line"]))
                told_ns[where["name"]] += e["weight_ns"]
            else:
                untold_ns[where["name"]] += e["weight_ns"]
    for function, wanted in truth.items():
        check(function, wanted, seen[function])
        # mutexes of the interpreter and of the allocator are locks, too, and none of Python's
        assert untold_ns[function] < told_ns[function] / 2, function


@pytest.mark.parametrize("name", lib.every())
def test_dump_tells_the_lock(name):
    def look():
        process, = json.loads(lib.text(lib.sh([lib.BINARY, "dump", "--json", target.pid]).stdout))
        for t in process["threads"]:
            where = in_program(t["stack"])
            # mutexes of the interpreter and of the allocator are locks, too, and none of Python's
            if where and t["reason"] == "lock" and t["lock_type"]:
                seen[where["name"]].append((t["lock_type"], t["lock"], where["line"]))
        return set(seen) == set(truth)

    seen = collections.defaultdict(list)
    with lib.started([*lib.command(name), PROGRAM, "60"]) as target:
        truth = json.loads(target.stdout.readline().decode())
        lib.until(look, "a dump with each wait")
        said = lib.text(lib.sh([lib.BINARY, "dump", target.pid]).stdout)
    for function, wanted in truth.items():
        check(function, wanted, seen[function])
    # this one waits for ever
    assert re.search(r": waits for a lock, threading\.Lock at %s\n    for_lock_in_with \(" % truth["for_lock_in_with"][1],
                     said), said
