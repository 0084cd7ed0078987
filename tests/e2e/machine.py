# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for a test: a pid namespace, so that "every process" is what the test starts and not the test itself, and
private copies of interpreters, so that nobody else pays for the probes."""
import ctypes
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import traceback

import lib

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
PR_SET_PDEATHSIG = 1


def mounts(*args):
    subprocess.run(["mount", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def enter(test):
    """In a new process: what the test starts is in a new pid namespace, which ends with it; the test itself is outside."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWPID | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    # pid 1: as long as this process, however that ends
    with lib.started(["sleep", "infinity"], preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)):
        mounts("--make-rprivate", "/")
        test()


# What sees the processes of the machine by their numbers there: a program with its /proc.
INSIDE = ["unshare", "-m", "sh", "-c", "mount -t proc proc /proc && exec \"$@\"", "inside"]


def number(pid):
    """Of a process that the test started, on its machine."""
    return int(lib.status_field(pid, "NSpid").split()[-1])


def alone(test):
    """Decorator: runs the test on a machine of its own; what it prints and why it fails is passed on."""
    @functools.wraps(test)
    def outer(**given):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(reader)
                enter(lambda: test(**given))
                status = 0
            except BaseException:  # pylint: disable=broad-except
                with os.fdopen(writer, "w") as out:
                    out.write(traceback.format_exc())
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as why:
            text = why.read()
        status = os.waitpid(child, 0)[1]
        assert status == 0, text
    return outer


def private(name, folder):
    """(command, environment) of a copy of an interpreter, and of its library: files that no other process runs."""
    command = lib.command(name)
    copy = pathlib.Path(folder) / ("copy-" + name) / "bin" / ("own-" + name)
    if not copy.exists():
        copy.parent.mkdir(parents=True)
        shutil.copy(os.path.realpath(command[-1]), copy)
    home = pathlib.Path(os.path.realpath(command[-1])).parents[1]
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if len(command) == 1:
        env["PYTHONHOME"] = str(home)
    for library in home.glob("lib/libpython3.*.so.1.0") if len(command) == 1 else []:
        libs = copy.parents[1] / "lib"  # where some say that it is, beside themselves
        libs.mkdir(exist_ok=True)
        shutil.copy(library, libs)
        env["LD_LIBRARY_PATH"] = str(libs)
    return command[:-1] + [str(copy)], env


def cgroup1():
    """A hierarchy of version 1 without a controller, mounted here. It lasts as long as its mounts."""
    at = pathlib.Path("/mnt")
    mounts("-t", "cgroup", "-o", "none,name=pyebpf-test", "none", str(at))
    return at


def cgroup2():
    """Where version 2 of cgroups is mounted, here if nowhere else."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if " - cgroup2 " in line and fields[3] == "/":
            return pathlib.Path(fields[4])
    at = pathlib.Path("/mnt")
    mounts("-t", "cgroup2", "none", str(at))
    return at
