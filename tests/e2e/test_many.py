# SPDX-License-Identifier: Apache-2.0
"""Many processes of one interpreter file: few have probes of their own, of more the probes are in the file."""
import collections
import contextlib
import re
import subprocess

import pytest

import lib

pytestmark = lib.needs_root
OWN_MAX = 8  # user/cmd/targets.c
PROGRAM = """
import sys
def mark(n):
    return n
print("ready", flush=True)
sys.stdin.readline()
for i in range(25):
    mark(i)
sys.stdin.readline()
"""


@contextlib.contextmanager
def many(name, program, count):
    """So many processes that wait for a line, all the same one."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(lib.started(lib.command(name) + ["-c", program], stdin=subprocess.PIPE))
                   for _ in range(count)]
        for target in targets:
            assert target.stdout.readline() == b"ready\n"
        yield targets


def go(targets):
    for target in targets:
        target.stdin.write(b"\n")
        target.stdin.flush()


def run(name, traced, strangers, tmp_path, *options, program=PROGRAM):
    """(the trace, the pids, what pyebpf said, processes that have links of their own, links)."""
    log, capture = tmp_path / "log", tmp_path / "t.pyebpf"
    with many(name, program, traced + strangers) as targets, open(log, "wb") as err:
        pids = [t.pid for t in targets[:traced]]
        with lib.attach(pids, capture, "-v", *options, stderr=err) as tracer:
            lib.until(lambda: tracer.poll() is not None or "capabilities kept" in log.read_text(errors="replace"), "the probes")
            links = lib.probes(tracer.pid)
            cnt = len([o for o in lib.kernel_objects(tracer.pid) if o[0] == "link"])
            go(targets)
            go(targets)
            for target in targets:
                assert target.wait(60) == 0
            lib.finish(tracer)
    return lib.Trace(capture).whole(), pids, log.read_text(errors="replace"), {p[0] for p in links}, cnt


def check_exact(seen, pids):
    calls = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "mark")
    assert calls == {pid: 25 for pid in pids}


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.14"))
def test_sixty_processes_have_the_probes_of_nine(name, tmp_path):
    """All of them exact, and no link more: what a hit costs, and an attach, does not grow with them."""
    some, all_of_them = tmp_path / "some", tmp_path / "all"
    some.mkdir()
    all_of_them.mkdir()
    seen, pids, _, owners, few = run(name, OWN_MAX + 1, 0, some)
    check_exact(seen, pids)
    assert owners == {0}
    seen, pids, said, owners, cnt = run(name, 60, 2, all_of_them)
    check_exact(seen, pids)
    assert owners == {0} and cnt == few
    assert int(re.search(r"(\d+) other processes of", said).group(1)) >= 2


def test_few_processes_have_probes_of_their_own(tmp_path):
    seen, pids, said, owners, _ = run(lib.pick("3.12")[0], OWN_MAX, 1, tmp_path)
    check_exact(seen, pids)
    assert owners == set(pids) and "for its probes" not in said


@pytest.mark.parametrize("options", [("-s",), ()])
def test_children_of_many(options, tmp_path):
    """With -s a child of a process that shares its file's probes is there from its first call."""
    name = lib.pick("3.12")[0]
    program = PROGRAM.replace("for i", "import os\nchild = os.fork()\nfor i") + "os.waitpid(child, 0)\n"
    program = program.replace("    mark(i)\n", "    mark(i)\nchild or os._exit(0)\n")
    seen = run(name, OWN_MAX + 1, 0, tmp_path, *options, program=program)[0]
    calls = collections.Counter(e["pid"] for e in seen.events if e["ev"] == "call" and e["name"] == "mark")
    assert set(calls.values()) == {25} and len(calls) == (OWN_MAX + 1) * (2 if options else 1)


@contextlib.contextmanager
def children(count):
    """A process with so many that are no Python."""
    code = ("import subprocess, sys\nall = [subprocess.Popen(['sleep', '600']) for _ in range(%d)]\nprint('ready', flush=True)\n"
            "sys.stdin.readline()\nfor one in all: one.kill()" % count)
    with lib.started([*lib.command(lib.pick("3.12")[0]), "-W", "ignore", "-c", code], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"ready\n"
        yield target.pid
        target.communicate(b"\n", timeout=60)


@pytest.mark.parametrize("command", [["trace", "-s", "-d", "50ms"], ["trace", "--engine", "inline", "-s", "-d", "50ms"], ["detach", "-s"]],
                         ids=["uprobe", "inline", "detach"])
def test_more_children_than_are_looked_at(command, tmp_path):
    """That is said, once."""
    out = ["-o", tmp_path / "t.pyebpf", "-p"] if "trace" in command else []
    for count in 3, 1100:
        with children(count) as pid:
            done = lib.sh([lib.BINARY, *command, "--force", *out, pid] if out else [lib.BINARY, *command, pid])
        assert done.returncode == 0, done.stderr
        assert lib.text(done.stderr).count("only the first 1024 descendants of process %d are looked at" % pid) == (count > 1024)
