# SPDX-License-Identifier: Apache-2.0
"""Limits of pyebpf itself, and surroundings that are not as usual, with the inline engine: what is said is true, and nothing stays behind."""
import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import threading
import time

import pytest

import lib
import pythons
import selected
from limits import as_nobody
from test_inline_faults import detach
from test_inline_robust import INLINE, memfd_links, of_files

ONE = next(n for n in lib.families() if pythons.version(n) >= (3, 12))
CALLS = "import time\ndef leaf(): return 1\nprint('up', flush=True)\nwhile True:\n    leaf()\n    time.sleep(.0005)\n"
BUSY = "def leaf(): return 1\nprint('up', flush=True)\nwhile True: leaf()\n"


def limited(what, soft, hard=None):
    return lambda: resource.setrlimit(what, (soft, soft if hard is None else hard))


@pytest.mark.parametrize("out, options", [("t.pyebpf", []), ("t.txt", ["--count"])])
@pytest.mark.parametrize("size", [100 << 10, 4 << 20])
def test_a_limit_of_file_sizes(size, out, options, tmp_path):
    """The memory that pyebpf shares with the target counts as a file: what is too large is an error, and no signal that kills."""
    def run(most, *what):
        return lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / out, *INLINE, *options, *what], preexec_fn=limited(resource.RLIMIT_FSIZE, most))
    with lib.started(lib.command(ONE) + ["-c", CALLS]) as target:
        assert target.stdout.readline() == b"up\n"
        done = run(1 << 30, "-d", "50ms", "-p", target.pid)
        assert done.returncode == 0, lib.text(done.stderr)
        before = of_files(target.pid)
        done = run(size, "-d", "50ms", "-p", target.pid)
        assert done.returncode == 5 and b"File too large" in done.stderr, (done.returncode, lib.text(done.stderr))
        assert of_files(target.pid) == before and not memfd_links(target.pid)
        assert detach(target.pid) == (0, "pyebpf: nothing of pyebpf is in process %d\n" % target.pid)
        assert target.poll() is None
    done = run(size, "--", *lib.command(ONE), "-c", "print('ran')")
    assert done.returncode == 125 and b"File too large" in done.stderr and not done.stdout, (done.returncode, lib.text(done.stderr))


def test_the_command_meets_the_limit_as_ever(tmp_path):
    """That pyebpf ignores the signal is nothing that a command of its own inherits."""
    shows = ["grep", "SigIgn", "/proc/self/status"]
    plain = lib.sh(shows)
    done = lib.sh([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "--", *shows])
    assert done.stdout == plain.stdout != b"", lib.text(done.stderr)


@pytest.mark.parametrize("size", [64, 128, 255, 256])
def test_a_limit_of_the_stack(size, tmp_path):
    """Too little of it is refused before anything is done; what is enough is."""
    with lib.started(lib.command(ONE) + ["-c", CALLS]) as target:
        assert target.stdout.readline() == b"up\n"
        done = lib.trace(["--force", *INLINE, "-d", "50ms", "-p", target.pid], tmp_path / "t.pyebpf",
                         preexec_fn=limited(resource.RLIMIT_STACK, size << 10))
        if size < 256:
            assert done.returncode == 2 and b"a stack of %d kB is too small" % size in done.stderr, lib.text(done.stderr)
        else:
            assert done.returncode == 0 and lib.Trace(tmp_path / "t.pyebpf").whole().events, lib.text(done.stderr)
        assert target.poll() is None


def test_a_limit_of_cpu_time(tmp_path):
    """What is there by then is written, as at the end of any run."""
    with lib.started(lib.command(ONE) + ["-c", BUSY]) as target:
        assert target.stdout.readline() == b"up\n"
        done = lib.trace([*INLINE, "-d", "60s", "-p", target.pid], tmp_path / "t.pyebpf", preexec_fn=limited(resource.RLIMIT_CPU, 1, 30))
        assert done.returncode == 0, (done.returncode, lib.text(done.stderr))
        assert not memfd_links(target.pid) and target.poll() is None
    done = lib.sh([lib.BINARY, "stats", tmp_path / "t.pyebpf"])
    assert done.returncode == 0 and b"warning: " not in done.stderr and b"leaf" in done.stdout, lib.text(done.stdout + done.stderr)


