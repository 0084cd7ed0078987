# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the program under test, the interpreters, traces and their events."""
import array
import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
import unittest.mock

import pytest

import pythons

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
BINARY = os.environ.get("PYEBPF") or str(pythons.BUILD / "pyebpf")
LONG = os.environ.get("PYEBPF_LONG") == "1"

sys.path.insert(0, str(HERE.parent / "accept"))
import ndjson  # noqa: E402
import trace_exact  # noqa: E402

ENTER, LEAVE = ndjson.ENTER, ndjson.LEAVE
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
long_only = pytest.mark.skipif(not LONG, reason="takes long: PYEBPF_LONG=1")


# --- interpreters ---

def family(name):
    return re.search(r"3\.\d+t?", name).group()


@functools.lru_cache(maxsize=None)
def families():
    """One interpreter of each family (the short form leaves out 3.7, which is as 3.6 and 3.8 are): rather one that is a plain
    file than one that is started through a loader."""
    best = {}
    for name in sorted(set(pythons.names()).difference(musl()), key=lambda n: (not n.startswith("pyenv"), len(n), n)):
        if LONG or family(name) != "3.7":
            best.setdefault(family(name), name)
    return sorted(best.values(), key=lambda n: (pythons.version(n), n))


def every():
    return pythons.names()


def builds():
    """The other interpreters of these families: of other compilers, with a shared library, by tail calls, for debugging."""
    return [n for n in every() if n not in families() and family(n) in map(family, families())]


def musl():
    """Those with that C library; they lack modules that need other ones (ctypes, zlib)."""
    return [n for n in every() if n.endswith("-musl")]


def exact_programs(name, share):
    """Those of programs/exact that this interpreter runs. In the short form half of them, another half of the neighbouring versions;
    and where one engine has @share 0 the other one has 1: together they run all."""
    found = sorted((PROGRAMS / "exact").glob("*.py"))
    return found if LONG else found[(families().index(name) + share) % 2::2]


def shown_by_build(programs):
    """Those of the workloads of tests/accept in which what differs by the build of an interpreter shows."""
    return [p for p in programs if p.name in ("exceptions.py", "generators.py", "threads.py")]


def pick(*wanted):
    """The interpreters of these families that are there; all families in the long form."""
    if LONG:
        return families()
    return [n for n in families() if family(n) in wanted]


def some():
    """Of each shape of the interpreter: for what depends on little more than how a frame and a code object are read."""
    return pick("3.6", "3.9", "3.11", "3.12", "3.13t", "3.15")


def command(name):
    return pythons.found()[name]


def executable(name):
    """The file of the interpreter, not the loader or shim that starts it."""
    return command(name)[-1]


def any_python():
    """An interpreter that is a plain file."""
    return next(command(n) for n in families() if len(command(n)) == 1)


# --- running ---

def sh(cmd, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(c) for c in cmd], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=kw.pop("timeout", 300), **kw)


def trace(args, out, **kw):
    """pyebpf trace -o OUT ARGS; not checked."""
    return sh([BINARY, "trace", "-o", out] + [str(a) for a in args], **kw)


def text(raw):
    return raw.decode("utf-8", "replace")


def convert(capture, form="ndjson"):
    done = sh([BINARY, "convert", capture, "--format", form, "-o", "-"])
    assert done.returncode == 0, text(done.stderr)
    return done.stdout


def objects(lines):
    """Those of the lines of ndjson: read as one array, which takes a third of the time."""
    return json.loads(b"[%s]" % lines.rstrip().replace(b"\n", b","))


class Trace:
    """A capture, read."""

    def __init__(self, capture):
        self.events = objects(convert(capture))
        assert self.events and self.events[-1]["ev"] == "meta", "no meta line at the end"
        self.meta = self.events.pop()
        ndjson.check_nesting(self.events)

    @property
    def gaps(self):
        return [e for e in self.events if e["ev"] == "gap"]

    @property
    def lost(self):
        return sum(self.meta["dropped"].values())

    def whole(self):
        """Nothing lost: returns itself."""
        assert self.lost == 0 and not [g for g in self.gaps if g["n"]], (self.meta, self.gaps[:3])
        assert self.meta["generated"] == self.meta["written"]
        assert self.meta["written"] == sum(e["ev"] in ENTER | LEAVE for e in self.events)
        return self

    def of(self, file):
        return [e for e in self.events if e.get("file") == str(file)]

    def count(self, file, ev=None):
        """{name: number of events} of a file; `ev`: one kind or a set of them (default: enter)."""
        kinds = {ev} if isinstance(ev, str) else ev or ENTER
        return collections.Counter(e["name"] for e in self.of(file) if e["ev"] in kinds)

    def stacks(self):
        """(event, names of the frames) of each call, its own frame last."""
        stacks = {}
        for e in self.events:
            stack = stacks.setdefault(e.get("tid"), [])
            if e["ev"] == "gap":
                stack.clear()
            elif e["ev"] in ENTER | {"open"}:
                stack.append(e["name"])
                if e["ev"] != "open":
                    yield e, list(stack)
            elif e["ev"] in LEAVE:
                stack.pop()

    def pids(self):
        return {e["pid"] for e in self.events if e["ev"] in ENTER | LEAVE | {"open"}}


