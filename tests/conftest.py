# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the program, the interpreters, captures made once, and the check that
nothing is left behind in the kernel.

The program is $PYEBPF, or pyebpf in $PYEBPF_BUILD, or build/pyebpf. The interpreters are those of
scripts/pythons. `--quick` leaves out what is marked slow and all but a few interpreters."""
import collections
import contextlib
import gc
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent
BUILD = pathlib.Path(os.environ.get("PYEBPF_BUILD", ROOT / "build")).resolve()
PYEBPF = pathlib.Path(os.environ.get("PYEBPF", BUILD / "pyebpf")).resolve()
# One per shape of the probe plan: exits of the evaluator, USDT notes, inlined calls, tail calls.
QUICK = {"3.9-bullseye", "3.11-debian", "3.13t", "3.15-sid"}
gc.set_threshold(100_000)  # events are read as a million small dicts, none of them garbage
TIMEOUT_S = 120
TEST_S = 400  # the longest takes 60 s on an idle machine

for folder in ("e2e", "accept", "agent", "peers", "readers"):
    sys.path.insert(0, str(TESTS / folder))
import lib  # noqa: E402 pylint: disable=wrong-import-position
import pythons  # noqa: E402 pylint: disable=wrong-import-position


# --- options, markers, selection ---

def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true",
                     help="only a few interpreters, nothing marked slow")


def pytest_configure(config):
    for line in ("slow: takes more than 20 s; not with --quick",
                 "alone: measures time or looks at other tracers; run by itself, not beside other tests",
                 "needs_root: skipped without root"):
        config.addinivalue_line("markers", line)
    for number in (signal.SIGINT, signal.SIGQUIT):  # a script's "&" has what it starts ignore them, and that is inherited
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def is_quick(item):
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    left_out = {p for p in params if isinstance(p, str) and p in pythons.names() and p not in QUICK}
    return not left_out and not item.get_closest_marker("slow")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--quick"):
        kept = [item for item in items if is_quick(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    for item in items:
        if os.geteuid() != 0 and item.get_closest_marker("needs_root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


# --- a test that hangs ---

def what_runs():
    """Every thread there is: its state, the kernel function that it waits in and, below it, its system call."""
    said = subprocess.run(["ps", "-eLo", "pid,tid,ppid,stat,wchan:24,etime,args"], stdout=subprocess.PIPE, encoding="utf-8",
                          errors="replace", check=False).stdout.splitlines()
    for line in said:
        yield line[:200]
        with contextlib.suppress(OSError, IndexError):
            yield "    " + pathlib.Path("/proc", line.split()[1], "syscall").read_text("ascii").strip()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """No test takes for ever: one that hangs fails, and says what it waited for while that still runs."""
    def give_up(*_):
        pytest.fail("\n".join(["%s: longer than %d s; what runs:" % (item.nodeid, TEST_S), *what_runs()]))
    old = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


# --- the program and the interpreters ---

class Pyebpf:
    """The program under test. Call it with its arguments; the answer is a CompletedProcess whose
    stdout and stderr are text (encoding=None: bytes). It never waits for ever, nor reads a terminal."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *args, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "encoding": "utf-8", "errors": "surrogateescape", "timeout": TIMEOUT_S, **options}
        if "input" in options:
            del options["stdin"]
        # Tests check codes themselves: most of them are about what fails.
        return subprocess.run([self.path, *map(str, args)], check=False, **options)

    def ok(self, *args, **options):
        """As a call, and the exit code has to be 0."""
        done = self(*args, **options)
        assert done.returncode == 0, done.stderr
        return done

    @contextlib.contextmanager
    def started(self, *args, **options):
        """The program running in its own group, as a Popen with stderr piped; killed at the end."""
        options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "encoding": "utf-8",
                   "errors": "surrogateescape", "start_new_session": True, **options}
        with subprocess.Popen([self.path, *map(str, args)], **options) as process:
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def events(self, capture):
        """(events, meta) of a capture, by convert to ndjson; for checked ones see accept's ndjson.py."""
        text = self.ok("convert", capture, "-f", "ndjson", "-o", "-").stdout
        rows = [json.loads(line) for line in text.splitlines()]
        assert rows and rows[-1]["ev"] == "meta", "no meta line at the end"
        return rows[:-1], rows[-1]


@pytest.fixture(scope="session")
def pyebpf():
    if not PYEBPF.exists():
        pytest.fail("%s is missing: build it, or set PYEBPF" % PYEBPF)
    return Pyebpf(PYEBPF)


Interpreter = collections.namedtuple("Interpreter", "name command version")
Interpreter.__doc__ = """name: as scripts/pythons has it; command: a list; version: (3, 12)."""


def interpreter_named(name):
    return Interpreter(name, pythons.found()[name], pythons.version(name))


@pytest.fixture(params=pythons.names())
def interpreter(request):
    """A test that takes this runs once for each interpreter."""
    return interpreter_named(request.param)


@pytest.fixture(scope="session")
def any_python():
    """The interpreter for tests that are about something else."""
    for name in ("3.11-debian", *pythons.names()):
        if name in pythons.found():
            return interpreter_named(name)
    return pytest.skip("no interpreter")


# --- files ---

@pytest.fixture
def public_tmp():
    """A folder that any user may enter and write to; tmp_path is only for who runs the tests."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pyebpf-test-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


class Captures:
    """Captures of whole programs, each made once in a session however many tests look at it."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.made = {}

    def of(self, python, script, *args, options=()):
        """(capture file, CompletedProcess of the trace) of `-- python script args`."""
        key = (python.name, str(script), args, tuple(options))
        if key not in self.made:
            file = self.folder / ("%d.pyebpf" % len(self.made))
            done = self.program("trace", *options, "-o", file, "--", *python.command, script, *args)
            assert done.returncode == 0, done.stderr
            self.made[key] = file, done
        return self.made[key]


@pytest.fixture(scope="session")
def captures(pyebpf, tmp_path_factory):
    return Captures(pyebpf, tmp_path_factory.mktemp("captures"))


# --- nothing is left behind ---

def mounts(kind):
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as lines:
        return [line.split()[1] for line in lines if line.split()[2] == kind]


def pinned():
    """What is pinned in any bpffs. The kernel's own iterators are there on every machine."""
    found = set()
    for mount in mounts("bpf"):
        for folder, _, files in os.walk(mount):
            found.update(os.path.join(folder, file) for file in files)
    return {path for path in found if not path.endswith((".debug", "/maps.debug", "/progs.debug"))}


def traced():
    """Lines of uprobe_events: probes that outlive the process that made them."""
    lines = set()
    for mount in mounts("tracefs"):
        with contextlib.suppress(OSError):
            lines.update(pathlib.Path(mount, "uprobe_events").read_text("utf-8").splitlines())
    return {line for line in lines if not lib.is_owned(line)}


@pytest.fixture(scope="session")
def before():
    return pinned(), traced()


@pytest.fixture(autouse=True)
def nothing_left(before):
    """After every test: nothing new is pinned and no probe lies in tracefs, however it ended."""
    yield
    if os.geteuid() == 0:
        assert not pinned() - before[0], "pinned in bpffs"
        assert not traced() - before[1], "left in tracefs"
