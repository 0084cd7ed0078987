# SPDX-License-Identifier: Apache-2.0
"""-s: children by the hundred, children that cannot be traced, and commands that only start others."""
import collections
import contextlib
import os
import resource
import subprocess

import pytest

import lib

pytestmark = lib.needs_root
MANY = lib.PROGRAMS / "children_many.py"


def few_files(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def owns(seen):
    return [e for e in seen.events if e["ev"] == "call" and e["name"] == "own"]


def test_children_of_a_busy_parent_have_names(tmp_path):
    """The news of a fork comes through another ring than the child's definitions."""
    seen, done = lib.traced(lib.any_python() + [MANY, 200, 5000, 0], tmp_path, "-s", preexec_fn=few_files(150))
    seen.whole()
    assert len({e["pid"] for e in owns(seen)}) == len(owns(seen)) == 200
    assert not [e for e in seen.events if "unreadable" in e.get("func", "")]
    assert "unreadable names" not in lib.text(done.stderr)


def test_children_of_a_running_process(tmp_path):
    """Each needs probes of its own, which are taken out again when it has ended."""
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.any_python() + [MANY, 30, 10, 1], stdin=subprocess.PIPE) as target:
        with lib.attach(target.pid, cap, "-s", preexec_fn=few_files(80)) as tracer:
            lib.wait_attached(tracer, target.pid)
            target.stdin.write(b"\n")
            target.stdin.flush()
            lib.finish(tracer, seconds=120)
    assert len({e["pid"] for e in owns(lib.Trace(cap))}) == 30


@contextlib.contextmanager
def waiting_children(name):
    """A program that has started some, and the pids of those that are Python."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "run_already.py"], stdin=-1, stderr=-1) as target:
        yield target, [int(target.stderr.readline()) for _ in range(4)]


def let_work(target):
    """{pid: calls of work()} that they made."""
    target.stdin.write(b"\n")
    target.stdin.flush()
    return dict(map(int, line.split()) for line in target.stdout.read().splitlines())


def calls_of_work(capture):
    return collections.Counter(e["pid"] for e in lib.Trace(capture).whole().events if e["ev"] == "call" and e["name"] == "work")


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_children_that_run_already(name, tmp_path):
    """And theirs, also below a shell."""
    cap = tmp_path / "t.pyebpf"
    with waiting_children(name) as (target, pids):
        with lib.attach(target.pid, cap, "-s") as tracer:
            lib.wait_attached(tracer, target.pid, *pids)
            said = let_work(target)
            words = lib.finish(tracer)
    calls = calls_of_work(cap)
    assert [(said[pid], calls[pid]) for pid in sorted(pids)] == [(n, n) for n in (200, 201, 202, 300)] and "warning: " not in words


def test_samples_of_children_that_run_already(tmp_path):
    cap = tmp_path / "s.pyebpf"
    code = ("import os, sys\nparent = os.getpid()\ndef spin():\n    while os.getppid() == parent: pass\n    os._exit(0)\nkids = []\nfor _ in range(2):\n    kids.append(os.fork())\n    if not kids[-1]: spin()\n"
            "print(flush=True)\nsys.stdin.read()\nfor pid in kids: os.kill(pid, 9)\n")
    with lib.started(lib.any_python() + ["-c", code], stdin=-1) as target:
        target.stdout.readline()
        done = lib.sh([lib.BINARY, "record", "--force", "-s", "-p", target.pid, "-d", "1s", "-o", cap])
        target.stdin.close()
        target.wait(30)
    assert done.returncode == 0, lib.text(done.stderr)
    spinning = {e["pid"] for e in lib.objects(lib.convert(cap)) if e["ev"] == "sample" and e["state"] == "on"}
    assert len(spinning - {target.pid}) == 2, lib.text(done.stderr)


@pytest.mark.parametrize("script", ["{0}; true", "sh -c '{0}'; exit 0", "{0} & wait"])
def test_a_shell_that_starts_python(script, tmp_path):
    python = lib.shell_words(lib.any_python() + [lib.PROGRAMS / "counted.py", tmp_path / "out", "add", 100])
    seen, _ = lib.traced(["sh", "-c", script.format(python)], tmp_path, "-s")
    assert seen.whole().count(lib.PROGRAMS / "counted.py")["count_add"] == 100


def test_a_child_that_cannot_be_traced_runs_on(tmp_path):
    python = lib.any_python()
    other = next((p for p in ("/usr/bin/python2.7", os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python2.7"))
                  if os.path.exists(p)), None)
    if not other:
        pytest.skip("no Python 2")
    code = "import subprocess as s; print(s.call([%r, '-c', 'print(40 + 2)']))" % other
    seen, done = lib.traced(python + ["-c", code], tmp_path, "-s")
    assert done.stdout.split() == [b"42", b"0"]
    assert b"is not traced" in done.stderr
    assert seen.whole().count("<string>")["<module>"]
