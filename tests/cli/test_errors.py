# SPDX-License-Identifier: Apache-2.0
"""Every way to fail: the exit code, and the whole of what is said. Nothing but that goes to stderr, and
stdout stays empty. What is missing when privileges are is in e2e/test_privilege.py."""
import contextlib
import os
import pathlib
import pty
import re
import shutil
import stat
import subprocess
import sys

import pytest

import pythons

needs_root = pytest.mark.needs_root
WAIT = ["-c", "import time; print(flush=True); time.sleep(1000)"]
EVIL = "\x1b[31m\x07\x9b\u202e\x7f"
SHOWN = r"\x1b[31m\x07\x9b\u202e\x7f"
NO_FORMAT = ("this is none of the formats that are read: a pyebpf capture, pprof, collapsed, speedscope, firefox, "
             "perf script, pstats")
NOT_PYTHON = "pyebpf list shows every Python process"
USUAL = {NOT_PYTHON,
         "pyebpf list says which engine takes a process, pyebpf list --probes PID what was found in it",
         "pyebpf doctor says what is missing here, and how to get it"}


def assert_said(done, code, *lines):
    """Exit code and the lines of stderr, each a regular expression for the whole of it. Where nothing better is known
    the last line is the usual one: what to do is always said when the target or the machine is to blame."""
    said = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert len(said) > 1 or code not in (3, 4, 5), done.stderr
    if len(said) == len(lines) + 1 and said[-1] in USUAL:
        said.pop()
    assert len(said) == len(lines), done.stderr
    for line, pattern in zip(said, lines):
        assert re.fullmatch(pattern, line), (line, pattern)
    assert not done.stdout


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def waiting(command):
    with pythons.running([*command, *WAIT]) as (process, _):
        yield process.pid


@pytest.fixture
def target(any_python):
    with waiting(any_python.command) as pid:
        yield pid


# --- usage ---

USAGE = [
    (["trace"], r"want processes \(-p PID, -a .*\) or a command \(-- CMD\), one of the two"),
    (["trace", "-p"], "-p needs an argument"),
    (["trace", "--pid"], "--pid needs an argument"),
    (["trace", "-p", "x"], "--pid x: not a process id: x"),
    (["trace", "-p", "0"], "--pid 0: not a process id: 0"),
    (["trace", "-p", "1,,2"], "--pid 1,,2: not a process id: 1,,2"),
    (["trace", "-p", "9" * 30], "--pid 9+: not a process id: 9+"),
    (["trace", "1x"], "not a process id: 1x"),
    (["trace", "--"], r"want processes \(-p PID, .*\) or a command .*"),
    (["trace", "-p", "1", "-d", "soon"], "--duration soon: want 30, 30s, 5m, 2h, 7d or 250ms"),
    (["trace", "-p", "1", "--max-events", "-1"], "--max-events -1: want a number"),
    (["trace", "-p", "1", "--ring", "x"], "--ring x: want a size such as 512M"),
    (["trace", "-p", "1", "--ring", "100T"], "--ring: at most 16G"),
    (["trace", "-p", "1", "--ring", "9" * 30], "--ring 9+: the number is too large"),
    (["trace", "-p", "1", "--engine", "x"],
     "--engine x: want auto, uprobe, usdt or inline"),
    (["trace", "-p", "1", "--on-full", "x"], "--on-full x: want drop or wait"),
    (["trace", "-p", "1", "--on-full", "wait"], "--on-full goes with --engine inline"),
    (["trace", "-p", "1", "--max-overhead", "0"], "--max-overhead 0: want 1 to 95 percent"),
    (["trace", "-p", "1", "--fail-on-loss", "-1"], "--fail-on-loss -1: want 0 to 100 percent"),
    (["trace", "-p", "1", "--split", "x"], r"--split x: want events \(10M\), or bytes with a B \(64MB\), at least 1MB"),
    (["trace", "-p", "1", "--trigger", "x"], "--trigger x: want 'module:qualname>250ms'"),
    (["trace", "-p", "1", "-d", "0"], "--duration 0: want more than 0"),
    (["trace", "-p", "1", "--max-depth", "0"], "--max-depth 0: want more than 0"),
    (["trace", "-p", "1", "--max-events", "0"], "--max-events 0: want more than 0"),
    (["trace", "-p", "1", "--flight-recorder", "0s"], "--flight-recorder 0s: want more than 0"),
    (["record", "-p", "1", "-d", "0"], "--duration 0: want more than 0"),
    (["record", "-p", "1", "--max-cpu", "0"], "--max-cpu 0: want more than 0"),
    (["record", "-p", "1", "--mode", "x"], "--mode x: want wall, cpu, offcpu or gil"),
    (["top", "-p", "1", "-d", "0"], "--duration 0: want more than 0"),
    (["top", "-p", "1", "--mode", "gil"], "--mode gil: want cpu, offcpu or wall"),
    (["trace", "-p", "1", "-f", "x"],
     "no format is called x; there are firefox, .*, ndjson"),
    (["trace", "-p", "1", "--nope"], "--nope is not an option of this command"),
    (["trace", "-p", "1", "--quiet=1"], "--quiet takes no argument"),
    (["trace", "-p", "1", "--forc"], "--forc is not an option of this command"),
    (["trace", "-p", "1", "-x"], "-x is not an option of this command"),
    (["convert"], "want one capture to convert"),
    (["convert", "a", "b"], "want one capture to convert"),
    (["convert", "a", "-f", "x"], "no format is called x; there are .*"),
    (["stats"], "want one capture"),
    (["stats", "a", "b"], "want one capture"),
    (["stats", "a", "--by", "x"], "--by x: want function, module, line, thread or process"),
    (["stats", "a", "--sort", "x"], "--sort x: want self, total or calls"),
    (["stats", "a", "-n", "x"], "--top x: want a number"),
    (["list", "x"], "a process is given by its number"),
    (["list", "--engine", "x"], "the engine is one of auto, uprobe and usdt"),
    (["list", "--probes", "1", "2"], "--probes takes one process or file"),
    (["list", "--", "true"], "no command is run here"),
]