FORKS = """import os, sys, time
def leaf(): return 1
kids, (end, keeps) = [], os.pipe()
print("up", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        os.close(keeps)
        for _ in range(20): leaf()
        os.read(end, 1)
        leaf()
        os._exit(0)
    kids.append(pid)
    time.sleep(float(sys.argv[2]))
print(*kids, flush=True)
sys.stdin.readline()
os.close(keeps)
for pid in kids: os.waitpid(pid, 0)
"""


def answer(target):
    target.stdin.write(b"\n")
    target.stdin.flush()


@pytest.mark.parametrize("hard", [40, 4096])
def test_a_limit_of_descriptors(hard, tmp_path):
    """Some are needed for each child: as many as may be are used, and children that get none are said to, with the reason."""
    with lib.started(lib.command(ONE) + ["-c", FORKS, 40, .02], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "--on-full", "wait", "-s", "-p", target.pid], stderr=-1,
                         preexec_fn=limited(resource.RLIMIT_NOFILE, 40, hard)) as tracer:
            lib.until(lambda: lib.status_field(target.pid, "TracerPid") == str(tracer.pid), "the attach")
            time.sleep(1)
            answer(target)
            kids = {int(word) for word in target.stdout.readline().split()}
            answer(target)
            assert target.wait(60) == 0
            said = lib.finish(tracer)
    missed = re.findall(r"child (\d+) is not traced: (.*)", said)
    assert bool(missed) == (hard == 40) and all("Too many open files" in why for _, why in missed), said
    seen = {e["pid"] for e in lib.Trace(tmp_path / "t.pyebpf").events if e["ev"] == "call" and e["name"] == "leaf"}
    assert seen == kids - {int(pid) for pid, _ in missed}


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_children_that_are_forked_during_the_attach(name, tmp_path):
    """They have none of the stubs, or all of them and no word that leads there: those that are followed are recorded, too."""
    early, turn, pause = 0, 0, .002
    while turn < (20 if lib.LONG else 3) or (early <= 10 and turn < 30):
        turn += 1
        with lib.started(lib.command(name) + ["-c", FORKS, 100, pause], stdin=subprocess.PIPE) as target:
            assert target.stdout.readline() == b"up\n"
            answer(target)
            with lib.started([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "--on-full", "wait", "-s", "-p", target.pid],
                             stderr=-1) as tracer:
                kids = [int(word) for word in target.stdout.readline().split()]
                followed = [pid for pid in kids if lib.status_field(pid, "TracerPid") == str(tracer.pid)]
                time.sleep(.2)
                said = lib.stop(tracer)
            left = [detach(pid)[1] for pid in followed[:12]]  # the first ones are those
            assert not [what for what in left if "nothing of pyebpf is in" not in what], left
            assert not [pid for pid in followed if memfd_links(pid)]
            answer(target)
            assert target.wait(60) == 0
        seen = lib.Trace(tmp_path / "t.pyebpf")
        missed = {int(pid) for pid in re.findall(r"child (\d+) is not traced", said)}  # forked just before the first thread was followed
        assert {*followed} <= {e["pid"] for e in seen.events} and not missed & {*followed}, (turn, said)
        early += len(followed)
        pause *= 1 if followed else 2  # a busy machine: all were forked before the attach
    assert early > 10


def test_one_that_has_ended(public_tmp):
    """A user's own zombie: not that its memory is closed."""
    code = "import os, time\npid = os.fork()\nif not pid: os._exit(0)\ntime.sleep(.2)\nprint(pid, flush=True)\ntime.sleep(60)\n"
    with lib.started([*as_nobody(), *lib.command("3.11-debian"), "-c", code]) as target:
        zombie = target.stdout.readline().strip()
        for args in (["trace", *INLINE, "-o", "t.pyebpf", "-p", zombie.decode()], ["detach", zombie.decode()]):
            done = lib.sh([*as_nobody("dac_read_search"), lib.BINARY, *args], cwd=public_tmp)
            assert done.returncode == 4 and b"zombie" in done.stderr, lib.text(done.stderr)


def test_proc_of_another_pid_namespace(tmp_path):
    """The numbers there are others: the command does not run."""
    done = lib.sh(["unshare", "--pid", "--fork", lib.BINARY, "trace", *INLINE, "-o", tmp_path / "t.pyebpf", "--", *lib.command(ONE), "-c",
                   "print('ran')"])
    assert done.returncode == 125 and b"another pid namespace" in done.stderr and not done.stdout, lib.text(done.stderr)