def exactly(engine, command, program, folder):
    """tests/accept/trace_exact.py of one program, but that its trace is read faster. How many events were compared."""
    with unittest.mock.patch.object(trace_exact, "events", lambda _, capture: Trace(capture).whole().events):
        return trace_exact.check(BINARY, engine, command, str(program), str(folder))


def traced(cmd, tmp, *options, status=0, **kw):
    """Runs a command under trace and returns its Trace (nothing lost) and the finished process."""
    cap = pathlib.Path(tmp) / "t.pyebpf"
    with contextlib.suppress(FileNotFoundError):
        cap.unlink()
    done = trace(list(options) + ["--"] + list(cmd), cap, **kw)
    assert done.returncode == status, (done.returncode, text(done.stderr)[-2000:])
    return Trace(cap), done


def run_program(name, program, tmp, *args, options=(), **kw):
    """A program of programs/ under trace."""
    prog = program if os.path.isabs(str(program)) else PROGRAMS / program
    return traced(command(name) + [prog] + list(args), tmp, *options, **kw)


# --- processes ---

@contextlib.contextmanager
def started(cmd, **kw):
    """A process that is ended by its pid when the test is over."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", subprocess.PIPE)
    process = subprocess.Popen([str(c) for c in cmd], **kw)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        process.wait(30)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def until(condition, what, seconds=30):
    """Waits for something that comes; fails with `what` when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError("waited in vain for " + what)


def schedstat(path):
    """CPU time in ns of the thread whose /proc/.../schedstat this is."""
    with open(path, encoding="ascii") as f:
        return int(f.read().split()[0])


def probes(tracer):
    """[(pid, file, offset)] of the probes that a pyebpf has placed with uprobe_multi links."""
    out = []
    for path in pathlib.Path("/proc/%d/fdinfo" % tracer).glob("*"):
        with contextlib.suppress(OSError):
            text = path.read_text(errors="surrogateescape")
            if "uprobe_multi" in text and "\npath:" in text:
                pid = int(re.search(r"^pid:\s*(\d+)$", text, re.M).group(1))
                file = re.search(r"^path:\s*(.*)$", text, re.M).group(1)
                out += [(pid, file, int(at, 16)) for at in re.findall(r"^\d+\s+(0x[0-9a-f]+)\s", text, re.M)]
    return out


def kernel_objects(pid):
    """{("prog", id), ...}: the programs, maps and links of BPF that a process holds."""
    out = set()
    for path in pathlib.Path("/proc/%d/fdinfo" % pid).glob("*"):
        with contextlib.suppress(OSError):
            out |= set(re.findall(r"^(prog|map|link)_id:\s*(\d+)$", path.read_text(errors="surrogateescape"), re.M))
    return {(kind, int(number)) for kind, number in out}


def all_kernel_objects():
    """The same of the whole machine."""
    out = set()
    for kind in ("prog", "map", "link"):
        done = sh(["bpftool", "-j", kind, "list"])
        assert done.returncode == 0, done.stderr
        out |= {(kind, row["id"]) for row in json.loads(done.stdout)}
    return out


def mapped_code(pid):
    """[(start, end, file offset, file)] of executable mappings of files."""
    out = []
    for line in pathlib.Path("/proc/%d/maps" % pid).read_text().splitlines():
        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) \S+ \d+ +(/.*)", line)
        if m and "python" in m.group(4):
            out.append((int(m.group(1), 16), int(m.group(2), 16), int(m.group(3), 16), m.group(4)))
    return out


def places_of_others(ours=()):
    """{(file, offset)} of the probes of each pyebpf that runs, but for these: an agent beside the test has some everywhere."""
    tracers = []
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text(errors="surrogateescape") == "pyebpf\n":
                tracers.append(int(comm.parent.name))
    return {(file, offset) for tracer in tracers if tracer not in ours for _, file, offset in probes(tracer)}


def code_differs(pid):
    """Places where the code in memory is not that of the file."""
    bad = []
    with open("/proc/%d/mem" % pid, "rb") as mem:
        for start, end, offset, file in mapped_code(pid):
            mem.seek(start)
            have = mem.read(end - start)
            with open(file, "rb") as f:
                f.seek(offset)
                want = f.read(end - start)
            if have[:len(want)] != want:
                bad += [(file, offset + i) for i in range(len(want)) if have[i] != want[i]]
    return bad


