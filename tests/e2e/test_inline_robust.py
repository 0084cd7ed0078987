# SPDX-License-Identifier: Apache-2.0
"""The inline engine when things go wrong: what a killed pyebpf leaves is found and taken out, whatever fails the target goes on."""
import collections
import contextlib
import json
import mmap
import os
import pathlib
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import time

import pytest

import lib
from test_inline import FAMILIES, INLINE, ONE, attach_for, busy, check_sums, end_well, memfd_links, memfds, redirected

QUIET = ("import sys, time\n"
         "def f(): time.sleep(0.001)\n"
         "print('up', flush=True)\n"
         "while 1: f()\n")
# one for each way in which words are replaced
SOME = FAMILIES if lib.LONG else [n for n in FAMILIES if lib.family(n) in ("3.9", "3.11", "3.12", "3.13t", "3.14")]
SHORT = ["--ring", "256K"]
# user/inline/region.h
LOST_MODE, WAITS = 128, 128 + 32
HEAD, LANE_SHARED, LANE_HEAD, LANE_SLACK, LANES = 0x21000, 0x1400, 0x82000, 32768, 32
PARTS = 0x28000, 0x21000 + 2 * (256 << 10)


def maps(pid):
    return pathlib.Path("/proc/%d/maps" % pid).read_text()


def detach(*pids):
    done = lib.sh([lib.BINARY, "detach", *pids])
    return done.returncode, lib.text(done.stderr)


@contextlib.contextmanager
def quiet(name):
    """A target whose mappings do not change by themselves any more."""
    with lib.started(lib.command(name) + ["-c", QUIET]) as target:
        assert target.stdout.readline() == b"up\n"
        yield target


def shared(pid):
    """Where a target has the memory that it shares with pyebpf: of all its threads, then of each one that may have its own."""
    found = [line for line in maps(pid).splitlines() if " rw-s " in line and "/memfd:" in line]
    if not found:
        return []
    places = [int(line.split("-")[0], 16) for line in found]
    ring = size(found[0]) - HEAD
    if len(found) < 2 or size(found[1]) != ring + LANES * (LANE_HEAD + ring + LANE_SLACK):
        return places[:1]
    return places[:1] + [places[1] + ring + i * (LANE_HEAD + ring + LANE_SLACK) + LANE_SHARED for i in range(LANES)]


def word(pid, offset):
    """The sum of a word of each struct il_shared (user/inline/region.h); the first one is how many bytes the stubs have written."""
    places = shared(pid)
    with open("/proc/%d/mem" % pid, "rb") as f:
        return sum(int.from_bytes(os.pread(f.fileno(), 8, at + offset), "little") for at in places)


@contextlib.contextmanager
def inline(pid, out, *options):
    """pyebpf that has replaced the words of a process."""
    with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", out, *INLINE, *options, "-p", pid], stderr=-1) as tracer:
        lib.until(lambda: tracer.poll() is not None or word(pid, 0), "the first events")
        assert tracer.poll() is None, lib.text(tracer.stderr.read())
        yield tracer


def killed(pid, out, *options):
    with inline(pid, out, *options) as tracer:
        tracer.kill()
        assert tracer.wait() == -signal.SIGKILL


def size(line):
    start, end = line.split()[0].split("-")
    return int(end, 16) - int(start, 16)


def of_files(pid):
    """What is mapped of files (the rest comes and goes under load), and what looks like a part of a region of ours."""
    lines = maps(pid).splitlines()
    wiped = re.findall("^VmFlags:.* wf\\b", pathlib.Path("/proc/%d/smaps" % pid).read_text(), re.M)
    return [line for line in lines if line.split()[4] != "0"], [line for line in lines if " ---p " in line and size(line) in PARTS], wiped


def priorities(pid):
    """Of its threads, inherited or their own; proc(5): stat."""
    found = set()
    for stat in pathlib.Path("/proc/%d/task" % pid).glob("*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            found.add(int(stat.read_text().rpartition(")")[2].split()[15]))
    return found


# --- in and out, again and again ---

@pytest.mark.parametrize("name, rounds", [(n, 10 if lib.LONG else 5) for n in SOME] + [(n, 3) for n in lib.builds()])
def test_rounds_under_load(name, rounds, tmp_path):
    """Threads, exceptions, generators, new and dying code objects; the program checks all its results."""
    with busy(name, tmp_path) as target:
        assert target.stdout.readline() == b"up\n"
        lib.until(lambda: len(os.listdir("/proc/%d/task" % target.pid)) == 5, "its threads")
        attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "5ms")
        before = of_files(target.pid)
        for _ in range(1000 if lib.LONG else rounds):
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "5ms")
            assert done.returncode == 0 and not done.stderr, lib.text(done.stderr)
            # an old address on a stack can look like a thread in a stub: then the stubs stay until it is gone
            lib.until(lambda: not memfds(target.pid) or detach(target.pid)[0], "the end of the stubs")
            assert not memfd_links(target.pid)
        assert of_files(target.pid) == before
        check_sums(lib.Trace(tmp_path / "t.pyebpf"))
        end_well(target, tmp_path)


