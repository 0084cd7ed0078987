# SPDX-License-Identifier: Apache-2.0
"""Filters: what is recorded is what an unfiltered trace of the same program has, without the frames that are not asked for."""
import collections
import re

import pytest

import lib

pytestmark = lib.needs_root
FOLDER = lib.PROGRAMS / "filtered"
APP, SHAPES, INNER = (str(FOLDER / n) for n in ("app.py", "shapes.py", "pkg/inner.py"))
OURS = re.compile(re.escape(str(FOLDER)) + "|/made/")


def streams(seen, keep):
    """For each thread that ran our code: [(ev, name, file, depth)] of the frames that keep(event) says, in the order in which the
    threads began. A frame's depth is that among those."""
    out, stacks = collections.OrderedDict(), {}
    for e in seen.events:
        if e["ev"] == "gap":
            assert e["reason"] == "end", e
            stacks[e["tid"]] = []
        if e["ev"] not in lib.ENTER | lib.LEAVE:
            continue
        stack = stacks.setdefault(e["tid"], [])
        kept = keep(e)
        if e["ev"] in lib.LEAVE:
            assert stack.pop() == kept
        depth = sum(stack)
        if e["ev"] in lib.ENTER:
            stack.append(kept)
        if kept and OURS.match(e["file"]):
            out.setdefault(e["tid"], []).append((e["ev"], e["name"], e["file"], depth))
    return list(out.values())


def is_ours(file):
    return bool(OURS.match(file))


def filtered_calls(done):
    return int(re.search(r"^filtered +(\d+) calls", lib.text(done.stderr), re.M)[1])


def traced(name, tmp, *options, engine=()):
    return lib.traced(lib.command(name) + [APP, 12], tmp, *options, *engine)


# What is asked for, and the same in Python.
BY_CODE = [
    (["--include", "app.py"], lambda f: f == APP),
    (["--include", "inner", "--include", "*/filtered/shapes.py"], lambda f: f in (INNER, SHAPES)),
    (["--include", "filtered/*", "--exclude", "shape?"], lambda f: is_ours(f) and f.startswith(str(FOLDER)) and f != SHAPES),
    (["--include", "/made/up0.py", "--include", "app"], lambda f: f in (APP, "/made/up0.py")),
]


@pytest.mark.parametrize("name", lib.families())
def test_code_is_chosen_by_module_and_file(name, tmp_path):
    whole, _ = traced(name, tmp_path)
    whole.whole()
    for options, keep in BY_CODE if name in lib.pick("3.9", "3.12") else BY_CODE[1:2]:
        seen, done = traced(name, tmp_path, *options)
        seen.whole()
        assert b"warning" not in done.stderr, lib.text(done.stderr)
        assert {e["file"] for e in seen.events if "file" in e} == {e["file"] for e in whole.events if keep(e.get("file", ""))}
        assert streams(seen, lambda e: True) == streams(whole, lambda e: keep(e["file"]))
        assert filtered_calls(done) > 1000


@pytest.mark.parametrize("name", lib.pick("3.9", "3.11", "3.13"))
def test_all_but_our_code(name, tmp_path):
    """What is left out leaves no trace, and what it calls has the caller's caller for its caller."""
    whole, _ = traced(name, tmp_path)
    seen, _ = traced(name, tmp_path, "--exclude", "filtered/*", "--exclude", "threading")
    seen.whole()
    assert not [e for e in seen.events if is_ours(e.get("file", "")) and not e["file"].startswith("/made/")]
    assert not [e for e in seen.events if e.get("file", "").endswith("/threading.py")]
    keep = [e for e in whole.events if e.get("file", "").startswith("/made/")]
    got = [e for e in seen.events if e.get("file", "").startswith("/made/")]
    assert [(e["ev"], e["name"]) for e in got] == [(e["ev"], e["name"]) for e in keep] and got
    assert all(e["depth"] == 0 for e in got)