@pytest.mark.skipif("3.11-debian" not in lib.every(), reason="no interpreter of one file here")
def test_a_file_that_may_only_be_executed(public_tmp):
    python, = lib.command("3.11-debian")
    shutil.copy(os.path.realpath(python), public_tmp / "python3.11")
    (public_tmp / "python3.11").chmod(0o711)
    with lib.started([*as_nobody(), public_tmp / "python3.11", "-c", CALLS]) as target:
        assert target.stdout.readline() == b"up\n"
        shutil.copy(lib.BINARY, public_tmp / "pyebpf")
        (public_tmp / "pyebpf").chmod(0o755)
        done = lib.sh([*as_nobody(), public_tmp / "pyebpf", "trace", *INLINE, "-o", "t.pyebpf", "-p", target.pid], cwd=public_tmp)
        assert done.returncode == 3 and re.search(rb"python3.11\): its file cannot be read: Permission denied", done.stderr), lib.text(done.stderr)
        assert target.poll() is None


STARTS = """import subprocess, sys, threading, time
end, longest, done = [], [0], [0]
def leaf(): return 1
def busy():
    while not end:
        for _ in range(20000): leaf()
def starts():
    while not end:
        begun = time.monotonic()
        assert subprocess.call(["/bin/sh", "-c", "exit 5"]) == 5
        longest[0] = max(longest[0], time.monotonic() - begun)
        done[0] += 1
        time.sleep(.005)
threads = [threading.Thread(target=starts)] + [threading.Thread(target=busy)] * (len(sys.argv) > 1)
for t in threads: t.start()
print("up", flush=True)
sys.stdin.readline()
end.append(1)
for t in threads: t.join()
print(longest[0], done[0])
"""


@pytest.mark.parametrize("busy", [[], ["busy"]])
@pytest.mark.parametrize("name", lib.pick("3.11", "3.12", "3.14"))
def test_programs_are_started_meanwhile(name, busy, tmp_path):
    """By vfork(): the thread sleeps until its child, which is followed, executes something; also while others are stopped, for the attach
    or after a loss."""
    with lib.started(lib.command(name) + ["-c", STARTS, *busy], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(1 if busy else 4):
            done = lib.trace(["--force", *INLINE, "-s", "-d", "2s" if busy else "100ms", "--ring", "64K", "-p", target.pid], tmp_path / "t.pyebpf")
            assert done.returncode == 0, lib.text(done.stderr)
            assert not busy or b" in which a thread's stack is not known" in done.stderr, lib.text(done.stderr)
        longest, cnt = map(float, target.communicate(b"\n", timeout=60)[0].split())
    assert target.returncode == 0 and longest < 1 and cnt > 5, (longest, cnt)


@pytest.mark.parametrize("thread", [") Z\\nx", "a\\nb", ")"], ids=["as if it had ended", "two lines", "a bracket"])
def test_a_thread_whose_name_looks_like_its_state(thread, tmp_path):
    """proc(5): stat has names as they are, newlines and brackets, too."""
    code = ("import ctypes\nctypes.CDLL(None).prctl(15, b'%s')\ndef leaf(): return 1\nprint('up', flush=True)\nwhile True: leaf()\n" % thread)
    with lib.started(lib.command(ONE) + ["-c", code]) as target:
        assert target.stdout.readline() == b"up\n"
        done = lib.trace([*INLINE, "-d", "50ms", "-p", target.pid], tmp_path / "t.pyebpf")
        assert done.returncode == 0 and target.poll() is None, lib.text(done.stderr)
    assert sum(e.get("name") == "leaf" for e in lib.Trace(tmp_path / "t.pyebpf").events) > 100


def test_what_goes_on_behind_a_command(tmp_path):
    """A capture ends with the process that was asked for, which is said where others go on."""
    code = ("import os, sys\ndef leaf(): return 1\nif os.fork():\n    leaf()\n    os._exit(0)\nos.close(1)\nos.close(2)\nos.read(int(sys.argv[1]), 1)\n")
    end, keeps = os.pipe()
    with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-s", "--", *lib.command(ONE), "-c", code, end],
                     stderr=-1, pass_fds=[end]) as tracer:
        said = lib.finish(tracer)
        os.close(keeps)
    os.close(end)
    assert re.search(r"1 process that it started goes on, untraced from here on, as process \d+ has ended", said), said