@pytest.mark.parametrize("name", SOME + lib.musl())
def test_killed_at_any_moment(name, tmp_path):
    chance = random.Random(name)
    with busy(name, tmp_path) as target:
        assert target.stdout.readline() == b"up\n"
        lib.until(lambda: len(os.listdir("/proc/%d/task" % target.pid)) == 5, "its threads")
        start = time.monotonic()
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms").returncode == 0
        whole = time.monotonic() - start
        before = of_files(target.pid)
        rounds = left = 0
        while rounds < (300 if lib.LONG else 15) or not left and rounds < 100:
            rounds += 1
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, *SHORT, "-p",
                              target.pid], stderr=subprocess.DEVNULL) as tracer:
                time.sleep(chance.uniform(0, 1.5 * whole))
                tracer.kill()
                assert tracer.wait() == -signal.SIGKILL
            assert target.poll() is None
            left += of_files(target.pid) != before
            assert min(priorities(target.pid)) >= 0, "of SCHED_FIFO"
        # the next one finds what is left, takes it out and traces
        done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms")
        assert done.returncode == 0, lib.text(done.stderr)
        check_sums(lib.Trace(tmp_path / "t.pyebpf"))
        assert of_files(target.pid) == before and not memfd_links(target.pid)
        end_well(target, tmp_path)
    assert left, "none was killed while it was attached"


def words(pid, offset):
    """As word(), each by itself."""
    with open("/proc/%d/mem" % pid, "rb") as f:
        return [int.from_bytes(os.pread(f.fileno(), 8, at + offset), "little") for at in shared(pid)]


def give_up(pid, since, filled):
    """Until each ring that was filled so far is given up, and one is: how many seconds that took, at most, from the moment when it was
    full, or from `since`, without the longest time that we did not look."""
    full, late, unseen, last = {}, 0, 0, since
    while True:
        now = time.monotonic()
        unseen, last = max(unseen, now - last), now
        heads, lost = words(pid, 0), words(pid, LOST_MODE)
        for i, head in enumerate(heads):
            if full.get(i, (0, 0))[0] != head:
                full[i] = head, max(now, since)
        late = max([late] + [now - full[i][1] for i in full if filled(heads[i]) and not lost[i]])
        if any(lost) and not [i for i in full if filled(heads[i]) and not lost[i]]:
            return late - unseen
        assert now < since + 60, "the stubs did not give up"
        time.sleep(0.01)


@pytest.mark.parametrize("on_full", ["drop", "wait"])
@pytest.mark.parametrize("name", [ONE] + [n for n in lib.pick("3.8", "3.13t") if n != ONE])
def test_a_dead_reader_does_not_stop_the_target(name, on_full, tmp_path):
    """Its ring fills up; the target, also one that waits for room, sees within a second that nobody reads, and goes on."""
    with busy(name, tmp_path) as target:
        assert target.stdout.readline() == b"up\n"
        killed(target.pid, tmp_path / "t.pyebpf", *SHORT, "--on-full", on_full)
        late = give_up(target.pid, time.monotonic(), lambda head: head > 128 << 10)
        assert late < 1.5 + 1  # a machine that is busy gives it the CPU late
        assert (word(target.pid, WAITS) > 0) == (on_full == "wait")
        written = words(target.pid, 0), words(target.pid, LOST_MODE)
        time.sleep(0.1)
        assert all(now == then for now, then, lost in zip(words(target.pid, 0), *written) if lost)
        end_well(target, tmp_path)


@pytest.mark.parametrize("option", ["", "-s"])
@pytest.mark.parametrize("way", ["write", "receive"])
def test_calls_that_are_done_in_pieces_beside_signals(way, option, tmp_path):
    """One that the process ignores wakes who is traced, also in the middle of the rest."""
    with lib.started(lib.command(ONE) + [lib.PROGRAMS / "pieces.py", way, 0, tmp_path / "end"]) as target:
        assert target.stdout.readline() == b"up\n"
        for d in ("1s",) if option else ("5ms",) * 8:
            with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, *option.split(), "-d", d, "-p", target.pid]) as tracer:
                while tracer.poll() is None:
                    target.send_signal(signal.SIGCHLD)
                    time.sleep(0.007)
                assert tracer.returncode == 0, tracer.stderr.read()
        (tmp_path / "end").touch()
        said = target.communicate(timeout=60)[0]
        assert re.match(rb"fine \d+\n", said) and target.returncode == 0, said


