# SPDX-License-Identifier: Apache-2.0
"""Threads are called what the program calls them."""
import json
import subprocess

import pytest

import lib

pytestmark = lib.needs_root
PROGRAM = lib.PROGRAMS / "named_threads.py"
NAMES = ["worker-0", "worker-1", "renamed", "a subclass's with a name that is longer than fifteen", "\u00fcn\u00ef\u4e2d"]


def started(command):
    return lib.started([*command, PROGRAM], stdin=subprocess.PIPE)


def last_name(process):
    """Of the thread that has none given: its function, too, from 3.10 on."""
    return lib.text(process.stdout.readline()).strip()


def child_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        words = f.read().split()
    return int(words[0]) if words else None


def in_dump(pid):
    process, = json.loads(lib.text(lib.sh([lib.BINARY, "dump", "--json", pid]).stdout))
    return {t["thread"] for t in process["threads"]}


def in_capture(path):
    report = json.loads(lib.text(lib.sh([lib.BINARY, "stats", path, "--by", "thread", "--json"]).stdout))
    return {row["thread"] for row in report["rows"]}


@pytest.mark.parametrize("name", lib.every())
def test_dump(name):
    with started(lib.command(name)) as process:
        last = last_name(process)
        assert {*NAMES, last} <= in_dump(process.pid)


def captures():
    """Each interpreter's threads by samples; calls by either engine of some."""
    some = lib.pick("3.8", "3.12")
    return [(n, ["record"]) for n in lib.families()] + [(n, ["trace", "--engine", e]) for n in some for e in ("auto", "inline")]


@pytest.mark.parametrize("name, command", captures(), ids=lambda v: v if isinstance(v, str) else v[-1])
def test_capture(name, command, tmp_path):
    with started(lib.command(name)) as process:
        last = last_name(process)
        done = lib.sh([lib.BINARY, *command, "-p", process.pid, "-d", "500ms", "-q", "-o", tmp_path / "x.pyebpf"])
        assert done.returncode == 0, lib.text(done.stderr)
    got = in_capture(tmp_path / "x.pyebpf")
    assert {*NAMES, last} <= got, got
    assert not got & {"MainThread"}  # the first thread has the process's name, as everywhere


def test_threads_that_have_ended(tmp_path):
    """Before their first event is read: they have their process's name, or what they have called themselves."""
    code = ("import threading\n"
            "for i in range(40):\n"
            "    t = threading.Thread(target=id, args=(i,), name='worker-%d' % i)\n"
            "    t.start()\n"
            "    t.join()\n")
    done = lib.sh([lib.BINARY, "trace", "--engine", "inline", "-q", "-o", tmp_path / "x.pyebpf", "--", *lib.command(lib.pick("3.12")[0]), "-c", code])
    assert done.returncode == 0, lib.text(done.stderr)
    lib.sh([lib.BINARY, "convert", "-q", tmp_path / "x.pyebpf", "-o", tmp_path / "x.json"])
    threads = [t["name"] for t in json.loads((tmp_path / "x.json").read_text())["threads"]]
    assert len(threads) == 41 and not [t for t in threads if t.startswith("Thread")], threads


def test_threads_that_begin_later(tmp_path):
    """Of a command, from its first call on; and the Firefox Profiler shows them."""
    name = lib.families()[0]
    program = tmp_path / "later.py"
    program.write_text("import threading, time\n"
                       "for i in range(4):\n"
                       "    t = threading.Thread(target=time.sleep, args=(0.5,), name='later-%d' % i)\n"
                       "    t.start(); t.join()\n", "utf-8")
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", tmp_path / "x.pyebpf", "--", *lib.command(name), program])
    assert done.returncode == 0, lib.text(done.stderr)
    assert {"later-%d" % i for i in range(4)} <= in_capture(tmp_path / "x.pyebpf")
    done = lib.sh([lib.BINARY, "convert", tmp_path / "x.pyebpf", "-q", "-o", tmp_path / "x.json"])
    assert done.returncode == 0
    threads = json.loads((tmp_path / "x.json").read_text("utf-8"))["threads"]
    assert {"later-%d" % i for i in range(4)} <= {t["name"] for t in threads}


def test_in_a_container():
    """There the program knows other numbers."""
    name = lib.families()[-1]
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *lib.command(name), PROGRAM]
    with lib.started(inside, stdin=subprocess.PIPE) as process:
        last = last_name(process)
        pid = lib.until(lambda: child_of(process.pid), "the process inside")
        assert {*NAMES, last} <= in_dump(pid)
