# SPDX-License-Identifier: Apache-2.0
"""Services whose names are meant to break something: what they are called changes no path, page, table or query, and two that look alike in a
file's name stay two. test_clickhouse.py and tests/peers send them to real servers."""
import gzip
import json
import os
import re
import subprocess
import time

import lib
import pythons
import windows
from protobuf import Pprof
from test_sinks import send

PROGRAM = b"while True:\n    sum(range(1000))\n"
# of programs, in the bytes of a file's name; and as a label has them
PROGRAMS = {b"a b": "a b", b"a+b": "a+b", b"..": "..", b"\x1b[31m\nred": "\\x1b[31m\\x0ared", b"\xff\xfe": "\\xff\\xfe", b"<script>alert(1)": "<script>alert(1)",
            b"'); DROP TABLE profiles --": "'); DROP TABLE profiles --", b"{job=\"x\"}": "{job=\"x\"}", b"n" * 250: "n" * 250, b"%s%n": "%s%n",
            "\u202egnp".encode(): "\\u202egnp"}


def fleet(*args):
    done = subprocess.run([lib.BINARY, "fleet", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def services(store, *args):
    return {s["service"] for s in json.loads(fleet("services", "--store", store, "--json", *args))}


def selector(name):
    return '{service_name="%s"}' % name.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n")


@lib.needs_root
def test_from_a_program_to_the_store(tmp_path):
    """Programs with such names, all the way: the files of the store have plain names, and each service is asked for by its own."""
    (interpreter,) = [n for n in pythons.names() if re.match(r"3\.11-debian", n)]
    running = []
    try:
        for number, name in enumerate(PROGRAMS):
            folder = tmp_path / str(number)
            folder.mkdir()
            path = os.fsencode(folder) + b"/" + name + b".py"
            with open(path, "wb") as f:
                f.write(PROGRAM)
            running.append(subprocess.Popen([*map(str, pythons.found()[interpreter]), path]))
        with lib.started([lib.BINARY, "agent", "--store", tmp_path / "store", "--window", "10s", "-r", "99", "--listen", "127.0.0.1:0"],
                         stderr=subprocess.PIPE) as agent:
            store = tmp_path / "store"
            lib.until(lambda: list(store.glob("*.pb.gz")) and set(PROGRAMS.values()) <= services(store), "windows of all", 60)
            said = lib.stop(agent)
    finally:
        for process in running:
            process.kill()
            process.wait(30)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", said)
    held = [p.name for p in (tmp_path / "store").iterdir()]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) and len(name) < 120 for name in held), held
    for name in PROGRAMS.values():
        assert json.loads(fleet("top", "--store", tmp_path / "store", "--service", name, "--json"))["calls"] > 0, name


def test_asked_by_name_and_by_label(tmp_path):
    made = windows.hour(tmp_path, services=windows.HOSTILE, minutes=2)
    assert services(tmp_path) == set(windows.HOSTILE)
    shown = fleet("services", "--store", tmp_path).decode()
    assert len(shown.splitlines()) == len(windows.HOSTILE) + 1 and "\x1b" not in shown and "\u202e" not in shown
    for name in windows.HOSTILE:
        for chosen in (("--service", name), ("--query", selector(name))):
            assert json.loads(fleet("top", "--store", tmp_path, *chosen, "--json"))["calls"] == made.total(name)[0], name


def test_pages(tmp_path):
    """The stacks have the names in them, too."""
    made = windows.hour(tmp_path, services=windows.HOSTILE, minutes=1)
    for kind in ("html", "svg"):
        page = fleet("flame", "--store", tmp_path, "-f", kind, "-o", "-", "-q").decode()
        assert "<script>alert" not in page and "\x1b" not in page, kind
    lines = fleet("flame", "--store", tmp_path, "-f", "collapsed", "-o", "-", "-q").decode().splitlines()
    assert all(re.fullmatch(r"[^\x00-\x1f]* \d+", line) for line in lines)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(made.total(name)[1] for name in windows.HOSTILE)
    merged = Pprof(gzip.decompress(fleet("flame", "--store", tmp_path, "-f", "pprof", "-o", "-", "-q")))
    assert merged.types


def test_sent(tmp_path):
    """To every kind of server; what they make of it is in test_push.py and tests/peers."""
    import double  # pylint: disable=import-outside-toplevel
    from test_push import good  # pylint: disable=import-outside-toplevel
    for kind in ("pyroscope", "parca"):
        store = tmp_path / kind
        windows.hour(store, services=windows.HOSTILE, minutes=1)
        with double.Double(good(kind)) as server:
            done = send(store, "%s=%s" % (kind, server.url))
            assert (done.code, done.sent, done.owed) == (0, len(windows.HOSTILE), 0), done.said