@pytest.mark.parametrize("name", SOME if lib.LONG else [SOME[0], SOME[-1]])
def test_calls_of_which_nothing_is_done(name, tmp_path):
    """They go on from their beginning, whenever they are stopped, beside busy loops and thousands of signals that are ignored."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(lib.started([sys.executable, "-c", "while True: pass"]))
        target = stack.enter_context(lib.started(lib.command(name) + [lib.PROGRAMS / "nothing_done.py", 10, tmp_path / "end"]))
        assert target.stdout.readline() == b"up\n"
        for _ in range(100 if lib.LONG else 12):
            assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms", "--force").returncode == 0
        (tmp_path / "end").touch()
        assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0


def test_what_is_received_once_more(tmp_path):
    """What is only looked at is not looked at in parts, the first one twice."""
    code = """
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname())
b = listener.accept()[0]
a.sendall(b"a" * 1000)
def more():
    sys.stdin.readline()
    a.sendall(b"b" * 1000)
threading.Thread(target=more).start()
print("up", flush=True)
got = b.recv(2000, socket.MSG_PEEK | socket.MSG_WAITALL)
print(got == b"a" * 1000 + b"b" * (len(got) - 1000))"""
    with lib.started(lib.command(ONE) + ["-c", code], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"up\n"
        time.sleep(0.2)
        for _ in range(3):
            assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms", "--force").returncode == 0
        assert target.communicate(b"\n", timeout=60)[0] == b"True\n" and target.returncode == 0


@pytest.mark.parametrize("args", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("name", SOME)
def test_waiting_in_all_sorts_of_calls(name, args, tmp_path):
    """60 threads and 5,000 signals a second: each call ends as it would, whatever attach and detach stop it in."""
    stops = []
    with lib.started(lib.command(name) + [lib.PROGRAMS / "blocked.py", tmp_path / "end"]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(100 if lib.LONG else 6):
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, *args, "-d", "5ms", "-p", target.pid])
            assert done.returncode == 0, lib.text(done.stderr)
            stops += re.findall(r"stopped (\d+) times, for at most (\S+) ms", lib.text(done.stderr))
        end_well(target, tmp_path)
    print("stops:", stops)
    assert all(int(n) >= 4 for n, _ in stops) and len(stops) >= 6


@pytest.mark.parametrize("threads, args, ms", [(4, [], 500), (4, ["-s"], 500), (4, ["-s"], -1), (40, ["-s"], 500), (40, ["-s"], -1)])
def test_signals_that_are_ignored(threads, args, ms, tmp_path):
    """They wake a thread that is traced: its call goes on as if they had not. (Of those that are kept,
    and not followed, one that was woken just when it is let go can have EINTR: see tests/unit/test_sleepers.c.)"""
    with lib.started(lib.command(ONE) + [lib.PROGRAMS / "ignored.py", tmp_path / "end", threads, ms]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(10):
            assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms", *args).returncode == 0
        (tmp_path / "end").touch()
        assert target.stdout.readline() == b"0\n" and target.wait(60) == 0


@pytest.mark.parametrize("name", SOME if lib.LONG else [SOME[0], SOME[-1]])
def test_waits_that_the_kernel_counts(name, tmp_path):
    """What waits for so long, or for somebody, waits no longer for having been stopped all the time."""
    rounds = 0
    with lib.started(lib.command(name) + [lib.PROGRAMS / "kernel_counts.py", tmp_path]) as target:
        assert target.stdout.readline() == b"up\n"
        while target.poll() is None and not select.select([target.stdout], [], [], 0)[0]:
            attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "5ms", "--ring", "256K")
            rounds += 1
        assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0
    assert rounds > 1


@pytest.mark.parametrize("option", ["", "-s"])
@pytest.mark.parametrize("ways, threads", [("write", 0), ("send", 0), ("sendfile", 0), ("receive", 0), ("writev", 0), ("sendmsg", 0),
                                           ("write,send,sendfile,receive", 1), ("write,send,sendfile,receive", 3), ("writev,sendmsg", 2)])
@pytest.mark.parametrize("name", SOME if lib.LONG else [SOME[0], SOME[-1]])
def test_calls_that_are_done_in_pieces(name, ways, threads, option, tmp_path):
    """What a stop interrupts after a part is done to its end: 300 KB into a pipe for 64, taken out piece by piece."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "pieces.py", ways, threads, tmp_path / "end"]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(40 if lib.LONG else 8):
            assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "5ms", "--force", *option.split()).returncode == 0
        (tmp_path / "end").touch()
        said = target.communicate(timeout=60)[0]
        assert re.match(rb"fine \d+\n", said) and int(said.split()[1]) >= 8 and target.returncode == 0, said


