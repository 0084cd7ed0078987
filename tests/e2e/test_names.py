# SPDX-License-Identifier: Apache-2.0
"""Names: never of another function, whatever bytes they hold."""
import collections
import json
import os
import pty
import re
import subprocess
import threading

import pytest

import lib

pytestmark = lib.needs_root


def expected_fresh(n, ks):
    for k in ks:
        for i in range(n // 2):
            yield "f_%d_%d" % (k, i), 1 + (i * 7919 + k) % 1000003
            yield "<lambda>", 1 + k * 1000000 + i


@pytest.mark.parametrize("name, threads", [(n, 4) for n in lib.families()] + [(n, 0) for n in lib.pick("3.12")])
def test_a_hundred_thousand_short_lived_functions(name, threads, tmp_path):
    n = 100000 if lib.LONG or lib.family(name) == "3.12" else 8000
    per_thread = n // threads if threads else n
    seen, _ = lib.run_program(name, "fresh.py", tmp_path, per_thread, *([threads] if threads else []))
    seen.whole()
    calls = collections.Counter((e["name"], e["func"], e["line"]) for e in seen.of("<made>")
                                if e["ev"] == "call" and e["name"] != "<module>")
    want = {(name, name, line): 1 for name, line in
            expected_fresh(per_thread, range(1, threads + 1) if threads else [0])}
    # eval of a lambda runs a body of its own; up to 3.12 it is called <module>, later it may be, too
    assert {k: v for k, v in calls.items() if k not in want} == {}
    assert calls == want
    returns = collections.Counter((e["name"], e["line"]) for e in seen.of("<made>")
                                  if e["ev"] == "return" and e["name"] != "<module>")
    assert len(returns) == len(want) and set(returns.values()) == {1}


@pytest.mark.parametrize("name", lib.families())
def test_equal_names_are_told_apart(name, tmp_path):
    seen, _ = lib.run_program(name, "equal_names.py", tmp_path)
    seen.whole()
    got = collections.Counter((e["func"], e["line"]) for e in seen.of(lib.PROGRAMS / "equal_names.py")
                              if e["ev"] == "call" and e["name"] in ("inner", "<lambda>"))
    rows = [("outer1.<locals>.inner", 5, 10), ("outer2.<locals>.inner", 11, 10), ("A.inner", 17, 20), ("A.B.inner", 21, 30),
            ("A.B.inner.<locals>.<lambda>", 22, 30), ("inner", 25, 10), ("outer3.<locals>.inner", 30, 40),
            ("outer3.<locals>.inner.<locals>.inner", 31, 40)]
    if lib.pythons.version(name) < (3, 11):
        rows = [(func.split(".")[-1], line, n) for func, line, n in rows]
    assert got == {(func, line): n for func, line, n in rows}


def no_raw_controls(raw, allowed=()):
    for sequence in allowed:
        raw = raw.replace(sequence, b"")
    shown = raw.decode("utf-8")  # strictly: nothing else may be in there
    bad = re.findall("[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]", shown)
    assert not bad, (bad, raw[-3000:])


@pytest.mark.parametrize("name", lib.families())
def test_names_of_any_bytes(name, tmp_path):
    want_file = tmp_path / "want.json"
    seen, done = lib.run_program(name, "odd_names.py", tmp_path, want_file)
    seen.whole()
    want = json.loads(want_file.read_text())
    got = {e["line"]: (e["name"], e["func"], e["file"]) for e in seen.events
           if e["ev"] == "call" and e["line"] >= 1000000}
    calls = [e for e in seen.events if e["ev"] == "call" and e["line"] >= 1000000]
    assert len(calls) == len(want)
    shown = {}
    for name_, qualname, file, line in want:
        for real, text in zip((name_, qualname, file), got[line]):
            if real.endswith("x" * 49999) and "xmx" in real:
                continue  # see below
            if len(real.encode("utf-8", "surrogatepass")) < 4000:
                assert text == real
            else:
                assert real.startswith(text[:1000]) and len(text.encode("utf-8", "surrogatepass")) <= 4200
            assert shown.setdefault(text, real) == real, "two names look the same"
    no_raw_controls(done.stderr)


def test_long_names_that_differ_in_the_middle(tmp_path):
    want_file = tmp_path / "want.json"
    seen, _ = lib.run_program(lib.families()[-1], "odd_names.py", tmp_path, want_file)
    alike = [line for name, _, _, line in json.loads(want_file.read_text()) if len(name) == 100000 and name[0] == name[-1] == "x"]
    assert len(alike) == 2
    assert len({e["name"] for e in seen.events if e["ev"] == "call" and e["line"] in alike}) == 2


def test_every_format_takes_them(tmp_path):
    name = lib.families()[-1]
    lib.run_program(name, "odd_names.py", tmp_path, tmp_path / "want.json")
    capture = tmp_path / "t.pyebpf"
    raw = lib.convert(capture, "ndjson")
    assert all(json.loads(line) for line in raw.decode("utf-8").splitlines())
    assert b"\x1b" not in raw and b"\0" not in raw
    lib.convert(capture, "pprof")
    folded = lib.convert(capture, "collapsed").decode("utf-8")
    for line in folded.splitlines():
        assert re.fullmatch(r".+ \d+", line), line[:200]
    out = tmp_path / "t.json.gz"
    assert lib.sh([lib.BINARY, "convert", capture, "-o", out]).returncode == 0
    import gzip
    json.loads(gzip.open(out, "rb").read().decode("utf-8"))


def on_a_terminal(cmd):
    """Exit status and what a terminal is given."""
    master, slave = pty.openpty()
    chunks = []
    with lib.started(cmd, stdout=slave, stderr=slave) as process:
        os.close(slave)

        def read():
            while True:
                try:
                    data = os.read(master, 65536)
                except OSError:
                    return
                if not data:
                    return
                chunks.append(data)
        reader = threading.Thread(target=read)
        reader.start()
        status = process.wait(60)
        reader.join(30)
    os.close(master)
    return status, b"".join(chunks)


def test_a_terminal_gets_no_control_bytes(tmp_path):
    program = tmp_path / "evil\x1b[31m\u202e.py"
    program.write_text((lib.PROGRAMS / "odd_names.py").read_text() + "\nimport time\ntime.sleep(1.5)\n")
    folder = tmp_path / "out\x1b]0;x\x07"
    folder.mkdir()
    status, shown = on_a_terminal([lib.BINARY, "trace", "-o", folder / "o.json.gz", "--"] + lib.any_python()
                                  + [program, tmp_path / "want.json"])
    assert status == 0, shown
    colours = [b"\x1b[0m", b"\x1b[1m", b"\x1b[2m"]  # of the table's head and of what is needed least
    no_raw_controls(shown, [b"\r\x1b[K", b"\x1b[K", b"\r\n", b"\r"] + colours)


def test_a_refusal_shows_no_control_bytes(tmp_path):
    shown = lib.trace(["--", "/no/such\x1b[31m\x07"], tmp_path / "o.pyebpf").stderr
    no_raw_controls(shown)
    sleep = tmp_path / "sl\x1b[31m\x9bp"
    sleep.write_bytes(open("/bin/sleep", "rb").read())
    sleep.chmod(0o755)
    with lib.started([sleep, "60"]) as process:
        done = lib.trace(["-p", process.pid], tmp_path / "o.pyebpf")
    assert done.returncode == 4
    no_raw_controls(done.stderr)
