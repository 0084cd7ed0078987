# SPDX-License-Identifier: Apache-2.0
"""pyebpf list: every interpreter told right, everything else named, whatever the files are called."""
import contextlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time

import pytest

import pythons

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

WAIT = ["-c", "import time; print(flush=True); time.sleep(1000)"]
PYEBPF = pythons.BUILD / "pyebpf"


def run(*args, **options):
    return subprocess.run([PYEBPF, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", **options)


def listed(**options):
    """{pid: row} of all processes."""
    done = run("list", "--json", **options)
    assert done.returncode == 0
    return {row["pid"]: row for row in json.loads(done.stdout)}


def a_python(least=(3, 6)):
    """Some interpreter that runs from anywhere when it is copied: a static one."""
    for name, command in sorted(pythons.found().items()):
        if "debian" in name and len(command) == 1 and pythons.version(name) >= least:
            return command
    pytest.skip("no installed interpreter")


@pytest.mark.parametrize("name", pythons.names())
def test_version_and_build(name):
    command = pythons.found()[name]
    with pythons.running(command + WAIT) as (process, _):
        row = listed()[process.pid]
        shared = "/libpython3." in pathlib.Path("/proc/%d/maps" % process.pid).read_text()
        table = run("list", process.pid)
    assert row["supported"], row
    assert row["version"] == pythons.full_version(command)
    assert row["free_threaded"] == ("3.13t" in name)
    assert row["debug"] == ("3.11d" in name)
    assert row["shared"] == shared
    assert row["engine"] in ("uprobe", "usdt")
    assert row["command"][-2:] == WAIT
    assert row["pid_inside"] == process.pid
    assert table.returncode == 0
    assert row["version"] in table.stdout.splitlines()[1].split()


def test_all_at_once_and_their_probes():
    with pythons.contextlib.ExitStack() as stack:
        pids = [stack.enter_context(pythons.running(command + WAIT))[0].pid
                for command in pythons.found().values()]
        start = time.monotonic()
        rows = listed()
        assert time.monotonic() - start < 10
        assert set(pids) <= set(rows)
        for pid in pids:
            plan = run("list", "--probes", pid)
            assert plan.returncode == 0
            assert "code-dealloc" in plan.stdout
            file = run("list", "--probes", rows[pid]["file"])
            assert file.stdout == plan.stdout


def cpu_seconds(pids):
    """CPU time of one `list` of these processes, the least of three."""
    def once():
        process = subprocess.Popen([PYEBPF, "list", *map(str, pids)], stdout=subprocess.DEVNULL)
        usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(usage[1])
        assert process.returncode == 0
        return usage[2].ru_utime + usage[2].ru_stime
    return min(once() for _ in range(3))


def test_many_processes_cost_little_more_than_one():
    """A file is looked into once, however many run it: 200 processes cost less than 20 times what one costs."""
    command = [*a_python(), "-I", "-S", *WAIT]
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(pythons.running(command))[0].pid for _ in range(200)]
        every, one = cpu_seconds(pids), cpu_seconds(pids[:1])
        rows = listed()
    assert {pid for pid in pids if rows[pid]["supported"]} == set(pids)
    assert every < 20 * one, (every, one)


AS_NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def test_the_user_and_where_the_interpreter_lives():
    for before, user in ((AS_NOBODY, pwd.getpwuid(65534).pw_name), (["setpriv", "--reuid", "54321"], "54321")):
        with pythons.running([*before, *a_python(), *WAIT]) as (process, _):
            row = listed()[process.pid]
            head, line = run("list", process.pid).stdout.splitlines()
        exe = os.path.realpath(a_python()[0])
        assert (row["user"], row["file"]) == (user, exe)
        assert head.split() == "PID USER PYTHON BUILD ENGINE INLINE WHERE INTERPRETER COMMAND".split()
        assert line.split()[:2] == [str(process.pid), user] and " %s " % exe in line


def test_columns_are_as_wide_as_what_stands_in_them(tmp_path):
    """A long path in one row moves the next column of all of them."""
    long = tmp_path / ("x" * 60)
    long.mkdir()
    with pythons.running([*a_python(), *WAIT]) as (one, _), pythons.running([copied(long, "python"), *WAIT]) as (two, _):
        head, *lines = run("list", one.pid, two.pid).stdout.splitlines()
    rows = [line for line in lines if line.split()[0] in (str(one.pid), str(two.pid))]
    at = {name: head.index(name) for name in ("USER", "INTERPRETER", "COMMAND")}
    assert len(rows) == 2 and head.index("COMMAND") > head.index("INTERPRETER") + 60
    assert all(row[i - 1] == " " != row[i] for row in rows for i in at.values())


def scope():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as f:
            return int(f.read())
    except FileNotFoundError:
        return 0


CLOSED = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print('ready', flush=True); time.sleep(1000)"
OPEN = CLOSED.replace("prctl(4, 0", "prctl(4, 1")


@pytest.mark.parametrize("begins,code,why", [(AS_NOBODY, OPEN, None), (AS_NOBODY, CLOSED, "closed to its own user"),
                                             ([*AS_NOBODY, "--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"], OPEN, "capabilities"),
                                             ([*AS_NOBODY[:3], "--regid", "54321", "--clear-groups"], OPEN, "its group is not that of its user"),
                                             ([*AS_NOBODY, "unshare", "--user"], OPEN, None),
                                             ([*AS_NOBODY, "unshare", "--user", "--map-root-user"], OPEN, None)])
def test_who_needs_no_privilege_for_the_inline_engine(begins, code, why):
    """What list says of a process, and what its user then meets."""
    with pythons.running([*begins, *a_python(), "-c", code]) as (process, _):
        row = listed()[process.pid]
        line = run("list", process.pid).stdout.splitlines()[1]
        with tempfile.TemporaryDirectory() as folder:  # that user cannot pass through those of the other tests
            os.chown(folder, 65534, 65534)
            find = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]  # our file, wherever it lies
            done = subprocess.run([*AS_NOBODY, *find, PYEBPF, "trace", "--engine", "inline", "-q", "-d", "200ms", "-o", folder + "/t.pyebpf",
                                   "-p", str(process.pid)], stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if scope():
        why = why or "ptrace_scope"
    assert row["inline_by_owner"] == (why is None) == (" own " in line)
    assert (why or "") in row.get("inline_by_owner_why_not", "")
    assert (done.returncode == 0) == (why is None), done.stderr


def test_what_the_inline_engine_alone_refuses(tmp_path):
    """A file without a name that this engine needs: list has the reason that a trace would give."""
    python, copy = a_python((3, 11)), tmp_path / "python"
    home = subprocess.check_output([*python, "-c", "import sys; print(sys.base_prefix)"], encoding="utf-8").strip()
    raw = pathlib.Path(python[0]).read_bytes()
    assert b"_PyEval_EvalFrameDefault\0" in raw
    copy.write_bytes(raw.replace(b"_PyEval_EvalFrameDefault\0", b"_PyEval_EvalFrameElsewhr\0"))
    copy.chmod(0o755)
    with pythons.running([str(copy), *WAIT], env=dict(os.environ, PYTHONHOME=home)) as (process, _):
        row = listed()[process.pid]
        lines = run("list", process.pid).stdout.splitlines()
        done = run("trace", "--engine", "inline", "-q", "-d", "1ms", "-o", tmp_path / "t.pyebpf", "-p", process.pid)
    why = row["inline_by_owner_why_not"]
    assert row["engine"] in ("uprobe", "usdt") and not row["inline_by_owner"]
    assert " own " not in lines[1] and any("not for --engine inline: " + why in line for line in lines), lines
    assert done.returncode == 5 and why in done.stderr, done.stderr


@pytest.mark.parametrize("name", [name for name in pythons.names() if "13" in name or "14" in name or "3.11" in name])
def test_flavours(name):
    """What the interpreter itself says of its build."""
    command = pythons.found()[name]
    code = ("import sys, sysconfig as s, json, time; print(json.dumps([bool(s.get_config_var('Py_GIL_DISABLED')),"
            " bool(s.get_config_var('Py_DEBUG'))]), flush=True); time.sleep(1000)")
    with pythons.running(command + ["-c", code]) as (process, said):
        row = listed()[process.pid]
    free_threaded, debug = json.loads(said)
    assert (row["free_threaded"], row["gil"], row["debug"]) == (free_threaded, not free_threaded, debug)
    words = row["build"].split()
    assert words[0] in ("static", "shared") and words[1] == ("free-threaded" if free_threaded else "gil")
    assert ("debug" in words) == debug
    assert row["jit"] == ("off" if row["jit_built"] else "none")


def test_a_process_that_is_not_python_is_named():
    with pythons.running(["sh", "-c", "echo; sleep 1000; :"]) as (process, _):
        done = run("list", process.pid)
        assert process.pid not in listed()
    exe = os.path.realpath(shutil.which("sh"))
    assert done.returncode == 4
    assert done.stderr.startswith("pyebpf list: PID %d is sh (%s), not Python\n" % (process.pid, exe))


def listed_while_it_executes(seconds):
    """The exit code for a shell that becomes Python so long after pyebpf was started."""
    command = ["sh", "-c", 'echo; read _; exec "$@"', "sh"] + a_python() + WAIT
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        shell.stdout.readline()
        lister = subprocess.Popen([PYEBPF, "list", str(shell.pid)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        os.write(shell.stdin.fileno(), b"\n")
        code = lister.wait()
        shell.kill()
    return code


def test_one_that_executes_just_then():
    """It is about to be Python: that is waited for, for some milliseconds."""
    codes = [listed_while_it_executes(i / 2000) for i in range(30)]
    assert codes.count(0) >= 22, codes


def test_python_children_are_named():
    shell = ["sh", "-c", '"$@"; :', "sh"] + a_python() + WAIT
    with pythons.running(shell) as (process, _):
        done = run("list", process.pid)
        children = pathlib.Path("/proc/%d/task/%d/children" % (process.pid, process.pid))
        child = children.read_text().strip()
    assert done.returncode == 4
    assert done.stderr.splitlines()[1] == "its child %s is Python: -p %s" % (child, child)


@pytest.mark.parametrize("pid, what", [("2", "kernel thread"), ("4194304", "no process 4194304")])
def test_what_is_no_process(pid, what):
    if pid == "2" and not pathlib.Path("/proc/2").exists():
        pytest.skip("no kernel threads in here")
    done = run("list", pid)
    assert done.returncode == 4 and what in done.stderr


def test_a_thread_is_refused_with_its_process():
    code = ["-c", "import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start();"
                  "print(flush=True)"]
    with pythons.running(a_python() + code) as (process, _):
        tid = max(map(int, os.listdir("/proc/%d/task" % process.pid)))
        done = run("list", tid)
    assert done.returncode == 4
    assert "%d is a thread of process %d" % (tid, process.pid) in done.stderr


@pytest.mark.parametrize("given", ["x", "1x", "-1", "0", ""])
def test_usage(given):
    assert run("list", "--", given).returncode == 2 or run("list", given).returncode == 2


def test_a_zombie():
    with pythons.running(["true"]) as (process, _):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        done = run("list", process.pid)
    assert done.returncode == 4 and "has ended" in done.stderr


# --- names and files ---

def copied(folder, name, least=(3, 6)):
    """A copy of an interpreter under another name."""
    path = folder / name
    shutil.copy(os.path.realpath(a_python(least)[0]), path)
    return path


@pytest.mark.parametrize("name", ["bash", "a b (deleted)", "new\nline", "\x1b[31mred", "\udcff\udcfe",
                                  "back\\012slash"])
def test_renamed(tmp_path, name):
    path = copied(tmp_path, name)
    with pythons.running([path, "-I"] + WAIT) as (process, _):
        row = listed()[process.pid]
        table = run("list", process.pid).stdout
    assert row["supported"]
    assert row["command"][0] == str(path)
    assert "\x1b" not in table and len(table.splitlines()) == 2


def test_a_script_called_python_is_not_one(tmp_path):
    path = tmp_path / "python3.12"
    shutil.copy(shutil.which("sleep"), path)
    with pythons.running(["sh", "-c", 'echo; exec "$0" 1000', path]) as (process, _):
        time.sleep(0.2)
        assert process.pid not in listed()
        assert "is python3.12 (%s), not Python" % path in run("list", process.pid).stderr


def test_deleted(tmp_path):
    path = copied(tmp_path, "deleted")
    with pythons.running([path, "-I"] + WAIT) as (process, _):
        path.unlink()
        row = listed()[process.pid]
    assert row["supported"] and row["file"] == "%s (deleted)" % path


def test_replaced_by_another_file(tmp_path):
    """An upgrade: what runs is the old inode, and that is what is looked at."""
    path = copied(tmp_path, "upgraded")
    with pythons.running([path, "-I"] + WAIT) as (process, _):
        before = listed()[process.pid]
        (tmp_path / "new").write_bytes(pathlib.Path(shutil.which("ls")).read_bytes())
        (tmp_path / "new").rename(path)
        after = listed()[process.pid]
    assert after["supported"]
    assert after["version"] == before["version"]


@pytest.fixture
def own_library(tmp_path):
    """A command with a libpython of its own, and that file: unlike a running executable it can be
    written to."""
    for _, command in sorted(pythons.found().items(), key=lambda row: "pyenv" not in row[0]):
        with pythons.running(command + WAIT) as (process, _):
            row = listed()[process.pid]
        if row["shared"]:
            path = tmp_path / os.path.basename(row["file"])
            shutil.copy(row["file"], path)
            return ["env", "LD_LIBRARY_PATH=%s" % tmp_path] + command, path
    return pytest.skip("no interpreter with a libpython")


@pytest.mark.parametrize("size", [0, 5000, 2_000_000])
def test_cut_off(own_library, size):
    """The file shrank under the process: a refusal, no crash."""
    command, path = own_library
    with pythons.running(command + WAIT) as (process, _):
        assert listed()[process.pid]["file"] == str(path)
        os.truncate(path, size)
        done = run("list", "--probes", process.pid)
    assert done.returncode in (4, 5) and done.stderr


def test_overwritten_in_place(own_library):
    """The process runs garbage from now on; it cannot be told what, but nothing breaks here."""
    command, path = own_library
    with pythons.running(command + WAIT) as (process, _):
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(os.urandom(path.stat().st_size - 8192))
        done = run("list", "--probes", process.pid)
    assert done.returncode in (4, 5) and done.stderr


def test_file_differs_from_what_runs(own_library):
    """Code that was changed in memory only, at a place where a probe would sit."""
    command, path = own_library
    with pythons.running(command + WAIT) as (process, _):
        plan = run("list", "--probes", process.pid).stdout
        site = next(line.split() for line in plan.splitlines() if "code-dealloc" in line)
        maps = pathlib.Path("/proc/%d/maps" % process.pid).read_text()
        start = int(next(line for line in maps.splitlines() if str(path) in line).split("-")[0], 16)
        with open("/proc/%d/mem" % process.pid, "r+b", 0) as memory:
            memory.seek(start + int(site[0], 16))
            memory.write(b"\xcc")
            assert run("list", "--probes", process.pid).stdout == plan  # somebody's breakpoint
            memory.seek(start + int(site[0], 16) + 1)
            memory.write(b"\x17\x17")
        done = run("list", "--probes", process.pid)
    assert done.returncode == 5
    assert "the file on disk is not the one that runs" in done.stderr


def test_command_lines_of_any_bytes():
    name = b"\xff\x1b]0;x\x07 \xe2\x80\xae"
    with pythons.running(a_python() + WAIT + [name]) as (process, _):
        row = listed()[process.pid]
        table = run("list", process.pid).stdout
    assert os.fsencode(row["command"][-1]) == name
    assert "\\xff\\x1b]0;x\\x07 \\u202e" in table


def test_a_process_that_overwrote_its_arguments():
    code = ("import ctypes\n"
            "start = int(open('/proc/self/stat').read().rsplit(')')[1].split()[45])\n"
            "end = int(open('/proc/self/stat').read().rsplit(')')[1].split()[46])\n"
            "ctypes.memset(start, 120, end - start)\n"
            "import time; print(flush=True); time.sleep(1000)\n")
    with pythons.running(a_python() + ["-c", code]) as (process, _):
        row = listed()[process.pid]
    # the kernel goes on into the environment then, up to its first NUL
    assert len(row["command"]) == 1 and row["command"][0].startswith("xxxxxxxxx")


# --- builds that cannot be traced ---

@pytest.mark.parametrize("name", [name for name in pythons.names() if name in ("3.14-sid", "3.14-tail", "3.15-sid")])
@pytest.mark.parametrize("value, active", [("1", True), ("0", False), ("", False)])
def test_jit(name, value, active):
    env = dict(os.environ, PYTHON_JIT=value)
    with pythons.running(pythons.found()[name] + WAIT, env=env) as (process, _):
        done = run("list", "--probes", process.pid)
        row = listed()[process.pid]
    assert row["supported"] == (not active)
    assert row["jit_built"]
    if active:
        assert done.returncode == 5
        assert "its JIT is active: probes would miss calls\nrun it with PYTHON_JIT=0" in done.stderr


def test_python_2():
    local = os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python2.7")
    path = local if os.path.exists(local) else shutil.which("python2.7")
    if not path:
        pytest.skip("no Python 2")
    code = "import sys, time; print(''); sys.stdout.flush(); time.sleep(1000)"
    with pythons.running([path, "-c", code]) as (process, _):
        done = run("list", "--probes", process.pid)
    assert done.returncode == 5 and "it is Python 2; known are 3.6 to 3.15" in done.stderr


# --- namespaces and privilege ---

def unshare(*options):
    if subprocess.run(["unshare", *options, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("unshare %s is not possible here" % " ".join(options))
    return ["unshare", *options]


def test_a_process_in_a_pid_namespace():
    command = unshare("-Upf", "--kill-child") + a_python() + WAIT
    with pythons.running(command) as (process, _):
        rows = [row for row in listed().values() if row["parent"] == process.pid]
    assert len(rows) == 1
    assert rows[0]["supported"] and rows[0]["other_pid_namespace"] and rows[0]["pid_inside"] == 1


@pytest.mark.parametrize("options", [["-Upf"], ["-Upf", "--mount-proc"], ["-Up", "-r", "-f"]])
def test_pids_are_meant_in_the_callers_namespace(options):
    """The inner shell's $! is a small number, whatever /proc counts like."""
    code = '"$0" "$@" & sleep 0.5; "$PYEBPF" list --json $!; status=$?; kill $!; exit $status'
    command = unshare(*options, "--kill-child") + ["sh", "-c", code] + a_python() + WAIT
    done = subprocess.run(command, env=dict(os.environ, PYEBPF=str(PYEBPF)), stdout=subprocess.PIPE,
                          encoding="utf-8")
    rows = json.loads(done.stdout.strip())
    assert done.returncode == 0 and rows[0]["supported"] and rows[0]["pid_inside"] == 2


def test_proc_of_a_namespace_below():
    """With the /proc of a container, but its process given by its number out here."""
    command = unshare("-pf", "--mount-proc", "--kill-child") + a_python() + WAIT
    with pythons.running(command) as (process, _):
        child = int(pathlib.Path("/proc/%d/task/%d/children" % (process.pid, process.pid)).read_text())
        # LeakSanitizer needs a /proc of its own namespace
        enter = ["nsenter", "--mount", "--target", str(child), "env", "ASAN_OPTIONS=detect_leaks=0"]
        done = subprocess.run(enter + [PYEBPF, "list", "--json", str(child)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8")
        outside = subprocess.run(enter + [PYEBPF, "list", str(os.getpid())], stderr=subprocess.PIPE,
                                 encoding="utf-8")
    if "for another pid namespace" in done.stderr:
        pytest.skip("the kernel cannot translate pids for us (Linux 6.12 can)")
    row = json.loads(done.stdout)[0]
    assert row["supported"] and row["pid"] == 1
    assert outside.returncode == 5 and "has no number in /proc" in outside.stderr


def test_without_privilege():
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run(drop + [PYEBPF, "version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the build folder is not readable for others")
    with pythons.running(a_python() + WAIT) as (process, _):
        done = subprocess.run(drop + [PYEBPF, "list", str(process.pid)], stderr=subprocess.PIPE,
                              encoding="utf-8")
        everything = subprocess.run(drop + [PYEBPF, "list"], stderr=subprocess.PIPE, encoding="utf-8")
    assert done.returncode == 3
    assert "CAP_SYS_PTRACE is missing" in done.stderr
    assert everything.returncode == 0 and "left out" in everything.stderr


def test_an_own_process_without_map_files():
    """No CAP_CHECKPOINT_RESTORE: the files are found by exe or by a path inside of its root."""
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run(drop + [PYEBPF, "version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the build folder is not readable for others")
    with pythons.running(drop + a_python() + WAIT) as (process, _):
        done = subprocess.run(drop + [PYEBPF, "list", "--json", str(process.pid)],
                              stdout=subprocess.PIPE, encoding="utf-8")
    assert json.loads(done.stdout)[0]["supported"]


def test_a_path_that_leads_out_of_the_container(tmp_path):
    """Its file's path is a link to a file of the host by now: it must not be followed there."""
    command = unshare("-m")
    path = copied(tmp_path, "victim")
    canary = copied(tmp_path, "canary")
    script = ('mount --make-rprivate / && mount -t tmpfs none "$1" && cp "$2" "$1/python" && '
              '"$1/python" -I -c "$3" & sleep 1; rm "$1/python"; ln -s "$2" "$1/python"; wait')
    folder = tmp_path / "root"
    folder.mkdir()
    with pythons.running(command + ["sh", "-c", script, "sh", folder, canary, WAIT[1]]) as (process, _):
        time.sleep(1.5)
        rows = [row for row in listed().values() if str(folder) in row["file"]]
    assert len(rows) == 1
    assert rows[0]["other_mount_namespace"] and rows[0]["file"].endswith("python (deleted)")
    assert path.exists()