@pytest.mark.parametrize("args", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("name", SOME if lib.LONG else [SOME[0], SOME[-1]])
def test_waits_that_began_long_before(name, args, tmp_path):
    """Nor for having waited already when it was stopped for the first time: of six seconds there are three left, not six."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "kernel_counts.py", tmp_path, 6]) as target:
        assert target.stdout.readline() == b"up\n"
        time.sleep(3)
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "50ms", *args).returncode == 0
        assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0


@pytest.mark.parametrize("name", SOME if lib.LONG else [SOME[0], SOME[-1]])
def test_wait_of_the_only_thread_that_began_long_before(name, tmp_path):
    """It makes the calls by which pyebpf attaches."""
    code = """
import select, time
poll = select.epoll()
print("up", flush=True)
began = time.monotonic()
poll.poll(6)
print(5.9 < time.monotonic() - began < 8)"""
    with lib.started(lib.command(name) + ["-c", code]) as target:
        assert target.stdout.readline() == b"up\n"
        time.sleep(3)
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "50ms").returncode == 0
        assert target.communicate(timeout=60)[0] == b"True\n" and target.returncode == 0


@lib.needs_root
@pytest.mark.parametrize("policy", ["0", "1", "2"])
def test_no_memfd_may_be_executed(policy, tmp_path):
    """vm.memfd_noexec: what is mapped runs, the file does not, in whatever a pid namespace insists on (2: in that alone)."""
    sysctl = pathlib.Path("/proc/sys/vm/memfd_noexec")
    if not sysctl.exists():
        assert int(os.uname().release.split(".")[0]) * 100 + int(os.uname().release.split(".")[1]) < 603
        return
    script = tmp_path / "inside"
    script.write_text("echo %s > %s && exec %s" % (policy, sysctl, lib.shell_words(
        [lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "--", *lib.command(ONE), "-c",
         "import os\n"
         "found = [l.split()[0] for l in open('/proc/self/maps') if '/memfd:' in l]\n"
         "modes = [os.stat('/proc/self/map_files/' + at).st_mode & 0o111 for at in found]\n"
         "def f(): pass\n"
         "for mode in modes: f()\n"
         "assert len(modes) >= 3 and not any(modes), modes"])))
    done = lib.sh(["unshare", "--pid", "--fork", "--mount-proc", "sh", script])
    assert done.returncode == 0, lib.text(done.stderr)
    assert lib.Trace(tmp_path / "t.pyebpf").whole().count("<string>", "call")["f"] >= 3


@lib.needs_root
def test_a_target_whose_memory_is_locked(tmp_path):
    """What it maps is there at once (mlockall): not the ring, which would take 20 to 40 ms of its time."""
    program = "import ctypes\nassert ctypes.CDLL(None).mlockall(3) == 0\n" + QUIET
    with lib.started(lib.command(SOME[0]) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        with inline(target.pid, tmp_path / "t.pyebpf"):
            (start, end), = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) r-xp .*/memfd:", pathlib.Path("/proc/%d/maps" % target.pid).read_text(), re.M)
            with open("/proc/%d/mem" % target.pid, "rb") as memory:
                memory.seek(int(end, 16) + 0xc00)  # IL_RESULTS_NEXT: of each call what it said, and its six arguments
                calls = [struct.unpack("<7Q", memory.read(56)) for _ in range(5)]
        rings = [c for c in calls if c[0] == c[1] and c[4] == mmap.MAP_SHARED | 0x10]  # MAP_FIXED
        assert len(rings) == 2 and sum(c[2] for c in rings) > 1 << 25, calls
        assert [c[3] for c in rings] == [0, 0], "without access, when they are mapped"
        protect, = [c for c in calls if c[1] == rings[0][1] and c not in rings]
        assert protect[0] == 0 and protect[3] == mmap.PROT_READ | mmap.PROT_WRITE
        assert target.poll() is None


def longest_stop(code, said):
    """ms, of a trace that has ended."""
    assert code == 0, said
    return float(re.search(r"stopped \d+ times, for at most (\S+) ms", said)[1])


def check_short_stops(pid, out, *args):
    """Of most of five traces of 30 ms in a row."""
    longest = []
    while len(longest) < 5 or (statistics.median(longest[-5:]) > 5 and len(longest) < 20):  # a busy machine gives the threads no CPU to stop on
        done = lib.sh([lib.BINARY, "trace", "--force", "-o", out, *INLINE, *args, "-d", "30ms", "-p", pid])
        longest.append(longest_stop(done.returncode, lib.text(done.stderr)))
    print("longest stops, ms:", longest)
    assert statistics.median(longest[-5:]) <= 5, longest


SPIN = ("import threading, time\n"
        "def call(): pass\n"
        "def spin():\n"
        "    while True: call()\n"
        "for i in range(3): threading.Thread(target=spin, daemon=True).start()\n"
        "print('up', flush=True)\n"
        "spin()\n")


@pytest.mark.alone
@pytest.mark.parametrize("how", [[], ["-s"]], ids=["", "followed"])
@pytest.mark.parametrize("name", lib.pick("3.12", "3.13t"))
def test_short_stops_where_cpus_are_wanted(name, how, tmp_path):
    """Beside three busy programs for each CPU: who stops, or makes calls for us, does not wait for its turn, but does as before
    afterwards. For a pyebpf that is SCHED_BATCH nobody gets ahead of others."""
    args = [*INLINE, *how, "-d", "30ms"]
    stops = {"-o": [], "-b": []}
    with contextlib.ExitStack() as stack:
        for _ in range(3 * os.cpu_count()):
            stack.enter_context(lib.started(["/usr/bin/python3", "-c", "while True: pass"]))
        target = stack.enter_context(lib.started(["nice", "-n", "5", "chrt", "--batch", "0", *lib.command(name), "-c", SPIN]))
        assert target.stdout.readline() == b"up\n"
        assert priorities(target.pid) == {25}
        for _ in range(12 if lib.LONG else 4):
            for policy, stopped in stops.items():
                done = lib.sh(["chrt", policy, "0", lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *args, "-p", target.pid])
                stopped.append(longest_stop(done.returncode, lib.text(done.stderr)))
                assert priorities(target.pid) == {25} and os.sched_getscheduler(target.pid) == os.SCHED_BATCH
    print("longest stops, ms:", stops)
    assert statistics.mean(stops["-o"]) < statistics.mean(stops["-b"])


NAPS = ("import threading, time\n"
        "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\n"
        "def naps():\n"
        "    while True: f(14); time.sleep(0.001)\n"
        "threading.Thread(target=naps, daemon=True).start()\n"
        "print('up', flush=True)\n"
        "while True: f(18)\n")


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_short_stops_after_a_kill(name, tmp_path):
    """The memory of the ring, which nobody else has by then, is not freed by the target's thread."""
    stops = {"detach": [], "trace": []}
    with lib.started(lib.command(name) + ["-c", NAPS]) as target:
        assert target.stdout.readline() == b"up\n"
        for _ in range(7):
            with inline(target.pid, tmp_path / "k.pyebpf") as tracer:
                time.sleep(0.5)  # for all of it to be used
                tracer.kill()
                tracer.wait()
            done = lib.sh([lib.BINARY, "detach", target.pid])
            stops["detach"].append(longest_stop(done.returncode, lib.text(done.stderr)))
            done = lib.sh([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "100ms", "-p", target.pid])
            stops["trace"].append(longest_stop(done.returncode, lib.text(done.stderr)))
    print("longest stops, ms:", stops)
    assert statistics.median(stops["detach"]) < 3 * statistics.median(stops["trace"])


DEEP = {"threads": [30] * 50, "deep threads": [900] * 50, "900": [900], "10000": [10000]}


@pytest.mark.alone
@pytest.mark.parametrize("what", DEEP)
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_short_stops(name, what, tmp_path):
    """Many threads, deep stacks: all are read while they stand still, which takes 5 ms at most."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "deep.py", *DEEP[what]]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf")
    # each stack is whole: a frame that was open is shown so
    shown = collections.Counter(e["name"] for e in lib.Trace(tmp_path / "t.pyebpf").events if e["ev"] == "open")
    assert shown["recurse"] == sum(DEEP[what]), shown


MANY = ("import threading, time\n"
        "ready, gate = threading.Semaphore(0), threading.Lock()\n"
        "gate.acquire()\n"
        "def sleep(n):\n"
        "    if n: return sleep(n - 1)\n"
        "    ready.release()\n"
        "    gate.acquire()\n"
        "def call(): pass\n"
        "threading.stack_size(1 << 18)\n"
        "for i in range(300): threading.Thread(target=sleep, args=(i % 30,), daemon=True).start()\n"
        "for i in range(300): ready.acquire()\n"
        "time.sleep(0.3)\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    for i in range(30000): call()\n"
        "    for i in range(500000): pass\n")


def depths(events, name):
    """How many frames of a function were open in each thread when it was attached to, in order."""
    return sorted(collections.Counter(e["tid"] for e in events if e["ev"] == "open" and e["name"] == name).values())


def times_on_a_cpu(pid):
    """How often each thread but the first one has got one."""
    def came(tid):
        return pathlib.Path("/proc/%d/task/%s/schedstat" % (pid, tid)).read_text().split()[2]
    return {tid: came(tid) for tid in os.listdir("/proc/%d/task" % pid) if tid != str(pid)}


@pytest.mark.parametrize("name", [name for name in lib.families() if lib.family(name) != "3.13t"])
def test_threads_that_sleep_are_left_alone(name, tmp_path):
    """Only who has the interpreter's lock stands still: at the attach, at each loss, at the end. What the others are at is known."""
    undisturbed, events = [], []
    with lib.started(lib.command(name) + ["-c", MANY]) as target:
        assert target.stdout.readline() == b"up\n"
        while not any(undisturbed) and len(undisturbed) < 8:  # on a busy machine nobody may be seen to have the lock for a while, or nothing lost
            before = times_on_a_cpu(target.pid)
            with inline(target.pid, tmp_path / "t.pyebpf", "--ring", "256K") as tracer:
                tracer.send_signal(signal.SIGSTOP)
                time.sleep(0.03)
                tracer.send_signal(signal.SIGCONT)
                time.sleep(0.03)
                tracer.send_signal(signal.SIGINT)
                assert tracer.wait(30) == 0
            events = lib.Trace(tmp_path / "t.pyebpf").events
            lost = [e for e in events if e["ev"] == "gap" and e["reason"] == "lost"]
            undisturbed.append(lost and len(before) == 300 and times_on_a_cpu(target.pid) == before)
        assert any(undisturbed)
    assert depths(events, "sleep") == sorted([i % 30 + 1 for i in range(300)])


@pytest.mark.alone
@pytest.mark.parametrize("args", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.15"))
def test_short_stops_of_a_thousand(name, args, tmp_path):
    """Threads that sleep beside one that runs: of those nothing is read in the stop."""
    with lib.started(lib.command(name) + ["-c", MANY.replace("300)", "1000)")]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf", *args)
    assert depths(lib.Trace(tmp_path / "t.pyebpf").events, "sleep") == sorted([i % 30 + 1 for i in range(1000)])


@pytest.mark.alone
@pytest.mark.parametrize("args", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t") + lib.musl())
def test_short_stops_of_sleepers(name, args, tmp_path):
    """Where nobody has the interpreter's lock all are kept where they wait, not stopped at once; that is not seen by them."""
    program = MANY.split("print")[0] + (
        "import signal\n"
        "waits = [signal.sigtimedwait, lambda s, t: (signal.setitimer(signal.ITIMER_REAL, t), signal.pause())]\n"
        "signal.signal(signal.SIGALRM, lambda *a: None)\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    for wait in waits:\n"
        "        began = time.monotonic()\n"
        "        wait([signal.SIGUSR1], 0.4)\n"
        "        assert time.monotonic() - began >= 0.39\n")
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf", *args)
        assert target.poll() is None
        tids = os.listdir("/proc/%d/task" % target.pid)
        assert len(tids) == 301 and {lib.status_field(int(tid), "TracerPid") for tid in tids} == {"0"}
    assert depths(lib.Trace(tmp_path / "t.pyebpf").events, "sleep") == sorted([i % 30 + 1 for i in range(300)])


@pytest.mark.alone
@pytest.mark.parametrize("args, first", [([], "time.sleep(1000)"), (["-s"], "time.sleep(1000)"), ([], "while True: pass")],
                         ids=["one process", "followed", "beside the first thread"])
@pytest.mark.parametrize("name", lib.pick("3.8", "3.13", "3.15"))
def test_short_stops_beside_some_that_wake(name, args, first, tmp_path):
    """A thousand deep threads sleep, ten wake up all the time: of those that are kept asleep, or were by themselves since they were
    read before, no stack is read in the stop."""
    program = MANY.split("print")[0].replace("i % 30", "i % 100").replace("300)", "1000)") + (
        "def wake(n):\n"
        "    if n: return wake(n - 1)\n"
        "    while True: time.sleep(0.002)\n"
        "for i in range(10): threading.Thread(target=wake, args=(i,), daemon=True).start()\n"
        "print('up', flush=True)\n" + first)
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf", *args)
    events = lib.Trace(tmp_path / "t.pyebpf").events
    assert depths(events, "sleep") == sorted([i % 100 + 1 for i in range(1000)])
    assert depths(events, "wake") == list(range(1, 11))


@pytest.mark.alone
@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_short_stops_of_sleepers_beside_the_first_thread(name, tmp_path):
    """That one is in C code, without the lock."""
    program = MANY.split("print")[0] + "import hashlib\nprint('up', flush=True)\nhashlib.pbkdf2_hmac('sha256', b'', b'', 1 << 30)\n"
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf")
        assert target.poll() is None


@pytest.mark.alone
@pytest.mark.parametrize("args", [[], ["-s"]], ids=["one process", "followed"])
@pytest.mark.parametrize("name", lib.pick("3.12", "3.13t"))
def test_short_stops_beside_long_calls(name, args, tmp_path):
    """Threads that are at work in the kernel for some 0.1 s, again and again: nobody stands still until they come out."""
    program = SPIN.replace("range(3)", "range(1)").replace(
        "print", "import os\n"
        "fd = os.memfd_create('file')\n"
        "os.ftruncate(fd, 1 << 31)\n"
        "def read():\n"
        "    parts = [bytearray(2 << 20)] * 1000\n"
        "    while True: assert os.preadv(fd, parts, 0) == 1000 * (2 << 20)\n"
        "for i in range(2): threading.Thread(target=read, daemon=True).start()\n"
        "print")
    with lib.started(lib.command(name) + ["-c", program]) as target:
        assert target.stdout.readline() == b"up\n"
        check_short_stops(target.pid, tmp_path / "t.pyebpf", *args)
        assert target.poll() is None


@pytest.mark.parametrize("name", [name for name in lib.pick("3.12") if name.startswith("pyenv")])
def test_thread_states_that_two_threads_run(name, tmp_path):
    """A thread state names the thread that has made it, which may be waiting while another one runs it: that one is no holder of a lock.
    Its stack still has the addresses of frames that run now. (Where it was taken for that, the target crashed after 12 to 16 rounds.)"""
    prefix = pathlib.Path(lib.command(name)[0]).parent.parent
    library, = prefix.glob("lib/libpython3.*.so.1.0")
    assert lib.sh(["cc", "-o", tmp_path / "moved", lib.PROGRAMS / "moved.c", "-ldl", "-lpthread"]).returncode == 0
    with lib.started([tmp_path / "moved", library, 10, tmp_path / "end"], env=dict(os.environ, PYTHONHOME=str(prefix))) as target:
        assert target.stdout.readline() == b"up\n"
        time.sleep(0.5)
        for _ in range(200 if lib.LONG else 20):
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms", "--on-full", "wait")
            assert done.returncode == 0, lib.text(done.stderr)
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "300ms", "--on-full", "wait").returncode == 0
        (tmp_path / "end").touch()
        assert target.stdout.readline() == b"ok\n" and target.wait(30) == 0
    seen = lib.Trace(tmp_path / "t.pyebpf")
    assert {e["name"] for e in seen.events if e["ev"] == "call"} & {"work%d" % i for i in range(10)}


@pytest.mark.parametrize("name", SOME)
def test_a_signal_ends_a_call(name, tmp_path):
    """It may come while the thread that waits makes calls for us."""
    with lib.started(lib.command(name) + [lib.PROGRAMS / "alarmed.py", tmp_path / "end"]) as target:
        pid = int(target.stdout.readline())
        for _ in range(100 if lib.LONG else 6):
            done = attach_for(pid, tmp_path / "t.pyebpf", "-d", "5ms")
            assert done.returncode == 0, lib.text(done.stderr)
        end_well(target, tmp_path)


def what_doctor_says():
    """Of the engine."""
    found, = [c["text"] for c in json.loads(lib.sh([lib.BINARY, "doctor", "--json"]).stdout)["checks"] if c["name"] == "inline_engine"]
    return found


def test_what_a_time_stamp_takes():
    """It is most of an event's time on processors where the counter is slow to read, which no table of another machine tells."""
    found = what_doctor_says()
    assert 1 < float(re.search(r"the time stamp of an event takes (\S+) ns here", found)[1]) < 10000, found


# --- pyebpf detach ---

@pytest.mark.parametrize("name", SOME)
def test_detach_after_a_kill(name, tmp_path):
    with quiet(name) as target:
        attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms")  # what the target allocates on the way is allocated
        before = maps(target.pid)
        killed(target.pid, tmp_path / "t.pyebpf", *SHORT)
        assert memfds(target.pid)
        listed = lib.sh([lib.BINARY, "list", target.pid]).stdout
        assert b"pyebpf detach %d" % target.pid in listed
        assert json.loads(lib.sh([lib.BINARY, "list", "--json", target.pid]).stdout)[0]["inline_engine"] == "left behind"
        assert b"pyebpf detach %d" % target.pid in lib.sh([lib.BINARY, "doctor"]).stdout
        if not os.geteuid():  # another engine goes on where none of its places was changed
            other = lib.sh([lib.BINARY, "trace", "-d", "50ms", "-o", tmp_path / "other.pyebpf", "-p", target.pid])
            refused = other.returncode == 5 and "pyebpf detach %d" % target.pid in lib.text(other.stderr)
            assert refused or other.returncode == 0 and lib.Trace(tmp_path / "other.pyebpf").whole().events, lib.text(other.stderr)
        code, said = detach(target.pid)
        assert code == 0 and "as it was before" in said, said
        assert maps(target.pid) == before
        assert "detach" not in lib.text(lib.sh([lib.BINARY, "list", target.pid]).stdout)
        assert detach(target.pid) == (0, "pyebpf: nothing of pyebpf is in process %d\n" % target.pid)
        assert target.poll() is None


def test_detach_leaves_a_living_one_alone(tmp_path):
    with quiet(ONE) as target, inline(target.pid, tmp_path / "t.pyebpf") as tracer:
        code, said = detach(target.pid)
        assert code == 5 and "another pyebpf" in said, said
        assert b"is at work" in lib.sh([lib.BINARY, "list", target.pid]).stdout
        lib.stop(tracer)
        assert lib.Trace(tmp_path / "t.pyebpf").whole().events


def test_detach_of_a_child(tmp_path):
    """A child that was forked while its parent was traced has the stubs, which pass through; its parent goes on being traced."""
    code = ("import os, time\n"
            "def f(): time.sleep(0.001)\n"
            "print('up', flush=True)\n"
            "input()\n"
            "pid = os.fork()\n"
            "if pid: print(pid, flush=True)\n"
            "while 1: f()\n")
    with lib.started(lib.command(ONE) + ["-u", "-c", code], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            child = int(target.stdout.readline())
            try:
                assert memfds(child)
                code, said = detach(child)
                assert code == 0 and "as it was" in said, said
                assert not memfds(child) and memfds(target.pid)
                with inline(child, tmp_path / "child.pyebpf") as other:
                    lib.until(lambda: word(child, 0) > 10000, "calls")
                    lib.stop(other)
                assert lib.Trace(tmp_path / "child.pyebpf").whole().count("<string>", "call")["f"] > 100
            finally:
                os.kill(child, signal.SIGKILL)
            lib.until(lambda: word(target.pid, 0) > 10000, "calls of the parent")
            lib.stop(tracer)
    assert lib.Trace(tmp_path / "t.pyebpf").whole().count("<string>", "call")["f"] > 100


def test_detach_of_a_child_whose_parent_waits(tmp_path):
    """What is shared with it is its parent's alone: that goes on to wait for room, and no call of it is left out."""
    end = tmp_path / "end"
    code = ("import os, sys, time\n"
            "def f(): pass\n"
            "print('up', flush=True)\n"
            "input()\n"
            "pid = os.fork()\n"
            "if not pid:\n"
            "    while 1: time.sleep(1)\n"
            "print(pid, flush=True)\n"
            "n = 0\n"
            "while not os.access(sys.argv[1], os.F_OK):\n"
            "    for _ in range(1000): f()\n"
            "    n += 1000\n"
            "print(n, flush=True)\n")
    with lib.started(lib.command(ONE) + ["-u", "-c", code, end], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, *SHORT, "--on-full", "wait", "-p",
                          target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            child = int(target.stdout.readline())
            try:
                lib.until(lambda: word(target.pid, WAITS), "a full ring")
                tracer.send_signal(signal.SIGSTOP)  # it would say at once again that it reads
                done = detach(child)
                tracer.send_signal(signal.SIGCONT)
                assert done[0] == 0 and not memfds(child) and memfds(target.pid), done
            finally:
                os.kill(child, signal.SIGKILL)
            end.touch()
            calls = int(target.stdout.readline())
            lib.stop(tracer)
    seen = lib.Trace(tmp_path / "t.pyebpf")
    check_sums(seen)
    assert seen.count("<string>", "call")["f"] + seen.lost >= calls


def test_detach_of_another_version(tmp_path):
    code = ("import mmap, os, time\n"
            "fd = os.memfd_create('x')\n"
            "os.write(fd, b'PYEINL00' + bytes(4088))\n"
            "there = mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
            "print(flush=True)\n"
            "time.sleep(100)\n")
    with lib.started(lib.command(ONE) + ["-c", code]) as target:
        target.stdout.readline()
        code, said = detach(target.pid)
        assert code == 5 and "another version of pyebpf" in said, said
        done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms")
        assert done.returncode == 5 and b"another version of pyebpf" in done.stderr


def test_detach_of_what_is_not_there():
    code, said = detach(2**22 + 1)
    assert code == 4 and "no process" in said, said


# --- a target that lies ---

@pytest.mark.parametrize("what", ["head", "low", "odd", "tail", "counters", "zeros", "noise", "records"])
def test_a_target_that_scribbles(what, tmp_path):
    """It writes into the ring: that is said, or does no harm; the capture ends before it and can be read."""
    with lib.started(lib.command(ONE) + [lib.PROGRAMS / "scribble.py", what]) as target:
        assert target.stdout.readline() == b"up\n"
        done = attach_for(target.pid, tmp_path / "t.pyebpf", *SHORT, "-d", "1s" if what in ("tail", "counters", "zeros") else "60s")
        assert done.returncode == 0, lib.text(done.stderr)
        assert what in ("tail", "counters", "zeros") or b"the ring was damaged" in done.stderr
        lib.until(lambda: not memfds(target.pid) or detach(target.pid)[0], "the end of the stubs")
        assert target.communicate(timeout=60)[0] == b"fine\n" and target.returncode == 0
    lib.convert(tmp_path / "t.pyebpf", "text")
