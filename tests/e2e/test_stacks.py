# SPDX-License-Identifier: Apache-2.0
"""Stacks and names read from outside against what the interpreter says itself."""
import json
import os
import subprocess

import pytest

import pythons

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def read_stacks(pid):
    tool = pythons.BUILD / "tests" / "e2e" / "read_stacks"
    out = subprocess.run([tool, str(pid)], stdout=subprocess.PIPE, check=True).stdout.decode()
    threads = {}
    for line in out.splitlines():
        kind, *fields = line.split(" ")
        if kind == "thread":
            stack = threads.setdefault(int(fields[0]), (int(fields[1]), int(fields[2]), []))[2]
        else:
            stack.append([int(fields[0])] + [text(field) for field in fields[1:]])
    return threads


def text(field):
    raw = b"" if field == "-" else bytes.fromhex(field)
    return raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")


def own_stack(stack):
    return [[frame[0]] + [bytes.fromhex(text).decode("utf-8", "surrogatepass") for text in frame[1:]]
            for frame in stack]


@pytest.mark.parametrize("name", pythons.names())
def test_equal_to_the_interpreters_own(name):
    with pythons.running(pythons.found()[name] + [pythons.TARGETS / "waiting.py"]) as (process, line):
        own = {int(ident): own_stack(stack) for ident, stack in json.loads(line).items()}
        seen = read_stacks(process.pid)
        tids = {int(tid) for tid in os.listdir("/proc/%d/task" % process.pid)}
    assert set(seen) == set(own) and len(own) == 5
    hashes = set()
    for ident, stack in own.items():
        native, status, frames = seen[ident]
        assert status == 0
        assert native in tids if pythons.version(name) >= (3, 11) else native == 0
        assert len(frames) == len(stack)
        for want, got in zip(stack, frames):
            for a, b in zip(want, got):
                if isinstance(a, str) and len(a) >= 4096:
                    assert b[:4000] == a[:4000] and b[-20:-16] == "...#"
                    hashes.add((a, b))
                else:
                    assert a == b
    assert len({long for long, _ in hashes}) == len({cut for _, cut in hashes}) == len(hashes) >= 2


BUSY = """
import sys, threading
def f(n): return f(n - 1) if n else 1
def work():
    while True: f(40)
for _ in range(3): threading.Thread(target=work, daemon=True).start()
print(flush=True); work()
"""


@pytest.mark.parametrize("name", pythons.names())
def test_running_threads_give_whole_stacks_or_none(name):
    with pythons.running(pythons.found()[name] + ["-c", BUSY]) as (process, _):
        for _ in range(20):
            for _, _, frames in read_stacks(process.pid).values():
                inner = [frame[1] for frame in frames]
                assert inner == sorted(inner, key=["f", "work", "run", "_bootstrap_inner",
                                                   "_bootstrap", "<module>"].index), inner
                assert inner.count("f") <= 41
                assert not inner or inner[-1] in ("_bootstrap", "<module>")