def left_in_code(pid, *ours):
    """The same without what a pyebpf that runs has there, but for these tracers."""
    bad = code_differs(pid)
    others = places_of_others(ours) if bad else ()
    return [place for place in bad if place not in others]


def waits_for_events(pid):
    """Whether it has come to its loop: on a busy machine it can stand between two of its probes for long."""
    with contextlib.suppress(OSError), open("/proc/%d/syscall" % pid, encoding="ascii") as f:
        return f.read().split()[0] in ("232", "281")  # epoll_wait, epoll_pwait
    return True


def wait_attached(tracer, *pids):
    """Until this pyebpf (a Popen) has all its probes in these processes: their number does not grow any more."""
    def look():
        assert tracer.poll() is None, "it ended: %s" % text(tracer.stderr.read() if tracer.stderr else b"")[-1000:]
        return len([p for p in probes(tracer.pid) if p[0] in pids and p[0] != tracer.pid])
    until(lambda: {p[0] for p in probes(tracer.pid)} >= set(pids) or look() < 0, "the probes", 60)
    before = 0
    for _ in range(100):
        time.sleep(0.1)
        now = look()
        if now == before and waits_for_events(tracer.pid):
            return
        before = now


def attach(pids, out, *options, **kw):
    """pyebpf trace -p PIDS, started; wait_attached() where events matter."""
    given = ",".join(map(str, pids)) if isinstance(pids, (list, tuple)) else str(pids)
    kw.setdefault("stderr", subprocess.PIPE)
    return started([BINARY, "trace", "-o", out] + list(options) + ["-p", given], **kw)


def finish(process, expect=0, seconds=60):
    """Waits for a pyebpf to end; its stderr."""
    err = process.communicate(timeout=seconds)[1]
    assert process.returncode == expect, (process.returncode, text(err or b"")[-2000:])
    return text(err or b"")


def stop(process, expect=0, number=signal.SIGINT):
    """Ctrl-C for a running pyebpf; its stderr."""
    process.send_signal(number)
    return finish(process, expect)


def lossy(python, capture, *options, status=0):
    """Exit status and stderr of a trace that loses events: nobody reads its small ring while a program makes calls, which ends with
    `status`."""
    program = pathlib.Path(capture).with_suffix(".py")
    program.write_text("import sys\nprint('ready', flush=True)\nsys.stdin.readline()\ndef f(): pass\n"
                       "for i in range(100000): f()\nsys.exit(%d)\n" % status)
    with started([BINARY, "trace", "--ring", "64K", "-o", capture, *options, "--", *python, "-S", program],
                 stdin=subprocess.PIPE, stderr=subprocess.PIPE) as tracer:
        tracer.stdout.readline()
        tracer.send_signal(signal.SIGSTOP)
        tracer.stdin.write(b"\n")
        tracer.stdin.flush()
        time.sleep(1)
        tracer.send_signal(signal.SIGCONT)
        err = tracer.communicate(timeout=60)[1]
        return tracer.returncode, text(err)


def short_of_memory(run):
    """What run(preexec_fn=...) gives at the first limit of address space under which the program starts at all."""
    for limit in range(4, 200):
        done = run(preexec_fn=lambda size=limit << 20: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        if done.returncode not in (127, -signal.SIGSEGV, -signal.SIGKILL):
            break
    return done


@functools.lru_cache(maxsize=4)
def tick_times(out):
    """The times in ns that programs/ticks.py has left."""
    calls = array.array("d")
    calls.frombytes(pathlib.Path(out).read_bytes())
    return [int(t * 1e9) for t in calls]


def status_field(pid, field):
    for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines():
        if line.startswith(field + ":"):
            return line.split(":", 1)[1].strip()
    raise KeyError(field)


def is_owned(line):
    """Whether a line of uprobe_events names a process in its group that lives: a test beside this one."""
    owner = re.match(r"[pr]\d*:\w+?_(\d+)", line)
    return bool(owner) and int(owner[1]) != os.getpid() and os.path.exists("/proc/" + owner[1])


def nothing_left():
    """P7: no pinned object, no probe in tracefs."""
    for folder in ("/sys/fs/bpf",):
        if os.path.isdir(folder):
            assert os.listdir(folder) == []
    for path in ("/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"):
        with contextlib.suppress(OSError):
            assert not [line for line in pathlib.Path(path).read_text().splitlines() if not is_owned(line)]


def shell_words(cmd):
    return " ".join(shlex.quote(str(c)) for c in cmd)
