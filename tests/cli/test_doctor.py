# SPDX-License-Identifier: Apache-2.0
"""pyebpf doctor: each thing is taken away, and what is said then has to be the right thing to do."""
import errno
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import lib
from limits import MINIMUM, as_nobody, place, refuse_bpf, refuse_call, without

pytestmark = pytest.mark.needs_root
NAMES = ["cap_" + name for name in MINIMUM]
FLAGS = "".join(" --cap-add=" + name.upper() for name in MINIMUM)
MAP_CREATE, PROG_LOAD, LINK_CREATE = 0, 5, 28


class Answer:
    """What `doctor --json` said, and with which exit status."""

    def __init__(self, done):
        assert not done.stderr, done.stderr
        self.code = done.returncode
        self.said = json.loads(done.stdout)
        self.checks = {check["name"]: check for check in self.said["checks"]}
        assert self.said["exit_code"] == self.code and self.said["works"] == (not self.code)

    def state(self, name):
        return self.checks[name]["state"]

    def having(self, state):
        return {name for name, check in self.checks.items() if check["state"] == state}

    def fixes(self):
        return {line for check in self.said["checks"] for line in check["fix"]}


@pytest.fixture
def doctor(pyebpf, public_tmp):
    program = public_tmp / "pyebpf"
    shutil.copy(pyebpf.path, program)

    def ask(*before, **options):
        return Answer(subprocess.run([*before, program, "doctor", "--json"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                     timeout=60, check=False, **options))
    ask.program = program
    return ask


def stripped(*names):
    """The beginning of a command line for root without these capabilities, as in a container."""
    return ["setpriv", "--bounding-set", ",".join("-" + name for name in (*names, "sys_admin")),
            "--inh-caps", "-all"]


# --- everything is there ---

def test_root_lacks_nothing(doctor):
    said = doctor()
    assert said.code == 0 and not said.having("missing") | said.having("untried"), said.said
    assert set(NAMES) | {"bpf", "btf", "ring_buffer", "task_storage", "trace_points", "programs"} <= said.having("ok")
    assert {"where", "pid_namespace", "tracefs", "memlock", "seccomp", "lockdown", "perf_event_paranoid",
            "unprivileged_bpf_disabled", "ptrace_scope", "uprobe_multi", "uprobe_classic", "perf_events",
            "version"} <= set(said.checks)


def test_where_the_inline_engine_needs_no_privilege(doctor):
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    by_scope = ("processes of this user", "commands that it launches", "nothing without", "nothing: ")
    number = int(scope.read_text("ascii")) if scope.exists() else 0
    said = doctor(*as_nobody()).checks["inline_engine"]
    assert said["state"] == "note" and by_scope[number] in said["text"]
    assert ("any process" if number < 3 else "nothing: ") in doctor().checks["inline_engine"]["text"]


def test_what_it_says_of_the_kernel_is_so(doctor):
    said = doctor()
    assert os.uname().release in said.checks["version"]["text"]
    for name in ("kernel.unprivileged_bpf_disabled", "kernel.perf_event_paranoid"):
        value = pathlib.Path("/proc/sys", name.replace(".", "/")).read_text("ascii").strip()
        assert said.checks[name.split(".")[1]]["text"].startswith("%s = %s " % (name, value))


def test_the_five_capabilities_suffice(doctor):
    said = doctor(*as_nobody(*MINIMUM))
    assert said.code == 0 and not said.having("missing"), said.said
    assert said.state("programs") == "ok" and said.state("uprobe_multi") == "ok"


def test_the_table_says_the_same(pyebpf):
    done = pyebpf("doctor")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.splitlines()[-1] == "trace works here"
    rows = re.findall(r"^  (ok|note|limited) +(\w+) +\S", done.stdout, re.M)
    assert {name for _, name in rows} >= set(NAMES)


# --- capabilities ---

def test_a_user_without_any(doctor, tmp_path):
    said = doctor(*place("host", tmp_path), *as_nobody())
    assert said.code == 3
    assert set(NAMES) <= said.having("missing") and "programs" in said.having("untried")
    assert "run it as root: sudo %s ..." % doctor.program in said.fixes()
    setcap = [line for line in said.fixes() if "setcap" in line]
    assert setcap == ["or, once: sudo setcap %s=ep %s" % (",".join(NAMES), doctor.program)]
    assert not [line for line in said.fixes() if "docker" in line or "securityContext" in line]


def test_the_setcap_line_works(doctor, tmp_path):
    line = next(line for line in doctor(*place("host", tmp_path), *as_nobody()).fixes() if "setcap" in line)
    words = line.split("sudo ")[1].split()
    if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("this file system keeps no capabilities")
    assert doctor(*as_nobody()).code == 0


@pytest.mark.parametrize("dropped", MINIMUM)
def test_one_is_missing(doctor, dropped):
    said = doctor(*as_nobody(*(name for name in MINIMUM if name != dropped)))
    assert said.code == 3
    assert said.having("missing") & set(NAMES) == {"cap_" + dropped}
    features = {"bpf": {"bpf", "ring_buffer"}, "perfmon": {"trace_points", "uprobe_multi"}}.get(dropped, set())
    assert features <= said.having("missing")
    if features:
        assert "CAP_" + dropped.upper() in said.checks[min(features)]["text"]


def test_a_kernel_that_asks_for_more_to_sample(doctor):
    """Debian's and Ubuntu's with perf_event_paranoid above 2: perf_event_open is refused with EACCES to who has CAP_PERFMON."""
    said = doctor(*as_nobody(*MINIMUM), preexec_fn=refuse_call(298, errno.EACCES))
    assert said.code == 0 and said.state("perf_events") == "limited"
    assert "CAP_SYS_ADMIN is missing" in said.checks["perf_events"]["text"]
    assert any("sys_admin" in fix.lower() or "sudo" in fix for fix in said.checks["perf_events"]["fix"])
    # who has that, too, is told what the kernel said
    said = doctor(preexec_fn=refuse_call(298, errno.EACCES))
    assert "CAP_" not in said.checks["perf_events"]["text"] and "Permission denied" in said.checks["perf_events"]["text"]


@pytest.mark.parametrize("kind, line", [
    ("docker", "start the container so: docker run%s ..." % FLAGS),
    ("podman", "start the container so: podman run%s ..." % FLAGS),
    ("kubernetes", "in the pod: securityContext: {capabilities: {add: [%s]}}" % ", ".join(
        name.upper() for name in MINIMUM)),
    ("host", "this session has been stripped of it: start pyebpf outside of it, or with %s" % ", ".join(
        "CAP_" + name.upper() for name in MINIMUM)),
])
def test_a_root_that_lacks_them(doctor, tmp_path, kind, line):
    said = doctor(*place(kind, tmp_path), *stripped("bpf", "perfmon", "sys_ptrace"))
    assert said.code == 3
    assert said.having("missing") >= {"cap_bpf", "cap_perfmon", "cap_sys_ptrace"}
    assert line in said.fixes()
    assert not [fix for fix in said.fixes() if "sudo" in fix or "setcap" in fix]


@pytest.mark.parametrize("kind, words", [("docker", "docker run --user=0 --cap-add=BPF"),
                                         ("kubernetes", "{runAsUser: 0, capabilities:")])
def test_a_user_in_a_container(doctor, tmp_path, kind, words):
    said = doctor(*place(kind, tmp_path), *stripped("bpf", "perfmon", "sys_ptrace"), *as_nobody())
    assert said.code == 3 and [fix for fix in said.fixes() if words in fix]
    assert not [fix for fix in said.fixes() if "sudo" in fix]


def test_no_new_privileges(doctor, tmp_path):
    said = doctor(*place("host", tmp_path), *as_nobody(), "--no-new-privs")
    assert said.code == 3 and "sudo and file capabilities have no effect" in said.checks["no_new_privs"]["text"]
    assert not [fix for fix in said.fixes() if "sudo" in fix]


def test_a_user_namespace(doctor):
    said = doctor("unshare", "--user", "--map-root-user")
    assert said.code == 3 and {"cap_bpf", "cap_perfmon", "bpf"} <= said.having("missing")
    assert "user_namespace" in said.checks
    assert "capabilities of a user namespace do not count here: run it outside" in said.fixes()


# --- system calls and features ---

@pytest.mark.parametrize("kind, line", [
    ("docker", "start the container so: docker run --security-opt seccomp=unconfined ..."),
    ("podman", "start the container so: podman run --security-opt seccomp=unconfined ..."),
    ("kubernetes", "in the pod: securityContext: {seccompProfile: {type: Unconfined}}"),
    ("host", "start pyebpf outside of the sandbox or service whose seccomp filter this is "
             "(systemd: SystemCallFilter=bpf perf_event_open)"),
])
@pytest.mark.parametrize("number", [1, 38], ids=["EPERM", "ENOSYS"])
def test_a_seccomp_filter(doctor, tmp_path, kind, line, number):
    said = doctor(*place(kind, tmp_path), preexec_fn=refuse_bpf(MAP_CREATE, number))
    assert said.code == 3 and line in said.fixes()
    assert "seccomp filter forbids it" in said.checks["bpf"]["text"]
    assert set(NAMES) <= said.having("ok") and said.checks["seccomp"]["text"].startswith("a filter is in force")


def test_a_kernel_without_links_of_uprobes(doctor):
    """Neither way to place a uprobe, as if the kernel had no bpf links."""
    said = doctor(preexec_fn=refuse_bpf(LINK_CREATE, 22))
    assert said.code == 5 and said.having("missing") == {"uprobe_multi", "uprobe_classic"}
    assert "Linux 6.6 or later" in said.fixes() and said.state("programs") == "untried"


def test_a_kernel_without_programs(doctor):
    said = doctor(preexec_fn=refuse_bpf(PROG_LOAD, 22))
    assert said.code == 5 and {"bpf", "ring_buffer", "task_storage"} <= said.having("ok")
    assert {"trace_points", "uprobe_multi"} <= said.having("missing")


def test_no_btf(doctor):
    said = doctor(*without("/sys/kernel/btf"))
    assert said.code == 5 and said.state("btf") == "missing"
    assert "a kernel with CONFIG_DEBUG_INFO_BTF, and /sys mounted" in said.fixes()


def test_lockdown(doctor):
    states = {"[none] integrity confidentiality": "ok", "none [integrity] confidentiality": "ok",
              "none integrity [confidentiality]": "missing", "nonsense": "note"}
    for text, state in states.items():
        said = doctor(*without("/sys/kernel/security", {"lockdown": text + "\n"}))
        assert said.state("lockdown") == state and said.code == (3 if state == "missing" else 0)


# --- what is around ---

def test_a_pid_namespace(doctor, tmp_path):
    said = doctor(*place("docker", tmp_path), "unshare", "--pid", "--fork", "--mount-proc")
    assert said.code == 0 and said.state("pid_namespace") == "note"
    assert "to see all processes, start the container so: docker run --pid=host ..." in said.fixes()
    assert "proc" not in said.checks


def test_proc_of_another_namespace(doctor):
    said = doctor("unshare", "--pid", "--fork")
    assert said.state("proc") == "limited" and [fix for fix in said.fixes() if "mount -t proc" in fix]


def test_memlock(doctor):
    for kilobytes in (32, 64):
        limit = "--memlock=%d" % (kilobytes * 1024)
        assert doctor("prlimit", limit).checks["memlock"]["text"].startswith("%d kB;" % kilobytes)


def test_no_tracefs(doctor):
    hide = without("/sys/kernel/tracing")
    hide[-1] = "mount -t tmpfs none /sys/kernel/debug; " + hide[-1]
    said = doctor(*hide)
    assert said.code == 0 and said.checks["tracefs"]["text"] == "not to be seen here, and not needed"


@pytest.mark.alone
def test_another_tracer_is_named(doctor, pyebpf, public_tmp, any_python):
    evil = public_tmp / "tr\x1b[31m"
    shutil.copy(pyebpf.path, evil)
    with lib.started([*any_python.command, "-c", "import time; time.sleep(1000)"]) as target:
        with lib.started([evil, "trace", "-q", "-o", public_tmp / "x.pyebpf", "-p", target.pid],
                         stderr=subprocess.PIPE) as tracer:
            lib.wait_attached(tracer, target.pid)
            text = doctor().checks["tracer"]["text"]
            table = pyebpf("doctor").stdout
            lib.stop(tracer)
    found = re.fullmatch(r"PID (\d+) \((.+)\) is at work: (\d+) links of uprobes, (\d+) of other probes, .*", text)
    assert int(found[1]) == tracer.pid and found[2] == "tr\x1b[31m"
    assert int(found[3]) >= 1 and int(found[4]) >= 3
    assert "\x1b" not in table and r"tr\x1b[31m" in table
    assert str(tracer.pid) not in doctor().checks.get("tracer", {"text": ""})["text"]


def test_a_tracer_that_may_not_be_seen(doctor):
    said = doctor(*as_nobody())
    assert re.search(r"\d+ processes may not be looked at", said.checks["tracers"]["text"])


# --- the command line ---

def test_usage(pyebpf):
    done = pyebpf("doctor", "x")
    assert done.returncode == 2 and "it takes no operands" in done.stderr


@pytest.mark.parametrize("args", [(), ("--json",)], ids=["table", "json"])
def test_stdout_is_full(pyebpf, args):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = pyebpf("doctor", *args, stdout=full)
    assert done.returncode == 6
