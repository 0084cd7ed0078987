# SPDX-License-Identifier: Apache-2.0
"""Names made to break out of what shows them (hostile.py), as process, thread, function and file, in every
format that is text for a program or a person: the file stays valid and shows no control character."""
import json
import re

import pytest

import chrome
import hostile
import speedscope
from made import Script
from test_pprof import convert
from test_pstats import read

UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    s = Script()
    for p, name in enumerate(hostile.NAMES, 1):
        s.process(p, p, name)
        s.thread(p, p, p, name)
        s.func(p, p, p, name, name)
        s.call(p, 1000, p)
        s.return_(p, 2000 + p)
    return s.write(tmp_path_factory.mktemp("evil") / "x.pyebpf")


def converted(evil, name):
    out = evil.with_name(name)
    done = convert(evil, "-o", out, "--force")
    assert done.returncode == 0, done.stderr
    return out


def shown(value):
    """All strings in what a JSON parser gave."""
    if isinstance(value, dict):
        return [s for item in value.items() for s in shown(item)]
    if isinstance(value, (list, tuple)):
        return [s for item in value for s in shown(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", ["x.speedscope.json", "x.trace.json"])
def test_json(evil, name):
    got = json.loads(converted(evil, name).read_bytes().decode("utf-8"))
    texts = shown(got)
    assert not [text for text in texts if UNSEEN.search(text)]
    assert any("<script>window.pwned=1;alert(1)</script>" in text for text in texts)
    assert any(r"\x1b[31mred\x1b[0m" in text for text in texts) and any(r"\ud800" in text for text in texts)
    if "speedscope" in name:
        assert len(got["profiles"]) == len(hostile.NAMES)
    else:
        assert len([e for e in got["traceEvents"] if e["ph"] == "B"]) == len(hostile.NAMES)


def test_text(evil):
    text = converted(evil, "x.txt").read_bytes().decode("utf-8")
    assert not UNSEEN.search(text) and r"\x1b[31mred\x1b[0m" in text
    assert text.startswith("%d function calls" % len(hostile.NAMES))


def test_pstats(evil, any_python):
    got = read(any_python.command, converted(evil, "x.pstats"))
    assert got["calls"] == len(hostile.NAMES) and not UNSEEN.search(got["printed"])
    assert not [key for key in got["funcs"] if UNSEEN.search(key)]


@pytest.mark.skipif(speedscope.MISSING, reason=str(speedscope.MISSING))
def test_no_script_runs_in_speedscope(evil):
    assert chrome.PROGRAM
    got = speedscope.imported(converted(evil, "x.speedscope.json"))
    assert len(got.profiles) == len(hostile.NAMES)