@pytest.mark.parametrize("args, what", USAGE, ids=lambda value: " ".join(value)[:30]
                         if isinstance(value, list) else "")
def test_usage(pyebpf, args, what):
    assert_said(pyebpf(*args), 2, "pyebpf %s: %s" % (args[0], what), "Try 'pyebpf %s --help'." % args[0])


@pytest.mark.parametrize("args", [["-p", "1"], ["--nope"], ["-f", "x"], ["1"], ["-d", "x"]], ids=" ".join)
def test_usage_with_a_command(pyebpf, args):
    """Its own status may be 2: ours is one that commands do not use."""
    done = pyebpf("trace", *args, "--", sys.executable, "-c", "open('ran', 'w')")
    assert_said(done, 125, "pyebpf trace: .+", "Try 'pyebpf trace --help'.")
    assert not os.listdir(".")


def test_no_such_command(pyebpf):
    assert_said(pyebpf("nope"), 2, "pyebpf: no command is called nope", "Try 'pyebpf --help'.")
    assert_said(pyebpf("help", "nope"), 2, "pyebpf: no command is called nope", "Try 'pyebpf --help'.")
    assert pyebpf().returncode == 2


# --- no such target, not Python ---

@needs_root
@pytest.mark.parametrize("command", ["trace", "list"])
def test_no_such_process(pyebpf, command):
    assert_said(pyebpf(command, "4194304"), 4, "pyebpf %s: there is no process 4194304" % command)


@needs_root
@pytest.mark.parametrize("args", [["trace", "-p"], ["list"], ["list", "--probes"]], ids=" ".join)
def test_not_python(pyebpf, args):
    exe = os.path.realpath(shutil.which("sh"))
    with pythons.running(["sh", "-c", "echo; sleep 1000; :"]) as (process, _):
        done = pyebpf(*args, process.pid)
    assert_said(done, 4, r"pyebpf %s: PID %d is sh \(%s\), not Python" % (args[0], process.pid, exe),
                NOT_PYTHON)


@needs_root
def test_only_the_child_is_python(pyebpf, any_python):
    with pythons.running(["sh", "-c", '"$@"; :', "sh", *any_python.command, *WAIT]) as (process, _):
        done = pyebpf("trace", process.pid)
    assert_said(done, 4, r"pyebpf trace: PID %d is sh \(.*\), not Python" % process.pid,
                r"its child (\d+) is Python: -p \1")