@pytest.mark.parametrize("options", [[], ["-s"]], ids=["one", "with children"])
def test_too_few_descriptors(options, tmp_path):
    """Wherever they run out, that is the reason."""
    refused = 0
    with lib.started(lib.command(ONE) + ["-c", CALLS]) as target:
        assert target.stdout.readline() == b"up\n"
        for n in range(5, 30):
            done = lib.trace(["--force", *INLINE, *options, "-d", "20ms", "-p", target.pid], tmp_path / "t.pyebpf",
                             preexec_fn=limited(resource.RLIMIT_NOFILE, n))
            assert done.returncode == 0 or b"Too many open files" in done.stderr, (n, lib.text(done.stderr))
            refused += done.returncode != 0
        assert refused and done.returncode == 0 and target.poll() is None


# --- a freezer ---

@contextlib.contextmanager
def freezer():
    """freeze(bool) of a cgroup of version 2, and what puts a process there."""
    if " - cgroup2 " not in pathlib.Path("/proc/self/mountinfo").read_text():
        pytest.skip("cgroups of version 2 are not mounted")
    with selected.cgroup("pyebpf-test-%d" % os.getpid()) as folder:
        def freeze(yes):
            (folder / "cgroup.freeze").write_text(str(int(yes)))
            lib.until(lambda: "frozen %d" % yes in (folder / "cgroup.events").read_text(), "the freezer")
        try:
            yield freeze, selected.started_in(folder)
        finally:
            (folder / "cgroup.freeze").write_text("0")


def is_clean(pid, before):
    time.sleep(0.2)  # what it was given to do it does now
    return of_files(pid) == before and not memfd_links(pid)


@pytest.mark.parametrize("code", [CALLS, BUSY], ids=["sleeps", "runs"])
@pytest.mark.parametrize("name", lib.pick("3.9", "3.12"))
def test_a_target_that_is_frozen(name, code, tmp_path):
    """Refused; or, frozen since, left as it is, with the stubs unused: it is not waited for, and does nothing for us when it goes on."""
    with freezer() as (freeze, there), lib.started(lib.command(name) + ["-c", code], **there) as target:
        assert target.stdout.readline() == b"up\n"
        before = of_files(target.pid)
        freeze(True)
        done = lib.trace([*INLINE, "-d", "50ms", "-p", target.pid], tmp_path / "t.pyebpf")
        assert done.returncode == 5 and b"it is frozen" in done.stderr, lib.text(done.stderr)
        freeze(False)
        assert is_clean(target.pid, before)
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: memfd_links(target.pid) or "memfd" in pathlib.Path("/proc/%d/maps" % target.pid).read_text(), "the attach")
            time.sleep(0.3)
            freeze(True)
            tracer.send_signal(lib.signal.SIGINT)
            began = time.monotonic()
            assert tracer.wait(60) == 0
            assert time.monotonic() - began < 8, "calls that are on their way are waited for ten seconds"
            assert b"the stubs stay mapped, unused" in tracer.stderr.read()
        code, said = detach(target.pid)
        assert code == 0 and "the stubs stay mapped" in said or code == 5 and "it is frozen" in said, said
        freeze(False)
        assert detach(target.pid)[0] == 0 and is_clean(target.pid, before) and target.poll() is None


def test_a_target_that_is_frozen_for_a_moment(tmp_path):
    """That is waited for."""
    with freezer() as (freeze, there), lib.started(lib.command(ONE) + ["-c", CALLS], **there) as target:
        assert target.stdout.readline() == b"up\n"
        freeze(True)
        later = threading.Timer(0.4, freeze, [False])
        later.start()
        done = lib.trace([*INLINE, "-d", "50ms", "-p", target.pid], tmp_path / "t.pyebpf")
        later.join()
        assert done.returncode == 0, lib.text(done.stderr)
        assert lib.Trace(tmp_path / "t.pyebpf").events


def test_a_freezer_at_any_moment(tmp_path):
    rng = random.Random(7)
    with freezer() as (freeze, there), lib.started(lib.command(ONE) + ["-c", CALLS], **there) as target:
        assert target.stdout.readline() == b"up\n"
        before = of_files(target.pid)
        for _ in range(100 if lib.LONG else 12):
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "20ms", "-p", target.pid],
                             stderr=-1) as tracer:
                while tracer.poll() is None:
                    freeze(True)
                    time.sleep(rng.random() * 0.02)
                    freeze(False)
                    time.sleep(rng.random() * 0.02)
                said = lib.text(tracer.stderr.read())
            assert tracer.returncode == 0 or (tracer.returncode == 5 and "it is frozen" in said), said
            assert detach(target.pid)[0] == 0 and is_clean(target.pid, before) and target.poll() is None
