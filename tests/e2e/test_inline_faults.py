# SPDX-License-Identifier: Apache-2.0
"""Each step of attaching and detaching goes wrong once (faults.c): the target goes on, and nothing stays behind."""
import contextlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time

import pytest

import lib
import machine
import pythons
from limits import as_nobody
from test_inline import BUSY, FAMILIES, INLINE, ONE, attach_for, busy, check_sums, end_well, memfd_links, redirected
from test_inline_robust import SHORT, detach, inline, killed, maps, of_files, quiet

FAULTS = pythons.BUILD / "tests" / "e2e" / "faults.so"
CALLS = 14  # that the target makes: six, seven, and one at the end
CHILD_CALLS = 6  # of a forked child: two, and four


SEED = int(os.environ.get("PYEBPF_FAULT_SEED") or random.randrange(1 << 32))


def run(pid, tmp_path, what="", at=0, *options, of_detach=False, command=None):
    """One trace in which this goes wrong: its exit status, what it said, the numbers of calls that can go wrong."""
    log, hit = tmp_path / "faults", tmp_path / "hit"
    log.write_text("0 0 0")
    hit.write_text("nothing")
    env = {"LD_PRELOAD": FAULTS, "FAULT_WHAT": what, "FAULT_AT": str(at), "FAULT_PID": str(pid), "FAULT_LOG": log, "FAULT_HIT": hit}
    env.update({"FAULT_DETACH": "1"} if of_detach else {})
    command = command or ["trace", "-q", "--force", "-o", tmp_path / ("t.pstats" if "--count" in options else "t.pyebpf"), *INLINE, *([] if "--count" in options else SHORT),
                          *options, "-d", "20ms", "-p", str(pid)]
    done = subprocess.run(["env"] + ["%s=%s" % pair for pair in env.items()] + [lib.BINARY, *command],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    if what:
        print(what, at, "of the detach" if of_detach else "", hit.read_text().strip(), done.returncode)
    return done.returncode, lib.text(done.stderr), [int(n) for n in log.read_text().split()]


def has_hit(tmp_path):
    """Did what was to go wrong in the last run()?"""
    return (tmp_path / "hit").read_text() != "nothing"


def moments(name, steps, cnt=9):
    """Some of the steps, others each time, or all."""
    print("PYEBPF_FAULT_SEED=%d" % SEED)
    return range(1, steps + 1) if lib.LONG else sorted(random.Random("%d %s" % (SEED, name)).sample(range(1, steps + 1), min(cnt, steps)))


def goes_on(target, before):
    assert target.poll() is None
    assert lib.status_field(target.pid, "State")[0] in "RSD" and lib.status_field(target.pid, "TracerPid") == "0"
    now = of_files(target.pid)
    assert now == before and not memfd_links(target.pid), [set(a) ^ set(b) for a, b in zip(now, before)]


def undisturbed(target, tmp_path):
    assert target.stdout.readline() == b"up\n"
    lib.until(lambda: lib.status_field(target.pid, "Threads") == "5", "its threads")
    os.kill(target.pid, signal.SIGUSR1)  # a thread that ends has libgcc_s loaded, the first time, to 3.12
    time.sleep(0.5)
    code, said, steps = run(target.pid, tmp_path)
    assert code == 0 and steps[1] == CALLS and steps[2], (said, steps)
    return of_files(target.pid), min(steps[0], 400)  # behind that: more rounds of the same


VARIANTS = [(n, ()) for n in FAMILIES if n == ONE or lib.family(n) in ("3.8", "3.13t")] + [(ONE, ("--count",))]


@pytest.mark.parametrize("name, options", VARIANTS, ids=lambda x: "".join(x))
@pytest.mark.parametrize("what", ["fail", "signal", "die"])
def test_any_step(what, name, options, tmp_path):
    """fail: one of pyebpf's calls; signal: one arrives in the target, whose handler begins a thread; die: pyebpf is killed. Some
    of the attach, and some from where the first word is put back."""
    with busy(name, tmp_path) as target:
        before, steps = undisturbed(target, tmp_path)
        _, _, of_detach = run(target.pid, tmp_path, "", 0, *options, of_detach=True)
        assert of_detach[0] > 10 and of_detach[2], of_detach
        chosen = [(at, False) for at in moments(what + name, steps, 2 if options or name != ONE else 4)]
        # those from the tenth on are there when some thread is in a stub
        chosen += [(at, True) for at in [*moments(what + name, 10, 1), *moments(what + name, min(of_detach[0], 200), 1)]]
        hits = 0
        for at, late in chosen:
            code, said, _ = run(target.pid, tmp_path, what, at, *options, of_detach=late)
            hits += late and has_hit(tmp_path)
            if what == "die":
                assert code in (0, -signal.SIGKILL)
                code, said = detach(target.pid)
                assert code == 0, said
            # 1: a file of /proc that can be read at all other times; 4: the target's memory, likewise
            assert code in ((0, 1, 3, 4, 5) if what == "fail" else (0,)) and (code == 0 or said), (at, code, said)
            goes_on(target, before)
        assert hits, "none lay in the detach"
        assert attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms").returncode == 0
        check_sums(lib.Trace(tmp_path / "t.pyebpf"))
        end_well(target, tmp_path)


@pytest.mark.parametrize("what", ["fail", "die"])
def test_any_step_of_taking_out(what, tmp_path):
    """pyebpf detach, behind one that was killed: it says that it failed, and the next one does it."""
    with busy(ONE, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        command = ["detach", str(target.pid)]
        killed(target.pid, tmp_path / "t.pyebpf", *SHORT)
        code, said, steps = run(target.pid, tmp_path, command=command)
        assert code == 0, said
        hits = 0
        for at in moments("out" + what, min(steps[0], 200), 5):
            killed(target.pid, tmp_path / "t.pyebpf", *SHORT)
            code, said, _ = run(target.pid, tmp_path, what, at, command=command)
            hits += has_hit(tmp_path)
            assert code in ((0, 3, 4, 5) if what == "fail" else (0, -signal.SIGKILL)) and (code <= 0 or said), (at, code, said)
            lib.until(lambda: detach(target.pid)[0] == 0, "its end")
            goes_on(target, before)
        assert hits, "no step was met"
        end_well(target, tmp_path)


@pytest.mark.parametrize("what, name", [("call", name) for name in (FAMILIES if lib.LONG else [ONE])] + [("late", ONE)])
def test_any_call_of_the_target(what, name, tmp_path):
    """Those that it makes for us: no memory, no descriptor. late: and the thread that makes them loses its CPU meanwhile."""
    with busy(name, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        steps = (1, *range(3, 7), *range(8, CALLS + 1))  # not madvise() and getpid(), which cannot
        if what == "late" and not lib.LONG:
            print("PYEBPF_FAULT_SEED=%d" % SEED)
            steps = (1, *random.Random(SEED).sample(steps[1:], 4))
        for at in steps:
            code, said, _ = run(target.pid, tmp_path, what, at)
            # the last one unmaps, which is tried again
            assert code == (0 if at == CALLS else 5) and (not code or "could not be changed" in said), (at, code, said)
            goes_on(target, before)
        end_well(target, tmp_path)


NO_ROOM = '''
import resource, sys, time
size = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + 50000,) * 2)
def f(): pass
print("up", flush=True)
while True:
    f()
    if len(sys.argv) > 1: time.sleep(1e-4)
'''


def code_of(pid):
    """What is executable of files."""
    found = []
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as mem:
        for line in maps(pid).splitlines():
            at, modes, *_, ino = line.split()[:5]
            if "x" in modes and ino != "0":
                start, end = (int(word, 16) for word in at.split("-"))
                mem.seek(start)
                found.append(mem.read(end - start))
    return found


@pytest.mark.parametrize("name, args", [(ONE, []), (ONE, ["sleeps"]), *[(n, []) for n in lib.pick("3.8", "3.13t")]])
def test_no_room_for_anything(name, args, tmp_path):
    """The very first call fails, which was to make room for what the calls say: so it is known, and nothing stays behind."""
    with lib.started(lib.command(name) + ["-c", NO_ROOM, *args]) as target:
        assert target.stdout.readline() == b"up\n"
        before = code_of(target.pid)
        done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms")
        assert done.returncode == 5 and b"Cannot allocate memory" in done.stderr, lib.text(done.stderr)
        assert code_of(target.pid) == before
        assert detach(target.pid) == (0, "pyebpf: nothing of pyebpf is in process %d\n" % target.pid)
        assert target.poll() is None


def fill(path, left=64):
    """The code of a file goes on up to the end of its last page, but for some bytes."""
    data = bytearray(path.read_bytes())
    headers, = struct.unpack_from("<Q", data, 32)
    for at in range(headers, headers + 56 * struct.unpack_from("<H", data, 56)[0], 56):
        kind, flags, _, address, _, size, *_ = struct.unpack_from("<IIQQQQQQ", data, at)
        if kind == 1 and flags & 1:
            size += -(address + size) % 4096 - left
            struct.pack_into("<QQ", data, at + 32, size, size)
    path.write_bytes(data)


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12"))
def test_no_room_behind_the_code(name, tmp_path):
    """Of the interpreter, nor of the executable: the calls run behind the loader's, and what a killed one left is found there."""
    command, env = machine.private(name, tmp_path)
    for path in [pathlib.Path(command[-1]), *tmp_path.glob("copy-*/lib/*.so.1.0")]:
        fill(path)
    with lib.started(command + [BUSY, 300, tmp_path / "end", 1], env=env) as target:
        before, steps = undisturbed(target, tmp_path)
        code = code_of(target.pid)
        paths = [line.split()[5] for line in maps(target.pid).splitlines() if "x" in line.split()[1] and line.split()[4] != "0"]
        with inline(target.pid, tmp_path / "t.pyebpf", *SHORT):
            changed = [path for path, was, now in zip(paths, code, code_of(target.pid)) if was != now]
            assert any("/ld-" in path for path in changed) and len(changed) <= 2, changed
        for at in moments("die" + name, steps, 4):
            run(target.pid, tmp_path, "die", at)
            assert detach(target.pid)[0] == 0
            goes_on(target, before)
        lib.until(lambda: code_of(target.pid) == code, "the code as it was")
        end_well(target, tmp_path)


LOCKED = """import ctypes, resource, time
libc = ctypes.CDLL(None)
assert libc.mlockall(2) == 0  # MCL_FUTURE
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))
print("up", flush=True)
time.sleep(60)
"""


def test_no_memory_may_be_locked(tmp_path):
    with lib.started([*as_nobody(), *lib.command("3.11-debian"), "-c", LOCKED]) as target:
        assert target.stdout.readline() == b"up\n"
        done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "20ms")
        assert done.returncode == 5 and b"RLIMIT_MEMLOCK" in done.stderr, lib.text(done.stderr)
        assert detach(target.pid) == (0, "pyebpf: nothing of pyebpf is in process %d\n" % target.pid)
        assert target.poll() is None


MAPPER = """import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
print("up", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
places = [int(at) for at in open(sys.argv[1])]
while True:
    for at in places:
        if libc.mmap(at, 4096, 0, 0x100022, -1, 0) == at:  # private, anonymous, not where something is
            libc.munmap(at, 4096)
"""


def test_the_place_is_taken_meanwhile(tmp_path):
    """A thread of the target maps memory just there, between the look and the call: then it is another place."""
    places = tmp_path / "places"
    with lib.started([*lib.command(ONE), "-c", MAPPER, places]) as target:
        assert target.stdout.readline() == b"up\n"
        with inline(target.pid, tmp_path / "t.pyebpf"):
            code, ring = ([line.split()[0].split("-") for line in maps(target.pid).splitlines() if "/memfd:" in line and may in line][0]
                          for may in ("r-xp", "rw-s"))
        (tmp_path / "places.new").write_text("%d\n%d\n%d\n" % (int(code[0], 16), int(code[1], 16), int(ring[0], 16)))
        assert detach(target.pid)[0] == 0
        before = of_files(target.pid)
        (tmp_path / "places.new").rename(places)
        for _ in range(60):
            done = attach_for(target.pid, tmp_path / "t.pyebpf", "-d", "1ms")
            assert done.returncode == 0, lib.text(done.stderr)
        goes_on(target, before)


def test_the_target_is_denied_a_call(tmp_path):
    """By a policy of the system, as it may be for code in memory: that is said, not that we may not trace it."""
    with busy(ONE, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        for at in (5, 8):  # memfd_create(), mmap() of code
            code, said, _ = run(target.pid, tmp_path, "deny", at)
            assert code == 5 and "a security policy" in said and "ptrace" not in said, (at, code, said)
            goes_on(target, before)
        end_well(target, tmp_path)


@pytest.mark.parametrize("options", [[], ["--count"], ["--count", "--time", "-s"]], ids=" ".join)
def test_a_command_that_fails_to_make_a_call(options, tmp_path):
    """It does not run, and is not waited for."""
    marker = tmp_path / "ran"
    command = ["trace", "--force", "-o", tmp_path / ("t.pstats" if options else "t.pyebpf"), *INLINE, *options, "--", *lib.command(ONE), "-c",
               "import sys; open(sys.argv[1], 'w')", marker]
    for at in (5, 8):
        code, said, _ = run(0, tmp_path, "call", at, command=command)
        assert code == 125 and "could not be changed" in said and not marker.exists(), (at, code, said)


@pytest.mark.parametrize("name", [n for n in FAMILIES if lib.LONG or lib.family(n) in ("3.8", "3.12", "3.13t")])
def test_no_write_is_forced(name, tmp_path):
    """As with proc_mem.force_override=never: code is then written as debuggers do."""
    with busy(name, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        code, said, _ = run(target.pid, tmp_path, "force")
        assert code == 0, said
        check_sums(lib.Trace(tmp_path / "t.pyebpf"))
        goes_on(target, before)
        assert not lib.left_in_code(target.pid)
        end_well(target, tmp_path)


@pytest.mark.parametrize("options", [[], ["-s"]], ids=["one", "with children"])
def test_no_write_is_forced_into_a_command(options, tmp_path):
    """Nor is a breakpoint where it begins."""
    program = "def leaf(): pass\nfor _ in range(500): leaf()"
    command = ["trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, *options, "--", *lib.command(ONE), "-c", program]
    code, said, _ = run(0, tmp_path, "force", command=command)
    assert code == 0, said
    assert sum(e["ev"] == "call" and e["name"] == "leaf" for e in lib.Trace(tmp_path / "t.pyebpf").whole().events) == 500


def test_what_stays_behind_is_said(tmp_path):
    """Where the thread that made the calls does not come out of them in time nothing can be unmapped: by hand, later."""
    with busy(ONE, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        code, said, _ = run(target.pid, tmp_path, "stuck", 9)
        assert code == 5 and "could not be changed" in said and "pyebpf detach %d" % target.pid in said, (code, said)
        assert memfd_links(target.pid) or of_files(target.pid) != before
        lib.until(lambda: detach(target.pid)[0] == 0 and not memfd_links(target.pid), "its end")
        goes_on(target, before)
        end_well(target, tmp_path)


# A line asks for a child: how it ended, what it calculated, how much of the CPU it had by its first line, and how many memfds it has open.
PARENT = """import json, os, signal, time
def work(n): return n * n
def memfds():
    with os.scandir('/proc/self/fd') as fds: return sum('/memfd:' in os.readlink(f.path) for f in fds)
signal.signal(signal.SIGUSR1, lambda *_: work(1))
print('up', flush=True)
while input():
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        spent = time.process_time()
        os.write(write, json.dumps([sum(map(work, range(1000))), spent, memfds()]).encode())
        os._exit(7)
    os.close(write)
    said = os.fdopen(read).read()
    print(json.dumps([os.waitpid(pid, 0)[1], json.loads(said) if said else None]), flush=True)
"""
FOLLOW = [*INLINE, "--ring", "256K", "-s"]


def with_child(target, tmp_path, what="", at=0):
    """One trace in which the target forks, and this goes wrong with the child: what pyebpf ended with and said, how many
    calls could have gone wrong, what the target said of its child."""
    log = tmp_path / "faults"
    log.write_text("0 0 0")
    env = {**os.environ, "LD_PRELOAD": str(FAULTS), "FAULT_WHAT": what, "FAULT_AT": str(at), "FAULT_PID": str(target.pid),
           "FAULT_LOG": str(log), "FAULT_CHILD": "1"}
    with lib.started([lib.BINARY, "trace", "-q", "--force", "-o", tmp_path / "t.pyebpf", *FOLLOW, "-p", target.pid], stderr=-1,
                     env=env) as tracer:
        lib.until(lambda: redirected(target.pid), "the attach")
        target.stdin.write(b"go\n")
        target.stdin.flush()
        child = json.loads(target.stdout.readline())
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        said = lib.text(tracer.communicate(timeout=60)[1])
    return tracer.returncode, said, [int(n) for n in log.read_text().split()], child


@contextlib.contextmanager
def parent(name):
    with lib.started(lib.command(name) + ["-c", PARENT], stdin=-1) as target:
        assert target.stdout.readline() == b"up\n"
        yield target


def of_child(target, tmp_path):
    """With nothing wrong: so many steps, so many of the calls that the child makes."""
    code, said, steps, child = with_child(target, tmp_path)
    assert code == 0 and child[:1] == [7 << 8] and min(steps[:2]) > 5, (said, steps, child)
    assert lib.Trace(tmp_path / "t.pyebpf").whole().count("<string>", "call")["work"] == 1000
    return of_files(target.pid), min(steps[0], 400), steps[1]


@pytest.mark.parametrize("what", ["fail", "signal", "die", "kill"])
def test_any_step_of_a_child(what, tmp_path):
    """-s: as above, while a child that is born gets its ring; kill: the child is. It does all that it would, traced or not, as its
    parent does; a dead pyebpf does not keep it waiting: it spins meanwhile, so that what it waited it has had of the CPU."""
    right = [7 << 8, sum(n * n for n in range(1000))]
    with parent(ONE) as target:
        before, steps, _ = of_child(target, tmp_path)
        for at in moments(what, steps):
            code, said, done, child = with_child(target, tmp_path, what, at)
            hit = done[0] >= at or code == -signal.SIGKILL
            if what == "die" and code == -signal.SIGKILL:
                code, said = detach(target.pid)
            assert code in ((0, 5) if what == "fail" else (0,)), (at, code, said)
            if what == "kill":
                assert child[0] in (7 << 8, signal.SIGKILL) and (not hit or child[0] == signal.SIGKILL or child[1]), (at, child)
            else:
                assert [child[0], child[1][0]] == right, (at, child, said)
            assert not child[1] or child[1][1] < 1, (at, child)
            goes_on(target, before)


def test_any_call_of_a_child(tmp_path):
    """Those that it makes for us: it goes on without being traced, which is said."""
    with parent(ONE) as target:
        before, _, calls = of_child(target, tmp_path)
        assert calls >= CHILD_CALLS  # one more if it still lives at the end
        for at in (2, *range(4, CHILD_CALLS + 1)):  # not getpid(), which cannot
            code, said, _, child = with_child(target, tmp_path, "call", at)
            assert code == 0 and child[0] == 7 << 8 and child[1][2] == 0, (at, code, said, child)
            goes_on(target, before)


def test_the_target_dies_at_any_step(tmp_path):
    with quiet(ONE) as target:
        steps = min(run(target.pid, tmp_path)[2][0], 200)
    for at in moments("kill", steps):
        with quiet(ONE) as target:
            code, said, done = run(target.pid, tmp_path, "kill", at)
            assert code in (0, 4, 5) and "timed out" not in said, (at, code, said)
            assert done[0] < at or target.wait(30) == -signal.SIGKILL  # there are not always as many steps


def test_the_target_dies_while_its_threads_are_stopped(tmp_path):
    """The kernel tells of its leader's end behind those of the others, which wait for us."""
    code = "import threading, time\nfor _ in range(4): threading.Thread(target=time.sleep, args=(60,)).start()\nprint('up', flush=True)"
    with lib.started(lib.command(ONE) + ["-S", "-c", code]) as target:
        assert target.stdout.readline() == b"up\n"
        steps = run(target.pid, tmp_path)[2][0]
    hits = 0
    for at in moments("dies", steps, 10):
        with lib.started(lib.command(ONE) + ["-S", "-c", code]) as target:
            assert target.stdout.readline() == b"up\n"
            status, said, _ = run(target.pid, tmp_path, "kill", at)
            assert status in (0, 4, 5) and "timed out" not in said, (at, status, said)
            hits += has_hit(tmp_path)
    assert hits > 5, "fewer were met"


def command_of(tracer):
    return int(pathlib.Path("/proc/%d/task/%d/children" % (tracer, tracer)).read_text())


@contextlib.contextmanager
def unwakeable(name, tmp_path, *tracer):
    """A target one of whose threads sleeps where nothing wakes it between sleep() and wake(). @tracer: what runs it as a command"""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with lib.started([*tracer, *lib.command(name), lib.PROGRAMS / "unwakeable.py", fifo, tmp_path / "end"], stdin=subprocess.PIPE,
                     stderr=subprocess.PIPE if tracer else None) as target:
        assert target.stdout.readline() == b"up\n"
        pid = command_of(target.pid) if tracer else target.pid

        def sleepers():
            return [t for t in os.listdir("/proc/%d/task" % pid) if lib.status_field(int(t), "State")[0] == "D"]

        def sleep():
            target.stdin.write(b"\n")
            target.stdin.flush()
            return lib.until(sleepers, "its sleep")[0]

        def wake():
            fifo.write_bytes(b"")
            lib.until(lambda: not sleepers(), "that it wakes up")
        yield target, sleep, wake


def test_a_command_goes_on_behind_its_trace(tmp_path):
    """Also with a thread that slept where nothing wakes it when the trace ended: asked to stop it does so once it is awake, and has to be let go."""
    with unwakeable(ONE, tmp_path, lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-d", "1s", "--") as (tracer, sleep, wake):
        pid = command_of(tracer.pid)
        sleep()
        lib.until(lambda: redirected(pid), "the attach")
        lib.until(lambda: not redirected(pid), "the end of the trace")
        time.sleep(3)  # until it is not waited for any more
        wake()
        (tmp_path / "end").touch()
        said = lib.text(tracer.communicate(timeout=30)[1])
    assert tracer.returncode == 0 and "the stubs stay mapped, unused" in said, said


@pytest.mark.parametrize("options", [[], ["-s"]], ids=["one", "with children"])
def test_a_thread_wakes_up_while_a_file_is_made(options, tmp_path):
    """It slept where nothing wakes it when the trace ended, and stands still for none of the time that the file takes: which nobody reads here."""
    with unwakeable(ONE, tmp_path) as (target, sleep, wake):
        with lib.started([lib.BINARY, "trace", "-q", "-f", "ndjson", "-o", "-", *INLINE, *options, "-d", "1s", "-p", target.pid]) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            tid = int(sleep())
            assert tracer.stdout.readline() and not redirected(target.pid)
            wake()
            lib.until(lambda: lib.status_field(tid, "State")[0] == "S", "that it goes on")
            assert tracer.poll() is None
            (tmp_path / "end").touch()
            assert float(target.communicate(timeout=30)[0]) < 500 and target.returncode == 0
            assert b'"complete":true' in tracer.communicate(timeout=60)[0].splitlines()[-1]
        assert tracer.returncode == 0


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_thread_that_nothing_wakes(name, tmp_path):
    """The attach is refused soon, and the others run on meanwhile; at the detach all words are put back without it."""
    with unwakeable(name, tmp_path) as (target, sleep, wake):
        sleep()
        wake()
        before = of_files(target.pid)
        tid = sleep()
        done = lib.sh([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], timeout=30)
        said = lib.text(done.stderr)
        assert done.returncode == 5 and "its thread %s is in an uninterruptible sleep" % tid in said, said
        goes_on(target, before)
        wake()
        with lib.started([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            sleep()
            asked = time.monotonic_ns()
            said = lib.stop(tracer)
            took = time.monotonic_ns() - asked
        assert "the stubs stay mapped, unused" in said, said
        assert not redirected(target.pid) and lib.status_field(target.pid, "TracerPid") == "0"
        wake()
        code, said = detach(target.pid)
        assert code == 0, said
        goes_on(target, before)
        (tmp_path / "end").touch()
        longest = float(target.communicate(timeout=30)[0])
        assert longest < 500, "the others stood still with it"
    seen = lib.Trace(tmp_path / "t.pyebpf")
    check_sums(seen)
    # the capture ends when the words were put back, not when nobody is waited for any more
    assert 0 < seen.meta["ts_ns"] - asked < took / 2, (seen.meta, asked, took)


def test_what_could_not_be_unmapped_while_it_was_followed(tmp_path):
    """It is tried once more when nobody is: a thread has woken up since."""
    with unwakeable(ONE, tmp_path) as (target, sleep, wake):
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-s", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            sleep()
            tracer.send_signal(signal.SIGINT)
            lib.until(lambda: lib.status_field(target.pid, "TracerPid") == "0", "that it is let go")
            assert not redirected(target.pid)
            wake()
            said = lib.finish(tracer)
        assert "stay mapped" not in said and not memfd_links(target.pid), said
        (tmp_path / "end").touch()
        target.communicate(timeout=30)


@pytest.mark.parametrize("name, options", [(ONE, ["-s", "--ring", "256K"]), (ONE, ["--on-full", "wait", "--ring", "256K"])])
def test_nobody_stands_still_for_one_that_nothing_wakes(name, options, tmp_path):
    """Events are lost, or wait for room, while it sleeps, and the trace ends meanwhile."""
    with unwakeable(name, tmp_path) as (target, sleep, wake):
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, *options, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            sleep()
            for _ in range(3):
                tracer.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                tracer.send_signal(signal.SIGCONT)
                time.sleep(0.3)
            lib.stop(tracer)
        assert not redirected(target.pid) and lib.status_field(target.pid, "TracerPid") == "0"
        wake()
        assert detach(target.pid)[0] == 0
        (tmp_path / "end").touch()
        assert float(target.communicate(timeout=30)[0]) < 500, "the others stood still with it"
    seen = lib.Trace(tmp_path / "t.pyebpf")
    check_sums(seen)
    assert "wait" not in options or not seen.lost


FILTERED = """import ctypes, struct, sys
libc = ctypes.CDLL(None)
def leaf(): return 1
print("up", flush=True)
sys.stdin.readline()
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 11), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7fff0000)]  # munmap() kills
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
print("filtered", flush=True)
sys.stdin.readline()
for _ in range(100): leaf()
print("fine", flush=True)
libc._exit(0)
"""


@pytest.mark.parametrize("name", lib.pick("3.8", "3.12", "3.13t"))
def test_a_filter_that_comes_later(name, tmp_path):
    """A call that it makes for us could end it: it makes none, all words are put back, the stubs stay mapped, which is said with -q too."""
    with lib.started(lib.command(name) + ["-c", FILTERED], stdin=subprocess.PIPE) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.stdin.write(b"\n")
            target.stdin.flush()
            assert target.stdout.readline() == b"filtered\n"
            assert "the stubs stay mapped, unused" in lib.stop(tracer)
        assert not redirected(target.pid)
        code, said = detach("-q", target.pid)
        assert code == 0 and "stay mapped" in said, said
        assert target.communicate(b"\n", timeout=30)[0] == b"fine\n" and target.returncode == 0


def test_the_target_is_stopped_at_the_end(tmp_path):
    """By SIGSTOP: it can make no call before it goes on, which is not waited for."""
    with busy(ONE, tmp_path) as target:
        before, _ = undisturbed(target, tmp_path)
        with lib.started([lib.BINARY, "trace", "--force", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            target.send_signal(signal.SIGSTOP)
            lib.until(lambda: lib.status_field(target.pid, "State")[0] == "T", "its stop")
            begun = time.monotonic()
            said = lib.stop(tracer)
            assert "the stubs stay mapped, unused" in said and time.monotonic() - begun < 8, said
        assert not redirected(target.pid)
        target.send_signal(signal.SIGCONT)
        assert detach(target.pid)[0] == 0
        goes_on(target, before)
        end_well(target, tmp_path)


WORKER = """import os, sys
def work(n): return n
pid = os.fork()
if pid: print(pid, flush=True)
while not os.path.exists(sys.argv[1]): work(1)
if pid: os.waitpid(pid, 0)
"""


def test_what_stays_behind_in_a_child_is_said(tmp_path):
    """As for the target itself: by which number it can be taken out."""
    end = tmp_path / "end"
    with lib.started(lib.command(ONE) + ["-S", "-c", WORKER, end]) as target:
        child = int(target.stdout.readline())
        with lib.started([lib.BINARY, "trace", "-q", "-o", tmp_path / "t.pyebpf", *INLINE, "-s", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid) and redirected(child), "the attach")
            os.kill(child, signal.SIGSTOP)
            lib.until(lambda: lib.status_field(child, "State")[0] in "Tt", "its stop")
            said = lib.stop(tracer)
        os.kill(child, signal.SIGCONT)
        assert "the stubs stay mapped, unused, in process %d" % child in said and said.count("stay mapped") == 1, said
        assert detach(child)[0] == 0 and not memfd_links(child)
        end.touch()
        assert target.wait(30) == 0


OTHER_TRACER = """import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
for tid in map(int, os.listdir("/proc/%s/task" % sys.argv[1])):
    assert libc.ptrace(0x4206, tid, 0, 0) == 0  # PTRACE_SEIZE
print("seized", flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def other_tracer(pid):
    """It has all threads, and lets them run."""
    with lib.started([*lib.command(ONE), "-c", OTHER_TRACER, str(pid)]) as other:
        assert other.stdout.readline() == b"seized\n"
        yield


ON_DEMAND = """import sys
def leaf(): return 1
print('up', flush=True)
for line in sys.stdin:
    for _ in range(int(line)): leaf()
    print(line, end='', flush=True)
"""


def test_another_tracer_is_there_at_a_loss(tmp_path):
    """The stacks cannot be read anew before it has gone; then they are."""
    cap = tmp_path / "t.pyebpf"
    with lib.started(lib.command(ONE) + ["-S", "-c", ON_DEMAND], stdin=-1) as target:
        def call(cnt):
            target.stdin.write(b"%d\n" % cnt)
            target.stdin.flush()
            assert target.stdout.readline() == b"%d\n" % cnt

        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-o", cap, *INLINE, "--on-full", "drop", "--ring", "64K", "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            with other_tracer(target.pid):
                tracer.send_signal(signal.SIGSTOP)
                call(100000)
                tracer.send_signal(signal.SIGCONT)
                time.sleep(0.5)
            time.sleep(0.5)
            call(300)
            said = lib.stop(tracer)
    seen = lib.Trace(cap)
    last = max(gap["until_ns"] for gap in seen.gaps)
    assert seen.lost and "ends early" not in said, said
    assert len([e for e in seen.events if e["ev"] == "call" and e["name"] == "leaf" and e["ts_ns"] > last]) == 300, said


def test_another_tracer_comes(tmp_path):
    """The words cannot be put back then, which is said; later they can."""
    with lib.started(lib.command(ONE) + ["-c", "import time\ndef leaf(): return 1\nprint('up', flush=True)\n"
                                         "while True:\n    leaf()\n    time.sleep(.001)\n"]) as target:
        assert target.stdout.readline() == b"up\n"
        with lib.started([lib.BINARY, "trace", "-o", tmp_path / "t.pyebpf", *INLINE, "-p", target.pid], stderr=-1) as tracer:
            lib.until(lambda: redirected(target.pid), "the attach")
            with other_tracer(target.pid):
                said = lib.stop(tracer)
                assert "warning: the probes are still in process %d" % target.pid in said and redirected(target.pid), said
        lib.until(lambda: detach(target.pid)[0] == 0, "the way out")
        assert not redirected(target.pid) and target.poll() is None