@needs_root
def test_one_of_several_is_wrong(pyebpf, target):
    assert_said(pyebpf("trace", "-p", "%d,4194304" % target), 4,
                "pyebpf trace: there is no process 4194304")


@needs_root
def test_a_thread(pyebpf, any_python):
    code = ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
            "print(flush=True)")
    with pythons.running([*any_python.command, "-c", code]) as (process, _):
        tid = max(map(int, os.listdir("/proc/%d/task" % process.pid)))
        done = pyebpf("trace", tid)
    assert_said(done, 4, "pyebpf trace: {0} is a thread of process {1}; give {1}".format(tid, process.pid))


@needs_root
def test_a_kernel_thread(pyebpf):
    if not pathlib.Path("/proc/2").exists():
        pytest.skip("no kernel threads in here")
    assert_said(pyebpf("trace", "2"), 4, r"pyebpf trace: PID 2 is the kernel thread \S+, not Python")


@needs_root
def test_a_process_that_gives_back_its_memory(pyebpf):
    """It has no program any more, as a kernel thread, for some ms after it was killed."""
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", "x = bytearray(200 << 20); print(flush=True); input()"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            process.kill()
            done = pyebpf("trace", process.pid)
        assert done.returncode == 4 and "kernel thread" not in done.stderr, done.stderr


# --- unsupported ---

def jit_builds():
    return [name for name in pythons.names() if name in ("3.14-sid", "3.15-sid")]


@needs_root
@pytest.mark.parametrize("name", jit_builds())
def test_an_active_jit(pyebpf, name):
    command = ["env", "PYTHON_JIT=1", *pythons.found()[name]]
    what = r"pyebpf trace: PID \d+ \(\S+\): its JIT is active: probes would miss calls"
    with waiting(command) as pid:
        assert_said(pyebpf("trace", pid), 5, what, "run it with PYTHON_JIT=0")
    done = pyebpf("trace", "-q", "--", *command, "-c", "import time; time.sleep(1000)")
    assert_said(done, 125, what, "run it with PYTHON_JIT=0")
    assert not os.listdir(".")


@needs_root
def test_python_2(pyebpf):
    local = os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python2.7")
    path = local if os.path.exists(local) else shutil.which("python2.7")
    if not path:
        pytest.skip("no Python 2")
    what = r"pyebpf trace: PID \d+ \(\S+\): it is Python 2; known are 3\.6 to 3\.15"
    code = ["-c", "import sys, time; print(''); sys.stdout.flush(); time.sleep(1000)"]
    with pythons.running([path, *code]) as (process, _):
        assert_said(pyebpf("trace", process.pid), 5, what)
    done = pyebpf("trace", "--", path, *code)
    assert done.returncode == 125 and re.fullmatch(what, done.stderr.splitlines()[0])


@needs_root
def test_an_engine_that_the_build_has_not(pyebpf):
    name = next((n for n in pythons.names() if n.startswith("pyenv-3.1")), None)
    if not name:
        pytest.skip("no build without USDT probes")
    with waiting(pythons.found()[name]) as pid:
        done = pyebpf("trace", "--engine", "usdt", pid)
        file = re.search(r"\((.*?)\)", done.stderr)[1]
    assert_said(done, 5, r"pyebpf trace: PID \d+ \(\S+\): .*(USDT probes|python:function__entry).*")
    assert_said(pyebpf("list", "--engine", "usdt", "--probes", file), 5,
                "pyebpf list: %s: .*(USDT probes|python:function__entry).*" % re.escape(file))


# --- outputs ---

def output_cases():
    pathlib.Path("there.json").touch()
    pathlib.Path("there-2.pyebpf").touch()
    pathlib.Path("folder").mkdir()
    os.symlink("there.json", "link.json")
    os.mkfifo("fifo")
    other = "choose another name with -o, or pass --force to replace it"
    return [
        (["-o", "no/x.json"], "cannot write no/x.json: No such file or directory"),
        (["-o", ""], "cannot write : No such file or directory"),
        (["-o", "."], r"cannot write \.: Is a directory"),
        (["-o", "folder"], "folder is a directory, not a file to write to"),
        (["-o", "there.json"], "there.json exists", other),
        (["-o", "link.json", "--force"], "link.json is a symbolic link, not a file to write to"),
        (["-o", "fifo", "--force"], "fifo is a FIFO, not a file to write to"),
        (["-o", "/dev/full", "--force"], "/dev/full is a device, not a file to write to"),
        (["-o", "x" * 300], "cannot write x+: File name too long"),
    ]


