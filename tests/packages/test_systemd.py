# SPDX-License-Identifier: Apache-2.0
"""The Debian package and its unit under a systemd that is the first process, of namespaces: installed by apt, started,
upgraded, removed, purged."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest

import lib
from test_packages import CACHE, ROOT, run

pytestmark = [lib.long_only, pytest.mark.needs_root]
BECOME = pathlib.Path(__file__).resolve().parent / "become_systemd.sh"
UNIT = "pyebpf-agent.service"


def cgroup2():
    """Where the machine has its cgroups of version 2."""
    return pathlib.Path(re.search(r"^\S+ (\S+) cgroup2 ", pathlib.Path("/proc/mounts").read_text("ascii"), re.M)[1])


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    (path,) = run(ROOT / "scripts/package", "--out", tmp_path_factory.mktemp("deb"), "deb").split()
    return pathlib.Path(path)


@pytest.fixture(scope="module")
def root(package):
    """A Debian with systemd, Python and what the package depends on: downloaded once."""
    needed = re.findall(r"(?:^|, )([\w.+-]+)", run("dpkg-deb", "-f", package, "Depends"))
    tar = CACHE / "roots/systemd.tar"
    if not tar.exists():
        tar.parent.mkdir(parents=True, exist_ok=True)
        run("mmdebstrap", "--variant=apt", "--mode=root", "--include=systemd,systemd-sysv,python3-minimal," + ",".join(needed),
            "bookworm", str(tar) + ".part.tar")
        os.rename(str(tar) + ".part.tar", tar)
    with tempfile.TemporaryDirectory(prefix="pyebpf-systemd-") as folder:
        run("tar", "-C", folder, "--exclude=./dev/*", "-xf", tar)
        shutil.copy(package, folder + "/srv/old.deb")
        yield pathlib.Path(folder)


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return got


@pytest.fixture(scope="module")
def inside(root):
    """Runs a command in the machine: inside("systemctl", "start", ...) -> CompletedProcess."""
    group = cgroup2() / ("pyebpf-test-%d" % os.getpid())
    group.mkdir()
    join = 'echo $$ > "$0"/cgroup.procs; exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup "$@"'
    with lib.started(["sh", "-c", join, group, BECOME, root], stdout=subprocess.DEVNULL) as process:
        def first():
            scope = group / "init.scope/cgroup.procs"
            return scope.exists() and scope.read_text("ascii").split()[:1]

        (pid,) = wait_for(first)

        def execute(*command):
            return subprocess.run(["nsenter", "-a", "-t", pid, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  encoding="utf-8", errors="replace", check=False, timeout=120)
        wait_for(lambda: "running" in execute("systemctl", "is-system-running").stdout.split())
        yield execute
        process.kill()  # SIGTERM it passes over
        process.wait()
    for folder in sorted(group.rglob("*/"), reverse=True):
        if folder.is_dir():
            wait_for(lambda folder=folder: not (folder / "cgroup.procs").read_text("ascii"))
            folder.rmdir()
    group.rmdir()


def ok(inside, *command):
    done = inside(*command)
    assert done.returncode == 0, done.stdout
    return done.stdout


def state(inside):
    return inside("systemctl", "is-active", UNIT).stdout.strip()


def main_pid(inside):
    return int(ok(inside, "systemctl", "show", "-p", "MainPID", "--value", UNIT))


def left(inside):
    """What is called so, but for the packages themselves."""
    found = ok(inside, "find", "/", "-xdev", "-name", "*pyebpf*", "-not", "-path", "/srv/*").splitlines()
    return sorted(found + ok(inside, "find", "/run", "-name", "*pyebpf*").splitlines())


def test_from_installing_to_purging(inside):
    before = left(inside)
    ok(inside, "apt-get", "install", "-y", "/srv/old.deb")
    assert state(inside) == "inactive", "who installs a profiler does not ask for one that always runs"
    assert "ok" in ok(inside, "pyebpf", "doctor") and ok(inside, "pyebpf", "version").startswith("pyebpf ")
    done = inside("systemd-analyze", "--man=no", "verify", "/lib/systemd/system/" + UNIT)
    assert done.returncode == 0 and UNIT not in done.stdout, done.stdout
    exposure = ok(inside, "systemd-analyze", "security", "--no-pager", UNIT)
    assert float(re.search(r"Overall exposure level for \S+: ([\d.]+)", exposure)[1]) < 4, exposure

    ok(inside, "sh", "-c", "python3 -c 'while True: pass' >/dev/null 2>&1 & systemctl start " + UNIT)
    wait_for(lambda: re.search(r"^samples +[1-9]", inside("pyebpf", "agent", "status").stdout, re.M))
    assert state(inside) == "active"
    first = main_pid(inside)
    ok(inside, "systemctl", "reload", UNIT)
    assert main_pid(inside) == first
    ok(inside, "systemctl", "stop", UNIT)
    windows = ok(inside, "sh", "-c", "ls /var/lib/pyebpf/store").split()
    assert any(name.endswith(".pb.gz") and "python3" in name for name in windows), windows
    assert state(inside) == "inactive" and not ok(inside, "find", "/run", "-name", "*pyebpf*")

    # what was started goes on after an upgrade, what was not is not
    ok(inside, "sh", "-c", "cd /srv && dpkg-deb -R old.deb x && sed -i 's/^Version: .*/&.1/' x/DEBIAN/control && dpkg-deb -b x new.deb")
    ok(inside, "systemctl", "start", UNIT)
    running = main_pid(inside)
    assert running not in (0, first)
    ok(inside, "apt-get", "install", "-y", "/srv/new.deb")
    assert state(inside) == "active" and main_pid(inside) not in (0, running)
    ok(inside, "systemctl", "stop", UNIT)
    ok(inside, "apt-get", "install", "-y", "--allow-downgrades", "/srv/old.deb")
    assert state(inside) == "inactive"

    ok(inside, "systemctl", "start", UNIT)
    ok(inside, "apt-get", "remove", "-y", "pyebpf")
    assert state(inside) == "inactive" and inside("sh", "-c", "pidof pyebpf").returncode != 0
    assert ok(inside, "sh", "-c", "ls /var/lib/pyebpf/store"), "the profiles stay until they are purged"
    ok(inside, "apt-get", "purge", "-y", "pyebpf")
    assert left(inside) == before == []
