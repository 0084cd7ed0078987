# SPDX-License-Identifier: Apache-2.0
"""What pyebpf may and may not do: the capabilities that suffice, and what is said when one is missing."""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import lib
import pythons
from limits import MINIMUM, NOBODY, as_nobody, refuse_bpf, refuse_call

pytestmark = pytest.mark.needs_root

CALLS = ("import time\ndef f(): pass\ndef g(): f()\nprint(flush=True)\n"
         "while True:\n    g()\n    time.sleep(0.001)\n")


@pytest.fixture
def run(pyebpf, public_tmp):
    """Calls pyebpf as nobody with some capabilities; files without a path land in public_tmp."""
    reachable = subprocess.run([*as_nobody(), pyebpf.path, "version"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
    if reachable.returncode:
        pytest.skip("the build folder is not readable for others")

    def call(capabilities, *args):
        return subprocess.run([*as_nobody(*capabilities), pyebpf.path, *map(str, args)], check=False,
                              cwd=public_tmp, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", timeout=60)
    return call


@contextlib.contextmanager
def python(command, user=0):
    """The pid of an interpreter that goes on calling."""
    with pythons.running([*(as_nobody() if user else []), *command, "-I", "-c", CALLS]) as (process, _):
        yield process.pid


def rule(name):
    return pathlib.Path("/proc/sys", name.replace(".", "/")).read_text("ascii").strip()


def assert_refused(done, code, *names):
    """Exit code and text of a refusal that names these capabilities and no other one as missing."""
    said = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert 2 <= len(said) <= 5
    assert said[0].startswith("pyebpf ")
    assert set(re.findall(r"CAP_(\w+)", said[0])) == {name.upper() for name in names}
    assert "missing" in said[0]
    return said


# --- what suffices ---

def test_these_capabilities_suffice(run, interpreter, public_tmp):
    """Another user's process, on every interpreter, wherever its files lie."""
    with python(interpreter.command) as pid:
        done = run(MINIMUM, "trace", "-q", "-d", "500ms", "-o", "x.ndjson", "-p", pid)
    assert done.returncode == 0, done.stderr
    text = (public_tmp / "x.ndjson").read_text("utf-8")
    assert '"ev":"call"' in text and '"name":"f"' in text
    assert (public_tmp / "x.ndjson").stat().st_uid == NOBODY


def test_the_events_are_those_that_root_sees(run, pyebpf, any_python, public_tmp):
    script = public_tmp / "program.py"
    script.write_text("def f(n):\n    return n and f(n - 1)\nfor i in range(50):\n    f(i)\n")
    command = ["--", *any_python.command, "-I", "-S", script]
    unprivileged = run(MINIMUM, "trace", "-q", "-o", "nobody.pyebpf", *command)
    pyebpf.ok("trace", "-q", "-o", public_tmp / "root.pyebpf", *command)
    assert unprivileged.returncode == 0, unprivileged.stderr

    def calls(file):
        return [(e["ev"], e["func"], e["depth"]) for e in pyebpf.events(public_tmp / file)[0]]
    assert calls("nobody.pyebpf") == calls("root.pyebpf")


def test_an_own_command_needs_two_of_them(run):
    done = run(MINIMUM[:2], "trace", "-q", "-o", "x.pyebpf", "--", "/usr/bin/python3", "-c", "pass")
    assert done.returncode == 0, done.stderr


def test_an_own_process_needs_two_of_them(run):
    with python(["/usr/bin/python3"], user=NOBODY) as pid:
        done = run(MINIMUM[:2], "trace", "-q", "-d", "200ms", "-o", "x.pyebpf", "-p", pid)
    assert done.returncode == 0, done.stderr


def test_capabilities_of_the_file_suffice(run, pyebpf, public_tmp):
    """As `setcap` gives them, which the message proposes."""
    program = public_tmp / "pyebpf"
    shutil.copy(pyebpf.path, program)
    given = ",".join("cap_" + name for name in MINIMUM) + "=ep"
    if subprocess.run(["setcap", given, program], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("this file system keeps no capabilities")
    with python(["/usr/bin/python3"]) as pid:
        done = subprocess.run([*as_nobody(), program, "trace", "-q", "-d", "200ms", "-o", "x.pyebpf",
                               "-p", str(pid)], cwd=public_tmp, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.stderr


def test_the_environment_does_not_lead_capabilities_of_the_file(pyebpf, public_tmp):
    """Whoever calls such a program chooses no files and servers for it by variables."""
    env = {**os.environ, "PYEBPF_CONFIG": "/no/such/file"}
    program = public_tmp / "pyebpf"
    shutil.copy(pyebpf.path, program)
    for given in (False, True):
        if given and subprocess.run(["setcap", "cap_bpf=ep", program], stderr=subprocess.DEVNULL, check=False).returncode:
            pytest.skip("this file system keeps no capabilities")
        done = subprocess.run([*as_nobody(), program, "agent", "--store", "s", "--socket", "", "--listen", "", "-d", "1s"], cwd=public_tmp, env=env,
                              stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=60)
        assert ("/no/such/file" in done.stderr) == (not given), done.stderr


@pytest.mark.parametrize("capabilities", [MINIMUM, MINIMUM[:2]], ids=["all", "two"])
def test_the_command_gets_none_of_them(run, capabilities):
    code = "print(open('/proc/self/status').read(), __import__('os').listdir('/proc/self/fd'))"
    done = run(capabilities, "trace", "-q", "-o", "x.pyebpf", "--", "/usr/bin/python3", "-c", code)
    sets = dict(re.findall(r"^Cap(Prm|Eff|Amb):\t([0-9a-f]+)$", done.stdout, re.M))
    assert {int(value, 16) for value in sets.values()} == {0} and len(sets) == 3
    # 0 to 2 and the one that reads the folder
    assert len(re.search(r"\[('\d+'(, )?)+\]", done.stdout)[0].split()) == 4


# --- what is given up ---

ROOT_KEEPS = ("setuid", "setgid", "chown", "fowner", "dac_override", "kill")
BIT = {"chown": 0, "dac_override": 1, "dac_read_search": 2, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7,
       "sys_ptrace": 19, "sys_nice": 23, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}


def sets(pid):
    """{name: number} of all sets of capabilities of each thread of a process, which have to be the same."""
    found = set()
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ends meanwhile
            found.add(tuple(re.findall(r"^(Cap\w+|NoNewPrivs):\t([0-9a-f]+)$", (task / "status").read_text("ascii"), re.M)))
    assert len(found) == 1
    return {name: int(value, 16) for name, value in found.pop()}


def mask(*names):
    return sum(1 << BIT[name] for name in names)


@contextlib.contextmanager
def tracing(before, *args, **options):
    """The pid of a pyebpf that has its probes in place and has dropped what it does not need."""
    command = [*before, lib.BINARY, "trace", "-q", *map(str, args)]
    with lib.started(command, stderr=subprocess.PIPE, **options) as process:
        lib.until(lambda: process.poll() is not None or sets(process.pid)["NoNewPrivs"], "the drop")
        assert process.poll() is None, process.stderr.read()
        yield process


def test_an_ordinary_user_keeps_nothing_after_attaching(public_tmp, any_python):
    """And the trace goes on and is whole: stacks of waiting threads, calls, final numbers."""
    with python(any_python.command) as pid:
        with tracing(as_nobody(*MINIMUM), "-d", "1500ms", "-o", "x.ndjson", "-p", pid, cwd=public_tmp) as process:
            have = sets(process.pid)
            lib.finish(process)
    assert {have[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    text = (public_tmp / "x.ndjson").read_text("utf-8")
    assert '"ev":"call"' in text and '"name":"f"' in text
    meta = json.loads(text.splitlines()[-1])
    assert meta["generated"] == meta["written"] > 0 and not sum(meta["dropped"].values())


def test_waiting_threads_are_shown_without_privileges(public_tmp, pyebpf):
    """Their memory is read a second after the attach."""
    code = "import time\ndef waits():\n    print(flush=True)\n    time.sleep(1000)\nwaits()\n"
    with pythons.running(["/usr/bin/python3", "-I", "-c", code]) as (target, _):
        with tracing(as_nobody(*MINIMUM), "-d", "1700ms", "-o", "x.ndjson", "-p", target.pid,
                     cwd=public_tmp) as process:
            assert sets(process.pid)["CapEff"] == 0
            lib.finish(process)
    assert '"name":"waits"' in (public_tmp / "x.ndjson").read_text("utf-8")


@pytest.mark.parametrize("args", [["-s", "-p"], ["--"]], ids=["children", "command"])
def test_what_looks_at_processes_that_come_later_is_kept(public_tmp, args):
    with python(["/usr/bin/python3"]) as pid:
        what = [pid] if "-p" in args else ["/usr/bin/python3", "-I", "-c", "import time; time.sleep(1.5)"]
        with tracing(as_nobody(*MINIMUM), "-d", "1s", "-o", "x.pyebpf", *args, *what, cwd=public_tmp) as process:
            have = sets(process.pid)
            process.wait(60)
    assert have["CapEff"] == have["CapPrm"] == mask(*MINIMUM) and have["CapInh"] == have["CapAmb"] == 0


def test_what_root_gives_up(public_tmp):
    with python(["/usr/bin/python3"]) as pid:
        with tracing([], "-d", "1s", "-o", "x.pyebpf", "-p", pid, cwd=public_tmp) as process:
            have = sets(process.pid)
            lib.finish(process)
    kept = mask(*MINIMUM, *ROOT_KEEPS)
    assert have["CapEff"] == have["CapPrm"] == have["CapBnd"] == kept
    assert have["CapInh"] == have["CapAmb"] == 0


INLINE_KEEPS = ("sys_ptrace", "dac_read_search", "checkpoint_restore", "sys_nice")


@pytest.mark.parametrize("user, kept", [([], INLINE_KEEPS + ROOT_KEEPS), (as_nobody(), ())], ids=["root", "user"])
@pytest.mark.parametrize("how", [["-p"], ["-s", "-p"], ["--"], ["-s", "--"]], ids=" ".join)
def test_what_the_inline_engine_keeps(public_tmp, user, kept, how):
    """It stops the target, and its children, to the end. Root's target is another user's, whom it has no right to touch but by
    what it kept."""
    code = ("import os, time\ndef f(): pass\nprint(flush=True)\n"
            "for i in range(150):\n    f()\n    if not os.fork():\n        f()\n        os._exit(0)\n    os.wait()\n    time.sleep(.01)\n")
    command = ["/usr/bin/python3", "-I", "-c", code]
    with pythons.running([*as_nobody(), *command]) as (target, _):
        what = [target.pid] if "-p" in how else command
        with tracing(user, "--engine", "inline", "-d", "1s", "-o", "x.ndjson", *how, *what, cwd=public_tmp,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            have = sets(process.pid)
            process.wait(60)
            assert not process.returncode, process.stderr.read()
    assert have["CapEff"] == have["CapPrm"] == mask(*kept) and have["CapInh"] == have["CapAmb"] == 0
    assert have["CapBnd"] == mask(*kept) or user
    events = [json.loads(line) for line in (public_tmp / "x.ndjson").read_text("utf-8").splitlines()]
    calls = collections.Counter(e["pid"] for e in events if e.get("ev") == "call" and e["name"] == "f")
    assert len(calls) > 1 if "-s" in how else len(calls) == 1
    assert events[-1]["generated"] == events[-1]["written"] > 0


def test_root_in_a_folder_of_another_user(public_tmp):
    """What root keeps is what it takes to write there."""
    own = public_tmp / "own"
    own.mkdir(mode=0o700)
    os.chown(own, NOBODY, NOBODY)
    with python(["/usr/bin/python3"]) as pid:
        for extra in ({}, {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}):
            name = "x%d.ndjson" % len(extra)
            done = lib.sh([lib.BINARY, "trace", "-q", "-d", "200ms", "-o", name, "-p", pid], cwd=own,
                          env={**os.environ, **extra})
            assert done.returncode == 0, done.stderr
            assert (own / name).stat().st_uid == (NOBODY if extra else 0)


# --- what is missing ---

def test_nothing_at_all(run):
    with python(["/usr/bin/python3"]) as pid:
        said = assert_refused(run((), "trace", "-p", pid), 3, "sys_ptrace", "bpf", "perfmon")
    assert "PID %d may not be looked at: it belongs to user 0" % pid in said[0]
    for name in ("kernel.unprivileged_bpf_disabled", "kernel.perf_event_paranoid"):
        assert "%s = %s" % (name, rule(name)) in said[1]
    # sudo does not find it where it lies
    assert re.fullmatch(r"run it as root: sudo /\S+/pyebpf \.\.\.", said[2])
    assert re.fullmatch(r"or, once: sudo setcap %s=ep \S+/pyebpf" % ",".join("cap_" + n for n in MINIMUM),
                        said[3])


def test_nothing_for_an_own_process(run):
    with python(["/usr/bin/python3"], user=NOBODY) as pid:
        assert_refused(run((), "trace", "-p", pid), 3, "bpf", "perfmon")


def test_nothing_for_a_command(run, public_tmp):
    """It is not run at all."""
    done = run((), "trace", "--", "/usr/bin/python3", "-c", "open('ran', 'w')")
    assert_refused(done, 125, "bpf", "perfmon")
    assert not list(public_tmp.iterdir())


@pytest.mark.parametrize("dropped", MINIMUM)
def test_one_is_missing(run, dropped):
    left = [name for name in MINIMUM if name != dropped]
    with python(["/usr/bin/python3"]) as pid:
        done = run(left, "trace", "-q", "-d", "200ms", "-o", "x.pyebpf", "-p", pid)
    # the last two are for files that cannot be had by their path
    if dropped in MINIMUM[:3] or done.returncode:
        assert_refused(done, 3, dropped)


def libpython():
    """(command, library) of an interpreter that has its loop in a library."""
    for name in sorted(pythons.names(), key=lambda name: "pyenv" not in name):
        command = pythons.found()[name]
        with python(command) as pid:
            maps = pathlib.Path("/proc/%d/maps" % pid).read_text("utf-8")
        library = re.search(r"/\S+/libpython3\S+", maps)
        if library:
            return command, library[0]
    return pytest.skip("no interpreter with a libpython")


@pytest.mark.parametrize("dropped", ["dac_read_search", "checkpoint_restore"])
def test_one_is_missing_and_the_library_is_hidden(run, tmp_path, dropped):
    """A libpython in a folder of root's that is deleted while it runs."""
    command, library = libpython()
    copy = tmp_path / os.path.basename(library)
    shutil.copy(library, copy)
    left = [name for name in MINIMUM if name != dropped]
    with python(["env", "LD_LIBRARY_PATH=%s" % tmp_path, *command]) as pid:
        copy.unlink()
        refused = run(left, "trace", "-q", "-d", "200ms", "-o", "x.pyebpf", "-p", pid)
        done = run(MINIMUM, "trace", "-q", "-d", "200ms", "-o", "x.pyebpf", "-p", pid)
    assert_refused(refused, 3, dropped)
    assert done.returncode == 0, done.stderr


def test_probes_of_the_old_way_are_the_administrators(run):
    with python(["/usr/bin/python3"]) as pid:
        done = run(MINIMUM, "trace", "--classic-uprobes", "-q", "-d", "200ms", "-o", "x.pyebpf", "-p", pid)
    if done.returncode:  # older kernels let CAP_PERFMON do it
        said = assert_refused(done, 3, "sys_admin")
        assert "kernel.perf_event_paranoid = %s" % rule("kernel.perf_event_paranoid") in said[1]


@pytest.mark.parametrize("dropped", ["bpf", "perfmon", "sys_ptrace"])
def test_a_root_that_lacks_one(pyebpf, dropped):
    """As in most containers: sudo would not help, so it is not proposed."""
    with python(as_nobody() + ["/usr/bin/python3"]) as pid:
        drop = ["setpriv", "--bounding-set", "-%s,-sys_admin" % dropped, "--inh-caps", "-all"]
        done = subprocess.run([*drop, pyebpf.path, "trace", "-p", str(pid)], check=False,
                              stderr=subprocess.PIPE, encoding="utf-8")
    said = assert_refused(done, 3, dropped)
    assert "sudo" not in done.stderr
    assert re.search(r"\b(CAP_|cap-add=)?%s\b" % dropped.upper(), said[-1])


def test_a_user_namespace(pyebpf):
    unshare = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no user namespaces here")
    done = subprocess.run([*unshare, pyebpf.path, "trace", "--", "/usr/bin/python3", "-c", "pass"],
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)
    said = assert_refused(done, 125, "bpf", "perfmon")
    assert said[-1] == "capabilities of a user namespace do not count here: run it outside"


# --- refusals of the kernel that are not for want of a capability ---

BPF_MAP_CREATE, BPF_PROG_LOAD, BPF_LINK_CREATE = 0, 5, 28


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize("command", [BPF_MAP_CREATE, BPF_PROG_LOAD], ids=["map", "program"])
@pytest.mark.parametrize("number, code, text", [
    (1, 3, "no capability is missing, so the seccomp filter of this process forbids it"),
    (13, 5, "its verifier"),
    (22, 5, "Invalid argument"),
], ids=["EPERM", "EACCES", "EINVAL"])
def test_other_refusals(pyebpf, command, number, code, text):
    done = subprocess.run([pyebpf.path, "trace", "-p", str(os.getpid())], stderr=subprocess.PIPE,
                          preexec_fn=refuse_bpf(command, number), encoding="utf-8", check=False)
    said = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert len(said) == 2 and text in said[0]
    assert "CAP_" not in done.stderr


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize("what", [["trace", "-p", "self"], ["record", "-p", "self"], ["record", "-a"], ["top", "-a", "--once"]], ids=" ".join)
def test_programs_that_may_not_be_attached(pyebpf, tmp_path, what):
    command = [str(os.getpid()) if w == "self" else w for w in what]
    output = ["-o", tmp_path / "a.pyebpf"] if command[0] != "top" else []
    done = subprocess.run([pyebpf.path, *command, "-d", "1s", *output], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          preexec_fn=refuse_bpf(BPF_LINK_CREATE, 1), encoding="utf-8", check=False)
    said = done.stderr.splitlines()
    assert done.returncode == 3 and len(said) == 2 and "the seccomp filter of this process forbids it" in said[0], done.stderr
    assert "seccomp=unconfined" in said[1]


CALLS_THAT_GIVE_UP = {"setgroups": 116, "setresuid": 117, "setresgid": 119, "capset": 126}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize("call, number", [(call, number) for call in CALLS_THAT_GIVE_UP for number in (1, 0)
                                          if (call, number) != ("capset", 0)])
def test_files_are_not_read_with_privileges_that_cannot_be_given_up(pyebpf, tmp_path, call, number):
    """Whether the kernel says so, or says that it is done when it is not."""
    filtered = refuse_call(CALLS_THAT_GIVE_UP[call], number)
    groups = os.getgroups()
    os.setgroups([0, 1])  # there is something to give up
    try:
        with python(["/usr/bin/python3"]) as pid:
            for args in (["trace", "-o", tmp_path / "x", "-p", pid], ["list", "--probes", "/usr/bin/python3"]):
                done = subprocess.run([pyebpf.path, *map(str, args)], stderr=subprocess.PIPE, encoding="utf-8",
                                      preexec_fn=filtered, check=False)
                assert done.returncode == 5, done.stderr
                assert "a sandbox to look into it could not be made" in done.stderr
    finally:
        os.setgroups(groups)
    doctor = subprocess.run([pyebpf.path, "doctor", "--json"], stdout=subprocess.PIPE, check=False, preexec_fn=filtered)
    checks = {check["name"]: check["state"] for check in json.loads(doctor.stdout)["checks"]}
    assert groups == [] or (doctor.returncode == 5 and checks["sandbox"] == "missing")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is for x86-64")
def test_no_trace_with_privileges_that_only_seem_to_be_given_up(pyebpf, tmp_path):
    """The reader of files loses its capabilities with its user; the tracer reads back what it has."""
    filtered = refuse_call(CALLS_THAT_GIVE_UP["capset"], 0)
    with python(["/usr/bin/python3"]) as pid:
        done = subprocess.run([pyebpf.path, "trace", "-o", tmp_path / "x", "-p", str(pid)], stderr=subprocess.PIPE,
                              encoding="utf-8", preexec_fn=filtered, check=False)
    assert done.returncode == 3 and "privileges cannot be given up" in done.stderr


# --- other commands ---

def test_list_tells_what_it_left_out(run):
    with python(["/usr/bin/python3"]) as pid:
        one, every = run((), "list", pid), run((), "list")
    assert_refused(one, 3, "sys_ptrace")
    assert every.returncode == 0 and re.search(r"^\d+ process(es)? left out", every.stderr)
    assert len(every.stderr.splitlines()) <= 5


def test_convert_needs_no_privilege(run, pyebpf, public_tmp):
    pyebpf.ok("trace", "-q", "-o", public_tmp / "x.pyebpf", "--", "/usr/bin/python3", "-c", "pass")
    (public_tmp / "x.pyebpf").chmod(0o644)
    done = run((), "convert", "x.pyebpf")
    assert done.returncode == 0, done.stderr