@pytest.fixture
def made(pyebpf, any_python):
    """A capture in the current folder."""
    pyebpf.ok("trace", "-q", "-o", "made.pyebpf", "--", *any_python.command, "-I", "-S", "-c", "pass")
    return "made.pyebpf"


@needs_root
def test_outputs(pyebpf, target, made):
    for args, *lines in output_cases():
        for command in (["trace", "-p", target], ["convert", made]):
            assert_said(pyebpf(*command, *args), 6, "pyebpf %s: %s" % (command[0], lines[0]), *lines[1:])
    assert_said(pyebpf("trace", "-p", target, "-o", "there-2.json"), 6,
                "pyebpf trace: there-2.pyebpf exists", "choose another name .*")
    assert pathlib.Path("there.json").stat().st_size == 0
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)


@needs_root
def test_an_output_with_a_command(pyebpf, any_python):
    done = pyebpf("trace", "-o", "no/x.json", "--", *any_python.command, "-c", "open('ran', 'w')")
    assert_said(done, 125, "pyebpf trace: cannot write no/x.json: No such file or directory")
    assert not os.path.exists("ran")


@needs_root
def test_the_name_of_a_capture_is_for_captures(pyebpf, target, made):
    """Otherwise a slip of the fingers replaces the one with --force, and trace -f PPROF -o X.pyebpf would take X for its own."""
    before = pathlib.Path(made).read_bytes()
    for args, form in ((["convert", made, "-o", made, "--force"], "firefox"), (["merge", made, "-o", "all.pyebpf"], "pprof"),
                       (["trace", "-p", target, "-f", "pstats", "-o", "x.pyebpf"], "pstats")):
        done = pyebpf(*args)
        assert done.returncode == 2 and "%s is the name of a capture, and this would be %s: " % (
            args[args.index("-o") + 1], form) in done.stderr
    assert pathlib.Path(made).read_bytes() == before and not os.path.exists("x.pyebpf")


@needs_root
def test_standard_files_that_are_closed(pyebpf, any_python, made):
    """Nothing that is opened takes their place; the command has them closed, too."""
    program = "import os, errno\nfor fd in 1, 2:\n    try: os.fstat(fd)\n    except OSError as e: assert e.errno == errno.EBADF\n    else: 1/0"
    done = pyebpf("trace", "-o", "x.folded", "--", *any_python.command, "-c", program, preexec_fn=lambda: os.closerange(0, 3))
    assert done.returncode == 0 and os.stat("x.folded").st_size
    done = pyebpf("convert", made, "-f", "ndjson", "-o", "-", preexec_fn=lambda: os.close(1))
    assert_said(done, 6, "pyebpf convert: cannot write standard output: Bad file descriptor")
    done = pyebpf("trace", "-f", "ndjson", "-q", "-o", "-", "--", *any_python.command, "-c", "1", preexec_fn=lambda: os.close(1))
    assert done.returncode == 125 and "pyebpf trace: cannot write standard output: Bad file descriptor" in done.stderr


@needs_root
@pytest.mark.parametrize("args", [["convert", "made.pyebpf", "-o", "-"], ["list"], ["list", "--json"],
                                  ["convert", "made.pyebpf", "-f", "ndjson", "-o", "-"], ["version"]],
                         ids=" ".join)
def test_stdout_is_full(pyebpf, made, args):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = pyebpf(*args, stdout=full)
    assert made and done.returncode == 6
    if args[0] == "convert":
        assert done.stderr == "pyebpf convert: cannot write standard output: No space left on device\n"


# --- inputs ---

def test_no_capture(pyebpf):
    pathlib.Path("bad").write_text("no capture" * 100, "ascii")
    pathlib.Path("short").write_text("x", "ascii")
    pathlib.Path("folder").mkdir()
    for name, what in (("none", "cannot read none: No such file or directory"),
                       ("folder", "cannot read folder: Is a directory"),
                       ("bad", "bad: " + NO_FORMAT),
                       ("short", "short: " + NO_FORMAT),
                       ("/dev/null", "/dev/null: the file is empty")):
        assert_said(pyebpf("convert", name, "-o", "x.json"), 2, "pyebpf convert: " + what)
        assert_said(pyebpf("stats", name), 2, "pyebpf stats: " + what)
    assert_said(pyebpf("convert", "-", "-o", "x.json"), 2,
                "pyebpf convert: standard input: the file is empty")
    assert not os.path.exists("x.json")


@needs_root
@pytest.mark.parametrize("part", [0.3, 0.9, 0.99])
def test_a_cut_capture(pyebpf, part):
    """What is there is converted, and where it ends is said."""
    code = "def f(): pass\nfor i in range(300000): f()"
    pyebpf.ok("trace", "-q", "-o", "all.pyebpf", "--", "/usr/bin/python3", "-c", code)
    data = pathlib.Path("all.pyebpf").read_bytes()
    pathlib.Path("cut.pyebpf").write_bytes(data[:int(len(data) * part)])
    done = pyebpf("convert", "cut.pyebpf", "-o", "x.ndjson", "-q")
    assert_said(done, 0, r"pyebpf: warning: the capture is (cut|damaged) at byte \d+ of %d; "
                         "what is whole was read" % int(len(data) * part))
    assert '"ev":"meta"' in pathlib.Path("x.ndjson").read_text("utf-8")


def exit_status_in_documents(sentence):
    """Of the part of docs/troubleshooting.md that has it."""
    text = (pathlib.Path(__file__).parents[2] / "docs/troubleshooting.md").read_text("utf-8")
    return int(re.findall(r"^## .*\(exit status (\d)", text[:text.index("| " + sentence)], re.M)[-1])


def test_no_interpreter_in_a_file(pyebpf):
    pathlib.Path("bad").write_text("no ELF file", "ascii")
    ls = shutil.which("ls")
    for name, code, what in (("none", 4, "cannot open none: No such file or directory"),
                             ("bad", 2, "bad: too short for an ELF file"),
                             (".", 2, r"\.: not a regular file"),
                             (ls, 4, "%s: the file holds no CPython interpreter loop" % ls)):
        assert_said(pyebpf("list", "--probes", name), code, "pyebpf list: " + what)
    assert exit_status_in_documents("the file holds no CPython interpreter loop") == 4


# --- commands ---

@needs_root
def test_a_command_that_cannot_be_run(pyebpf):
    for name, text in (("noexec", ""), ("nointerpreter", "#!/no/such/file\n")):
        pathlib.Path(name).write_text(text, "ascii")
    os.chmod("nointerpreter", 0o755)
    for command, code, why in (("/no/such", 127, "No such file or directory"),
                               ("no-such-command", 127, "No such file or directory"),
                               ("./nointerpreter", 127, "No such file or directory"),
                               ("./noexec", 126, "Permission denied"),
                               ("/usr", 126, "Permission denied")):
        assert_said(pyebpf("trace", "--", command, "x"), code,
                    "pyebpf trace: cannot execute %s: %s" % (command, why))
    assert sorted(os.listdir(".")) == ["noexec", "nointerpreter"]


@needs_root
@pytest.mark.parametrize("code, status", [("0", 0), ("1", 1), ("2", 2), ("125", 125), ("255", 255),
                                          ("'text'", 1)])
def test_the_status_of_the_command_is_ours(pyebpf, any_python, code, status):
    done = pyebpf("trace", "-q", "-o", "x.pyebpf", "--", *any_python.command, "-c",
                  "import sys; sys.exit(%s)" % code)
    assert done.returncode == status


@needs_root
@pytest.mark.parametrize("signal", [2, 9, 11, 15])
def test_the_signal_of_the_command_is_ours(pyebpf, any_python, signal):
    done = pyebpf("trace", "-q", "-o", "x.pyebpf", "--", *any_python.command, "-c",
                  "import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), %d)" % signal)
    assert done.returncode == 128 + signal
    assert os.path.exists("x.pyebpf")


@needs_root
@pytest.mark.parametrize("script, status", [("exit 0", 125), ("exit 7", 7), ("kill -9 $$", 137)])
def test_a_command_that_is_not_python(pyebpf, script, status):
    """It has run, so a status of its own counts; 0 would hide that there is nothing to show."""
    done = pyebpf("trace", "--", "sh", "-c", script)
    assert_said(done, status, "pyebpf trace: sh is not Python: no interpreter was seen in it, nor in what it started",
                "pyebpf list shows the Python processes of this machine")
    assert not os.listdir(".")


# --- names that would drive a terminal ---

def on_a_terminal(command, folder):
    """(exit code, every byte that the terminal got)."""
    seen = []

    def read(fd):
        seen.append(os.read(fd, 65536))
        return seen[-1]
    pid, fd = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execv(command[0], [os.fsencode(str(word)) for word in command])
    with contextlib.suppress(OSError):
        while read(fd):
            pass
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), b"".join(seen)


def assert_harmless(output):
    """The only control characters are ends of lines, those of the progress line, and our own colours."""
    output = re.sub(rb"\x1b\[(0|1|2|1;31|32|33)m", b"", output)
    output = output.replace(b"\r\x1b[K", b"").replace(b"\x1b[K", b"").replace(b"\r", b"").replace(b"\n", b"")
    text = output.decode("utf-8")
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", text), text
    return text


@pytest.mark.parametrize("args, code", [
    (["trace", EVIL], 2), (["trace", "-p", EVIL], 2), (["trace", "--" + EVIL], 2), (["trace", "-" + EVIL], 2),
    (["trace", "-p", "1", "--engine", EVIL], 2), (["trace", "-p", "1", "-f", EVIL], 2),
    (["trace", "-p", "1", "-d", EVIL], 2), (["trace", "-p", "1", "-o", EVIL + "/x.json"], 6),
    (["convert", EVIL], 2), (["convert", "bad" + EVIL], 2), (["convert", "x", "-f", EVIL], 2),
    (["list", EVIL], 2), (["list", "--probes", EVIL], 4), (["list", "--probes", "bad" + EVIL], 2),
    (["list", "--engine", EVIL], 2), ([EVIL], 2), (["help", EVIL], 2),
], ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "")
def test_arguments(pyebpf, own_folder, args, code):
    pathlib.Path("bad" + EVIL).write_text("neither a capture nor an ELF file", "ascii")
    status, output = on_a_terminal([pyebpf.path, *args], own_folder)
    text = assert_harmless(output)
    assert status == code, text
    if args not in (["list", EVIL], ["list", "--engine", EVIL]):
        assert r"\x1b" in text


@needs_root
def test_files_and_processes(pyebpf, own_folder, any_python):
    program = own_folder / ("sl" + EVIL[:2])
    shutil.copy(shutil.which("sleep"), program)
    with pythons.running(["sh", "-c", 'echo; exec "$0" 1000', program]) as (process, _):
        for command in (["trace", "-p"], ["list"], ["list", "--probes"]):
            while os.readlink("/proc/%d/exe" % process.pid) != str(program):
                pass
            status, output = on_a_terminal([pyebpf.path, *command, process.pid], own_folder)
            text = assert_harmless(output)
            assert status == 4 and r"sl\x1b[" in text
    status, output = on_a_terminal([pyebpf.path, "trace", "--", "./no" + EVIL], own_folder)
    assert status == 127 and SHOWN in assert_harmless(output)
    python = [*any_python.command, "-I", "-S", "-c", "def f(): pass\nf()"]
    for name in ("a" + EVIL + ".json.gz", EVIL + "'\\.pyebpf", EVIL + ".pb.gz"):
        status, output = on_a_terminal([pyebpf.path, "trace", "-o", name, "--", *python], own_folder)
        text = assert_harmless(output)
        assert status == 0 and SHOWN in text
        assert (own_folder / name).exists()
    status, output = on_a_terminal([pyebpf.path, "convert", EVIL + "'\\.pyebpf"], own_folder)
    assert status == 0 and SHOWN in assert_harmless(output)


@needs_root
def test_the_next_command_can_be_pasted(pyebpf, own_folder, any_python):
    """Whatever the file is called."""
    for name in ("plain", "a b", "it's", "back\\slash'\x1b", EVIL, "\udcff", "$HOME`x`"):
        done = pyebpf.ok("trace", "-o", name + ".pyebpf", "--", *any_python.command, "-I", "-S", "-c", "pass")
        after = done.stderr.splitlines()[-1].replace("next: pyebpf convert ", "")
        seen = subprocess.run(["bash", "-c", "printf %s " + after], stdout=subprocess.PIPE, check=True)
        assert os.fsdecode(seen.stdout) == name + ".pyebpf"
